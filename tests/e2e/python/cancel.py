"""A batch that is cancelled keeps what it has, and says what never ran."""

import openai as package
from harness import (
    client, create, ended, ids, line, lines_of, names, open_gate, raises, reached,
)

openai = client()
lines = 60
content = [line(n, gate="cancel" if n >= 10 else None) for n in range(lines)]
batch = create(openai, content)
reached(openai, batch, "begun", lambda now: now.request_counts.completed == 10)

batch = openai.batches.cancel(batch.id)
assert batch.status == "cancelling" and batch.cancelling_at, batch
assert openai.batches.cancel(batch.id).status == "cancelling", "a repeat is the same"
assert openai.batches.retrieve(batch.id).status == "cancelling"
open_gate("cancel")
batch = ended(openai, batch, "cancelled")
assert batch.cancelled_at >= batch.cancelling_at and batch.completed_at is None, batch

output, errors = lines_of(openai, batch.output_file_id), lines_of(openai, batch.error_file_id)
assert ids(output)[:10] == names(range(10)), ids(output)
order = [int(name.removeprefix("r-")) for name in ids(output)]
assert order == sorted(order), order
assert sorted(ids(output) + ids(errors)) == sorted(names(range(lines))), "every line once"
assert errors, "only a few were in flight"
for never in errors:
    assert never["response"] is None and never["error"]["code"] == "batch_cancelled", never
    assert never["error"]["message"], never
assert batch.request_counts.total == lines, batch
assert batch.request_counts.completed == len(output), batch

# One that is over stays as it is.
assert openai.batches.cancel(batch.id) == batch
assert openai.batches.retrieve(batch.id) == batch
over = ended(openai, create(openai, [line(1)]), "completed")
assert raises(package.BadRequestError, openai.batches.cancel, over.id).code == "refused"
assert openai.batches.retrieve(over.id) == over

# One of which nothing ever ran.
batch = create(openai, [line(n, gate="never") for n in range(lines)])
batch = openai.batches.cancel(batch.id)
assert batch.status in {"cancelling", "cancelled"}, batch
open_gate("never")
batch = ended(openai, batch, "cancelled")
errors = lines_of(openai, batch.error_file_id)
output = lines_of(openai, batch.output_file_id) if batch.output_file_id else []
assert sorted(ids(output) + ids(errors)) == sorted(names(range(lines)))
