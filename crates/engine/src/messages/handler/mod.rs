//! Handlers: code that is given a message or a call and returns what comes of it.
//!
//! Holds throughout: a handler writes nothing itself. What it returns ([`Effects`]) is committed
//! together with the end of its message, so the effect happens exactly once however often the handler
//! ran. What it does outside of that happens at least once. A handler that needs SQL of its own
//! ([`Transactional`], [`TransactionalConsumer`]) gets a transaction, in which its effects are
//! committed, too.

pub(crate) mod context;
mod effects;
pub(crate) mod erased;
pub(crate) mod error;
pub(crate) mod registry;
pub(crate) mod typed;

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use windrow_store::transactional::Sql;

pub use self::context::Context;
pub use self::effects::{Effects, StateChange};
pub use self::error::{HandlerError, OrPermanent};
pub use self::typed::{Typed, TypedTransactional};

/// How long a handler with a transaction of its own may take, unless it says otherwise.
pub(crate) const TRANSACTION_TIMEOUT: Duration = Duration::from_secs(1);

/// Objects of one type: calls of one object run one after another, those of others beside them.
#[async_trait]
pub trait Object: Send + Sync + 'static {
    /// The name of the type, without a slash: `wallet`.
    const TYPE: &'static str;

    /// Runs a method of the object that the context names.
    async fn call(
        &self,
        context: Context,
        method: &str,
        args: Bytes,
    ) -> Result<Effects, HandlerError>;

    /// Whether the handler acts outside of the effects that it returns, as one over HTTP does. Then
    /// the start of each attempt is stored before the handler runs.
    fn is_outside(&self) -> bool {
        false
    }
}

/// Objects of one type whose calls have SQL of their own. Each call runs alone in its own transaction:
/// what it writes and what it returns happen together, exactly once. It holds a connection for as long as
/// it runs (on SQLite, every other writer waits for it), so it is to be short, and may not wait for the
/// store in any other way, such as a call through a client. Windrow's own tables are not its to write.
#[async_trait]
pub trait Transactional: Send + Sync + 'static {
    /// The name of the type, without a slash: `wallet`.
    const TYPE: &'static str;

    /// Runs a method of the object that the context names. After a statement that failed, nothing is
    /// committed; the error, passed on with `?`, is tried again.
    async fn call(
        &self,
        context: Context,
        sql: &mut dyn Sql,
        method: &str,
        args: Bytes,
    ) -> Result<Effects, HandlerError>;

    /// How long it may take, up to [`windrow_store::transactional::SCRIPT_MS_MAX`].
    fn timeout(&self) -> Duration {
        TRANSACTION_TIMEOUT
    }
}

/// A handler of messages of the inbox.
#[async_trait]
pub trait Consumer: Send + Sync + 'static {
    /// Handles a message.
    async fn consume(&self, context: Context, payload: Bytes) -> Result<Effects, HandlerError>;

    /// Whether the handler acts outside of the effects that it returns, as one over HTTP does. Then
    /// the start of each attempt is stored before the handler runs.
    fn is_outside(&self) -> bool {
        false
    }
}

/// Takes messages, with SQL of its own. As of [`Transactional`]: each message is taken alone in its own
/// transaction, what is written and what is returned happen together, exactly once, and it is to be
/// short.
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

    /// How long it may take, up to [`windrow_store::transactional::SCRIPT_MS_MAX`].
    fn timeout(&self) -> Duration {
        TRANSACTION_TIMEOUT
    }
}
