//! What is posted to a handler, and what it answers.
//!
//! A call is posted as
//! ```json
//! {"type": "call", "owner": "local", "object_type": "wallet", "object_id": "7", "method": "deposit",
//!  "request_id": "r1", "attempt": 1, "caller_object": null, "caller_client": "web",
//!  "headers": {}, "sent_at": "…", "args": {"cents": 5}, "state": {"cents": 10}}
//! ```
//! and a message as
//! ```json
//! {"type": "message", "owner": "local", "stream": "orders", "id": "m1", "kind": "order.placed",
//!  "attempt": 1, "headers": {}, "sent_at": "…", "payload": {"no": 1}}
//! ```
//! Arguments, states and payloads that are no JSON come as base64 under `args_base64`,
//! `state_base64` and `payload_base64`. A 2xx answer is empty, or
//! ```json
//! {"reply": {"cents": 15}, "state": {"cents": 15},
//!  "events": [{"kind": "money.deposited", "payload": {"cents": 5}, "expected": 3}],
//!  "messages": [{"kind": "wallet.changed", "stream": "wallets", "payload": {}}],
//!  "calls": [{"object_type": "ledger", "object_id": "main", "method": "add", "args": {}}]}
//! ```
//! Every part may be left out. A `state` of `null` forgets the state; without one it stays. `stream` is
//! the stream of the message or object unless it is said; `expected` is any version unless it is said;
//! messages go to the outbox unless `queue` says `inbox`; a call lives as long as its `expires_at` says.
//! Replies, states, arguments and payloads are stored as the JSON text that was answered; `reply_base64`,
//! `state_base64` and `payload_base64` are stored as the bytes they stand for.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use windrow_domain::{Expected, Queue, Stream};
use windrow_store::call::NewCall;
use windrow_store::event::Append;
use windrow_store::message::Headers;

use crate::messages::handler::context::Context;
use crate::messages::handler::{Effects, HandlerError, StateChange};

/// The body of a request.
pub(super) fn write(context: &Context, payload: &[u8]) -> Result<Vec<u8>, HandlerError> {
    let mut body = Map::new();
    let mut say = |name: &str, value: Value| drop(body.insert(name.to_owned(), value));
    say("owner", json!(context.owner.as_str()));
    say("attempt", json!(context.attempt));
    say("headers", json!(context.headers));
    say("sent_at", json!(context.sent_at.to_string()));
    let payload_name = match context.object() {
        Some((object_type, object_id)) => {
            say("type", json!("call"));
            say("object_type", json!(object_type));
            say("object_id", json!(object_id));
            say("method", json!(context.kind));
            say("request_id", json!(context.id));
            say("caller_object", json!(context.caller_object()));
            say("caller_client", json!(context.caller_client()));
            "args"
        }
        None => {
            say("type", json!("message"));
            say("stream", json!(context.stream.as_str()));
            say("id", json!(context.id));
            say("kind", json!(context.kind));
            "payload"
        }
    };
    put(&mut body, payload_name, payload);
    if let Some(state) = &context.state {
        put(&mut body, "state", state);
    }
    Ok(serde_json::to_vec(&body)?)
}

fn put(body: &mut Map<String, Value>, name: &str, bytes: &[u8]) {
    match serde_json::from_slice::<Value>(bytes) {
        Ok(value) => body.insert(name.to_owned(), value),
        Err(_) if bytes.is_empty() => body.insert(name.to_owned(), Value::Null),
        Err(_) => body.insert(format!("{name}_base64"), json!(STANDARD.encode(bytes))),
    };
}

/// A value that was answered, as its exact text.
type Raw = Option<Box<RawValue>>;

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct HandlerAnswer {
    reply: Raw,
    reply_base64: Option<String>,
    #[serde(deserialize_with = "present")]
    state: Option<Raw>,
    state_base64: Option<String>,
    events: Vec<EventBody>,
    messages: Vec<MessageBody>,
    calls: Vec<CallBody>,
}

/// Tells `null` from nothing at all.
fn present<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Raw>, D::Error> {
    let raw = Box::<RawValue>::deserialize(from)?;
    Ok(Some((raw.get() != "null").then_some(raw)))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EventBody {
    stream: Option<Stream>,
    expected: Option<u64>,
    kind: String,
    id: Option<String>,
    payload: Raw,
    payload_base64: Option<String>,
    #[serde(default)]
    headers: Headers,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MessageBody {
    queue: Option<Queue>,
    stream: Option<Stream>,
    kind: String,
    id: Option<String>,
    payload: Raw,
    payload_base64: Option<String>,
    #[serde(default)]
    headers: Headers,
    not_before: Option<Timestamp>,
    #[serde(default)]
    consumers: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CallBody {
    object_type: String,
    object_id: String,
    method: String,
    args: Raw,
    expires_at: Option<Timestamp>,
}

/// The effects in an answer. What cannot be read is the handler's mistake, which it may mend.
pub(super) fn read(context: &Context, body: &[u8]) -> Result<Effects, HandlerError> {
    if body.trim_ascii().is_empty() {
        return Ok(Effects::none());
    }
    let bad = |what: String| HandlerError::retry(format!("the handler's answer is wrong: {what}"));
    let answer: HandlerAnswer =
        serde_json::from_slice(body).map_err(|error| bad(error.to_string()))?;
    let mut effects = Effects::reply(bytes(answer.reply, answer.reply_base64).map_err(bad)?);
    effects.state = match (answer.state, answer.state_base64) {
        (None, None) => StateChange::Keep,
        (Some(None), None) => StateChange::Forget,
        (state, base64) => StateChange::Put(bytes(state.flatten(), base64).map_err(bad)?),
    };
    for event in answer.events {
        let payload = bytes(event.payload, event.payload_base64).map_err(bad)?;
        let mut new = context.event(event.kind, payload);
        new.id = event.id.unwrap_or(new.id);
        new.headers = event.headers;
        let stream = event.stream.unwrap_or_else(|| context.stream.clone());
        append(&mut effects.events, context, stream, event.expected, new);
    }
    for message in answer.messages {
        let payload = bytes(message.payload, message.payload_base64).map_err(bad)?;
        let mut new = context.message(message.kind, payload);
        new.queue = message.queue.unwrap_or(new.queue);
        new.stream = message.stream.unwrap_or(new.stream);
        new.id = message.id.unwrap_or(new.id);
        new.headers = message.headers;
        new.not_before = message.not_before;
        new.consumers = message.consumers;
        effects.messages.push(new);
    }
    for call in answer.calls {
        let args = bytes(call.args, None).map_err(bad)?;
        let expires_at = call.expires_at;
        let call = context.ask(call.object_type, call.object_id, call.method, args);
        let call = call.map_err(|error| bad(error.to_string()))?;
        effects.calls.push(NewCall { expires_at, ..call });
    }
    Ok(effects)
}

/// Events that follow one another in a stream are one append: an expected version is the first one's.
fn append(
    appends: &mut Vec<Append>,
    context: &Context,
    stream: Stream,
    expected: Option<u64>,
    event: windrow_store::event::NewEvent,
) {
    match appends.last_mut().filter(|last| last.stream == stream && expected.is_none()) {
        Some(last) => last.events.push(event),
        None => {
            let expected = expected.map_or(Expected::Any, Expected::Version);
            let append = context.append(expected, vec![event]);
            appends.push(Append { stream, ..append });
        }
    }
}

fn bytes(raw: Raw, base64: Option<String>) -> Result<Bytes, String> {
    match (raw, base64) {
        (raw, None) => {
            Ok(raw.map_or_else(Bytes::new, |raw| Bytes::from(raw.get().as_bytes().to_vec())))
        }
        (None, Some(base64)) => {
            STANDARD.decode(base64).map(Bytes::from).map_err(|error| format!("base64: {error}"))
        }
        (Some(_), Some(_)) => Err("a value comes both as JSON and as base64".to_owned()),
    }
}
