//! Calls: an object's method, asked for once however often the question is repeated.
//!
//! Holds throughout: a call that has an answer keeps it; what happens to one after a crash is said by
//! its policy and by nothing else.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::ids::{BadName, NAME_BYTES_MAX, Stream};

/// Where a call is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallState {
    /// Waits for its turn, or for another one.
    Pending,
    /// An instance has said that it begins, or that it has run for a while.
    Processing,
    /// Has its reply.
    Completed,
    /// Has its error.
    Failed,
    /// Had an answer, which was kept as long as was wanted. It is never run again.
    Expired,
}

/// What happens to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CallEvent {
    /// An instance begins.
    Started,
    /// It has run for a while. That may be recorded late: an answer stays.
    Seen,
    /// It was tried and goes back, to be tried again.
    Returned,
    /// It has a reply.
    Replied,
    /// It has an error.
    GaveUp,
    /// Its time was over while it waited: it was not run in time, and is not run any more.
    Expired,
    /// Somebody who may ended it without an answer of its handler.
    Cancelled,
    /// Its answer has been kept long enough.
    Forgotten,
}

/// An event that a state does not allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallRefused {
    /// Where the call is.
    pub from: CallState,
    /// What was to happen.
    pub event: CallEvent,
}

impl CallEvent {
    /// Every event there is.
    pub const ALL: [CallEvent; 8] = [
        CallEvent::Started,
        CallEvent::Seen,
        CallEvent::Returned,
        CallEvent::Replied,
        CallEvent::GaveUp,
        CallEvent::Expired,
        CallEvent::Cancelled,
        CallEvent::Forgotten,
    ];

    /// The event as a past participle, for messages.
    pub fn as_str(self) -> &'static str {
        match self {
            CallEvent::Started => "started",
            CallEvent::Seen => "seen running",
            CallEvent::Returned => "returned",
            CallEvent::Replied => "replied to",
            CallEvent::GaveUp => "given up on",
            CallEvent::Expired => "expired unanswered",
            CallEvent::Cancelled => "cancelled",
            CallEvent::Forgotten => "forgotten",
        }
    }
}

impl fmt::Display for CallRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a {} call cannot be {}", self.from, self.event.as_str())
    }
}

impl std::error::Error for CallRefused {}

impl CallState {
    /// Every state there is, in the order of [`CallState::code`].
    pub const ALL: [CallState; 5] = [
        CallState::Pending,
        CallState::Processing,
        CallState::Completed,
        CallState::Failed,
        CallState::Expired,
    ];

    /// Where it is afterwards. Every store does as this says: its suite walks by it.
    pub fn apply(self, event: CallEvent) -> Result<CallState, CallRefused> {
        use CallEvent::{Cancelled, Forgotten, GaveUp, Replied, Returned, Seen, Started};
        use CallState::{Completed, Expired, Failed, Pending, Processing};
        match (self, event) {
            (Pending | Processing, Started | Seen) => Ok(Processing),
            (Completed | Failed | Expired, Seen) => Ok(self),
            (Pending | Processing, Returned) => Ok(Pending),
            (Pending | Processing, Replied) => Ok(Completed),
            (Pending | Processing, GaveUp | Cancelled) => Ok(Failed),
            // One that runs may still end well: its handler has begun in time.
            (Pending, CallEvent::Expired) => Ok(Failed),
            (Completed | Failed | Expired, Forgotten) => Ok(Expired),
            (
                Completed | Failed | Expired,
                Started | Returned | Replied | GaveUp | CallEvent::Expired | Cancelled,
            )
            | (Processing, CallEvent::Expired)
            | (Pending | Processing, Forgotten) => Err(CallRefused { from: self, event }),
        }
    }

    /// Whether it has an answer, or had one.
    pub fn is_ended(self) -> bool {
        match self {
            CallState::Pending | CallState::Processing => false,
            CallState::Completed | CallState::Failed | CallState::Expired => true,
        }
    }

    /// The number that databases store.
    pub fn code(self) -> i16 {
        match self {
            CallState::Pending => 0,
            CallState::Processing => 1,
            CallState::Completed => 2,
            CallState::Failed => 3,
            CallState::Expired => 4,
        }
    }

    /// The state with that number.
    pub fn from_code(code: i16) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.code() == code)
    }

    /// The word people read.
    pub fn as_str(self) -> &'static str {
        match self {
            CallState::Pending => "pending",
            CallState::Processing => "processing",
            CallState::Completed => "completed",
            CallState::Failed => "failed",
            CallState::Expired => "expired",
        }
    }
}

impl fmt::Display for CallState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for CallState {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let found = CallState::ALL.into_iter().find(|state| state.as_str() == word);
        found.ok_or_else(|| format!("{word:?} is not the state of a call"))
    }
}

/// The error of a call whose time was over while it waited.
pub const EXPIRED: &str = "expired: its time was over before it had an answer";

/// Between [`EXPIRED`] and what went wrong the last time.
pub const LAST_ERROR: &str = "; the last error was: ";

/// The error of a call that was cancelled.
pub const CANCELLED: &str = "cancelled";

/// The error of a call whose time was over while it waited, with what went wrong the last time.
pub fn expired_error(last: Option<&str>) -> String {
    match last {
        Some(last) => format!("{EXPIRED}{LAST_ERROR}{last}"),
        None => EXPIRED.to_owned(),
    }
}

/// The error of a call that was cancelled, for that reason.
pub fn cancelled_error(reason: Option<&str>) -> String {
    match reason {
        Some(reason) => format!("{CANCELLED}: {reason}"),
        None => CANCELLED.to_owned(),
    }
}

/// What becomes of a call whose instance died while it ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CrashPolicy {
    /// It runs again: right for effects that commit with the reply.
    #[default]
    Retry,
    /// It has failed: right for effects outside that must not happen twice. A mark is stored before it
    /// begins.
    Fail,
}

impl CrashPolicy {
    /// The word that databases store.
    pub fn as_str(self) -> &'static str {
        match self {
            CrashPolicy::Retry => "retry",
            CrashPolicy::Fail => "fail",
        }
    }
}

impl FromStr for CrashPolicy {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        match word {
            "retry" => Ok(CrashPolicy::Retry),
            "fail" => Ok(CrashPolicy::Fail),
            _ => Err(format!("{word:?} is not a crash policy: retry or fail")),
        }
    }
}

/// The stream of an object's calls: `type/id`. A type has no slash, so that every stream names one
/// object only.
pub fn object_stream(object_type: &str, object_id: &str) -> Result<Stream, BadName> {
    let bad = |what: &'static str, name: &str| BadName { what, name: name.to_owned() };
    if object_type.is_empty() || object_type.contains('/') {
        return Err(bad("object type (without a slash)", object_type));
    }
    if object_id.is_empty() || object_type.len() + object_id.len() >= NAME_BYTES_MAX {
        return Err(bad("object id (together with its type)", object_id));
    }
    Stream::new(format!("{object_type}/{object_id}"))
}

/// What tells a repeated call from another one under the same id: SHA-256 over object, method and
/// arguments, with a zero byte after the first two.
pub fn call_hash(object: &Stream, method: &str, args: &[u8]) -> [u8; 32] {
    let mut hasher = Sha256::new();
    hasher.update(object.as_str().as_bytes());
    hasher.update([0]);
    hasher.update(method.as_bytes());
    hasher.update([0]);
    hasher.update(args);
    hasher.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_never_replaced() {
        for state in CallState::ALL.into_iter().filter(|state| state.is_ended()) {
            for event in [
                CallEvent::Started,
                CallEvent::Returned,
                CallEvent::Replied,
                CallEvent::GaveUp,
                CallEvent::Expired,
                CallEvent::Cancelled,
            ] {
                assert_eq!(state.apply(event), Err(CallRefused { from: state, event }));
            }
            assert_eq!(state.apply(CallEvent::Forgotten), Ok(CallState::Expired));
            assert_eq!(state.apply(CallEvent::Seen), Ok(state), "it was said late");
        }
    }

    #[test]
    fn a_call_on_its_way_may_be_tried_again_and_answered() {
        for state in [CallState::Pending, CallState::Processing] {
            assert_eq!(state.apply(CallEvent::Started), Ok(CallState::Processing));
            assert_eq!(state.apply(CallEvent::Seen), Ok(CallState::Processing));
            assert_eq!(state.apply(CallEvent::Returned), Ok(CallState::Pending));
            assert_eq!(state.apply(CallEvent::Replied), Ok(CallState::Completed));
            assert_eq!(state.apply(CallEvent::GaveUp), Ok(CallState::Failed));
            assert_eq!(state.apply(CallEvent::Cancelled), Ok(CallState::Failed));
            assert!(state.apply(CallEvent::Forgotten).is_err());
        }
    }

    #[test]
    fn only_a_call_that_waits_expires() {
        assert_eq!(CallState::Pending.apply(CallEvent::Expired), Ok(CallState::Failed));
        assert!(CallState::Processing.apply(CallEvent::Expired).is_err());
        assert!(expired_error(Some("no route")).ends_with("; the last error was: no route"));
        assert_eq!(cancelled_error(Some("a typo")), "cancelled: a typo");
    }

    #[test]
    fn a_refusal_says_what_was_to_happen() {
        let refused = CallState::Completed.apply(CallEvent::GaveUp).unwrap_err();
        assert_eq!(refused.to_string(), "a completed call cannot be given up on");
    }

    #[test]
    fn an_object_has_a_stream_of_its_own() {
        assert_eq!(object_stream("wallet", "a/b").unwrap().as_str(), "wallet/a/b");
        for (object_type, id) in [("", "1"), ("a/b", "1"), ("wallet", ""), ("wallet", "\n")] {
            assert!(object_stream(object_type, id).is_err(), "{object_type:?} {id:?}");
        }
        assert!(object_stream("wallet", &"x".repeat(NAME_BYTES_MAX)).is_err());
    }
}
