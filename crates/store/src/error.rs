//! One error for every backend. Callers match on `kind`; nobody reads text.

use std::error::Error as StdError;
use std::fmt;

use windrow_domain::batch::Refused;

/// What a store call gives.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A cause, kept as it came.
pub type Cause = Box<dyn StdError + Send + Sync>;

/// A store call that did not happen.
#[derive(Debug)]
pub struct Error {
    /// What went wrong, for callers to decide on.
    pub kind: Kind,
    /// What was attempted: a store verb with spaces, `seal file`.
    pub verb: &'static str,
    /// What it was attempted on: an id, a line, a field.
    pub subject: String,
    source: Option<Cause>,
}

/// What went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// There is no such thing, or it belongs to somebody else.
    Missing,
    /// It exists already with other content, or something still needs it.
    Conflict,
    /// The batch's state does not allow it; see [`Error::refused`].
    Refused,
    /// An argument is wrong: a tampered cursor, a line twice, a bound exceeded.
    Invalid,
    /// The owner has as many as it may have.
    Limited,
    /// The lease, token or membership is no longer the caller's.
    LeaseLost,
    /// Somebody else is doing this right now.
    Contended,
    /// A lock or the pool was not free in time, or transactions collided.
    Busy,
    /// The database is down, starting, full or cannot be reached.
    Unavailable,
    /// What is stored contradicts itself, or the schema is unknown.
    Corrupt,
}

/// Whether, and when, the same call may succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// Not without a change.
    Never,
    /// Right away, or after a short wait.
    AtOnce,
    /// When the database is back.
    Later,
}

impl Kind {
    /// Whether the same call may succeed later.
    pub fn retry(self) -> Retry {
        match self {
            Kind::Busy | Kind::Contended => Retry::AtOnce,
            Kind::Unavailable => Retry::Later,
            Kind::Missing | Kind::Conflict | Kind::Refused | Kind::Invalid => Retry::Never,
            Kind::Limited | Kind::LeaseLost | Kind::Corrupt => Retry::Never,
        }
    }

    /// The word machines read.
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Missing => "missing",
            Kind::Conflict => "conflict",
            Kind::Refused => "refused",
            Kind::Invalid => "invalid",
            Kind::Limited => "limited",
            Kind::LeaseLost => "lease_lost",
            Kind::Contended => "contended",
            Kind::Busy => "busy",
            Kind::Unavailable => "unavailable",
            Kind::Corrupt => "corrupt",
        }
    }
}

impl Error {
    /// An error without a deeper cause.
    pub fn new(kind: Kind, verb: &'static str, subject: impl fmt::Display) -> Self {
        Self { kind, verb, subject: subject.to_string(), source: None }
    }

    /// The same error with its cause.
    #[must_use]
    pub fn because(mut self, cause: impl Into<Cause>) -> Self {
        self.source = Some(cause.into());
        self
    }

    /// A transition that the batch's state does not allow.
    pub fn refusal(verb: &'static str, subject: impl fmt::Display, refused: Refused) -> Self {
        Self::new(Kind::Refused, verb, subject).because(refused)
    }

    /// From which state what was refused, when `kind` is [`Kind::Refused`].
    pub fn refused(&self) -> Option<Refused> {
        self.source.as_ref()?.downcast_ref::<Refused>().copied()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "could not {} {}: {}", self.verb, self.subject, self.kind.as_str())
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_ref().map(|cause| cause.as_ref() as &(dyn StdError + 'static))
    }
}

/// `Invalid`, naming the field, unless the value is 1 to `max`.
pub fn within(verb: &'static str, field: &'static str, value: u64, max: u64) -> Result<()> {
    if (1..=max).contains(&value) {
        return Ok(());
    }
    let because = format!("{field} must be 1 to {max}, not {value}");
    Err(Error::new(Kind::Invalid, verb, field).because(because))
}

/// `Invalid`, naming the field, when a text has more than `bytes_max` bytes or a zero character, which
/// not every database keeps.
pub fn text(verb: &'static str, field: &'static str, text: &str, bytes_max: usize) -> Result<()> {
    if text.len() <= bytes_max && !text.contains('\0') {
        return Ok(());
    }
    let because = format!("{field} has at most {bytes_max} bytes and no zero character");
    Err(Error::new(Kind::Invalid, verb, field).because(because))
}

/// An error with its causes, on one line.
pub fn chain(error: &(dyn StdError + 'static)) -> String {
    let chain = std::iter::successors(Some(error), |error| StdError::source(*error));
    chain.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
