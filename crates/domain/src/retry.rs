//! Retry policy: turns a failed attempt into "again at" or "give up".
//!
//! Holds throughout: no line is tried more often than its class allows, no delay is longer than the
//! policy's longest, and a target's `Retry-After` is never undercut (within that bound). An attempt that
//! was throttled is not one of those that a line has, so no line fails of it. Messages have
//! [`GiveUpPolicy`] besides: a target that is unavailable costs them no attempts, only time.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::attempt::{Class, Failure, Status};

/// How often a line is asked for that the target says it does not have, unless it is configured.
pub const NOT_FOUND_ATTEMPTS: u32 = 2;

/// How often and how soon to try again. Bounds, not constants: all of it is configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// Most attempts of a line.
    pub attempts_max: u32,
    /// Most attempts of a line that the target says it does not have; of a row, most strategies that a
    /// generation asks. None for [`NOT_FOUND_ATTEMPTS`] of a line, and for all strategies of a row.
    pub attempts_not_found_max: Option<u32>,
    /// Longest wait before the second attempt after an error of the target; doubles with each further one.
    pub backoff_ms_min: u64,
    /// The same after a timeout or a failed connection: the target needs time rather than another try.
    pub backoff_timeout_ms_min: u64,
    /// The same after an answer that is not acceptable.
    pub backoff_unacceptable_ms_min: u64,
    /// The wait before the second attempt of a line that the target says it does not have: what is to appear needs time.
    pub backoff_not_found_ms_min: u64,
    /// Longest wait there is, also for a `Retry-After`.
    pub backoff_ms_max: u64,
    /// Longest wait of a line that was throttled, beyond what the target asked for: the pace of its host
    /// spaces the attempts, so the line itself has to be there when the host is well again.
    pub backoff_throttled_ms_max: u64,
}

/// What one target has in place of the engine's policy; where it says nothing, the engine's holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overrides {
    /// See [`Policy::attempts_max`].
    pub attempts_max: Option<u32>,
    /// See [`Policy::attempts_not_found_max`].
    pub attempts_not_found_max: Option<u32>,
    /// See [`Policy::backoff_ms_min`].
    pub backoff_ms_min: Option<u64>,
    /// See [`Policy::backoff_timeout_ms_min`].
    pub backoff_timeout_ms_min: Option<u64>,
    /// See [`Policy::backoff_unacceptable_ms_min`].
    pub backoff_unacceptable_ms_min: Option<u64>,
    /// See [`Policy::backoff_not_found_ms_min`].
    pub backoff_not_found_ms_min: Option<u64>,
    /// See [`Policy::backoff_ms_max`].
    pub backoff_ms_max: Option<u64>,
    /// See [`Policy::backoff_throttled_ms_max`].
    pub backoff_throttled_ms_max: Option<u64>,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            attempts_max: 5,
            attempts_not_found_max: None,
            backoff_ms_min: 500,
            backoff_timeout_ms_min: 1_000,
            backoff_unacceptable_ms_min: 1_000,
            backoff_not_found_ms_min: 60_000,
            backoff_ms_max: 300_000,
            backoff_throttled_ms_max: 5_000,
        }
    }
}

/// What to do with a line whose attempt failed.
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
    /// The policy of a target that has bounds of its own.
    #[must_use]
    pub fn with(&self, own: &Overrides) -> Self {
        Self {
            attempts_max: own.attempts_max.unwrap_or(self.attempts_max),
            attempts_not_found_max: own.attempts_not_found_max.or(self.attempts_not_found_max),
            backoff_ms_min: own.backoff_ms_min.unwrap_or(self.backoff_ms_min),
            backoff_timeout_ms_min: own
                .backoff_timeout_ms_min
                .unwrap_or(self.backoff_timeout_ms_min),
            backoff_unacceptable_ms_min: own
                .backoff_unacceptable_ms_min
                .unwrap_or(self.backoff_unacceptable_ms_min),
            backoff_not_found_ms_min: own
                .backoff_not_found_ms_min
                .unwrap_or(self.backoff_not_found_ms_min),
            backoff_ms_max: own.backoff_ms_max.unwrap_or(self.backoff_ms_max),
            backoff_throttled_ms_max: own
                .backoff_throttled_ms_max
                .unwrap_or(self.backoff_throttled_ms_max),
        }
    }

    /// Most attempts of a line whose last failure was of that class; no bound where they do not count.
    pub fn attempts_max(&self, class: Class) -> u32 {
        match class {
            Class::Throttled => u32::MAX,
            Class::Server | Class::Network => self.attempts_max,
            Class::Timeout | Class::Unacceptable => self.attempts_max,
            Class::NotFound => self.not_found_attempts().min(self.attempts_max),
            Class::Permanent | Class::Reprocessed => 1,
        }
    }

    /// Most attempts of a line without strategies that the target says it does not have.
    pub fn not_found_attempts(&self) -> u32 {
        self.attempts_not_found_max.unwrap_or(NOT_FOUND_ATTEMPTS)
    }

    /// Longest backoff after a failure of that class.
    pub fn backoff_ms_max(&self, class: Class) -> u64 {
        match class {
            Class::Throttled => self.backoff_throttled_ms_max.min(self.backoff_ms_max),
            Class::Server | Class::Network | Class::Timeout | Class::Unacceptable => {
                self.backoff_ms_max
            }
            Class::NotFound | Class::Permanent | Class::Reprocessed => self.backoff_ms_max,
        }
    }

    /// The first backoff after a failure of that class.
    pub fn backoff_ms_min(&self, class: Class) -> u64 {
        match class {
            Class::Throttled | Class::Server => self.backoff_ms_min,
            Class::Network | Class::Timeout => self.backoff_timeout_ms_min,
            Class::Unacceptable => self.backoff_unacceptable_ms_min,
            Class::NotFound => self.backoff_not_found_ms_min,
            Class::Permanent | Class::Reprocessed => self.backoff_ms_min,
        }
    }

    /// Decides after attempt number `attempt` (1 is the first) failed at `now`, with the same first wait for every
    /// class. `roll` is a random number in `0.0..1.0`: the delay is exponential with full jitter.
    pub fn decide(&self, attempt: u32, failure: &Failure, now: Timestamp, roll: f64) -> Decision {
        if let Some(status) = self.gives_up(attempt, failure.class) {
            return Decision::GiveUp(status);
        }
        let ceiling = doubled(self.backoff_ms_min, attempt, self.backoff_ms_max(failure.class));
        let wait = Duration::from_millis(ceiling).mul_f64(jitter(roll));
        self.again(now, wait, failure)
    }

    /// Decides for a line: its class has a first wait of its own, and the wait grows with the share of failures among
    /// the target's last answers (`failing`, in `0.0..=1.0`), up to [`SPREAD_MAX`] times as long, within the bounds. A
    /// target that throttles is spaced by its pace instead, and what it does not have says nothing about its
    /// health.
    pub fn decide_amid(
        &self,
        attempt: u32,
        failure: &Failure,
        now: Timestamp,
        roll: f64,
        failing: f64,
    ) -> Decision {
        match self.gives_up(attempt, failure.class) {
            Some(status) => Decision::GiveUp(status),
            None => self.wait_amid(attempt, failure, now, roll, failing),
        }
    }

    /// The same for a line of which somebody else has decided that it is tried again.
    pub fn wait_amid(
        &self,
        attempt: u32,
        failure: &Failure,
        now: Timestamp,
        roll: f64,
        failing: f64,
    ) -> Decision {
        let class = failure.class;
        let (least, most) = (self.backoff_ms_min(class), self.backoff_ms_max(class));
        let ceiling = Duration::from_millis(doubled(least, attempt, most));
        let wait = match class {
            // It waits its time: the jitter only keeps lines from coming back together.
            Class::NotFound => ceiling.saturating_add((ceiling / 10).mul_f64(jitter(roll))),
            Class::Server | Class::Network | Class::Timeout | Class::Unacceptable => {
                let spread = ceiling.mul_f64(spread(failing)).min(Duration::from_millis(most));
                spread.mul_f64(jitter(roll))
            }
            Class::Throttled | Class::Permanent | Class::Reprocessed => {
                ceiling.mul_f64(jitter(roll))
            }
        };
        self.again(now, wait, failure)
    }

    /// The status of a line that has had all its attempts.
    fn gives_up(&self, attempt: u32, class: Class) -> Option<Status> {
        (attempt >= self.attempts_max(class)).then_some(match class {
            Class::NotFound => Status::NotFound,
            Class::Throttled | Class::Server | Class::Network => Status::Failed,
            Class::Timeout | Class::Unacceptable => Status::Failed,
            Class::Permanent | Class::Reprocessed => Status::Failed,
        })
    }

    fn again(&self, now: Timestamp, backoff: Duration, failure: &Failure) -> Decision {
        let delay = self.bounded(backoff, failure.retry_after);
        Decision::Again { not_before: now.checked_add(delay).unwrap_or(Timestamp::MAX) }
    }

    /// The wait after attempt number `attempt`: what the target asked for, plus a jittered backoff.
    pub fn delay(&self, attempt: u32, retry_after: Option<Duration>, roll: f64) -> Duration {
        let ceiling = doubled(self.backoff_ms_min, attempt, self.backoff_ms_max);
        self.bounded(Duration::from_millis(ceiling).mul_f64(jitter(roll)), retry_after)
    }

    fn bounded(&self, backoff: Duration, retry_after: Option<Duration>) -> Duration {
        let wanted = retry_after.unwrap_or_default().saturating_add(backoff);
        wanted.min(Duration::from_millis(self.backoff_ms_max))
    }
}

/// The backoff of attempt number `attempt`, before its jitter.
fn doubled(ms_min: u64, attempt: u32, ms_max: u64) -> u64 {
    let doublings = attempt.saturating_sub(1).min(32);
    ms_min.saturating_mul(1 << doublings).min(ms_max)
}

/// A roll as a share; one that is no number would make a duration that is none.
fn jitter(roll: f64) -> f64 {
    if roll.is_nan() { 0.0 } else { roll.clamp(0.0, 1.0) }
}

/// By how much waits grow when all of a target's last answers were failures.
pub const SPREAD_MAX: u32 = 10;

/// By how much waits grow amid that share of failures.
fn spread(failing: f64) -> f64 {
    let failing = if failing.is_nan() { 0.0 } else { failing.clamp(0.0, 1.0) };
    1.0 + f64::from(SPREAD_MAX - 1) * failing
}

/// How long messages and calls wait for a target that is unavailable: one that is not reached, or
/// that says it is not ready. Such attempts do not count.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GiveUpPolicy {
    /// One that was sent longer ago than that is given up on, once its own attempts have found the
    /// target unavailable for a twenty-fourth of the same time.
    pub give_up_secs: u64,
    /// Longest wait between two attempts, unless the target asks for a longer one.
    pub backoff_ms_max: u64,
}

impl Default for GiveUpPolicy {
    fn default() -> Self {
        Self { give_up_secs: 24 * 60 * 60, backoff_ms_max: 15_000 }
    }
}

impl GiveUpPolicy {
    /// Whether a message of that age is given up on. `unavailable` is for how long its own attempts
    /// have found the target unavailable: a message that is old for another reason (it was to be
    /// sent late, or stood behind others) is not given up on at the first trouble.
    pub fn is_over(&self, age: Duration, unavailable: Duration) -> bool {
        let enough = Duration::from_secs(self.give_up_secs);
        age >= enough && unavailable >= enough / 24
    }

    /// The wait before the next attempt of a message whose target has been `unavailable` for so
    /// long: about as long again, from the policy's first wait to the longest of this, with jitter
    /// in its upper half. What the target asked for comes on top, and only the policy's longest
    /// wait bounds the two.
    pub fn delay(
        &self,
        policy: &Policy,
        unavailable: Duration,
        retry_after: Option<Duration>,
        roll: f64,
    ) -> Duration {
        let [least, most, longest] =
            [policy.backoff_ms_min, self.backoff_ms_max, policy.backoff_ms_max]
                .map(Duration::from_millis);
        let ceiling = unavailable.max(least).min(most).min(longest);
        let roll = if roll.is_nan() { 0.0 } else { roll.clamp(0.0, 1.0) };
        // Large numbers are rounded on the way through a fraction.
        let jittered = (ceiling / 2).saturating_add((ceiling / 2).mul_f64(roll)).min(ceiling);
        jittered.saturating_add(retry_after.unwrap_or_default()).min(longest)
    }
}
