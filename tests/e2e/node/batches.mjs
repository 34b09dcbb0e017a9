// Batches from creation to their outputs, cancelled ones and failed ones too.

import assert from "node:assert/strict";
import {
  all, client, create, ended, ids, line, linesOf, names, openGate, package_, raises, range, reached,
} from "./harness.mjs";

const { NotFoundError } = package_;
const openai = client();

// It begins by validating, its counts move while it runs, and it ends with every line once.
const fate = (n) => (n % 10 === 3 ? "refuse" : "ok");
const gate = (n) => (n >= 20 ? "late" : undefined);
const content = range(0, 30).map((n) => line(n, { fate: fate(n), gate: gate(n) }));
let batch = await create(openai, content, { metadata: { night: "42" } });
assert.equal(batch.status, "validating");
assert.deepEqual(batch.metadata, { night: "42" });
batch = await reached(openai, batch, "half done", (now) => now.request_counts.completed === 18);
assert.equal(batch.status, "in_progress");
assert.deepEqual(batch.request_counts, { total: 30, completed: 18, failed: 2 });
const growing = await openai.files.content(batch.output_file_id);
assert.equal(growing.headers.get("x-incomplete"), "true");
assert.equal((await growing.text()).trim().split("\n").length, 18);

await openGate("late");
batch = await ended(openai, batch, "completed");
assert.deepEqual(batch.request_counts, { total: 30, completed: 27, failed: 3 });
assert.equal(batch.usage.total_tokens, 27 * 5);
const output = await linesOf(openai, batch.output_file_id);
assert.deepEqual(ids(output), names(range(0, 30).filter((n) => fate(n) === "ok")));
for (const { custom_id, response, error } of output) {
  const message = response.body.choices[0].message.content;
  assert.deepEqual([response.status_code, error], [200, null]);
  assert.equal(message, `answer ${custom_id.slice(2)}`);
}
const errors = await linesOf(openai, batch.error_file_id);
assert.deepEqual(ids(errors), names([3, 13, 23]));
for (const { response, error } of errors) {
  assert.deepEqual([response.status_code, error], [400, null]);
}

// When every line fails it is completed nonetheless, without an output.
const hopeless = range(0, 3).map((n) => line(n, { fate: "refuse" }));
batch = await ended(openai, await create(openai, hopeless), "completed");
assert.equal(batch.output_file_id, null);
assert.equal((await linesOf(openai, batch.error_file_id)).length, 3);

// A file that cannot be run fails, with each error at its line.
const bad = text => text.map((line) => (typeof line === "string" ? line : JSON.stringify(line)));
const broken = bad([line(1), "{", line(3, { customId: "r-1" }), line(4)]).join("\n");
batch = await ended(openai, await create(openai, broken), "failed");
const found = batch.errors.data.map((error) => [error.code, error.line]);
assert.deepEqual(found.sort(), [["duplicate_custom_id", 3], ["invalid_json_line", 2]]);

// One that is cancelled keeps what it has, and says what never ran.
const held = range(0, 40).map((n) => line(n, { gate: n >= 5 ? "cancel" : undefined }));
batch = await create(openai, held);
await reached(openai, batch, "begun", (now) => now.request_counts.completed === 5);
assert.equal((await openai.batches.cancel(batch.id)).status, "cancelling");
await openGate("cancel");
batch = await ended(openai, batch, "cancelled");
const kept = await linesOf(openai, batch.output_file_id);
const never = await linesOf(openai, batch.error_file_id);
assert.deepEqual([...ids(kept), ...ids(never)].sort(), names(range(0, 40)).sort());
for (const { response, error } of never) {
  assert.deepEqual([response, error.code], [null, "batch_cancelled"]);
}

// The same key makes the same batch.
const options = { idempotencyKey: "once", headers: { "Idempotency-Key": "once" } };
const terms = { endpoint: batch.endpoint, completion_window: "24h" };
const file = { input_file_id: batch.input_file_id };
const first = await openai.batches.create({ ...terms, ...file }, options);
const again = await openai.batches.create({ ...terms, ...file }, options);
assert.equal(first.id, again.id);

// Lists go page by page to the end; another's batch does not exist.
const listed = (await all(openai.batches.list({ limit: 2 }))).map((found) => found.id);
assert.equal(listed.length, 5);
assert.equal(listed[0], first.id);
assert.equal(new Set(listed).size, 5);
const other = client(process.env.WINDROW_OTHER_KEY);
await raises(NotFoundError, () => other.batches.retrieve(first.id));
await raises(NotFoundError, () => other.batches.cancel(first.id));
assert.deepEqual(await all(other.batches.list()), []);
