//! Effects: what a handler returns, committed together with the end of its message.

use bytes::Bytes;
use windrow_store::call::NewCall;
use windrow_store::event::Append;
use windrow_store::message::NewMessage;

/// What becomes of an object's state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum StateChange {
    /// Nothing.
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
    /// Of the object. Only objects have one.
    pub state: StateChange,
    /// What the caller is told. Of a message: dropped.
    pub reply: Bytes,
    /// What happened, see [`Context::append`].
    pub events: Vec<Append>,
    /// What goes out because of it, see [`Context::message`].
    pub messages: Vec<NewMessage>,
    /// What other objects are asked because of it, see [`Context::ask`]. Nobody waits for the answers.
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

    /// With events.
    #[must_use]
    pub fn append(mut self, append: Append) -> Self {
        self.events.push(append);
        self
    }

    /// With a message.
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
