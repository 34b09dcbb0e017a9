"""What every program here needs: clients, files of requests, and waiting for a state."""

import json
import os
import time
import urllib.request

from openai import OpenAI

URL = os.environ["WINDROW_URL"]
KEY = os.environ["WINDROW_KEY"]
OTHER_KEY = os.environ["WINDROW_OTHER_KEY"]
ENDPOINT = "/v1/chat/completions"
WITHIN_SECS = 40
POLL_SECS = 0.02
ENDED = {"completed", "failed", "expired", "cancelled"}


def client(key=KEY):
    """Without retries: a retry would hide an error that should not be there."""
    return OpenAI(base_url=URL, api_key=key, max_retries=0, timeout=30)


def line(n, fate="ok", gate=None, url=ENDPOINT, model="m", custom_id=None):
    body = {"model": model, "n": n, "fate": fate, "messages": [{"role": "user", "content": "é"}]}
    if gate:
        body["gate"] = gate
    return {"custom_id": custom_id or f"r-{n}", "method": "POST", "url": url, "body": body}


def text(lines):
    return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines).encode()


def upload(openai, content, name="in.jsonl", **more):
    content = content if isinstance(content, bytes) else text(content)
    return openai.files.create(file=(name, content), purpose="batch", **more)


def create(openai, content, **more):
    file = upload(openai, content)
    return openai.batches.create(
        input_file_id=file.id, endpoint=ENDPOINT, completion_window="24h", **more
    )


def until(what, look):
    """Looks until there is something, and gives it."""
    end = time.monotonic() + WITHIN_SECS
    while True:
        found, state = look()
        if found:
            return state
        assert time.monotonic() < end, f"not {what}: {state}"
        time.sleep(POLL_SECS)


def reached(openai, batch, what, holds):
    def look():
        now = openai.batches.retrieve(batch.id)
        return holds(now), now

    return until(what, look)


def ended(openai, batch, status):
    batch = reached(openai, batch, "ended", lambda now: now.status in ENDED)
    assert batch.status == status, batch
    return batch


def lines_of(openai, file_id):
    return [json.loads(line) for line in openai.files.content(file_id).text.splitlines()]


def open_gate(name):
    """Lets the upstream answer what it holds back."""
    urllib.request.urlopen(f"{os.environ['WINDROW_UPSTREAM']}/gate/{name}").read()


def ids(lines):
    return [line["custom_id"] for line in lines]


def names(numbers):
    return [f"r-{n}" for n in numbers]


def raises(kind, call, *args, **more):
    try:
        given = call(*args, **more)
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__}, but {given}")
