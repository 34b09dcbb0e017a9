//! Retry policy: turns a failed try into "again at" or "give up".
//!
//! Holds throughout: no line is tried more often than its class allows, no delay is longer than the
//! policy's longest, and a target's `Retry-After` is never undercut (within that bound). Messages have
//! [`GiveUpPolicy`] besides: a target that is away costs them no tries, only time.

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

/// How long messages and calls wait for a target that is away: one that is not reached, or that says
/// it is not ready. Such tries do not count.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GiveUpPolicy {
    /// One that was sent longer ago than that is given up on, once its target has been away for a
    /// while: a twenty-fourth of the same time.
    pub give_up_secs: u64,
    /// Longest wait between two tries, unless the target asks for a longer one.
    pub backoff_ms_max: u64,
}

impl Default for GiveUpPolicy {
    fn default() -> Self {
        Self { give_up_secs: 24 * 60 * 60, backoff_ms_max: 15_000 }
    }
}

impl GiveUpPolicy {
    /// Whether that is enough. `away` is for how long its own tries have met nobody: a message that is
    /// old for another reason (it was to be sent late, or stood behind others) is not given up on at
    /// the first trouble.
    pub fn is_over(&self, age: Duration, away: Duration) -> bool {
        let enough = Duration::from_secs(self.give_up_secs);
        age >= enough && away >= enough / 24
    }

    /// The wait before the next try of one whose target has been `away` for so long: about as long
    /// again, from the policy's first wait to the longest of this, with jitter in its upper half. What
    /// the target asked for comes on top, and only the policy's longest wait bounds the two.
    pub fn delay(
        &self,
        policy: &Policy,
        away: Duration,
        retry_after: Option<Duration>,
        roll: f64,
    ) -> Duration {
        let [least, most, longest] =
            [policy.backoff_ms_min, self.backoff_ms_max, policy.backoff_ms_max]
                .map(Duration::from_millis);
        let ceiling = away.max(least).min(most).min(longest);
        let roll = if roll.is_nan() { 0.0 } else { roll.clamp(0.0, 1.0) };
        // Large numbers are rounded on the way through a fraction.
        let jittered = (ceiling / 2).saturating_add((ceiling / 2).mul_f64(roll)).min(ceiling);
        jittered.saturating_add(retry_after.unwrap_or_default()).min(longest)
    }
}
