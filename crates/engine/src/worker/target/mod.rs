//! The queue of one target: its leased lines that wait for their attempt or are in flight, and the
//! controllers (concurrency, breaker, claim size) that say how many may be.
//!
//! Holds throughout: `in_flight` never exceeds the controller's limit at the moment of a start; while
//! the breaker is open nothing starts and nothing waits here. What several targets share is in `host.rs`.

use std::collections::{HashMap, VecDeque};

use bytes::Bytes;
use windrow_domain::attempt::Class;
use windrow_domain::control::breaker::{Breaker, BreakerState, Permit};
use windrow_domain::control::concurrency::{Concurrency, Load, Sample};
use windrow_domain::control::slice::{self, Slice};
use windrow_domain::retry::Policy;
use windrow_domain::{BatchId, LaneNo, LeaseId, Route};

use super::suspects::SUSPECTS_MAX;
use crate::execute::{Attempt, Gate, Limits, RowTask, Verdict};

/// Finished lines are shown to the slice controller in groups of this many…
const GROUP_LINES: u32 = 64;
/// …or after this long.
const GROUP_MS: u64 = 100;

/// The first claim is at most so many times what may be in flight.
const CLAIM_ROUNDS_FIRST: u32 = 8;

/// Most lines of one target whose failed attempts are not counted at the same time; attempts of
/// further lines count.
const SPARED_LINES_MAX: usize = 4_096;

/// A leased line that waits for its attempt.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) lease: LeaseId,
    pub(crate) batch: BatchId,
    pub(crate) lane: LaneNo,
    pub(crate) seq: u64,
    pub(crate) line: u64,
    pub(crate) raw: Bytes,
    /// Which attempt it is, from 1.
    pub(crate) attempt: u32,
    /// Attempts before it that the line did not use up.
    pub(crate) uncounted: u32,
    pub(crate) tried: u32,
    pub(crate) answered: u32,
    pub(crate) row: Option<RowTask>,
    pub(crate) gate: Gate,
}

impl Job {
    /// Which attempt it is of those that count, from 1; of a row, with its present strategy.
    pub(crate) fn counted(&self) -> u32 {
        match &self.row {
            Some(row) => row.misses.counted.saturating_add(1),
            None => self.attempt.saturating_sub(self.uncounted).max(1),
        }
    }

    pub(crate) fn attempt(&self, route: &Route) -> Attempt {
        Attempt {
            batch: self.batch,
            upstream: route.upstream.clone(),
            target: route.target.clone(),
            lane: self.lane,
            line: self.line,
            raw: self.raw.clone(),
            number: self.attempt,
            tried: self.tried,
            answered: self.answered,
            row: self.row.clone(),
            gate: self.gate.clone(),
        }
    }
}

/// One target: the lines that this process has leased for it, and its controllers.
#[derive(Debug)]
pub(crate) struct TargetQueue {
    /// The target, and the upstream that serves it.
    pub(crate) route: Route,
    /// Lanes of the target whose upstream nobody knows are claimed, too, and bound.
    pub(crate) binds: bool,
    /// Whose slots, rate and breaker it shares.
    pub(crate) host: String,
    /// Attempts and waits of its lines.
    pub(crate) policy: Policy,
    /// How many targets of the host have lines, this one included.
    pub(crate) sharers: u32,
    pub(crate) jobs: VecDeque<Job>,
    /// Rows of other upstreams' lanes wait here, too.
    pub(crate) takes_others: bool,
    /// Lines that wait to run alone.
    pub(crate) suspects: VecDeque<Job>,
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
    /// Until when the breaker of the host is open, then half-open; none while it is closed.
    host_open_ms: Option<u64>,
    /// Since when one of the two breakers has not been closed.
    open_since_ms: Option<u64>,
    /// Whether the last answer was that it failed; none before the first.
    failed_last: Option<bool>,
    /// Attempts that were spared since then, by line.
    spared: HashMap<(BatchId, u64), u32>,
    group: u32,
    group_since_ms: u64,
}

impl TargetQueue {
    /// The policy keeps the breaker ahead of the retries: a dead target opens it before its first
    /// line has used all its attempts.
    pub(crate) fn new(
        route: Route,
        host: String,
        limits: Limits,
        bounds: slice::Bounds,
        policy: Policy,
        now_ms: u64,
    ) -> Self {
        let mut breaker = limits.breaker;
        breaker.failures_max = breaker.failures_max.min(policy.attempts_max);
        Self {
            route,
            binds: false,
            host,
            policy,
            sharers: 1,
            jobs: VecDeque::new(),
            takes_others: false,
            suspects: VecDeque::new(),
            in_flight: 0,
            slice: Slice::new(bounds),
            ready_ms: None,
            empty_claims: 0,
            touched_ms: now_ms,
            concurrency: Concurrency::new(limits.concurrency),
            breaker: Breaker::new(breaker),
            host_open_ms: None,
            open_since_ms: None,
            failed_last: None,
            spared: HashMap::new(),
            group: 0,
            group_since_ms: now_ms,
        }
    }

    /// Most lines in flight now.
    pub(crate) fn limit(&self) -> u32 {
        self.concurrency.limit()
    }

    /// What the breakers of the target and of its host let through: the stricter of the two.
    pub(crate) fn breaker(&self, now_ms: u64) -> BreakerState {
        use BreakerState::{Closed, HalfOpen, Open};
        let host = match self.host_open_ms {
            None => Closed,
            Some(until_ms) if now_ms < until_ms => Open { until_ms },
            Some(_) => HalfOpen,
        };
        match (self.breaker.state(now_ms), host) {
            (Open { until_ms: own }, Open { until_ms: host }) => Open { until_ms: own.max(host) },
            (Open { until_ms }, _) | (_, Open { until_ms }) => Open { until_ms },
            (HalfOpen, _) | (_, HalfOpen) => HalfOpen,
            (Closed, Closed) => Closed,
        }
    }

    /// The breaker of the host changed.
    pub(crate) fn set_host_open(&mut self, until_ms: Option<u64>, now_ms: u64) {
        self.host_open_ms = until_ms;
        self.note_open(now_ms);
    }

    fn note_open(&mut self, now_ms: u64) {
        match self.breaker(now_ms) {
            BreakerState::Closed => {
                self.open_since_ms = None;
                self.spared.clear();
            }
            BreakerState::Open { .. } | BreakerState::HalfOpen => {
                self.open_since_ms.get_or_insert(now_ms);
            }
        }
    }

    /// The share of failures among its last answers.
    pub(crate) fn failing(&self) -> f64 {
        self.breaker.failing()
    }

    /// Since when it is left alone; none while it is not.
    pub(crate) fn open_since_ms(&self) -> Option<u64> {
        self.open_since_ms
    }

    /// Whether it ever gave an answer.
    pub(crate) fn was_asked(&self) -> bool {
        self.failed_last.is_some()
    }

    /// Whether its last answer was that it failed.
    pub(crate) fn failed_last(&self) -> bool {
        self.failed_last == Some(true)
    }

    /// Whether it has lines that may run now, all of them in the store.
    pub(crate) fn is_starved(&self, now_ms: u64) -> bool {
        self.in_flight == 0
            && self.has_no_jobs()
            && self.ready_ms.is_some_and(|ready| ready <= now_ms)
            && self.breaker(now_ms) == BreakerState::Closed
    }

    /// Whether it has lines, here or in the store.
    pub(crate) fn has_work(&self) -> bool {
        self.in_flight > 0 || !self.has_no_jobs() || self.ready_ms.is_some()
    }

    /// Whether no line waits here.
    pub(crate) fn has_no_jobs(&self) -> bool {
        self.jobs.is_empty() && self.suspects.is_empty()
    }

    /// Takes all lines that wait here.
    pub(crate) fn take_jobs(&mut self) -> impl ExactSizeIterator<Item = Job> + use<> {
        let mut jobs = std::mem::take(&mut self.suspects);
        jobs.append(&mut self.jobs);
        jobs.into_iter()
    }

    /// Takes the lines of a lease that wait here.
    pub(crate) fn take_jobs_of(&mut self, lease: LeaseId) -> Vec<Job> {
        let mut taken = Vec::new();
        for jobs in [&mut self.suspects, &mut self.jobs] {
            let (of_lease, others): (VecDeque<Job>, VecDeque<Job>) =
                std::mem::take(jobs).into_iter().partition(|job| job.lease == lease);
            *jobs = others;
            taken.extend(of_lease);
        }
        taken
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
        self.suspects.clear();
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
        if !matches!(health, TargetHealth::NotAsked) {
            self.failed_last = Some(!matches!(health, TargetHealth::Healthy));
        }
        self.note_open(now_ms);
        if is_throttled(end.verdict) {
            // How long a refusal takes says nothing about how many lines a slice of time can finish.
            (self.group, self.group_since_ms) = (0, now_ms);
            return;
        }
        self.group += 1;
        let elapsed = now_ms.saturating_sub(self.group_since_ms);
        if self.group >= GROUP_LINES || elapsed >= GROUP_MS || self.in_flight == 0 {
            #[expect(clippy::cast_precision_loss, reason = "milliseconds of a group are few")]
            self.slice.observe(self.group, elapsed as f64);
            (self.group, self.group_since_ms) = (0, now_ms);
        }
    }

    /// Whether an attempt that failed does not count for its line: the target is left alone, and it
    /// surely has not seen the line, or a gateway says that the target is unavailable. The gateway
    /// is believed as often for each line as the line has attempts: if many lines meet it, the
    /// target is to blame, but one that is alone may be what brings the target down.
    pub(crate) fn spares(
        &mut self,
        end: &AttemptEnd<'_>,
        line: (BatchId, u64),
        now_ms: u64,
    ) -> bool {
        if self.breaker(now_ms) == BreakerState::Closed {
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
                let spares = *times < self.policy.attempts_max;
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
        // Suspects wait for their turn to run alone, and hold up no other line of the target.
        if self.suspects.len() >= SUSPECTS_MAX {
            return None;
        }
        let waiting = u32::try_from(self.jobs.len()).unwrap_or(u32::MAX);
        match self.breaker(now_ms) {
            BreakerState::Open { .. } => None,
            // One line decides for all the others.
            BreakerState::HalfOpen => self.has_no_jobs().then_some(1),
            BreakerState::Closed => {
                let claim = self.claim_lines(pressure);
                (waiting <= claim / 2).then_some(claim)
            }
        }
    }

    /// Lines of a claim: what a slice of time can finish, divided among those that share the host's slots.
    /// Before anything was measured, no more than a few rounds of what may be in flight.
    fn claim_lines(&self, pressure: f64) -> u32 {
        let claim = self.slice.limit(pressure);
        let claim = match self.slice.item_ms() {
            Some(_) => claim,
            None => claim.min(self.limit().saturating_mul(CLAIM_ROUNDS_FIRST)),
        };
        (claim / self.sharers.max(1)).max(1)
    }
}

/// How an attempt at this target ended.
pub(crate) struct AttemptEnd<'a> {
    pub(crate) started_ms: u64,
    /// Which attempt of its line it was, from 1.
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

/// What an attempt says about its target, whatever it means for the line.
fn signals(end: &AttemptEnd<'_>) -> (TargetHealth, Load) {
    match end.verdict {
        Verdict::Completed => (TargetHealth::Healthy, Load::Good),
        Verdict::Skipped(_) | Verdict::Withdrawn => (TargetHealth::NotAsked, Load::Neutral),
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

fn is_throttled(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Failed(failure) if failure.class == Class::Throttled)
}

/// What a gateway answers while it has no server to pass a request on to. Not 504: that is an answer
/// that took too long, and may be the line's own fault.
fn is_absent(http_status: Option<u16>) -> bool {
    matches!(http_status, Some(502 | 503))
}

#[cfg(test)]
mod tests;
