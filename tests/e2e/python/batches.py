"""Batches from creation to their outputs."""

import openai as package
from harness import (
    ENDPOINT, client, create, ended, ids, line, lines_of, names, open_gate, raises, reached, upload,
)

openai = client()

# It begins by validating, its counts move while it runs, and it ends with every line once.
refused, held = {3, 7, 11}, range(20, 30)
content = [
    line(n, fate="refuse" if n in refused else "ok", gate="late" if n in held else None)
    for n in range(30)
]
metadata = {"project": "Öre", "night": "42"}
batch = create(openai, content, metadata=metadata)
assert batch.id.startswith("batch_") and batch.object == "batch", batch
assert (batch.status, batch.endpoint, batch.completion_window) == ("validating", ENDPOINT, "24h")
assert batch.metadata == metadata and batch.errors is None, batch
assert batch.model == "m", batch
assert batch.expires_at == batch.created_at + 24 * 3600, batch
assert batch.output_file_id is None and batch.completed_at is None, batch

batch = reached(openai, batch, "half done", lambda now: now.request_counts.completed == 17)
assert batch.status == "in_progress" and batch.in_progress_at, batch
counts = batch.request_counts
assert (counts.total, counts.failed) == (30, 3), counts

# What is finished can be read already, and says that there will be more.
growing = openai.files.with_raw_response.content(batch.output_file_id)
assert growing.headers["x-incomplete"] == "true"
so_far = [line for line in growing.http_response.text.splitlines() if line]
assert len(so_far) == 17, so_far
assert openai.files.retrieve(batch.output_file_id).purpose == "batch_output"
assert ids(lines_of(openai, batch.error_file_id)) == names(sorted(refused))

open_gate("late")
output_file_id = batch.output_file_id
batch = ended(openai, batch, "completed")
counts = batch.request_counts
assert (counts.total, counts.completed, counts.failed) == (30, 27, 3), counts
assert batch.output_file_id == output_file_id, "the id that was read while it ran stays"
assert batch.created_at <= batch.in_progress_at <= batch.finalizing_at <= batch.completed_at
assert batch.failed_at is None and batch.cancelled_at is None and batch.expired_at is None
assert batch.metadata == metadata, batch

# Outputs are in the order of the input.
whole = openai.files.with_raw_response.content(batch.output_file_id)
assert "x-incomplete" not in whole.headers
output = lines_of(openai, batch.output_file_id)
assert ids(output) == names(n for n in range(30) if n not in refused), ids(output)
for answered in output:
    n = answered["custom_id"].removeprefix("r-")
    assert answered["id"].startswith("batch_req_") and answered["error"] is None, answered
    response = answered["response"]
    assert response["status_code"] == 200 and response["request_id"], response
    assert response["body"]["choices"][0]["message"]["content"] == f"answer {n}", response
assert len({answered["id"] for answered in output}) == 27
errors = lines_of(openai, batch.error_file_id)
assert ids(errors) == names(sorted(refused)), errors
for failed in errors:
    assert failed["error"] is None and failed["response"]["status_code"] == 400, failed
    assert failed["response"]["body"]["error"]["message"] == "this one is refused", failed

# What the answers cost is added up.
usage = batch.usage
assert (usage.input_tokens, usage.output_tokens, usage.total_tokens) == (81, 54, 135), usage
assert usage.input_tokens_details.cached_tokens == 27, usage
assert usage.output_tokens_details.reasoning_tokens == 27, usage

# When every line fails it is completed nonetheless, without an output.
batch = ended(openai, create(openai, [line(n, fate="refuse") for n in range(5)]), "completed")
assert batch.output_file_id is None and len(lines_of(openai, batch.error_file_id)) == 5, batch
assert batch.request_counts.failed == 5, batch

# A line that the upstream does not have is in the error file, too.
batch = ended(openai, create(openai, [line(1), line(2, fate="missing")]), "completed")
assert ids(lines_of(openai, batch.output_file_id)) == ["r-1"], batch
missing = lines_of(openai, batch.error_file_id)
assert ids(missing) == ["r-2"] and missing[0]["response"]["status_code"] == 404, missing

# A model is told where every line names the same one.
batch = ended(openai, create(openai, [line(1), line(2, model="n")]), "completed")
assert batch.model is None, batch

# The same key makes the same batch, and another batch is refused.
file = upload(openai, [line(1)])
again = {"Idempotency-Key": "once"}
terms = {"input_file_id": file.id, "endpoint": ENDPOINT, "completion_window": "24h"}
first = openai.batches.create(**terms, extra_headers=again)
assert openai.batches.create(**terms, extra_headers=again).id == first.id
first = ended(openai, first, "completed")
assert openai.batches.create(**terms, extra_headers=again) == first, "a late repeat sees how it is"
terms["input_file_id"] = upload(openai, [line(1)]).id
reused = raises(package.BadRequestError, openai.batches.create, **terms, extra_headers=again)
assert reused.code == "idempotency_key_reused", reused
terms["completion_window"] = "48h"
assert openai.batches.create(**terms).completion_window == "48h"

# Lists go page by page to the end, newest first.
made = [first.id for first in openai.batches.list(limit=100)]
assert len(made) == len(set(made)) == 6, made
assert sum(found.model == "m" for found in openai.batches.list(limit=100)) == 5
made = [openai.batches.create(**terms).id for _ in range(8)][::-1] + made
assert [found.id for found in openai.batches.list(limit=3)] == made
assert [found.id for found in openai.batches.list()] == made
page = openai.batches.list(limit=2, after=made[2])
assert [found.id for found in page.data] == made[3:5] and page.has_more
for limit in [0, 101]:
    assert raises(package.BadRequestError, openai.batches.list, limit=limit).param == "limit"

# What cannot be a batch says which field is wrong.
for field, value in [
    ("completion_window", "tomorrow"),
    ("endpoint", "chat/completions"),
    ("metadata", {str(n): "x" for n in range(17)}),
    ("metadata", {"k": "x" * 513}),
    ("output_expires_after", {"anchor": "created_at", "seconds": 1}),
]:
    wrong = raises(package.BadRequestError, openai.batches.create, **{**terms, field: value})
    assert wrong.param.startswith(field), (field, wrong)
unknown = {**terms, "input_file_id": "file-00000000000000000000000000000000"}
assert raises(package.NotFoundError, openai.batches.create, **unknown).param == "input_file_id"
