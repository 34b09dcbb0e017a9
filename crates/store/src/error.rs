//! One error for every backend: what went wrong ([`Kind`]), in which call, on what.
//!
//! Holds throughout: callers decide by `kind` and never by text; the text is the same on every database,
//! because checks and backends only say what went wrong, and the seam names the call.

use std::any::Any;
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
    /// What was attempted: a store verb with spaces, `seal file`. Empty until the error has passed the
    /// seam ([`crate::checked_store`]), which names it the same for every database.
    pub verb: &'static str,
    /// What it was attempted on: an id, a stream, or the argument that is wrong. Empty for lists.
    pub subject: String,
    source: Option<Cause>,
}

/// The kind of an error, which callers match on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// There is no such thing, or it belongs to another owner.
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
    /// Another instance is doing this right now.
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
    /// An error that is not named yet: a check or a backend knows what went wrong, and the seam which
    /// call it went wrong in.
    pub fn of(kind: Kind) -> Self {
        Self { kind, verb: "", subject: String::new(), source: None }
    }

    /// `Invalid`, about this argument.
    pub fn invalid(argument: impl fmt::Display, because: impl Into<Cause>) -> Self {
        Self::of(Kind::Invalid).about(argument).because(because)
    }

    /// The same error about this, and not about what the whole call was for.
    #[must_use]
    pub fn about(mut self, subject: impl fmt::Display) -> Self {
        self.subject = subject.to_string();
        self
    }

    /// The same error with its names, where it has none yet.
    #[must_use]
    pub fn named(mut self, verb: &'static str, subject: impl fmt::Display) -> Self {
        if self.verb.is_empty() {
            self.verb = verb;
        }
        if self.subject.is_empty() {
            self.subject = subject.to_string();
        }
        self
    }

    /// An error with its names, and without a deeper cause.
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
    pub fn refusal(refused: Refused) -> Self {
        Self::of(Kind::Refused).because(refused)
    }

    /// From which state what was refused, when `kind` is [`Kind::Refused`].
    pub fn refused(&self) -> Option<Refused> {
        self.source.as_ref()?.downcast_ref::<Refused>().copied()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("could not")?;
        for word in [self.verb, &self.subject].into_iter().filter(|word| !word.is_empty()) {
            write!(f, " {word}")?;
        }
        write!(f, ": {}", self.kind.as_str())
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_ref().map(|cause| cause.as_ref() as &(dyn StdError + 'static))
    }
}

/// `Invalid`, naming the field, unless the value is 1 to `max`.
pub fn within(field: &'static str, value: u64, max: u64) -> Result<()> {
    if (1..=max).contains(&value) {
        return Ok(());
    }
    Err(Error::invalid(field, format!("{field} must be 1 to {max}, not {value}")))
}

/// Why a store that must not migrate cannot be opened: the cause of its error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotMigrated {
    /// The version of the schema; 0 for a database without one.
    pub applied: i64,
    /// The version that this program has.
    pub known: i64,
}

impl fmt::Display for NotMigrated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.applied, self.known) {
            (0, _) => f.write_str("the database has no Windrow schema yet"),
            // The tables are those of this program, its functions are not there yet.
            (applied, known) if applied == known => {
                f.write_str("the functions of this version are not in the database yet")
            }
            (applied, known) => {
                write!(f, "the schema has version {applied}, and this program needs {known}")
            }
        }
    }
}

impl StdError for NotMigrated {}

/// `Invalid`, naming the field, when it has more than `max` elements or bytes.
pub fn at_most(field: &'static str, len: usize, max: usize) -> Result<()> {
    if len <= max {
        return Ok(());
    }
    Err(Error::invalid(field, format!("{field} must be at most {max}, not {len}")))
}

/// `Invalid`, naming the field, when a text has more than `bytes_max` bytes or a zero character, which
/// not every database keeps.
pub fn text(field: &'static str, text: &str, bytes_max: usize) -> Result<()> {
    if text.len() <= bytes_max && !text.contains('\0') {
        return Ok(());
    }
    let because = format!("{field} has at most {bytes_max} bytes and no zero character");
    Err(Error::invalid(field, because))
}

/// What a panic said, when it said a text.
pub fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let owned = panic.downcast_ref::<String>().map(String::as_str);
    owned.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message")
}

/// An error with its causes, on one line.
pub fn chain(error: &(dyn StdError + 'static)) -> String {
    let chain = std::iter::successors(Some(error), |error| StdError::source(*error));
    chain.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
