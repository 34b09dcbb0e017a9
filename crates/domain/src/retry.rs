//! Retry policy: turns a failed try into "again at" or "give up".
//!
//! Holds throughout: no line is tried more often than its class allows, no delay is longer than the
//! policy's longest, and a target's `Retry-After` is never undercut (within that bound).

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::attempt::{Class, Failure, Status};

/// How often and how soon to try again. Bounds, not constants: all of it is configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// Most tries of a line.
    pub attempts_max: u32,
    /// Most tries of a line that the target says it does not have.
    pub attempts_not_found_max: u32,
    /// Longest wait before the second try; doubles with each further one.
    pub backoff_ms_min: u64,
    /// Longest wait there is, also for a `Retry-After`.
    pub backoff_ms_max: u64,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            attempts_max: 5,
            attempts_not_found_max: 2,
            backoff_ms_min: 500,
            backoff_ms_max: 300_000,
        }
    }
}

/// What to do with a line whose try failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Try again, not before that time.
    Again {
        /// When it may be claimed again.
        not_before: Timestamp,
    },
    /// Record this status; the line is finished.
    GiveUp(Status),
}

impl Policy {
    /// Most tries of a line whose last failure was of that class.
    pub fn attempts_max(&self, class: Class) -> u32 {
        match class {
            Class::Throttled | Class::Server | Class::Network => self.attempts_max,
            Class::Timeout | Class::Unacceptable => self.attempts_max,
            Class::NotFound => self.attempts_not_found_max.min(self.attempts_max),
            Class::Permanent | Class::Reprocessed => 1,
        }
    }

    /// Decides after try number `attempt` (1 is the first) failed at `now`. `roll` is a random
    /// number in `0.0..1.0`: the delay is exponential with full jitter.
    pub fn decide(&self, attempt: u32, failure: &Failure, now: Timestamp, roll: f64) -> Decision {
        if attempt >= self.attempts_max(failure.class) {
            return Decision::GiveUp(match failure.class {
                Class::NotFound => Status::NotFound,
                Class::Throttled | Class::Server | Class::Network => Status::Failed,
                Class::Timeout | Class::Unacceptable => Status::Failed,
                Class::Permanent | Class::Reprocessed => Status::Failed,
            });
        }
        let delay = self.delay(attempt, failure.retry_after, roll);
        Decision::Again { not_before: now.checked_add(delay).unwrap_or(Timestamp::MAX) }
    }

    /// The wait after try number `attempt`: what the target asked for, plus a jittered backoff.
    pub fn delay(&self, attempt: u32, retry_after: Option<Duration>, roll: f64) -> Duration {
        let doublings = attempt.saturating_sub(1).min(32);
        let ceiling = self.backoff_ms_min.saturating_mul(1 << doublings).min(self.backoff_ms_max);
        // A roll that is no number would make a duration that is none.
        let roll = if roll.is_nan() { 0.0 } else { roll.clamp(0.0, 1.0) };
        let jittered = Duration::from_millis(ceiling).mul_f64(roll);
        let wanted = retry_after.unwrap_or_default().saturating_add(jittered);
        wanted.min(Duration::from_millis(self.backoff_ms_max))
    }
}
