//! Pace: when the next request to a host may start.
//!
//! Holds throughout: never more than `burst` at once and `per_sec_max` after it, to the millisecond;
//! nothing before the time the host asked to wait for; while the host throttles, a delay between any
//! two starts. A delay that grew while nothing else was answered says how long that lasted, not which
//! pace the host bears: the first good answer takes it back to one doubling of what was before.

use super::{is_amount, real, whole_ms};
use crate::attempt::{Class, Failure};

/// What a good answer leaves of the delay.
const DECAY: f64 = 0.9;
/// A delay below this is none: time comes in milliseconds.
const DELAY_MS_LEAST: f64 = 1.0;

/// The rate of a host, and the delays of one that throttles.
#[derive(Clone, Debug, PartialEq)]
pub struct Bounds {
    /// Most starts per second; none for as many as there are.
    pub per_sec_max: Option<f64>,
    /// Most starts at once, at least 1.
    pub burst: u32,
    /// The first delay of a host that throttles; doubles while it goes on.
    pub delay_ms_min: u64,
    /// Longest delay.
    pub delay_ms_max: u64,
    /// The delay doubles at most once in this time, or in its own length if that is longer.
    pub delay_window_ms: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            per_sec_max: None,
            burst: 1,
            delay_ms_min: 2,
            delay_ms_max: 5_000,
            delay_window_ms: 500,
        }
    }
}

/// Paces the requests of one host.
#[derive(Clone, Debug)]
pub struct Pace {
    /// Time that one start uses up; none without a rate.
    interval_ms: Option<f64>,
    /// How far ahead of the rate a burst may be.
    ahead_ms: f64,
    delay_ms_min: f64,
    delay_ms_max: f64,
    delay_window_ms: u64,
    /// When everything that started is used up, at the rate.
    spent_ms: f64,
    hold_ms: u64,
    delay_ms: f64,
    /// The end of the delay after the last start.
    delayed_ms: f64,
    /// The delay does not double before.
    doubles_ms: u64,
    /// The delay before the first doubling since the last good answer.
    calm_ms: f64,
    /// Doublings since the last good answer.
    doublings: u32,
}

impl Pace {
    /// Lets the first ones start.
    pub fn new(bounds: Bounds) -> Self {
        let rate = bounds.per_sec_max.filter(|rate| is_amount(*rate) && *rate > 0.0);
        let interval_ms = rate.map(|rate| 1_000.0 / rate);
        let ahead = f64::from(bounds.burst.max(1)) - 1.0;
        let delay_ms_max = real(bounds.delay_ms_max);
        Self {
            interval_ms,
            ahead_ms: interval_ms.map_or(0.0, |interval| interval * ahead),
            delay_ms_min: real(bounds.delay_ms_min).max(DELAY_MS_LEAST).min(delay_ms_max),
            delay_ms_max,
            delay_window_ms: bounds.delay_window_ms,
            spent_ms: 0.0,
            hold_ms: 0,
            delay_ms: 0.0,
            delayed_ms: 0.0,
            doubles_ms: 0,
            calm_ms: 0.0,
            doublings: 0,
        }
    }

    /// Starts one now, or says when to ask again, which is later than now.
    pub fn next(&mut self, now_ms: u64) -> Result<(), u64> {
        let now = real(now_ms);
        let rate_ms = self.interval_ms.map_or(0.0, |_| self.spent_ms - self.ahead_ms);
        // Time ticks in milliseconds: what is due within this one may start, or each start would
        // lose the rest of its tick, and no rate above a thousand could be reached.
        let from_ms = whole_ms(rate_ms.max(self.delayed_ms).floor()).max(self.hold_ms);
        if from_ms > now_ms {
            return Err(from_ms);
        }
        if let Some(interval_ms) = self.interval_ms {
            self.spent_ms = self.spent_ms.max(now) + interval_ms;
        }
        if self.delay_ms >= DELAY_MS_LEAST {
            self.delayed_ms = now + self.delay_ms;
        }
        Ok(())
    }

    /// Nothing starts before, as the host asked. An earlier time does not shorten a longer wait.
    pub fn hold(&mut self, until_ms: u64) {
        self.hold_ms = self.hold_ms.max(until_ms);
    }

    /// The host said that it is too much.
    pub fn throttled(&mut self, now_ms: u64) {
        if now_ms < self.doubles_ms {
            return;
        }
        if self.doublings == 0 {
            self.calm_ms = self.delay_ms;
        }
        self.doublings = self.doublings.saturating_add(1);
        self.delay_ms = self.doubled(self.delay_ms);
        self.delayed_ms = self.delayed_ms.max(real(now_ms) + self.delay_ms);
        let window_ms = self.delay_window_ms.max(whole_ms(self.delay_ms));
        self.doubles_ms = now_ms.saturating_add(window_ms);
    }

    /// The host fails without a word about how long: it is slowed down a little, at most to this delay. A
    /// longer one that it has already stays.
    pub fn failing(&mut self, now_ms: u64, delay_ms_max: u64) {
        let usual = self.delay_ms_max;
        self.delay_ms_max = real(delay_ms_max).max(self.delay_ms).min(usual);
        self.throttled(now_ms);
        self.delay_ms_max = usual;
    }

    /// A request failed: a host that throttles is slowed down, and one that asked to wait is left alone
    /// that long, at most `hold_ms_max`.
    pub fn observe(&mut self, failure: &Failure, now_ms: u64, hold_ms_max: u64) {
        let throttled = failure.class == Class::Throttled;
        if throttled {
            self.throttled(now_ms);
        }
        if let Some(wait) =
            failure.retry_after.filter(|_| throttled || failure.class == Class::Server)
        {
            let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).min(hold_ms_max);
            self.hold(now_ms.saturating_add(wait_ms));
        }
    }

    /// The host gave a good answer.
    pub fn good(&mut self) {
        if std::mem::take(&mut self.doublings) > 1 {
            self.delay_ms = self.doubled(self.calm_ms).min(self.delay_ms);
            // The wait behind the last start was one of the bad time.
            self.delayed_ms = 0.0;
        }
        self.delay_ms *= DECAY;
        if self.delay_ms < DELAY_MS_LEAST {
            self.delay_ms = 0.0;
        }
    }

    fn doubled(&self, delay_ms: f64) -> f64 {
        (delay_ms * 2.0).max(self.delay_ms_min).min(self.delay_ms_max)
    }

    /// The delay between any two starts.
    pub fn delay_ms(&self) -> f64 {
        self.delay_ms
    }
}
