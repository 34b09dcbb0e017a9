//! The breaker: a target that only fails is left alone, then tried with a probe.
//!
//! Holds throughout: while it is open nothing starts; while it is half-open at most `probes` do, and
//! one that is neither reported nor released is still out. Answers of requests that were in flight
//! when it opened change nothing.

use std::collections::VecDeque;

/// Most samples that are kept, whatever the configuration says.
const WINDOW_MAX: u32 = 4_096;

/// When a breaker opens, and for how long.
#[derive(Clone, Debug, PartialEq)]
pub struct Bounds {
    /// This many failures in a row open it, at least 1.
    pub failures_max: u32,
    /// This share of failures in a full window opens it.
    pub ratio: f64,
    /// How many of the last samples the share is taken of; 0 for none.
    pub window: u32,
    /// How long it stays open at first; doubles with each probe that failed.
    pub open_ms_min: u64,
    /// Longest time it stays open.
    pub open_ms_max: u64,
    /// Most probes at once, at least 1.
    pub probes: u32,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            failures_max: 10,
            ratio: 0.9,
            window: 50,
            open_ms_min: 1_000,
            open_ms_max: 30_000,
            probes: 1,
        }
    }
}

/// What the breaker lets through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerState {
    /// Every request may start.
    Closed,
    /// No request may start.
    Open {
        /// When probes may start, in milliseconds of the caller's clock.
        until_ms: u64,
    },
    /// Only probes may start.
    HalfOpen,
}

impl BreakerState {
    /// The word that people and `--json` read.
    pub fn as_str(self) -> &'static str {
        match self {
            BreakerState::Closed => "closed",
            BreakerState::Open { .. } => "open",
            BreakerState::HalfOpen => "half-open",
        }
    }
}

/// Whether a request may start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permit {
    /// It may start.
    Yes,
    /// It may start as a probe, which decides for the others: the caller reports its outcome or
    /// releases it.
    Probe,
    /// It may not start.
    No {
        /// When to ask again, unless a probe reports before.
        until_ms: u64,
    },
}

/// The breaker of one target.
#[derive(Clone, Debug)]
pub struct Breaker {
    bounds: Bounds,
    /// None while it is closed.
    open_until_ms: Option<u64>,
    /// How long it was open last, since it was closed.
    open_ms: u64,
    closed_ms: u64,
    probes_out: u32,
    failures: u32,
    /// The last samples: whether each failed.
    window: VecDeque<bool>,
    window_failures: u32,
}

impl Breaker {
    /// A closed breaker.
    pub fn new(mut bounds: Bounds) -> Self {
        bounds.failures_max = bounds.failures_max.max(1);
        bounds.probes = bounds.probes.max(1);
        bounds.window = bounds.window.min(WINDOW_MAX);
        bounds.open_ms_min = bounds.open_ms_min.max(1).min(bounds.open_ms_max.max(1));
        Self {
            bounds,
            open_until_ms: None,
            open_ms: 0,
            closed_ms: 0,
            probes_out: 0,
            failures: 0,
            window: VecDeque::new(),
            window_failures: 0,
        }
    }

    /// What it lets through at that time.
    pub fn state(&self, now_ms: u64) -> BreakerState {
        match self.open_until_ms {
            None => BreakerState::Closed,
            Some(until_ms) if now_ms < until_ms => BreakerState::Open { until_ms },
            Some(_) => BreakerState::HalfOpen,
        }
    }

    /// The share of failures among the last samples, of as many as the window has room for: a few say little.
    pub fn failing(&self) -> f64 {
        f64::from(self.window_failures) / f64::from(self.bounds.window.max(1))
    }

    /// Until when it is open, then half-open; none while it is closed.
    pub fn open_until_ms(&self) -> Option<u64> {
        self.open_until_ms
    }

    /// Opens it for a reason that no sample shows; one that is open stays as it is.
    pub fn trip(&mut self, now_ms: u64) {
        if self.open_until_ms.is_none() {
            self.open(now_ms);
        }
    }

    /// Asks for one request.
    pub fn may_start(&mut self, now_ms: u64) -> Permit {
        match self.state(now_ms) {
            BreakerState::Closed => Permit::Yes,
            BreakerState::Open { until_ms } => Permit::No { until_ms },
            BreakerState::HalfOpen if self.probes_out < self.bounds.probes => {
                self.probes_out += 1;
                Permit::Probe
            }
            BreakerState::HalfOpen => {
                Permit::No { until_ms: now_ms.saturating_add(self.bounds.open_ms_min) }
            }
        }
    }

    /// A probe was given back unused.
    pub fn release_probe(&mut self) {
        self.probes_out = self.probes_out.saturating_sub(1);
    }

    /// A request ended. `probe` as its permit said.
    pub fn observe(&mut self, now_ms: u64, ok: bool, probe: bool) {
        self.observe_started(now_ms, now_ms, ok, probe);
    }

    /// The same, and one that started before the breaker last closed changes nothing: what hung in
    /// the bad time does not open it again in the good one.
    pub fn observe_started(&mut self, started_ms: u64, now_ms: u64, ok: bool, probe: bool) {
        if probe {
            self.release_probe();
        }
        match (self.open_until_ms, probe) {
            (None, _) if started_ms < self.closed_ms => {}
            (None, _) => self.count(now_ms, ok),
            (Some(_), true) if ok => self.close(now_ms),
            // A second probe that fails while it is open again says nothing new.
            (Some(until_ms), true) if now_ms >= until_ms => self.open(now_ms),
            (Some(_), _) => {}
        }
    }

    /// A probe got an answer, and a bad one: the target lives but is not well, or the line itself is
    /// to blame. It stays open for as long as the last time: not longer, so that a few bad lines at a
    /// batch's end do not hold it up; not shorter, since nothing got better.
    pub fn probe_answered_badly(&mut self, now_ms: u64) {
        self.release_probe();
        if self.open_until_ms.is_some_and(|until_ms| now_ms >= until_ms) {
            self.open_until_ms = Some(now_ms.saturating_add(self.open_ms));
        }
    }

    fn count(&mut self, now_ms: u64, ok: bool) {
        self.failures = if ok { 0 } else { self.failures.saturating_add(1) };
        self.window.push_back(!ok);
        self.window_failures += u32::from(!ok);
        while self.window.len() > self.bounds.window as usize {
            self.window_failures -= u32::from(self.window.pop_front() == Some(true));
        }
        if !ok && (self.failures >= self.bounds.failures_max || self.is_window_bad()) {
            self.open(now_ms);
        }
    }

    fn is_window_bad(&self) -> bool {
        let size = self.bounds.window;
        size > 0
            && self.window.len() == size as usize
            && f64::from(self.window_failures) >= f64::from(size) * self.bounds.ratio
    }

    fn open(&mut self, now_ms: u64) {
        let doubled = self.open_ms.saturating_mul(2);
        self.open_ms = doubled.min(self.bounds.open_ms_max).max(self.bounds.open_ms_min);
        self.open_until_ms = Some(now_ms.saturating_add(self.open_ms));
    }

    fn close(&mut self, now_ms: u64) {
        self.open_until_ms = None;
        self.open_ms = 0;
        self.closed_ms = now_ms;
        self.failures = 0;
        self.window.clear();
        self.window_failures = 0;
    }
}
