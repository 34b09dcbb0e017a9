//! How many requests a target gets at once: additive increase, multiplicative decrease.
//!
//! Holds throughout: the limit doubles until the first congestion and then grows by one; it grows
//! only while it is used, and shrinks once for all the requests that met the same congestion. After a
//! time in which nothing got through at all, it doubles again up to half of what it was before.
//! Absent on purpose: latency as a sign of congestion. An answer may take as long as its content
//! asks for, so a slow one says nothing about the target.

use super::{real, whole};

/// The limit is really used from this share on.
const USED_MIN: f64 = 0.9;

/// Between which limits the controller moves, and how far a decrease goes.
#[derive(Clone, Debug, PartialEq)]
pub struct Bounds {
    /// Lowest limit, at least 1.
    pub min: u32,
    /// Highest limit.
    pub max: u32,
    /// The limit to start with.
    pub start: u32,
    /// What a decrease leaves of the limit.
    pub backoff: f64,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { min: 1, max: 64, start: 8, backoff: 0.5 }
    }
}

/// What an answer says about the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// It could do that much.
    Good,
    /// It had too much to do: 429, 5xx, a timeout.
    Congested,
    /// Nothing: the request itself was wrong, or it was given up.
    Neutral,
}

/// One finished request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// When it started.
    pub started_ms: u64,
    /// When it ended.
    pub now_ms: u64,
    /// The most requests that were in flight with it, itself included.
    pub in_flight: u32,
    /// What its answer says.
    pub load: Load,
}

/// Limits the requests in flight of one target.
#[derive(Clone, Debug)]
pub struct Concurrency {
    bounds: Bounds,
    limit: u32,
    /// Good answers under this limit.
    good: u32,
    /// No congestion was met yet.
    doubling: bool,
    decreased_ms: Option<u64>,
    /// The limit at the first decrease since the last good answer.
    before: Option<u32>,
    /// It doubles up to here.
    doubles_to: u32,
}

impl Concurrency {
    /// Starts within the bounds.
    pub fn new(mut bounds: Bounds) -> Self {
        bounds.min = bounds.min.max(1);
        bounds.max = bounds.max.max(bounds.min);
        let limit = bounds.start.clamp(bounds.min, bounds.max);
        Self {
            bounds,
            limit,
            good: 0,
            doubling: true,
            decreased_ms: None,
            before: None,
            doubles_to: 0,
        }
    }

    /// Most requests in flight.
    pub fn limit(&self) -> u32 {
        self.limit
    }

    /// Takes one finished request into account.
    pub fn observe(&mut self, sample: Sample) {
        // A request from before the decrease met the old limit. In the same millisecond it is
        // unknown which came first; one sample too few is cheaper than a second decrease.
        if self.decreased_ms.is_some_and(|decreased| sample.started_ms <= decreased) {
            return;
        }
        match sample.load {
            Load::Good => self.grow(sample.in_flight),
            Load::Congested => self.shrink(sample.now_ms),
            Load::Neutral => {}
        }
    }

    fn grow(&mut self, in_flight: u32) {
        if let Some(before) = self.before.take() {
            // Down at the least, the limit says how long nothing got through, not what the target bears.
            let all_failed = self.limit == self.bounds.min;
            self.doubles_to = if all_failed { self.decreased(before) } else { 0 };
        }
        if f64::from(in_flight) < f64::from(self.limit) * USED_MIN {
            return;
        }
        self.good += 1;
        if self.good >= self.limit {
            let step = match self.doubles_to.checked_sub(self.limit) {
                Some(room) if room > 0 && !self.doubling => self.limit.min(room),
                Some(_) | None if self.doubling => self.limit,
                Some(_) | None => 1,
            };
            self.limit = self.limit.saturating_add(step).min(self.bounds.max);
            self.good = 0;
        }
    }

    fn shrink(&mut self, now_ms: u64) {
        self.before.get_or_insert(self.limit);
        self.limit = self.decreased(self.limit);
        self.good = 0;
        self.doubling = false;
        self.decreased_ms = Some(now_ms);
    }

    fn decreased(&self, limit: u32) -> u32 {
        let left = whole(real(limit.into()) * self.bounds.backoff);
        // A backoff of 1 or more is none; at least one goes.
        left.min(limit.saturating_sub(1)).max(self.bounds.min)
    }
}
