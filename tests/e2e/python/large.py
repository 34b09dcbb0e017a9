"""An upload past the bound is told so, by an error that the client can read."""

import openai as package
from harness import client, raises

openai = client()
for size in [2_000, 200_000, 20_000_000]:
    refused = raises(
        package.APIStatusError, openai.files.create, file=("big.jsonl", b"x" * size), purpose="batch"
    )
    assert refused.status_code == 413 and refused.code == "file_too_large", refused
assert list(openai.files.list()) == []
