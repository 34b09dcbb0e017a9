"""A server that knows one model, at one endpoint: any other is an error of its line."""

from harness import ENDPOINT, client, create, ended, ids, line, lines_of, upload

openai = client()
known = "known"

batch = ended(openai, create(openai, [line(1, model=known)]), "completed")
assert ids(lines_of(openai, batch.output_file_id)) == ["r-1"], batch

batch = ended(openai, create(openai, [line(1, model=known), line(2, model="other")]), "failed")
found = [(error.code, error.line, error.param) for error in batch.errors.data]
assert found == [("model_not_found", 2, "body.model")], found

file = upload(openai, [line(1, model=known, url="/v1/embeddings")])
batch = openai.batches.create(
    input_file_id=file.id, endpoint="/v1/embeddings", completion_window="24h"
)
batch = ended(openai, batch, "failed")
assert [error.code for error in batch.errors.data] == ["unsupported_endpoint"], batch.errors
assert ENDPOINT != "/v1/embeddings"
