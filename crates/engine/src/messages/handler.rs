//! Handlers: code that is given a message or a call and returns what comes of it.
//!
//! Holds throughout: a handler writes nothing itself. What it returns ([`Effects`]) is committed
//! together with the end of its message, so the effect happens exactly once however often the handler
//! ran. What it does outside of that happens at least once. One that needs SQL of its own
//! ([`Transactional`], [`TransactionalConsumer`]) gets a transaction, which is where its effects are
//! committed, too.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use windrow_domain::attempt::{Class, Failure};
use windrow_store::call::NewCall;
use windrow_store::error::within;
use windrow_store::event::Append;
use windrow_store::message::NewMessage;
use windrow_store::transactional::{SCRIPT_MS_MAX, Sql};

use super::context::Context;

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

/// A try that failed. Any error becomes one that is tried again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandlerError(pub(super) Failure);

impl HandlerError {
    /// Tried again, as often as the policy says.
    pub fn retry(message: impl Into<String>) -> Self {
        Self::of(Class::Server, "server", message.into(), None)
    }

    /// Tried again, and not before that time has passed.
    pub fn retry_after(message: impl Into<String>, delay: Duration) -> Self {
        Self::of(Class::Server, "server", message.into(), Some(delay))
    }

    /// What it needs is not reached or not ready. Tried again, and the try does not count: it is given
    /// up on only when it is [too old](windrow_domain::retry::Patience).
    pub fn away(message: impl Into<String>) -> Self {
        Self::of(Class::Network, "away", message.into(), None)
    }

    /// The same, and not before that time has passed.
    pub fn away_for(message: impl Into<String>, delay: Duration) -> Self {
        Self::of(Class::Network, "away", message.into(), Some(delay))
    }

    /// Not tried again: the call fails, the message is a dead letter.
    pub fn permanent(message: impl Into<String>) -> Self {
        Self::of(Class::Permanent, "permanent", message.into(), None)
    }

    pub(super) fn timeout(ms: u64) -> Self {
        let message = format!("it did not end within {ms} ms");
        Self::of(Class::Timeout, "handler_timeout", message, None)
    }

    pub(super) fn of(
        class: Class,
        code: &str,
        message: String,
        retry_after: Option<Duration>,
    ) -> Self {
        let mut failure = Failure::new(class, code, message);
        failure.retry_after = retry_after;
        Self(failure)
    }

    /// What went wrong.
    pub fn message(&self) -> &str {
        &self.0.message
    }
}

impl<E: std::error::Error + 'static> From<E> for HandlerError {
    fn from(error: E) -> Self {
        Self::retry(windrow_store::error::chain(&error))
    }
}

/// Objects of one type: calls of one object run one after another, those of others beside them.
#[async_trait]
pub trait Object: Send + Sync + 'static {
    /// The type, without a slash: `wallet`.
    fn object_type(&self) -> &str;

    /// Runs a method of the object that the context names.
    async fn call(
        &self,
        context: Context,
        method: &str,
        args: Bytes,
    ) -> Result<Effects, HandlerError>;

    /// Whether its effects are outside of what it returns, so that the beginning of each try is to be
    /// stored first.
    fn is_outside(&self) -> bool {
        false
    }
}

/// Objects of one type whose calls have SQL of their own. Each call runs alone in its own transaction:
/// what it writes and what it returns happen together, exactly once. It holds a connection for as long as
/// it runs (on SQLite, everybody who writes waits for it), so it is to be short, and may not wait for the
/// store in any other way, such as a call through a client. Windrow's own tables are not its to write.
#[async_trait]
pub trait Transactional: Send + Sync + 'static {
    /// The type, without a slash: `wallet`.
    fn object_type(&self) -> &str;

    /// Runs a method of the object that the context names. After a statement that failed, nothing is
    /// committed; the error, passed on with `?`, is tried again.
    async fn call(
        &self,
        context: Context,
        sql: &mut dyn Sql,
        method: &str,
        args: Bytes,
    ) -> Result<Effects, HandlerError>;

    /// How long it may take in milliseconds, up to [`windrow_store::transactional::SCRIPT_MS_MAX`].
    fn ms_max(&self) -> u64 {
        1_000
    }
}

/// Takes messages.
#[async_trait]
pub trait Consumer: Send + Sync + 'static {
    /// Handles a message.
    async fn consume(&self, context: Context, payload: Bytes) -> Result<Effects, HandlerError>;

    /// Whether its effects are outside of what it returns, so that the beginning of each try is to be
    /// stored first.
    fn is_outside(&self) -> bool {
        false
    }

    /// The one that takes its messages inside of a transaction; see [`InTransaction`].
    fn own_transaction(&self) -> Option<Arc<dyn TransactionalConsumer>> {
        None
    }
}

/// Takes messages, with SQL of its own. As of [`Transactional`]: each message is taken alone in its own
/// transaction, what is written and what is returned happen together, exactly once, and it is to be
/// short. [`InTransaction`] makes it a [`Consumer`].
#[async_trait]
pub trait TransactionalConsumer: Send + Sync + 'static {
    /// Handles a message. After a statement that failed, nothing is committed; the error, passed on with
    /// `?`, is tried again.
    async fn consume(
        &self,
        context: Context,
        sql: &mut dyn Sql,
        payload: Bytes,
    ) -> Result<Effects, HandlerError>;

    /// How long it may take in milliseconds, up to [`windrow_store::transactional::SCRIPT_MS_MAX`].
    fn ms_max(&self) -> u64 {
        1_000
    }
}

/// A consumer with its own transactions, to be registered like every other.
pub struct InTransaction(Arc<dyn TransactionalConsumer>);

impl InTransaction {
    /// `Invalid` when it may take longer than any may.
    pub fn new(consumer: impl TransactionalConsumer) -> windrow_store::Result<Self> {
        within("add consumer", "ms_max", consumer.ms_max(), SCRIPT_MS_MAX)?;
        Ok(Self(Arc::new(consumer)))
    }
}

#[async_trait]
impl Consumer for InTransaction {
    async fn consume(&self, _: Context, _: Bytes) -> Result<Effects, HandlerError> {
        Err(HandlerError::permanent("it runs inside of a transaction, and there is none"))
    }

    fn own_transaction(&self) -> Option<Arc<dyn TransactionalConsumer>> {
        Some(self.0.clone())
    }
}
