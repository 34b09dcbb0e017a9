"""Who may see what: a wrong key is told so, and another's object does not exist."""

import os

import openai as package
from harness import ENDPOINT, OTHER_KEY, client, create, ended, ids, line, lines_of, raises, upload

ann, bob, admin = client(), client(OTHER_KEY), client(os.environ["WINDROW_ADMIN_KEY"])

for wrong in ["wr_nobody", "x" * 600]:
    refused = raises(package.AuthenticationError, client(wrong).files.list)
    assert refused.code == "invalid_api_key" and refused.status_code == 401, refused

batch = ended(ann, create(ann, [line(1), line(2, fate="refuse")]), "completed")
files = [batch.input_file_id, batch.output_file_id, batch.error_file_id]

for file in files:
    for call in [bob.files.retrieve, bob.files.content, bob.files.delete]:
        assert raises(package.NotFoundError, call, file).code == "not_found"
for call in [bob.batches.retrieve, bob.batches.cancel]:
    assert raises(package.NotFoundError, call, batch.id).code == "not_found"
terms = {"input_file_id": files[0], "endpoint": ENDPOINT, "completion_window": "24h"}
assert raises(package.NotFoundError, bob.batches.create, **terms)
assert list(bob.files.list()) == [] and list(bob.batches.list()) == []

# Another's id is no place to go on from.
upload(bob, [line(1)])
for call, after in [(bob.files.list, files[0]), (bob.batches.list, batch.id)]:
    nowhere = raises(package.NotFoundError, call, after=after)
    assert nowhere.param == "after", nowhere

# The same key of two owners is two keys.
other = {**terms, "input_file_id": upload(bob, [line(1)]).id}
once = {"Idempotency-Key": "shared"}
assert ann.batches.create(**terms, extra_headers=once).id != bob.batches.create(**other, extra_headers=once).id

# An admin reaches everybody's, and may act for one of them.
assert admin.files.retrieve(files[0]).id == files[0]
assert admin.batches.retrieve(batch.id).id == batch.id
acting = admin.with_options(default_headers={"Windrow-Owner": "ann"})
assert ids(lines_of(acting, files[1])) == ["r-1"]
assert batch.id in [found.id for found in acting.batches.list()]
acting = bob.with_options(default_headers={"Windrow-Owner": "ann"})
assert raises(package.PermissionDeniedError, acting.files.list).code == "admin_only"
