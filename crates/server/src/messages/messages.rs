//! `/v1/messages` and `/v1/inbox`: sends messages, one or many, and lists those that wait.
//!
//! Holds throughout: the messages of one request are sent as a whole or not at all; a message with an id
//! can be sent again, and counts once.

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use jiff::Timestamp;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;
use windrow_domain::{Owner, Queue, Stream};
use windrow_store::Kind;
use windrow_store::message::{Headers, Message, MessagesQuery, NewMessage, SEND_MAX, Sent};

use super::body::{self, Raw, given, shown};
use super::pages::PageQuery;
use super::params::{self, into_api_error};
use crate::app::App;
use crate::auth::Caller;
use crate::error::{Code, Error, Result};
use crate::extract::Query;
use crate::openapi::error_responses::{
    NotFound, PayloadTooLarge, RequestTimeout, UnsupportedMediaType,
};
use crate::pages::SnakePage;
use crate::params::time;

/// A message to send.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewMessage)]
pub(crate) struct NewMessageBody {
    /// The stream; messages of a stream are delivered in order.
    #[schema(min_length = 1, max_length = 256, pattern = "^[^\\u0000-\\u001f\\u007f-\\u009f]+$")]
    stream: String,
    /// The kind of message.
    #[schema(
        min_length = 1,
        max_length = 256,
        pattern = "^[^\\u0000]+$",
        example = "order.placed"
    )]
    kind: String,
    /// The payload as JSON; kept byte for byte.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<serde_json::Value>)]
    payload: Option<Box<RawValue>>,
    /// The payload as Base64, when it is not JSON.
    #[schema(
        pattern = "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?$"
    )]
    payload_base64: Option<String>,
    /// The id by which receivers recognise a repeat; generated when omitted in the outbox.
    #[schema(min_length = 1, max_length = 256, pattern = "^[^\\u0000]+$")]
    id: Option<String>,
    /// Headers that travel with the message.
    #[serde(default)]
    #[schema(value_type = std::collections::BTreeMap<String, String>)]
    headers: Headers,
    /// The message, and those behind it in its stream, wait until then.
    #[schema(format = DateTime)]
    not_before: Option<String>,
    /// The consumers that must all have handled it; by default the one that publishes or handles
    /// it.
    #[serde(default)]
    #[schema(max_items = 8, value_type = std::collections::BTreeSet<ConsumerName>, inline)]
    consumers: Vec<String>,
    /// Whether messages with the same id count once. By default when it has an id; always in the
    /// inbox.
    dedupe: Option<bool>,
}

/// The name of a consumer.
#[derive(ToSchema)]
#[schema(value_type = String, min_length = 1, max_length = 256, pattern = "^[^\\u0000]+$")]
#[expect(dead_code, reason = "only described")]
struct ConsumerName(String);

/// Messages to send together.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewMessages)]
pub(crate) struct NewMessagesBody {
    #[schema(min_items = 1, max_items = 1000)]
    messages: Vec<NewMessageBody>,
}

/// One message, or several.
#[derive(ToSchema)]
#[serde(untagged)]
#[schema(as = SendMessages)]
#[expect(dead_code, reason = "only described: which it is is seen before it is read")]
pub(crate) enum OneOrMany {
    One(Box<NewMessageBody>),
    Many(NewMessagesBody),
}

/// Tells several messages from one.
#[derive(Deserialize)]
struct Peek {
    messages: Option<IgnoredAny>,
}

/// Receipts of messages that were sent.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = SentMessages)]
pub(crate) struct Receipts {
    /// In the order of the request.
    data: Vec<Receipt>,
}

/// The receipt of a message.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = SentMessage)]
struct Receipt {
    id: String,
    #[schema(value_type = String)]
    stream: Stream,
    /// Its position in its stream; of a repeat, that of the first.
    position: u64,
    partition: u16,
    /// Whether it had been sent before, so that nothing was sent.
    duplicate: bool,
}

/// Sends messages to the outbox
///
/// One or several: all or none, in this order within each stream.
#[utoipa::path(
    post, path = "/messages", operation_id = "sendMessages", tag = "Messages", security(("key" = [])),
    request_body = OneOrMany,
    responses((status = 202, description = "The messages are stored and will be delivered.", body = Receipts),
        NotFound, RequestTimeout, PayloadTooLarge, UnsupportedMediaType))]
pub(crate) async fn messages(
    State(app): State<App>,
    caller: Caller,
    headers: HeaderMap,
    Raw(body): Raw,
) -> Result<(StatusCode, axum::Json<Receipts>)> {
    send(&app, &caller, Queue::Outbox, &headers, &body).await
}

/// Sends messages to the inbox
///
/// As to the outbox; every message has an `id`, and one that was there before counts as sent.
#[utoipa::path(
    post, path = "/inbox", operation_id = "receiveMessages", tag = "Messages", security(("key" = [])),
    request_body = OneOrMany,
    responses((status = 202, description = "The messages are stored and will be handled.", body = Receipts),
        NotFound, RequestTimeout, PayloadTooLarge, UnsupportedMediaType))]
pub(crate) async fn inbox(
    State(app): State<App>,
    caller: Caller,
    headers: HeaderMap,
    Raw(body): Raw,
) -> Result<(StatusCode, axum::Json<Receipts>)> {
    send(&app, &caller, Queue::Inbox, &headers, &body).await
}

async fn send(
    app: &App,
    caller: &Caller,
    queue: Queue,
    headers: &HeaderMap,
    body: &[u8],
) -> Result<(StatusCode, axum::Json<Receipts>)> {
    let messages = app.messages()?;
    let posts = match body::read::<Peek>(headers, body)?.messages {
        Some(_) => body::read::<NewMessagesBody>(headers, body)?.messages,
        None => vec![body::read::<NewMessageBody>(headers, body)?],
    };
    if !(1..=SEND_MAX).contains(&posts.len()) {
        let message = format!("`messages` must have 1 to {SEND_MAX} entries.");
        return Err(Error::invalid("messages", message));
    }
    let new = posts.into_iter().map(|post| post.into_new(&caller.owner, queue));
    let new = new.collect::<Result<Vec<NewMessage>>>()?;
    let names: Vec<_> = new.iter().map(|new| (new.id.clone(), new.stream.clone())).collect();
    let sent = messages.client.send(new).await.map_err(|error| match error.kind {
        Kind::Conflict => {
            let causes = windrow_store::error::chain(&error);
            let message = format!(
                "An id was used before for a different message; nothing was sent: {causes}."
            );
            Error::new(Code::MessageIdReused, message).at("id")
        }
        _ => into_api_error(error),
    })?;
    let receipts =
        names.into_iter().zip(sent).map(|((id, stream), sent)| receipt(id, stream, sent));
    Ok((StatusCode::ACCEPTED, axum::Json(Receipts { data: receipts.collect() })))
}

fn receipt(id: String, stream: Stream, sent: Sent) -> Receipt {
    let Sent { at, is_duplicate } = sent;
    Receipt { id, stream, position: at.position, partition: at.partition, duplicate: is_duplicate }
}

impl NewMessageBody {
    fn into_new(self, owner: &Owner, queue: Queue) -> Result<NewMessage> {
        let has_id = self.id.is_some();
        let id = match self.id {
            Some(id) => id,
            None if queue == Queue::Inbox => {
                let message =
                    "A message for the inbox requires an `id`; repeats are recognised by it.";
                return Err(Error::invalid("id", message));
            }
            None => Uuid::now_v7().to_string(),
        };
        Ok(NewMessage {
            queue,
            owner: owner.clone(),
            stream: params::stream(self.stream)?,
            id,
            kind: self.kind,
            payload: body::payload(self.payload, self.payload_base64)?,
            headers: self.headers,
            not_before: time("not_before", self.not_before.as_deref())?,
            consumers: self.consumers,
            dedupe: self.dedupe.unwrap_or(has_id),
        })
    }
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListQuery {
    /// Only in this queue: `inbox`, `outbox` or `calls`.
    #[param(value_type = Option<QueueWord>, inline)]
    pub(super) queue: Option<String>,
    /// Only of this stream.
    #[param(max_length = 256, pattern = "^[^\\u0000-\\u001f\\u007f-\\u009f]*$")]
    pub(super) stream: Option<String>,
}

/// The queue of a message.
#[derive(ToSchema)]
#[schema(as = Queue, rename_all = "snake_case")]
#[expect(dead_code, reason = "the domain's own goes out; here it is only described")]
pub(super) enum QueueWord {
    Inbox,
    Outbox,
    Calls,
}

impl ListQuery {
    /// The filters, as the store takes them.
    pub(super) fn asked(&self) -> Result<MessagesQuery> {
        let queue = self.queue.as_deref().map(str::parse).transpose();
        Ok(MessagesQuery {
            queue: queue.map_err(|bad: String| Error::invalid("queue", format!("{bad}.")))?,
            stream: params::optional_stream(self.stream.clone())?,
            ..MessagesQuery::default()
        })
    }
}

/// A message that waits to be delivered or handled.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Message)]
pub(crate) struct MessageObject {
    id: String,
    #[schema(value_type = String)]
    owner: Owner,
    #[schema(value_type = QueueWord)]
    queue: Queue,
    #[schema(value_type = String)]
    stream: Stream,
    position: u64,
    partition: u16,
    kind: String,
    /// What it says, when that is JSON.
    #[schema(value_type = Option<serde_json::Value>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<Box<RawValue>>,
    /// The payload as Base64, when it is not JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_base64: Option<String>,
    #[schema(value_type = std::collections::BTreeMap<String, String>)]
    headers: Headers,
    #[schema(value_type = String, format = DateTime)]
    sent_at: Timestamp,
    #[schema(value_type = Option<String>, format = DateTime, required)]
    not_before: Option<Timestamp>,
    /// Attempts that were counted.
    attempts: u32,
    /// The consumers it still waits for; empty for the default one.
    waiting: Vec<String>,
    /// The error of the last attempt.
    #[schema(required)]
    error: Option<String>,
}

impl From<Message> for MessageObject {
    fn from(message: Message) -> Self {
        let (payload, payload_base64) = shown(&message.payload);
        Self {
            id: message.id,
            owner: message.owner,
            queue: message.queue,
            stream: message.stream,
            position: message.at.position,
            partition: message.at.partition,
            kind: message.kind,
            payload,
            payload_base64,
            headers: message.headers,
            sent_at: message.sent_at,
            not_before: message.not_before,
            attempts: message.attempts,
            waiting: message.waiting,
            error: message.error,
        }
    }
}

/// Lists messages that wait
///
/// By partition, stream and position.
#[utoipa::path(
    get, path = "/messages", operation_id = "listMessages", tag = "Messages", security(("key" = [])),
    params(ListQuery, PageQuery),
    responses((status = 200, description = "A page of messages.", body = SnakePage<MessageObject>), NotFound))]
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<ListQuery>,
    Query(page): Query<PageQuery>,
) -> Result<axum::Json<SnakePage<MessageObject>>> {
    let (scope, mut page) = page.read(&caller)?;
    let (asked, message_store) = (query.asked()?, app.messages()?.message_store());
    while let Some((after, limit)) = page.next() {
        let step =
            message_store.messages(&scope, MessagesQuery { after, limit, ..asked.clone() }).await;
        page.add(step, |message: &Message| message.payload.len())?;
    }
    Ok(page.finish())
}
