"""Refusals of requests that the description allows: each is known, and says which part it is about.

What no description can say is listed here, call by call; everything else that is refused although it
is described as right is a breach.
"""

import schemathesis

# A cursor carries a check of the list that it belongs to.
CURSOR = {("invalid_value", "after")}
# The same key for something else.
REUSED = {("idempotency_key_reused", None)}
# What is no longer, or not yet, in a state to be asked that.
STATE = {("refused", None)}
# Names are bounded in bytes and hold no NUL, an inbox wants ids, and a payload is one of two.
NAMES = {("invalid_value", part) for part in ("id", "stream", "kind", "consumer", "headers", "payload")}
KNOWN = {
    "listJobs": CURSOR,
    "listItems": CURSOR,
    "listPending": CURSOR,
    "listKeys": CURSOR,
    "cancelBatch": STATE,
    "cancelJob": STATE,
    "pauseJob": STATE,
    "resumeJob": STATE,
    "continueJob": STATE | {("conflict", None)},
    "reprocessJob": STATE,
    # Only a job that has ended is deleted.
    "deleteJob": {("job_not_closed", None)},
    # A batch that still runs needs its file.
    "deleteFile": {("file_in_use", None)},
    # An output is no input.
    "createBatch": REUSED | {("invalid_value", "input_file_id")},
    # A file whose lines ask for several endpoints is for none of them.
    "createJob": REUSED | {("invalid_value", "endpoint")},
    "listCalls": CURSOR | {("invalid_value", "object")},
    "listMessages": CURSOR | {("invalid_value", "stream")},
    "listDeadLetters": CURSOR | {("invalid_value", "stream")},
    "readFeed": CURSOR,
    "readEvents": {("invalid_value", "stream")},
    "sendMessages": NAMES | {("message_id_reused", "id")},
    "receiveMessages": NAMES | {("message_id_reused", "id")},
    "appendEvents": NAMES | {("version_conflict", "expected")},
    "readSnapshot": {("invalid_value", "stream")},
    # Only versions that the stream has, and a state is one of two.
    "putSnapshot": {("invalid_value", part) for part in ("stream", "version", "state")},
    "submitCalls": {("invalid_value", part) for part in ("payload", "calls", "id")} | {("idempotency_key_reused", "id")},
    "callObject": {("idempotency_key_reused", "Idempotency-Key")},
    # A time that has passed by now.
    "createKey": {("invalid_value", "expiresAt")},
}


@schemathesis.check
def what_is_refused_is_known(ctx, response, case):
    if response.status_code != 400 or case.meta is None or not case.meta.generation.mode.is_positive:
        return
    error = response.json()["error"]
    call = case.operation.definition.raw["operationId"]
    known = KNOWN.get(call, set())
    assert (error["code"], error["param"]) in known, f"{call} refuses what it describes as right: {error}"
