"""Files: upload, retrieve, list, content, ranges, delete."""

import openai as package
from harness import client, create, ended, line, open_gate, raises, text, upload

openai = client()


def lives(file, secs):
    """The two times are read off a clock one after the other."""
    return file.expires_at - file.created_at in (secs - 1, secs)


# An upload is exactly what comes back.
content = text(line(n) for n in range(300))
file = upload(openai, content, name="três.jsonl", expires_after={"anchor": "created_at", "seconds": 3600})
assert file.id.startswith("file-") and file.object == "file", file
assert (file.bytes, file.filename, file.purpose) == (len(content), "três.jsonl", "batch"), file
assert file.status == "processed" and lives(file, 3600), file
assert openai.files.retrieve(file.id) == file
assert openai.files.content(file.id).read() == content

# Without a word about it, a file lives for 30 days.
usual = upload(openai, [line(1)])
assert lives(usual, 30 * 24 * 3600), usual

# What does not end in a newline, and what is no JSON at all, is kept byte for byte.
for odd in [text([line(1)]).rstrip(b"\n"), b"no json\r\n\r\n\xff\xfe", text([line(1)]) + b"\n\n"]:
    kept = upload(openai, odd)
    assert openai.files.content(kept.id).read() == odd
    assert openai.files.delete(kept.id).deleted

# Ranges.
raw = openai.files.with_raw_response
part = raw.content(file.id, extra_headers={"Range": "bytes=10-19"})
assert part.status_code == 206 and part.http_response.content == content[10:20]
assert part.headers["content-range"] == f"bytes 10-19/{len(content)}"
part = raw.content(file.id, extra_headers={"Range": "bytes=-7"})
assert part.status_code == 206 and part.http_response.content == content[-7:]
whole = raw.content(file.id, extra_headers={"Range": "bytes=0-3,5-6"})
assert whole.status_code == 200 and whole.http_response.content == content
beyond = raises(
    package.APIStatusError, openai.files.content, file.id, extra_headers={"Range": f"bytes={len(content)}-"}
)
assert beyond.status_code == 416 and beyond.response.headers["content-range"] == f"bytes */{len(content)}"

# A life that is too short or too long is refused, and nothing is kept.
for seconds in [3599, 2592001]:
    after = {"anchor": "created_at", "seconds": seconds}
    refused = raises(package.BadRequestError, upload, openai, [line(1)], expires_after=after)
    assert refused.param == "expires_after[seconds]", refused
refused = raises(package.BadRequestError, openai.files.create, file=b"{}", purpose="fine-tune")
assert refused.param == "purpose", refused

# Lists go page by page to the end, without a gap and without a double.
more = [upload(openai, [line(n)], name=f"{n}.jsonl").id for n in range(12)]
newest = [*reversed(more), usual.id, file.id]
assert [found.id for found in openai.files.list()] == newest
assert [found.id for found in openai.files.list(limit=3)] == newest
assert [found.id for found in openai.files.list(limit=5, order="asc")] == newest[::-1]
page = openai.files.list(limit=3, after=newest[4])
assert [found.id for found in page.data] == newest[5:8] and page.has_more
assert (page.first_id, page.last_id) == (newest[5], newest[7]), page
last = openai.files.list(limit=2, after=newest[-3])
assert [found.id for found in last.data] == newest[-2:] and not last.has_more
assert [found.id for found in openai.files.list(purpose="batch_output")] == []
for limit in [0, 10001]:
    assert raises(package.BadRequestError, openai.files.list, limit=limit).param == "limit"

# What is deleted is gone, and cannot be deleted again.
gone = openai.files.delete(more[3])
assert (gone.id, gone.object, gone.deleted) == (more[3], "file", True), gone
for call in [openai.files.retrieve, openai.files.content, openai.files.delete]:
    assert raises(package.NotFoundError, call, more[3]).code == "not_found"
assert more[3] not in [found.id for found in openai.files.list(limit=4)]

# A file that a batch still needs stays; outputs are files like others.
batch = create(openai, [line(1), line(2, gate="file")])
kept = raises(package.BadRequestError, openai.files.delete, batch.input_file_id)
assert kept.code == "file_in_use", kept
open_gate("file")
batch = ended(openai, batch, "completed")
assert openai.files.delete(batch.input_file_id).deleted
output = openai.files.retrieve(batch.output_file_id)
assert output.purpose == "batch_output" and output.bytes > 0, output
assert [found.id for found in openai.files.list(purpose="batch_output")] == [output.id]
part = raw.content(output.id, extra_headers={"Range": "bytes=0-9"})
assert part.status_code == 206 and len(part.http_response.content) == 10
assert len(openai.files.content(output.id).read()) == output.bytes
assert openai.files.delete(output.id).deleted
assert raises(package.NotFoundError, openai.files.content, output.id)
