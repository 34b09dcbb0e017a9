// Files: upload, retrieve, list, content, ranges, delete; and who may see them.

import assert from "node:assert/strict";
import { Readable } from "node:stream";
import { all, client, line, package_, raises, range, text, toFile, upload } from "./harness.mjs";

const { AuthenticationError, BadRequestError, NotFoundError } = package_;
const openai = client();
const read = async (id) => (await openai.files.content(id)).text();

// An upload is exactly what comes back, from memory and from a stream.
const content = text(range(0, 300).map((n) => line(n)));
const terms = { expires_after: { anchor: "created_at", seconds: 7200 } };
const file = await upload(openai, content, terms);
assert.equal(file.bytes, Buffer.byteLength(content));
assert.deepEqual([file.object, file.purpose, file.status], ["file", "batch", "processed"]);
// The two times are read off a clock one after the other.
assert.ok([7199, 7200].includes(file.expires_at - file.created_at));
assert.deepEqual(await openai.files.retrieve(file.id), file);
assert.equal(await read(file.id), content);
const pieces = Readable.from(content.match(/.{1,1000}/gs));
const streamed = await openai.files.create({
  file: await toFile(pieces, "streamed.jsonl"),
  purpose: "batch",
});
assert.equal(await read(streamed.id), content);
assert.equal(streamed.filename, "streamed.jsonl");

// Ranges.
const part = await openai.files.content(file.id, { headers: { Range: "bytes=5-8" } });
assert.equal(part.status, 206);
assert.equal(await part.text(), Buffer.from(content).subarray(5, 9).toString());
const headers = { Range: "bytes=99999999-" };
const beyond = await raises(package_.APIError, () => openai.files.content(file.id, { headers }));
assert.equal(beyond.status, 416);

// Lists go page by page to the end.
const more = [];
for (const n of range(0, 10)) more.unshift((await upload(openai, [line(n)])).id);
const newest = [...more, streamed.id, file.id];
const listed = async (query) => (await all(openai.files.list(query))).map((found) => found.id);
assert.deepEqual(await listed({ limit: 3 }), newest);
assert.deepEqual(await listed({ limit: 5, order: "asc" }), [...newest].reverse());
assert.deepEqual(await listed({ purpose: "batch_output" }), []);

// What is deleted is gone.
assert.deepEqual(await openai.files.delete(more[2]), { id: more[2], object: "file", deleted: true });
await raises(NotFoundError, () => openai.files.retrieve(more[2]));
await raises(NotFoundError, () => openai.files.content(more[2]));

// What is wrong is told.
const short = { expires_after: { anchor: "created_at", seconds: 1 } };
const refused = await raises(BadRequestError, () => upload(openai, content, short));
assert.equal(refused.param, "expires_after[seconds]");
const purpose = { purpose: "assistants" };
assert.equal((await raises(BadRequestError, () => upload(openai, "{}", purpose))).param, "purpose");

// A wrong key is told so, and another's file does not exist.
const wrong = await raises(AuthenticationError, () => client("wr_nobody").files.list());
assert.equal(wrong.code, "invalid_api_key");
const other = client(process.env.WINDROW_OTHER_KEY);
await raises(NotFoundError, () => other.files.retrieve(file.id));
await raises(NotFoundError, () => other.files.content(file.id));
await raises(NotFoundError, () => other.files.delete(file.id));
assert.deepEqual(await all(other.files.list()), []);
