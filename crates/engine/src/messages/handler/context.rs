//! What a handler knows of the message it is given.

use std::sync::atomic::{AtomicU32, Ordering};

use bytes::Bytes;
use jiff::Timestamp;
use windrow_domain::ids::BadName;
use windrow_domain::message::MESSAGE_ID_BYTES_MAX;
use windrow_domain::{Expected, Owner, Queue, RequestId, Stream};
use windrow_store::call::headers::{CALLER_CLIENT, CALLER_OBJECT};
use windrow_store::call::{CallKey, NewCall};
use windrow_store::event::{Append, NewEvent};
use windrow_store::message::{Headers, Message, NewMessage};

/// Characters that tell one consumer of a message from another, in ids that they make.
const CONSUMER_CHARS: usize = 16;

/// What a handler knows of its message or call.
#[derive(Debug)]
pub struct Context {
    /// The owner of the message or call.
    pub owner: Owner,
    /// The stream, in whose order it runs. Of a call: the object's stream, `type/id`.
    pub stream: Stream,
    /// The queue: calls, inbox or outbox.
    pub queue: Queue,
    /// Its id. Of a call: the request id.
    pub id: String,
    /// The kind, such as `order.placed`. Of a call: the method.
    pub kind: String,
    /// The headers it was sent with.
    pub headers: Headers,
    /// The number of this attempt, from 1.
    pub attempt: u32,
    /// The time at which it was sent.
    pub sent_at: Timestamp,
    /// The object's state; none when it has none, or when this is no call.
    pub state: Option<Bytes>,
    /// The name of the consumer, when the message waits for consumers by name.
    consumer: Option<String>,
    made: AtomicU32,
}

impl Context {
    pub(crate) fn new(message: &Message, attempt: u32, state: Option<Bytes>) -> Self {
        Self {
            owner: message.owner.clone(),
            stream: message.stream.clone(),
            queue: message.queue,
            id: message.id.clone(),
            kind: message.kind.clone(),
            headers: message.headers.clone(),
            attempt,
            sent_at: message.sent_at,
            state,
            consumer: None,
            made: AtomicU32::new(0),
        }
    }

    /// For one of those that the message waits for by name. Each makes ids of its own.
    pub(crate) fn by(mut self, consumer: Option<&str>) -> Self {
        self.consumer = consumer.map(str::to_owned);
        self
    }

    /// The object that is called: its type and its id. None for a message.
    pub fn object(&self) -> Option<(&str, &str)> {
        match self.queue {
            Queue::Calls => self.stream.as_str().split_once('/'),
            Queue::Inbox | Queue::Outbox => None,
        }
    }

    /// The object's id; the stream's name for a message.
    pub fn key(&self) -> &str {
        self.object().map_or(self.stream.as_str(), |(_, id)| id)
    }

    /// The object that called, if one did.
    pub fn caller_object(&self) -> Option<&str> {
        self.headers.get(CALLER_OBJECT).map(String::as_str)
    }

    /// The client that called, if it said so.
    pub fn caller_client(&self) -> Option<&str> {
        self.headers.get(CALLER_CLIENT).map(String::as_str)
    }

    /// An id that is the same at every attempt as long as things are made in the same order:
    /// receivers know repeats by it.
    pub fn next_id(&self) -> String {
        let no = self.made.fetch_add(1, Ordering::Relaxed);
        let of = match &self.consumer {
            None => self.id.clone(),
            Some(name) => {
                let name = blake3::hash(name.as_bytes()).to_hex();
                format!("{}@{}", self.id, &name[..CONSUMER_CHARS])
            }
        };
        let id = format!("{}:{of}:{no}", self.queue);
        if id.len() <= MESSAGE_ID_BYTES_MAX {
            return id;
        }
        format!("{}:{}:{no}", self.queue, blake3::hash(of.as_bytes()).to_hex())
    }

    /// An event of the owner's, with an id of its own.
    pub fn event(&self, kind: impl Into<String>, payload: impl Into<Bytes>) -> NewEvent {
        NewEvent::new(self.next_id(), kind).payload(payload)
    }

    /// Appends events to the stream of this message or object.
    pub fn append(&self, expected: Expected, events: Vec<NewEvent>) -> Append {
        Append { owner: self.owner.clone(), stream: self.stream.clone(), expected, events }
    }

    /// A message of the outbox, in the order of this message's stream.
    pub fn message(&self, kind: impl Into<String>, payload: impl Into<Bytes>) -> NewMessage {
        NewMessage::outbox(self.owner.clone(), self.stream.clone(), self.next_id())
            .kind(kind)
            .payload(payload)
    }

    /// A call of an object of the same owner, asked for once however often this is tried.
    pub fn ask(
        &self,
        object_type: impl Into<String>,
        object_id: impl Into<String>,
        method: impl Into<String>,
        args: impl Into<Bytes>,
    ) -> Result<NewCall, BadName> {
        let request_id = RequestId::new(self.next_id())?;
        let key = CallKey { owner: self.owner.clone(), request_id };
        let call = NewCall::new(key, object_type, object_id, method).args(args);
        Ok(NewCall { caller_object: Some(self.stream.as_str().to_owned()), ..call })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context(id: &str, consumer: Option<&str>) -> Context {
        let context = Context {
            owner: Owner::new("ada").unwrap(),
            stream: Stream::new("wallet/7").unwrap(),
            queue: Queue::Inbox,
            id: id.to_owned(),
            kind: "order.placed".to_owned(),
            headers: Headers::new(),
            attempt: 1,
            sent_at: Timestamp::UNIX_EPOCH,
            state: None,
            consumer: None,
            made: AtomicU32::new(0),
        };
        context.by(consumer)
    }

    /// An attempt after an upgrade must make the same ids as the one before it, or its effects are
    /// done twice.
    #[test]
    fn what_a_handler_makes_has_these_ids() {
        let one = context("m-1", None);
        assert_eq!([one.next_id(), one.next_id()], ["inbox:m-1:0", "inbox:m-1:1"]);
        assert_eq!(context("m-1", Some("mail")).next_id(), "inbox:m-1@a5d56811b40efd34:0");
        assert_eq!(
            context(&"x".repeat(MESSAGE_ID_BYTES_MAX), None).next_id(),
            "inbox:0ba2d9bc4e8594e6a10eec611c7598a3ba306c1471215fd12757b433ab123ade:0"
        );
    }
}
