"""A batch whose window ends keeps what it has, and says what never ran."""

import os

from harness import client, ids, lines_of, names, open_gate, reached, ended

openai = client(os.environ["WINDROW_ADMIN_KEY"])
batch = openai.batches.retrieve(os.environ["WINDROW_BATCH"])
reached(openai, batch, "past its window", lambda now: now.status != "in_progress")
open_gate("expire")
batch = ended(openai, batch, "expired")
assert batch.expired_at and batch.completed_at is None and batch.errors is None, batch
output, errors = lines_of(openai, batch.output_file_id), lines_of(openai, batch.error_file_id)
assert ids(output)[:5] == names(range(5)), ids(output)
assert sorted(ids(output) + ids(errors)) == sorted(names(range(40)))
for never in errors:
    assert never["response"] is None and never["error"]["code"] == "batch_expired", never
