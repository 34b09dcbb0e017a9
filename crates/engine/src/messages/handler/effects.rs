//! Effects: what a handler returns, committed together with the end of its message.

use bytes::Bytes;
use windrow_store::call::NewCall;
use windrow_store::event::Append;
use windrow_store::message::NewMessage;

/// What becomes of an object's state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum StateChange {
    /// The state stays as it is.
    #[default]
    Keep,
    /// This is it from now on.
    Put(Bytes),
    /// It has none any more.
    Forget,
}

/// What comes of a message or a call. All of it is committed together, or none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Effects {
    /// The change of the object's state. Only objects have one.
    pub state: StateChange,
    /// The reply of a call; ignored for a message.
    pub reply: Bytes,
    /// Events to be appended, see [`Context::append`](super::Context::append).
    pub events: Vec<Append>,
    /// Messages to be sent, see [`Context::message`](super::Context::message).
    pub messages: Vec<NewMessage>,
    /// Calls of other objects, see [`Context::ask`](super::Context::ask). Their answers are not waited for.
    pub calls: Vec<NewCall>,
}

impl Effects {
    /// Nothing but the end of the message, or an empty reply.
    pub fn none() -> Self {
        Self::default()
    }

    /// A reply and nothing else.
    pub fn reply(reply: impl Into<Bytes>) -> Self {
        Self { reply: reply.into(), ..Self::default() }
    }

    /// With a new state.
    #[must_use]
    pub fn put(mut self, state: impl Into<Bytes>) -> Self {
        self.state = StateChange::Put(state.into());
        self
    }

    /// Adds events to append to a stream.
    #[must_use]
    pub fn append(mut self, append: Append) -> Self {
        self.events.push(append);
        self
    }

    /// Adds a message to send.
    #[must_use]
    pub fn send(mut self, message: NewMessage) -> Self {
        self.messages.push(message);
        self
    }

    /// With a call of another object.
    #[must_use]
    pub fn ask(mut self, call: NewCall) -> Self {
        self.calls.push(call);
        self
    }
}
