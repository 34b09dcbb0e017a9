// What every program here needs: clients, files of requests, and waiting for a state.

import assert from "node:assert/strict";
import { createRequire } from "node:module";
import path from "node:path";
import { setTimeout as pause } from "node:timers/promises";

// The pinned client is outside of the repository, where `import` does not look.
const require = createRequire(path.join(process.env.WINDROW_E2E_NODE, "here.js"));
export const package_ = require("openai");
export const { toFile } = package_;

export const ENDPOINT = "/v1/chat/completions";
const WITHIN_MS = 40_000;
const POLL_MS = 20;
const ENDED = ["completed", "failed", "expired", "cancelled"];

// Without retries: a retry would hide an error that should not be there.
export function client(key = process.env.WINDROW_KEY) {
  const baseURL = process.env.WINDROW_URL;
  return new package_.OpenAI({ baseURL, apiKey: key, maxRetries: 0, timeout: 30_000 });
}

export function line(n, { fate = "ok", gate, url = ENDPOINT, customId = `r-${n}` } = {}) {
  const messages = [{ role: "user", content: "é" }];
  return { custom_id: customId, method: "POST", url, body: { model: "m", n, fate, gate, messages } };
}

export function text(lines) {
  return lines.map((line) => JSON.stringify(line) + "\n").join("");
}

export async function upload(openai, content, more = {}) {
  const bytes = Buffer.from(typeof content === "string" ? content : text(content));
  return openai.files.create({ file: await toFile(bytes, "in.jsonl"), purpose: "batch", ...more });
}

export async function create(openai, content, more = {}, options = {}) {
  const file = await upload(openai, content);
  const terms = { input_file_id: file.id, endpoint: ENDPOINT, completion_window: "24h", ...more };
  return openai.batches.create(terms, options);
}

export async function reached(openai, batch, what, holds) {
  const end = performance.now() + WITHIN_MS;
  for (;;) {
    const now = await openai.batches.retrieve(batch.id);
    if (holds(now)) return now;
    assert.ok(performance.now() < end, `not ${what}: ${JSON.stringify(now)}`);
    await pause(POLL_MS);
  }
}

export async function ended(openai, batch, status) {
  const now = await reached(openai, batch, "ended", (now) => ENDED.includes(now.status));
  assert.equal(now.status, status, JSON.stringify(now));
  return now;
}

export async function linesOf(openai, fileId) {
  const content = await (await openai.files.content(fileId)).text();
  return content.split("\n").filter(Boolean).map((line) => JSON.parse(line));
}

// Lets the upstream answer what it holds back.
export async function openGate(name) {
  await (await fetch(`${process.env.WINDROW_UPSTREAM}/gate/${name}`)).text();
}

export async function all(pages) {
  const found = [];
  for await (const one of pages) found.push(one);
  return found;
}

export async function raises(kind, call) {
  try {
    await call();
  } catch (error) {
    assert.ok(error instanceof kind, error.stack);
    return error;
  }
  assert.fail(`no ${kind.name}`);
}

export const ids = (lines) => lines.map((line) => line.custom_id);
export const names = (numbers) => numbers.map((n) => `r-${n}`);
export const range = (from, to) => Array.from({ length: to - from }, (_, at) => from + at);
