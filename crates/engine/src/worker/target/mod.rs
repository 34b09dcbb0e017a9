//! The queue of one target: its leased lines that wait for their attempt or are in flight, and the
//! controllers (concurrency, breaker, claim size) that say how many may be.
//!
//! Holds throughout: `in_flight` never exceeds the controller's limit at the moment of a start; while
//! the breaker is open nothing starts and nothing waits here.

use std::collections::{HashMap, VecDeque};

use bytes::Bytes;
use windrow_domain::attempt::Class;
use windrow_domain::control::breaker::{Breaker, Permit, State};
use windrow_domain::control::concurrency::{Concurrency, Load, Sample};
use windrow_domain::control::slice::{self, Slice};
use windrow_domain::{BatchId, LaneNo, LeaseId, Target};

use crate::execute::{Attempt, Limits, Verdict};

/// Finished lines are shown to the slice controller in groups of this many…
const GROUP_LINES: u32 = 64;
/// …or after this long.
const GROUP_MS: u64 = 100;

/// Lines whose tries are spared at the same time; those of others count.
const SPARED_LINES_MAX: usize = 4_096;

/// A leased line that waits for its try.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) lease: LeaseId,
    pub(crate) batch: BatchId,
    pub(crate) lane: LaneNo,
    pub(crate) seq: u64,
    pub(crate) line: u64,
    pub(crate) raw: Bytes,
    pub(crate) attempt: u32,
    pub(crate) tried: u32,
    pub(crate) answered: u32,
}

impl Job {
    pub(crate) fn attempt(&self, target: &Target) -> Attempt {
        Attempt {
            batch: self.batch,
            target: target.clone(),
            lane: self.lane,
            line: self.line,
            raw: self.raw.clone(),
            number: self.attempt,
            tried: self.tried,
            answered: self.answered,
        }
    }
}

/// One target: the lines that this process has leased for it, and its controllers.
#[derive(Debug)]
pub(crate) struct TargetQueue {
    pub(crate) target: Target,
    /// Whose pace it shares.
    pub(crate) host: String,
    pub(crate) jobs: VecDeque<Job>,
    pub(crate) in_flight: u32,
    pub(crate) slice: Slice,
    /// When a claim may find something; none while nothing is known to wait.
    pub(crate) ready_ms: Option<u64>,
    /// Claims in a row that found nothing.
    pub(crate) empty_claims: u32,
    /// When something last happened here.
    pub(crate) touched_ms: u64,
    concurrency: Concurrency,
    breaker: Breaker,
    /// Since when the breaker has not been closed.
    open_since_ms: Option<u64>,
    /// Tries that were spared since then, by line.
    spared: HashMap<(BatchId, u64), u32>,
    attempts_max: u32,
    group: u32,
    group_since_ms: u64,
}

impl TargetQueue {
    /// `attempts_max` keeps the breaker ahead of the retries: a dead target opens it before its first
    /// line has used all its tries.
    pub(crate) fn new(
        target: Target,
        host: String,
        limits: Limits,
        bounds: slice::Bounds,
        attempts_max: u32,
        now_ms: u64,
    ) -> Self {
        let mut breaker = limits.breaker;
        breaker.failures_max = breaker.failures_max.min(attempts_max);
        Self {
            target,
            host,
            jobs: VecDeque::new(),
            in_flight: 0,
            slice: Slice::new(bounds),
            ready_ms: None,
            empty_claims: 0,
            touched_ms: now_ms,
            concurrency: Concurrency::new(limits.concurrency),
            breaker: Breaker::new(breaker),
            open_since_ms: None,
            spared: HashMap::new(),
            attempts_max,
            group: 0,
            group_since_ms: now_ms,
        }
    }

    /// Most lines in flight now.
    pub(crate) fn limit(&self) -> u32 {
        self.concurrency.limit()
    }

    /// What the breaker lets through.
    pub(crate) fn breaker(&self, now_ms: u64) -> State {
        self.breaker.state(now_ms)
    }

    /// How long the breaker has not been closed.
    pub(crate) fn open_ms(&self, now_ms: u64) -> u64 {
        self.open_since_ms.map_or(0, |since| now_ms.saturating_sub(since))
    }

    /// Whether a line may start: not at the limit, and the breaker lets it.
    pub(crate) fn may_start(&mut self, now_ms: u64) -> Permit {
        if self.in_flight >= self.limit() {
            return Permit::No { until_ms: u64::MAX };
        }
        self.breaker.may_start(now_ms)
    }

    /// The permit was not used.
    pub(crate) fn release(&mut self, permit: Permit) {
        if permit == Permit::Probe {
            self.breaker.release_probe();
        }
    }

    /// Nothing that waits or is in flight here is ours any more.
    pub(crate) fn forget(&mut self) {
        self.jobs.clear();
        for _ in 0..std::mem::take(&mut self.in_flight) {
            self.breaker.release_probe();
        }
    }

    /// A line was started.
    pub(crate) fn started(&mut self, now_ms: u64) {
        if self.in_flight == 0 {
            (self.group, self.group_since_ms) = (0, now_ms);
        }
        self.in_flight += 1;
        self.touched_ms = now_ms;
    }

    /// A line ended: tells the controllers.
    pub(crate) fn ended(&mut self, end: &AttemptEnd<'_>, now_ms: u64) {
        self.touched_ms = now_ms;
        let started_ms = end.started_ms;
        let (health, load) = signals(end);
        let sample = Sample { started_ms, now_ms, in_flight: self.in_flight, load };
        self.concurrency.observe(sample);
        self.in_flight = self.in_flight.saturating_sub(1);
        match health {
            TargetHealth::Healthy => {
                self.breaker.observe_started(started_ms, now_ms, true, end.probe);
            }
            TargetHealth::NotAsked if end.probe => self.breaker.release_probe(),
            TargetHealth::NotAsked => {}
            TargetHealth::Failing if end.probe => self.breaker.probe_answered_badly(now_ms),
            // A line that failed before says more about itself than about its target.
            TargetHealth::Failing if end.attempt > 1 => {}
            TargetHealth::Slow if end.attempt > 1 && !end.probe => {}
            TargetHealth::Failing
            | TargetHealth::Slow
            | TargetHealth::Absent
            | TargetHealth::Unreachable => {
                self.breaker.observe_started(started_ms, now_ms, false, end.probe);
            }
        }
        match self.breaker.state(now_ms) {
            State::Closed => {
                self.open_since_ms = None;
                self.spared.clear();
            }
            State::Open { .. } | State::HalfOpen => {
                self.open_since_ms.get_or_insert(now_ms);
            }
        }
        self.group += 1;
        let elapsed = now_ms.saturating_sub(self.group_since_ms);
        if self.group >= GROUP_LINES || elapsed >= GROUP_MS || self.in_flight == 0 {
            #[expect(clippy::cast_precision_loss, reason = "milliseconds of a group are few")]
            self.slice.observe(self.group, elapsed as f64);
            (self.group, self.group_since_ms) = (0, now_ms);
        }
    }

    /// Whether a try that failed does not count for its line: the target is left alone, and it surely
    /// has not seen the line, or a gateway says that the target is away. The gateway is believed as often
    /// for each line as the line has attempts: if many lines meet it, the target is to blame, but one
    /// that is alone may be what brings the target down.
    pub(crate) fn spares(
        &mut self,
        end: &AttemptEnd<'_>,
        line: (BatchId, u64),
        now_ms: u64,
    ) -> bool {
        if self.breaker.state(now_ms) == State::Closed {
            return false;
        }
        match signals(end).0 {
            TargetHealth::Unreachable => !end.reached,
            TargetHealth::Absent => {
                let room = self.spared.len() < SPARED_LINES_MAX || self.spared.contains_key(&line);
                if !room {
                    return false;
                }
                let times = self.spared.entry(line).or_default();
                let spares = *times < self.attempts_max;
                *times += u32::from(spares);
                spares
            }
            TargetHealth::Healthy
            | TargetHealth::Failing
            | TargetHealth::Slow
            | TargetHealth::NotAsked => false,
        }
    }

    /// How many lines to claim now; none when enough wait here or nothing may start.
    pub(crate) fn wants(&self, pressure: f64, now_ms: u64) -> Option<u32> {
        self.ready_ms.filter(|ready| *ready <= now_ms)?;
        let waiting = u32::try_from(self.jobs.len()).unwrap_or(u32::MAX);
        match self.breaker.state(now_ms) {
            State::Open { .. } => None,
            // One line decides for all the others.
            State::HalfOpen => (waiting == 0).then_some(1),
            State::Closed => {
                let claim = self.slice.limit(pressure);
                (waiting <= claim / 2).then_some(claim)
            }
        }
    }
}

/// How an attempt at this target ended.
pub(crate) struct AttemptEnd<'a> {
    pub(crate) started_ms: u64,
    /// Which try of its line it was, from 1.
    pub(crate) attempt: u32,
    /// It decides for the others whether the breaker closes.
    pub(crate) probe: bool,
    /// Whether the target may have seen it.
    pub(crate) reached: bool,
    pub(crate) http_status: Option<u16>,
    pub(crate) verdict: &'a Verdict,
}

/// What an attempt says about the health of its target; the breaker acts on it.
enum TargetHealth {
    /// It gave an answer that counts, if only a refusal.
    Healthy,
    /// It answered that it failed.
    Failing,
    /// It did not answer in time.
    Slow,
    /// A gateway answered in its place that it is not there.
    Absent,
    /// There was no connection.
    Unreachable,
    /// It was not asked: the executor refused the line itself.
    NotAsked,
}

/// What a try says about its target, whatever it means for the line.
fn signals(end: &AttemptEnd<'_>) -> (TargetHealth, Load) {
    match end.verdict {
        Verdict::Completed => (TargetHealth::Healthy, Load::Good),
        Verdict::Skipped(_) => (TargetHealth::NotAsked, Load::Neutral),
        Verdict::Failed(failure) => match failure.class {
            Class::Network => (TargetHealth::Unreachable, Load::Neutral),
            _ if !end.reached => (TargetHealth::NotAsked, Load::Neutral),
            Class::Throttled => (TargetHealth::Healthy, Load::Congested),
            Class::Server if is_absent(end.http_status) => (TargetHealth::Absent, Load::Congested),
            Class::Server => (TargetHealth::Failing, Load::Congested),
            Class::Timeout => (TargetHealth::Slow, Load::Congested),
            Class::Unacceptable | Class::NotFound => (TargetHealth::Healthy, Load::Good),
            Class::Permanent | Class::Reprocessed => (TargetHealth::Healthy, Load::Good),
        },
    }
}

/// What a gateway answers while it has no server to pass a request on to. Not 504: that is an answer
/// that took too long, and may be the line's own fault.
fn is_absent(http_status: Option<u16>) -> bool {
    matches!(http_status, Some(502 | 503))
}

#[cfg(test)]
mod tests;
