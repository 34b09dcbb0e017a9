//! What one attempt of a line gave.
//!
//! Holds throughout: a refused, slow or missing upstream is data here, never an error that climbs.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A line's final outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It has an answer.
    Completed,
    /// It has an error.
    Failed,
    /// The target has no such thing.
    NotFound,
    /// It was not tried, on purpose.
    Skipped,
}

impl Status {
    /// Every status there is, in the order of [`Status::code`].
    pub const ALL: [Status; 4] =
        [Status::Completed, Status::Failed, Status::NotFound, Status::Skipped];

    /// The number that databases store.
    pub fn code(self) -> i16 {
        match self {
            Status::Completed => 0,
            Status::Failed => 1,
            Status::NotFound => 2,
            Status::Skipped => 3,
        }
    }

    /// The status with that number.
    pub fn from_code(code: i16) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.code() == code)
    }

    /// The word people read.
    pub fn as_str(self) -> &'static str {
        match self {
            Status::Completed => "completed",
            Status::Failed => "failed",
            Status::NotFound => "not_found",
            Status::Skipped => "skipped",
        }
    }
}

/// Why an attempt did not give an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// The target asked for fewer requests (429).
    Throttled,
    /// The target failed (5xx, 408).
    Server,
    /// The connection failed.
    Network,
    /// No answer in time.
    Timeout,
    /// The answer came but does not pass the acceptance check.
    Unacceptable,
    /// The target has no such thing; tried again conservatively.
    NotFound,
    /// The request itself is wrong (other 4xx): trying again cannot help.
    Permanent,
    /// It had a result, which was put back to run again. No attempt gives this: it is history.
    Reprocessed,
}

impl Class {
    /// Every class there is.
    pub const ALL: [Class; 8] = [
        Class::Throttled,
        Class::Server,
        Class::Network,
        Class::Timeout,
        Class::Unacceptable,
        Class::NotFound,
        Class::Permanent,
        Class::Reprocessed,
    ];

    /// Whether the target's answer is known. After a failed connection or a timeout it is not: the
    /// target may have done the work, so the next attempt must carry the same key.
    pub fn is_answered(self) -> bool {
        match self {
            Class::Network | Class::Timeout => false,
            Class::Throttled | Class::Server | Class::Unacceptable => true,
            Class::NotFound | Class::Permanent | Class::Reprocessed => true,
        }
    }

    /// Whether an attempt that ended so is one of those that a line has. A target that asks for fewer
    /// requests says nothing about the line: the line waits, however often that is.
    pub fn is_counted(self) -> bool {
        match self {
            Class::Throttled => false,
            Class::Server | Class::Network | Class::Timeout | Class::Unacceptable => true,
            Class::NotFound | Class::Permanent | Class::Reprocessed => true,
        }
    }

    /// The word that databases store.
    pub fn as_str(self) -> &'static str {
        match self {
            Class::Throttled => "throttled",
            Class::Server => "server",
            Class::Network => "network",
            Class::Timeout => "timeout",
            Class::Unacceptable => "unacceptable",
            Class::NotFound => "not_found",
            Class::Permanent => "permanent",
            Class::Reprocessed => "reprocessed",
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Class {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let found = Class::ALL.into_iter().find(|class| class.as_str() == word);
        found.ok_or_else(|| format!("{word:?} is not an error class"))
    }
}

/// An attempt that did not give an answer: made by [`Failure::retryable`], [`Failure::permanent`] and the
/// other constructors.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// What kind of trouble it was; decides whether to try again.
    pub class: Class,
    /// A short stable word for machines: `http_503`, `connect_refused`.
    pub code: String,
    /// A sentence for people.
    pub message: String,
    /// How long the target asked to wait before the next attempt.
    pub retry_after: Option<Duration>,
    /// See [`Failure::is_unavailable`].
    #[serde(default)]
    unavailable: bool,
}

impl Failure {
    /// A failure of that class. A target that was not reached or asks for fewer requests is
    /// [unavailable](Failure::is_unavailable); others are when it is [said](Failure::with_unavailable).
    pub fn new(class: Class, code: impl Into<String>, message: impl Into<String>) -> Self {
        let (code, message) = (code.into(), message.into());
        let unavailable = matches!(class, Class::Network | Class::Throttled);
        Self { class, code, message, retry_after: None, unavailable }
    }

    /// Tried again, as often as the retry policy allows.
    pub fn retryable(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(Class::Server, code, message)
    }

    /// Not tried again: the request itself is wrong.
    pub fn permanent(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(Class::Permanent, code, message)
    }

    /// The target has no such thing; tried again conservatively.
    pub fn not_found(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(Class::NotFound, code, message)
    }

    /// The target asks for fewer requests.
    pub fn throttled(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(Class::Throttled, code, message)
    }

    /// The target was not reached.
    pub fn unavailable(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(Class::Network, code, message)
    }

    /// The target asked to wait that long before the next attempt.
    #[must_use]
    pub fn retry_after(mut self, wait: Duration) -> Self {
        self.retry_after = Some(wait);
        self
    }

    /// Says whether the target is unavailable, where the class alone does not: a gateway without a server
    /// behind it is; a connection that was cut after the request had left is not, since the request may
    /// be why.
    #[must_use]
    pub fn with_unavailable(mut self, unavailable: bool) -> Self {
        self.unavailable = unavailable;
        self
    }

    /// Whether the target is unavailable: it was not reached, or said that it is not ready. That says
    /// nothing about the message: the attempt does not count, and the message waits; see
    /// [`GiveUpPolicy`](crate::retry::GiveUpPolicy).
    pub fn is_unavailable(&self) -> bool {
        self.unavailable
    }
}
