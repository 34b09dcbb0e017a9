//! The error of a handler: whether its message is tried again, when, and whether the attempt counts.

use std::time::Duration;

use windrow_domain::attempt::{Class, Failure};

/// The code of [`HandlerError::unavailable`] as it is stored and compared; it does not change.
const UNAVAILABLE: &str = "away";

/// An attempt that failed. Any error becomes one that is tried again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandlerError(pub(crate) Failure);

impl HandlerError {
    /// Tried again, as often as the policy says.
    pub fn retry(message: impl Into<String>) -> Self {
        Self::of(Class::Server, "server", message.into(), None)
    }

    /// Tried again, and not before that time has passed.
    pub fn retry_after(message: impl Into<String>, delay: Duration) -> Self {
        Self::of(Class::Server, "server", message.into(), Some(delay))
    }

    /// What the handler needs is not reached or not ready. Tried again, and the attempt does not count:
    /// the message is given up on only when it is [too old](windrow_domain::retry::GiveUpPolicy).
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::of(Class::Network, UNAVAILABLE, message.into(), None)
    }

    /// Like [`HandlerError::unavailable`], and not tried before that time has passed.
    pub fn unavailable_for(message: impl Into<String>, delay: Duration) -> Self {
        Self::of(Class::Network, UNAVAILABLE, message.into(), Some(delay))
    }

    /// Not tried again: the call fails, the message is a dead letter.
    pub fn permanent(message: impl Into<String>) -> Self {
        Self::of(Class::Permanent, "permanent", message.into(), None)
    }

    pub(crate) fn timeout(ms: u64) -> Self {
        let message = format!("it did not end within {ms} ms");
        Self::of(Class::Timeout, "handler_timeout", message, None)
    }

    pub(crate) fn panicked(text: &str) -> Self {
        Self::retry(format!("the handler panicked: {text}"))
    }

    pub(crate) fn of(
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
