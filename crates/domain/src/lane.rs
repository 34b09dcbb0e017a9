//! A lane of a batch: how many of its lines are in which place, and when it is done.
//!
//! Holds throughout: the places add up to the lane's total. Pending and cancelled are derived from
//! these numbers and never counted by looking at rows.

use std::ops::{Add, AddAssign};

use serde::{Deserialize, Serialize};

use crate::State;

/// Most lanes one file may have.
pub const LANES_MAX: usize = 256;

/// What may happen to a lane's lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Lines may be claimed.
    Open,
    /// Nothing new is claimed.
    Paused,
    /// Nothing will be claimed again; it is done when nothing is leased.
    Stopping,
    /// No line will move any more.
    Done,
}

impl Phase {
    /// Every phase there is.
    pub const ALL: [Phase; 4] = [Phase::Open, Phase::Paused, Phase::Stopping, Phase::Done];

    /// The word that databases store.
    pub fn as_str(self) -> &'static str {
        match self {
            Phase::Open => "open",
            Phase::Paused => "paused",
            Phase::Stopping => "stopping",
            Phase::Done => "done",
        }
    }

    /// The phase of a lane that is not done, in a batch that stands so.
    pub fn of(state: State) -> Phase {
        match state {
            State::InProgress => Phase::Open,
            State::Paused => Phase::Paused,
            State::Cancelling | State::Expiring => Phase::Stopping,
            State::Finalizing(_) => Phase::Done,
            State::Completed | State::Failed | State::Cancelled | State::Expired => Phase::Done,
        }
    }
}

impl std::str::FromStr for Phase {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let found = Phase::ALL.into_iter().find(|phase| phase.as_str() == word);
        found.ok_or_else(|| format!("{word:?} is not a lane phase"))
    }
}

/// How many lines are in which place: of one lane, or summed over a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// All lines.
    pub total: u64,
    /// Beyond the cursor.
    pub untouched: u64,
    /// Came back, and wait for their time.
    pub returned: u64,
    /// Held by an instance.
    pub leased: u64,
    /// Finished: the target gave an acceptable answer.
    pub completed: u64,
    /// Finished with an error.
    pub failed: u64,
    /// Finished: the target has no such thing.
    pub not_found: u64,
    /// Finished without being tried.
    pub skipped: u64,
}

impl Counts {
    /// A lane of which no line was claimed yet.
    pub fn untouched(total: u64) -> Self {
        Self { total, untouched: total, ..Self::default() }
    }

    /// Lines with a result.
    pub fn finished(&self) -> u64 {
        self.completed + self.failed + self.not_found + self.skipped
    }

    /// Lines without a result.
    pub fn unfinished(&self) -> u64 {
        self.untouched + self.returned + self.leased
    }

    /// The four places add up to the total.
    pub fn adds_up(&self) -> bool {
        self.unfinished() + self.finished() == self.total
    }

    /// A lane is done when every line has a result, or when it is stopping and nothing is leased.
    pub fn is_done(&self, phase: Phase) -> bool {
        match phase {
            Phase::Open | Phase::Paused => self.finished() == self.total,
            Phase::Stopping => self.leased == 0,
            Phase::Done => true,
        }
    }
}

impl Add for Counts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            total: self.total + other.total,
            untouched: self.untouched + other.untouched,
            returned: self.returned + other.returned,
            leased: self.leased + other.leased,
            completed: self.completed + other.completed,
            failed: self.failed + other.failed,
            not_found: self.not_found + other.not_found,
            skipped: self.skipped + other.skipped,
        }
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl std::iter::Sum for Counts {
    fn sum<I: Iterator<Item = Self>>(counts: I) -> Self {
        counts.fold(Self::default(), Add::add)
    }
}
