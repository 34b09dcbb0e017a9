//! The error of a handler: whether its message is tried again, when, and whether the attempt counts.

use std::any::Any;
use std::time::Duration;

use windrow_domain::attempt::{Class, Failure};
use windrow_domain::batch::Refused;
use windrow_domain::ids::BadName;
use windrow_store::Kind;

/// The code of [`HandlerError::unavailable`] as it is stored and compared; it does not change.
const UNAVAILABLE: &str = "away";

/// An attempt that failed. Any error becomes one by `?`, and is tried again unless its kind is permanent.
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

    /// Whether the message is given up on at once.
    pub fn is_permanent(&self) -> bool {
        self.0.class == Class::Permanent
    }

    /// The sentence that says what went wrong.
    pub fn message(&self) -> &str {
        &self.0.message
    }
}

/// What `?` does in a handler: the attempt is retried, unless the error is of a kind that another attempt
/// cannot mend. These are permanent: JSON that cannot be read or written, a bad name, a refused change of
/// state. [`OrPermanent`] says it for others.
impl<E: std::error::Error + 'static> From<E> for HandlerError {
    fn from(error: E) -> Self {
        let text = windrow_store::error::chain(&error);
        if is_permanent(&error) { Self::permanent(text) } else { Self::retry(text) }
    }
}

fn is_permanent(error: &dyn Any) -> bool {
    let is_json = error.downcast_ref::<serde_json::Error>().is_some_and(|bad| !bad.is_io());
    let store = error.downcast_ref::<windrow_store::Error>();
    is_json
        || error.is::<BadName>()
        || error.is::<Refused>()
        || store.is_some_and(|error| error.kind == Kind::Refused)
}

/// Says what an error means for the message, whatever its kind: `.permanent()?` and `.retry()?`.
///
/// ```
/// use windrow_engine::messages::{HandlerError, OrPermanent};
///
/// fn cents(text: &str) -> Result<u64, HandlerError> {
///     Ok(text.parse::<u64>().permanent()?)
/// }
///
/// assert!(cents("ten").unwrap_err().is_permanent());
/// ```
pub trait OrPermanent<T> {
    /// The message is not tried again after this error.
    fn permanent(self) -> Result<T, HandlerError>;

    /// The message is tried again after this error, as often as the policy says.
    fn retry(self) -> Result<T, HandlerError>;
}

impl<T, E: std::error::Error + 'static> OrPermanent<T> for Result<T, E> {
    fn permanent(self) -> Result<T, HandlerError> {
        self.map_err(|error| HandlerError::permanent(windrow_store::error::chain(&error)))
    }

    fn retry(self) -> Result<T, HandlerError> {
        self.map_err(|error| HandlerError::retry(windrow_store::error::chain(&error)))
    }
}

#[cfg(test)]
mod tests {
    use windrow_domain::Owner;

    use super::*;

    fn json(text: &str) -> Result<u64, HandlerError> {
        Ok(serde_json::from_str(text)?)
    }

    fn owner(name: &str) -> Result<Owner, HandlerError> {
        Ok(Owner::new(name)?)
    }

    fn store(kind: Kind) -> Result<(), HandlerError> {
        Err(windrow_store::Error::new(kind, "ask", "a store"))?;
        Ok(())
    }

    #[test]
    fn named_kinds_are_permanent_and_everything_else_is_retried() {
        assert!(json("{").unwrap_err().is_permanent());
        assert!(owner("").unwrap_err().is_permanent());
        assert!(store(Kind::Refused).unwrap_err().is_permanent());
        for kind in [Kind::Unavailable, Kind::Busy, Kind::Conflict, Kind::Invalid] {
            assert!(!store(kind).unwrap_err().is_permanent(), "{kind:?}");
        }
        fn unit() -> Result<(), HandlerError> {
            Err(std::io::Error::other("lost"))?;
            Ok(())
        }
        assert!(!unit().unwrap_err().is_permanent());
        let cut = serde_json::Error::io(std::io::Error::other("cut"));
        assert!(!HandlerError::from(cut).is_permanent(), "a broken connection is no bad JSON");
    }

    #[test]
    fn a_handler_may_say_it_for_any_error() {
        let bad = || "ten".parse::<u64>();
        assert!(bad().permanent().unwrap_err().is_permanent());
        assert!(!bad().retry().unwrap_err().is_permanent());
        let json = || serde_json::from_str::<u64>("{");
        assert!(!json().retry().unwrap_err().is_permanent());
    }
}
