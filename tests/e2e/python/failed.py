"""Files that cannot be run: a batch over one fails, with every error at its line."""

import json

from harness import ENDPOINT, client, create, ended, line, text

openai = client()


def errors_of(content, **more):
    batch = create(openai, content, **more)
    assert batch.status == "validating" and batch.errors is None, batch
    batch = ended(openai, batch, "failed")
    assert batch.failed_at and batch.in_progress_at is None and batch.completed_at is None, batch
    assert batch.output_file_id is None and batch.error_file_id is None, batch
    assert batch.request_counts.completed == 0, batch
    assert batch.errors.object == "list", batch.errors
    for error in batch.errors.data:
        assert error.message and error.code, error
    return [(error.code, error.line, error.param) for error in batch.errors.data]


good = text([line(1)])
found = errors_of(good + b'{"custom_id": \n' + text([line(3)]) + b"[]\n")
assert found == [("invalid_json_line", 2, None), ("invalid_json_line", 4, None)], found
found = errors_of(text([line(1), line(2), line(3, custom_id="r-1"), line(4, custom_id="r-2")]))
assert found == [("duplicate_custom_id", 3, "custom_id"), ("duplicate_custom_id", 4, "custom_id")], found
found = errors_of(text([line(1), line(2, url="/v1/embeddings")]))
assert found == [("url_mismatch", 2, "url")], found
found = errors_of(text([line(1, url="/v1/embeddings"), line(2, url="/v1/embeddings")]))
assert found == [("url_mismatch", 1, "url"), ("url_mismatch", 2, "url")], found
for empty in [b"", b"\n\n", b" \r\n"]:
    found = errors_of(empty)
    assert [code for code, *_ in found] == ["empty_file"], found

# Broken text and bombs are the file's errors, never the server's.
found = errors_of(good + b'{"custom_id": "\xff\xfe"}\n')
assert found == [("invalid_json_line", 2, None)], found
deep = b'{"custom_id":"d","method":"POST","url":"/v1/chat/completions","body":{"model":"m","x":'
found = errors_of(good + deep + b"[" * 100_000 + b"]" * 100_000 + b"}}\n")
assert [(code, at) for code, at, _ in found] == [("invalid_json_line", 2)], found
found = errors_of(good + b"[" * 1_000_000 + b"\n")
assert [(code, at) for code, at, _ in found] == [("invalid_json_line", 2)], found

# No line chooses a host.
for url in ["http://127.0.0.1:1/v1/chat/completions", "//evil/v1/chat/completions", "v1", ""]:
    found = errors_of(text([line(1), line(2, url=url)]))
    assert [at for _, at, _ in found] == [2], (url, found)

# The contract knows no method but POST.
for method in ["GET", "DELETE", "PUT", "PATCH", "post", "", "PO ST", 7]:
    wrong = json.dumps({**line(2), "method": method}).encode()
    found = errors_of(good + wrong + b"\n")
    assert found == [("invalid_field", 2, "method")], (method, found)

# A file of a thousand errors still gives a list that can be read.
found = errors_of(b"x\n" * 1000)
assert 0 < len(found) <= 1000 and found[0] == ("invalid_json_line", 1, None), len(found)
assert ENDPOINT == "/v1/chat/completions"
