//! A batch's states and the events that move it from one to the next.
//!
//! Holds throughout: `apply` is total, and repeating a command that already took effect changes
//! nothing, so a caller whose reply was lost may simply ask again.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// How a batch that is being finalised will end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// Every line has a result.
    Completed,
    /// It was cancelled; lines that never ran say so.
    Cancelled,
    /// Its deadline passed; lines that never ran say so.
    Expired,
}

/// Where a batch stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum State {
    /// Its lines may be claimed.
    InProgress,
    /// Nothing new is claimed; what is leased may finish.
    Paused,
    /// Cancelled, and waiting for what is leased.
    Cancelling,
    /// Past its deadline, and waiting for what is leased.
    Expiring,
    /// No line will move any more; outputs are being written.
    Finalizing(Ending),
    /// Closed; every line has a result.
    Completed,
    /// Closed before it began: its file does not validate.
    Failed,
    /// Closed after a cancel.
    Cancelled,
    /// Closed after its deadline.
    Expired,
}

/// What happens to a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// A person, a budget or a breaker paused it.
    Paused,
    /// It was resumed.
    Resumed,
    /// It was cancelled.
    Cancelled,
    /// Its deadline passed.
    DeadlinePassed,
    /// Its last lane is done.
    LanesDone,
    /// Its summary was written.
    Closed,
    /// Finished lines were put back to run again.
    Reprocessed,
    /// It was stopped, and goes on: what never ran runs.
    Continued,
}

/// An event that the state does not allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Where the batch stood.
    pub from: State,
    /// What was asked of it.
    pub event: Event,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a batch that is {} cannot be {}", self.from, self.event.as_str())
    }
}

impl std::error::Error for Refused {}

/// The state after the event, or why there is none.
pub fn apply(from: State, event: Event) -> Result<State, Refused> {
    use State as S;
    let refused = Err(Refused { from, event });
    match event {
        Event::Paused => match from {
            S::InProgress | S::Paused => Ok(S::Paused),
            S::Cancelling | S::Expiring | S::Finalizing(_) => refused,
            S::Completed | S::Failed | S::Cancelled | S::Expired => refused,
        },
        Event::Resumed => match from {
            S::InProgress | S::Paused => Ok(S::InProgress),
            S::Cancelling | S::Expiring | S::Finalizing(_) => refused,
            S::Completed | S::Failed | S::Cancelled | S::Expired => refused,
        },
        Event::Cancelled => match from {
            S::InProgress | S::Paused | S::Cancelling => Ok(S::Cancelling),
            S::Finalizing(Ending::Cancelled) | S::Cancelled => Ok(from),
            S::Expiring | S::Finalizing(Ending::Completed | Ending::Expired) => refused,
            S::Completed | S::Failed | S::Expired => refused,
        },
        Event::DeadlinePassed => match from {
            S::InProgress | S::Paused | S::Expiring => Ok(S::Expiring),
            S::Finalizing(Ending::Expired) | S::Expired => Ok(from),
            S::Cancelling | S::Finalizing(Ending::Completed | Ending::Cancelled) => refused,
            S::Completed | S::Failed | S::Cancelled => refused,
        },
        Event::LanesDone => match from {
            S::InProgress | S::Paused => Ok(S::Finalizing(Ending::Completed)),
            S::Cancelling => Ok(S::Finalizing(Ending::Cancelled)),
            S::Expiring => Ok(S::Finalizing(Ending::Expired)),
            S::Finalizing(_) => refused,
            S::Completed | S::Failed | S::Cancelled | S::Expired => refused,
        },
        Event::Closed => match from {
            S::Finalizing(Ending::Completed) => Ok(S::Completed),
            S::Finalizing(Ending::Cancelled) => Ok(S::Cancelled),
            S::Finalizing(Ending::Expired) => Ok(S::Expired),
            S::InProgress | S::Paused | S::Cancelling | S::Expiring => refused,
            S::Completed | S::Failed | S::Cancelled | S::Expired => refused,
        },
        Event::Reprocessed => match from {
            S::InProgress | S::Finalizing(Ending::Completed) | S::Completed => Ok(S::InProgress),
            S::Paused => Ok(S::Paused),
            S::Cancelling | S::Expiring => refused,
            S::Finalizing(Ending::Cancelled | Ending::Expired) => refused,
            S::Failed | S::Cancelled | S::Expired => refused,
        },
        Event::Continued => match from {
            S::Cancelled | S::Expired => Ok(S::InProgress),
            S::InProgress | S::Paused | S::Cancelling | S::Expiring => refused,
            S::Finalizing(_) | S::Completed | S::Failed => refused,
        },
    }
}

impl State {
    /// Every state there is.
    pub const ALL: [State; 11] = [
        State::InProgress,
        State::Paused,
        State::Cancelling,
        State::Expiring,
        State::Finalizing(Ending::Completed),
        State::Finalizing(Ending::Cancelled),
        State::Finalizing(Ending::Expired),
        State::Completed,
        State::Failed,
        State::Cancelled,
        State::Expired,
    ];

    /// The word that databases store.
    pub fn as_str(self) -> &'static str {
        match self {
            State::InProgress => "in_progress",
            State::Paused => "paused",
            State::Cancelling => "cancelling",
            State::Expiring => "expiring",
            State::Finalizing(Ending::Completed) => "finalizing_completed",
            State::Finalizing(Ending::Cancelled) => "finalizing_cancelled",
            State::Finalizing(Ending::Expired) => "finalizing_expired",
            State::Completed => "completed",
            State::Failed => "failed",
            State::Cancelled => "cancelled",
            State::Expired => "expired",
        }
    }

    /// How it ended, or will end now that no line moves any more; none while lines may, and of one that
    /// never began.
    pub fn ending(self) -> Option<Ending> {
        match self {
            State::Completed => Some(Ending::Completed),
            State::Cancelled => Some(Ending::Cancelled),
            State::Expired => Some(Ending::Expired),
            State::Finalizing(ending) => Some(ending),
            State::InProgress | State::Paused | State::Cancelling | State::Expiring => None,
            State::Failed => None,
        }
    }

    /// Nothing will happen to it any more, unless it is reprocessed.
    pub fn is_closed(self) -> bool {
        match self {
            State::Completed | State::Failed | State::Cancelled | State::Expired => true,
            State::InProgress | State::Paused | State::Cancelling | State::Expiring => false,
            State::Finalizing(_) => false,
        }
    }

    /// Lines without a result may still get one.
    pub fn is_running(self) -> bool {
        match self {
            State::InProgress | State::Paused | State::Cancelling | State::Expiring => true,
            State::Completed | State::Failed | State::Cancelled | State::Expired => false,
            State::Finalizing(_) => false,
        }
    }
}

impl Event {
    /// Every event there is.
    pub const ALL: [Event; 8] = [
        Event::Paused,
        Event::Resumed,
        Event::Cancelled,
        Event::DeadlinePassed,
        Event::LanesDone,
        Event::Closed,
        Event::Reprocessed,
        Event::Continued,
    ];

    /// The event as a past participle, for messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Event::Paused => "paused",
            Event::Resumed => "resumed",
            Event::Cancelled => "cancelled",
            Event::DeadlinePassed => "expired",
            Event::LanesDone => "finalised",
            Event::Closed => "closed",
            Event::Reprocessed => "reprocessed",
            Event::Continued => "continued",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A word that names no state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownState(pub String);

impl fmt::Display for UnknownState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not a batch state", self.0)
    }
}

impl std::error::Error for UnknownState {}

impl FromStr for State {
    type Err = UnknownState;

    fn from_str(word: &str) -> Result<Self, UnknownState> {
        let found = State::ALL.into_iter().find(|state| state.as_str() == word);
        found.ok_or_else(|| UnknownState(word.to_owned()))
    }
}

impl TryFrom<String> for State {
    type Error = UnknownState;

    fn try_from(word: String) -> Result<Self, UnknownState> {
        word.parse()
    }
}

impl From<State> for String {
    fn from(state: State) -> String {
        state.as_str().to_owned()
    }
}
