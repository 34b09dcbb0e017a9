//! Messages that are sent, and the bounds of one send.

use std::collections::BTreeSet;

use bytes::Bytes;
use jiff::Timestamp;
use serde::Serialize;
use windrow_domain::message::{
    CONSUMERS_MAX, HEADERS_BYTES_MAX, KIND_BYTES_MAX, MESSAGE_ID_BYTES_MAX, PAYLOAD_BYTES_MAX,
};
use windrow_domain::{DeadLetterId, Owner, Queue, Stream};

use super::{Headers, SEND_BYTES_MAX, SEND_MAX};
use crate::{Error, Result, error};

/// A message to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewMessage {
    /// Where it waits. Calls are submitted, not sent.
    pub queue: Queue,
    /// The owner of the message.
    pub owner: Owner,
    /// What it is in order with.
    pub stream: Stream,
    /// Its name, by which receivers tell a repeat.
    pub id: String,
    /// What it is about: `order.placed`.
    pub kind: String,
    /// The bytes that its handler or publisher gets.
    pub payload: Bytes,
    /// What travels with it.
    pub headers: Headers,
    /// It, and what comes behind it in its stream, waits until then.
    pub not_before: Option<Timestamp>,
    /// The consumers that must all be done with it. Empty for the usual one: the handler or the publisher.
    pub consumers: Vec<String>,
    /// One with the same owner and id counts once. Always so in the inbox.
    pub dedupe: bool,
}

impl NewMessage {
    /// An empty message of the kind `message`, for anything that handles or publishes it.
    pub fn new(queue: Queue, owner: Owner, stream: Stream, id: impl Into<String>) -> Self {
        Self {
            queue,
            owner,
            stream,
            id: id.into(),
            kind: "message".to_owned(),
            payload: Bytes::new(),
            headers: Headers::new(),
            not_before: None,
            consumers: Vec::new(),
            dedupe: false,
        }
    }

    /// A message for the publishers, such as a webhook.
    ///
    /// ```
    /// # use windrow_domain::{Owner, Stream};
    /// # use windrow_store::message::NewMessage;
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let message = NewMessage::outbox(Owner::new("ann")?, Stream::new("orders")?, "order-7")
    ///     .kind("order.placed")
    ///     .json(&serde_json::json!({ "no": 7 }))?;
    /// assert_eq!(message.payload, r#"{"no":7}"#);
    /// # Ok(())
    /// # }
    /// ```
    pub fn outbox(owner: Owner, stream: Stream, id: impl Into<String>) -> Self {
        Self::new(Queue::Outbox, owner, stream, id)
    }

    /// A message for the consumers. One with the same owner and id counts once.
    pub fn inbox(owner: Owner, stream: Stream, id: impl Into<String>) -> Self {
        Self::new(Queue::Inbox, owner, stream, id)
    }

    /// With a kind, such as `order.placed`.
    #[must_use]
    pub fn kind(mut self, kind: impl Into<String>) -> Self {
        self.kind = kind.into();
        self
    }

    /// With these bytes as payload.
    #[must_use]
    pub fn payload(mut self, payload: impl Into<Bytes>) -> Self {
        self.payload = payload.into();
        self
    }

    /// With this value as payload, in JSON.
    pub fn json<T: Serialize + ?Sized>(self, value: &T) -> serde_json::Result<Self> {
        Ok(self.payload(serde_json::to_vec(value)?))
    }

    /// With a header.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.insert(name.into(), value.into());
        self
    }

    /// Held back until then, together with what comes behind it in its stream.
    #[must_use]
    pub fn not_before(mut self, at: Timestamp) -> Self {
        self.not_before = Some(at);
        self
    }

    /// For this consumer or publisher by name; may be said for several, each of which must be done with it.
    #[must_use]
    pub fn to(mut self, consumer: impl Into<String>) -> Self {
        self.consumers.push(consumer.into());
        self
    }

    /// Counts once, however often a message with its owner and id is sent. Always so in the inbox.
    #[must_use]
    pub fn deduped(mut self) -> Self {
        self.dedupe = true;
        self
    }

    /// Whether its id is remembered.
    pub fn is_deduped(&self) -> bool {
        self.dedupe || self.queue == Queue::Inbox
    }

    /// `Invalid` when it has no id, is too large, or is a call.
    pub fn check(&self) -> Result<()> {
        if self.queue == Queue::Calls {
            return Err(Error::invalid("queue", "calls are submitted"));
        }
        check_body(&self.id, &self.kind, &self.payload, &self.headers)?;
        let consumers = self.consumers.len().max(1) as u64;
        error::within("consumers", consumers, CONSUMERS_MAX as u64)?;
        for name in &self.consumers {
            error::within("consumer", name.len() as u64, KIND_BYTES_MAX as u64)?;
            error::text("consumer", name, KIND_BYTES_MAX)?;
        }
        let each: BTreeSet<_> = self.consumers.iter().collect();
        if each.len() < self.consumers.len() {
            let because = "a consumer is named twice";
            return Err(Error::invalid("consumers", because));
        }
        Ok(())
    }
}

/// `Invalid` when an id or a kind is empty, or something is too long.
pub(crate) fn check_body(id: &str, kind: &str, payload: &[u8], headers: &Headers) -> Result<()> {
    error::within("id", id.len() as u64, MESSAGE_ID_BYTES_MAX as u64)?;
    error::text("id", id, MESSAGE_ID_BYTES_MAX)?;
    error::within("kind", kind.len() as u64, KIND_BYTES_MAX as u64)?;
    error::text("kind", kind, KIND_BYTES_MAX)?;
    error::at_most("payload", payload.len(), PAYLOAD_BYTES_MAX)?;
    let bytes: usize = headers.iter().map(|(name, value)| name.len() + value.len()).sum();
    error::at_most("headers", bytes, HEADERS_BYTES_MAX)?;
    for text in headers.iter().flat_map(|(name, value)| [name, value]) {
        error::text("headers", text, HEADERS_BYTES_MAX)?;
    }
    Ok(())
}

/// `Invalid` when there are too many messages at once, too many bytes, or one is wrong.
pub fn check_send(messages: &[NewMessage]) -> Result<()> {
    error::at_most("messages", messages.len(), SEND_MAX)?;
    let bytes: usize = messages.iter().map(|message| message.payload.len()).sum();
    error::at_most("bytes", bytes, SEND_BYTES_MAX)?;
    messages.iter().try_for_each(|message| message.check())
}

/// `Invalid` when too many dead letters are named at once.
pub fn check_dead_letters(ids: &[DeadLetterId]) -> Result<()> {
    error::at_most("ids", ids.len(), SEND_MAX)
}
