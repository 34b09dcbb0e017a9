//! What the targets of one host share: how many requests are in flight at most, the rate, the time that it
//! asked to wait for, connections that fail, and how long it has been throttling.
//!
//! Holds throughout: `in_flight` is never above the cap at the moment of a start; while the host's breaker is
//! open, no target of it starts anything. What one target answers (5xx, timeouts) is its own affair: see
//! `target/`.

use std::collections::HashMap;

use windrow_domain::BatchId;
use windrow_domain::attempt::Class;
use windrow_domain::control::breaker::{Breaker, Permit};
use windrow_domain::control::pace::Pace;

use super::refusals::Refusals;
use super::target::AttemptEnd;
use crate::execute::{Limits, Verdict};

/// Most batches whose pause is remembered; of others, a new bound begins with the next answer.
const PAUSED_MAX: usize = 1_024;
/// How often it is asked whether most targets fail: an answer is good for a while, and asking looks at all.
const SPIKE_MS: u64 = 100;

/// One host, and what all its targets share.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) pace: Pace,
    pub(crate) in_flight: u32,
    pub(crate) refusals: Refusals,
    in_flight_max: u32,
    breaker: Breaker,
    /// When an answer last was a good one.
    good_ms: Option<u64>,
    /// Since when every answer was that it is too much.
    throttled_since_ms: Option<u64>,
    /// Batches that were paused for that, and when.
    paused: HashMap<BatchId, u64>,
    spike_ms: u64,
}

impl Host {
    /// `attempts_max` keeps the breaker ahead of the retries, as that of a target.
    pub(crate) fn new(limits: &Limits, attempts_max: u32) -> Self {
        let mut breaker = limits.breaker.clone();
        breaker.failures_max = breaker.failures_max.min(attempts_max);
        Self {
            pace: Pace::new(limits.pace.clone()),
            in_flight: 0,
            refusals: Refusals::default(),
            in_flight_max: limits.concurrency.max.max(1),
            breaker: Breaker::new(breaker),
            good_ms: None,
            throttled_since_ms: None,
            paused: HashMap::new(),
            spike_ms: 0,
        }
    }

    /// A further target has its own bounds; the host has those of the one that may have the most.
    pub(crate) fn widen(&mut self, limits: &Limits) {
        self.in_flight_max = self.in_flight_max.max(limits.concurrency.max);
    }

    /// Most requests in flight, over all its targets.
    pub(crate) fn in_flight_max(&self) -> u32 {
        self.in_flight_max
    }

    /// Whether one more request may be in flight.
    pub(crate) fn has_room(&self) -> bool {
        self.in_flight < self.in_flight_max && !(self.refusals.is_in_doubt() && self.in_flight > 0)
    }

    /// How many more requests may be in flight.
    pub(crate) fn free_slots(&self) -> u32 {
        self.in_flight_max.saturating_sub(self.in_flight)
    }

    /// Asks the breaker of the host for one request.
    pub(crate) fn may_start(&mut self, now_ms: u64) -> Permit {
        self.breaker.may_start(now_ms)
    }

    /// The permit was not used.
    pub(crate) fn release(&mut self, permit: Permit) {
        if permit == Permit::Probe {
            self.breaker.release_probe();
        }
    }

    /// Until when the breaker is open, then half-open; none while it is closed.
    pub(crate) fn open_until_ms(&self) -> Option<u64> {
        self.breaker.open_until_ms()
    }

    pub(crate) fn started(&mut self) {
        self.in_flight += 1;
    }

    /// An attempt at one of its targets ended.
    pub(crate) fn ended(&mut self, end: &AttemptEnd<'_>, probe: bool, now_ms: u64) {
        self.in_flight = self.in_flight.saturating_sub(1);
        match end.verdict {
            Verdict::Completed => {
                self.good_ms = Some(now_ms);
                self.breaker.observe_started(end.started_ms, now_ms, true, probe);
            }
            Verdict::Failed(failure) if !end.reached => {
                if failure.class == Class::Network {
                    self.breaker.observe_started(end.started_ms, now_ms, false, probe);
                } else {
                    self.release(if probe { Permit::Probe } else { Permit::Yes });
                }
            }
            // The connection is there, whatever came over it.
            Verdict::Failed(_) => {
                self.breaker.observe_started(end.started_ms, now_ms, true, probe);
            }
            Verdict::Skipped(_) | Verdict::Withdrawn => {
                self.release(if probe { Permit::Probe } else { Permit::Yes });
            }
        }
    }

    /// So many of its targets are open, of all that were asked: most of them, and none that is well,
    /// means that it is not their own affair.
    pub(crate) fn observe_targets(&mut self, open: usize, all: usize, since_ms: u64, now_ms: u64) {
        let is_well = self.good_ms.is_some_and(|at| at >= since_ms);
        if all > 1 && open * 2 > all && !is_well {
            self.breaker.trip(now_ms);
        }
    }

    /// Whether to ask now if most of its targets fail.
    pub(crate) fn may_be_spike(&mut self, now_ms: u64) -> bool {
        let due = now_ms >= self.spike_ms;
        if due {
            self.spike_ms = now_ms.saturating_add(SPIKE_MS);
        }
        due
    }

    /// Notes an answer of a batch's line. True when the host has said nothing but 429 for so long that the
    /// batch is to be paused.
    pub(crate) fn is_throttled_too_long(
        &mut self,
        end: &AttemptEnd<'_>,
        batch: BatchId,
        now_ms: u64,
        ms_max: u64,
    ) -> bool {
        let throttled =
            matches!(end.verdict, Verdict::Failed(failure) if failure.class == Class::Throttled);
        if !throttled {
            // What was not answered says neither.
            if end.reached && end.http_status.is_some() || matches!(end.verdict, Verdict::Completed)
            {
                self.throttled_since_ms = None;
                self.paused.clear();
            }
            return false;
        }
        let since_ms = *self.throttled_since_ms.get_or_insert(end.started_ms);
        let from_ms = match self.paused.get(&batch) {
            // Answers of what was in flight at the pause.
            Some(paused_ms) if end.started_ms <= *paused_ms => return false,
            // It was resumed: it has its whole time again.
            Some(_) => {
                self.paused.remove(&batch);
                self.throttled_since_ms = Some(end.started_ms);
                end.started_ms
            }
            None => since_ms,
        };
        let over = now_ms.saturating_sub(from_ms) >= ms_max;
        if over && self.paused.len() < PAUSED_MAX {
            self.paused.insert(batch, now_ms);
        }
        over
    }

    /// Nothing that is in flight is ours any more.
    pub(crate) fn forget(&mut self) {
        for _ in 0..std::mem::take(&mut self.in_flight) {
            self.breaker.release_probe();
        }
        self.refusals.forget();
    }
}

#[cfg(test)]
mod tests {
    use windrow_domain::attempt::Failure;

    use super::*;

    const DAY_MS: u64 = 86_400_000;

    fn end(verdict: &Verdict, started_ms: u64) -> AttemptEnd<'_> {
        let http_status = matches!(verdict, Verdict::Failed(_)).then_some(429);
        AttemptEnd { started_ms, attempt: 1, probe: false, reached: true, http_status, verdict }
    }

    fn throttled() -> Verdict {
        Verdict::Failed(Failure::throttled("http_429", "Too much."))
    }

    #[test]
    fn a_host_that_only_throttles_has_its_batches_paused_after_a_day() {
        let (mut host, verdict) = (Host::new(&Limits::default(), 5), throttled());
        let [one, two] = [BatchId::new(), BatchId::new()];
        let at = |host: &mut Host, batch, ms| {
            host.is_throttled_too_long(&end(&verdict, ms), batch, ms, DAY_MS)
        };
        assert!(!at(&mut host, one, 0) && !at(&mut host, two, DAY_MS - 1));
        assert!(at(&mut host, one, DAY_MS) && at(&mut host, two, DAY_MS + 1));
        assert!(!at(&mut host, one, DAY_MS), "what was in flight does not pause it twice");
        assert!(!at(&mut host, one, DAY_MS + 2), "resumed, it has a whole day again");
        assert!(at(&mut host, one, 2 * DAY_MS + 2));
    }

    #[test]
    fn any_other_answer_ends_the_count() {
        let (mut host, verdict) = (Host::new(&Limits::default(), 5), throttled());
        let batch = BatchId::new();
        assert!(!host.is_throttled_too_long(&end(&verdict, 0), batch, 0, DAY_MS));
        let good = Verdict::Completed;
        assert!(!host.is_throttled_too_long(&end(&good, 5), batch, 5, DAY_MS));
        assert!(!host.is_throttled_too_long(&end(&verdict, DAY_MS), batch, DAY_MS, DAY_MS));
    }

    #[test]
    fn connections_that_fail_open_it_and_answers_do_not() {
        let mut host = Host::new(&Limits::default(), 5);
        let lost = Verdict::Failed(Failure::unavailable("connect_refused", "no"));
        let bad = Verdict::Failed(Failure::retryable("http_500", "no"));
        for _ in 0..100 {
            host.ended(&end(&bad, 0), false, 0);
        }
        assert_eq!(host.open_until_ms(), None);
        for _ in 0..10 {
            host.ended(&AttemptEnd { reached: false, ..end(&lost, 0) }, false, 0);
        }
        assert!(host.open_until_ms().is_some());
    }

    #[test]
    fn most_targets_open_and_none_well_opens_it() {
        let mut host = Host::new(&Limits::default(), 5);
        host.observe_targets(1, 1, 0, 10);
        host.observe_targets(2, 4, 0, 10);
        assert_eq!(
            host.open_until_ms(),
            None,
            "one by itself, or a half, is the targets' own affair"
        );
        host.ended(&end(&Verdict::Completed, 5), false, 5);
        host.observe_targets(3, 4, 0, 10);
        assert_eq!(host.open_until_ms(), None, "another is well");
        host.observe_targets(3, 4, 6, 10);
        assert!(host.open_until_ms().is_some());
    }
}
