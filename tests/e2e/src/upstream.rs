//! The upstream of every test: each request's body says what its fate is.
//!
//! A body `{"n": 3, "fate": "refuse", "gate": "late"}` is refused, once somebody has asked for
//! `/gate/late`. So a test program decides what is finished when, and never has to wait for luck.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};
use windrow_testkit::upstream::{Gate, ReceivedRequest, Reply, Script, Upstream};

/// Asking for this and a name opens the gate of that name.
const GATE: &str = "/gate/";

type Gates = Arc<Mutex<HashMap<String, Gate>>>;

/// Listens on a free port.
pub async fn start() -> io::Result<Upstream> {
    let gates = Gates::default();
    Upstream::start(Script::new(move |seen| act(&gates, seen))).await
}

fn act(gates: &Gates, seen: &ReceivedRequest) -> Reply {
    let gate = |name: &str| {
        let mut gates = gates.lock();
        gates.entry(name.to_owned()).or_default().clone()
    };
    if let Some(name) = seen.path.strip_prefix(GATE) {
        gate(name).open();
        return Reply::json(200, "{}");
    }
    let body: Value = serde_json::from_slice(&seen.body).unwrap_or_default();
    let act = match body["fate"].as_str() {
        Some("refuse") => Reply::error(400, "this one is refused"),
        Some("missing") => Reply::error(404, "there is no such thing"),
        _ => Reply::json(200, completion(&body)),
    };
    match body["gate"].as_str() {
        Some(name) => act.held(&gate(name)),
        None => act,
    }
}

/// A chat completion that tells which request it answers, and costs 3 + 2 tokens.
fn completion(body: &Value) -> String {
    let text = format!("answer {}", body["n"]);
    let message = json!({ "role": "assistant", "content": text });
    json!({
        "id": format!("chatcmpl-{}", body["n"]),
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": body["model"],
        "choices": [{ "index": 0, "message": message, "finish_reason": "stop" }],
        "usage": {
            "prompt_tokens": 3,
            "prompt_tokens_details": { "cached_tokens": 1 },
            "completion_tokens": 2,
            "completion_tokens_details": { "reasoning_tokens": 1 },
            "total_tokens": 5,
        },
    })
    .to_string()
}
