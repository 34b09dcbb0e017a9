//! What the end of an attempt tells the breaker.

use windrow_domain::Target;
use windrow_domain::attempt::Failure;

use super::*;

const ATTEMPTS_MAX: u32 = 5;
/// The breaker's shortest pause, as it is by default.
const OPEN_MS: u64 = 1_000;

fn queue() -> TargetQueue {
    let (target, bounds) = (Target::new("m").unwrap(), slice::Bounds::default());
    let policy = Policy { attempts_max: ATTEMPTS_MAX, ..Policy::default() };
    TargetQueue::new(target.into(), "h".to_owned(), Limits::default(), bounds, policy, 0)
}

fn failed(class: Class) -> Verdict {
    Verdict::Failed(Failure::new(class, class.to_string(), "no"))
}

fn first_try(verdict: &Verdict) -> AttemptEnd<'_> {
    AttemptEnd {
        started_ms: 0,
        attempt: 1,
        probe: false,
        reached: true,
        http_status: None,
        verdict,
    }
}

impl TargetQueue {
    /// A line's first attempt ends as it began, at that time.
    fn ends(&mut self, now_ms: u64, reached: bool, verdict: &Verdict) {
        let probe = self.may_start(now_ms) == Permit::Probe;
        self.end(now_ms, AttemptEnd { probe, reached, ..first_try(verdict) });
    }

    fn end(&mut self, now_ms: u64, end: AttemptEnd<'_>) {
        self.started(now_ms);
        self.ended(&AttemptEnd { started_ms: now_ms, ..end }, now_ms);
    }

    fn open(&mut self) {
        self.open_at(0);
    }

    fn open_at(&mut self, now_ms: u64) {
        (0..ATTEMPTS_MAX).for_each(|_| self.ends(now_ms, true, &failed(Class::Server)));
        assert_eq!(self.breaker(now_ms), BreakerState::Open { until_ms: now_ms + OPEN_MS });
    }
}

/// Lines that were turned away here: an executor's own refusals, and what is to be skipped.
fn unsent() -> [(bool, Verdict); 4] {
    [
        (true, Verdict::Skipped("not today".to_owned())),
        (false, failed(Class::Permanent)),
        (false, failed(Class::Server)),
        (false, failed(Class::Timeout)),
    ]
}

#[test]
fn a_line_that_was_not_sent_does_not_open_the_breaker() {
    for (reached, verdict) in unsent() {
        let mut queue = queue();
        (0..1_000).for_each(|_| queue.ends(0, reached, &verdict));
        assert_eq!(queue.breaker(0), BreakerState::Closed, "{verdict:?}");
    }
}

/// Nor does it end a row of failures, as a good answer would.
#[test]
fn a_line_that_was_not_sent_is_no_success() {
    for (reached, verdict) in unsent() {
        let mut queue = queue();
        for _ in 0..ATTEMPTS_MAX {
            assert_eq!(queue.breaker(0), BreakerState::Closed);
            queue.ends(0, reached, &verdict);
            queue.ends(0, true, &failed(Class::Server));
        }
        assert_ne!(queue.breaker(0), BreakerState::Closed, "{verdict:?}");
    }
}

/// As a probe it leaves the question open: the next line is the probe, at once.
#[test]
fn a_probe_that_was_not_sent_neither_closes_the_breaker_nor_keeps_it_open() {
    for (reached, verdict) in unsent() {
        let mut queue = queue();
        queue.open();
        queue.ends(OPEN_MS, reached, &verdict);
        assert_eq!(queue.breaker(OPEN_MS), BreakerState::HalfOpen, "{verdict:?}");
        assert_eq!(queue.may_start(OPEN_MS), Permit::Probe, "{verdict:?}");
    }
}

/// A target that cannot be connected to was not reached either, and that says much.
#[test]
fn a_target_that_cannot_be_reached_opens_the_breaker() {
    let mut queue = queue();
    (0..ATTEMPTS_MAX).for_each(|_| queue.ends(0, false, &failed(Class::Network)));
    assert_eq!(queue.breaker(0), BreakerState::Open { until_ms: OPEN_MS });
}

#[test]
fn a_probe_that_timed_out_doubles_the_pause() {
    let mut queue = queue();
    queue.open();
    let (mut now_ms, mut pause_ms) = (OPEN_MS, OPEN_MS);
    for _ in 0..4 {
        queue.ends(now_ms, true, &failed(Class::Timeout));
        pause_ms *= 2;
        assert_eq!(queue.breaker(now_ms), BreakerState::Open { until_ms: now_ms + pause_ms });
        now_ms += pause_ms;
    }
}

/// A line that timed out before says more about itself, unless it is the probe.
#[test]
fn only_a_first_try_or_a_probe_that_timed_out_counts() {
    let mut queue = queue();
    let verdict = failed(Class::Timeout);
    (0..100).for_each(|_| queue.end(0, AttemptEnd { attempt: 2, ..first_try(&verdict) }));
    assert_eq!(queue.breaker(0), BreakerState::Closed);
    (0..ATTEMPTS_MAX).for_each(|_| queue.ends(0, true, &verdict));
    assert_ne!(queue.breaker(0), BreakerState::Closed);
}

/// What a gateway says in a target's place, whichever attempt of the line it was.
fn absent(verdict: &Verdict) -> AttemptEnd<'_> {
    AttemptEnd { attempt: 3, http_status: Some(503), ..first_try(verdict) }
}

#[test]
fn a_gateway_that_has_nobody_behind_it_is_as_good_as_silence() {
    let (mut queue, verdict) = (queue(), failed(Class::Server));
    (0..ATTEMPTS_MAX).for_each(|_| queue.end(0, absent(&verdict)));
    assert_eq!(queue.breaker(0), BreakerState::Open { until_ms: OPEN_MS });
    assert_eq!(queue.may_start(OPEN_MS), Permit::Probe);
    queue.end(OPEN_MS, AttemptEnd { probe: true, ..absent(&verdict) });
    assert_eq!(queue.breaker(OPEN_MS), BreakerState::Open { until_ms: 3 * OPEN_MS });
    // An answer of the target itself changes the pause in neither way.
    assert_eq!(queue.may_start(3 * OPEN_MS), Permit::Probe);
    queue.end(3 * OPEN_MS, AttemptEnd { probe: true, http_status: Some(500), ..absent(&verdict) });
    assert_eq!(queue.breaker(3 * OPEN_MS), BreakerState::Open { until_ms: 5 * OPEN_MS });
}

#[test]
fn a_gateway_is_believed_for_many_lines_and_not_for_ever_for_one() {
    let (mut queue, verdict) = (queue(), failed(Class::Server));
    let (batch, end) = (BatchId::new(), absent(&verdict));
    assert!(!queue.spares(&end, (batch, 1), 0), "while it is closed every try counts");
    queue.open();
    for line in 1..=100 {
        (0..ATTEMPTS_MAX).for_each(|_| assert!(queue.spares(&end, (batch, line), 0)));
        assert!(!queue.spares(&end, (batch, line), 0));
    }
    for http_status in [None, Some(500), Some(504)] {
        assert!(!queue.spares(&AttemptEnd { http_status, ..absent(&verdict) }, (batch, 101), 0));
    }
    queue.ends(OPEN_MS, true, &Verdict::Completed);
    queue.open_at(OPEN_MS);
    assert!(queue.spares(&end, (batch, 1), OPEN_MS), "what was before it closed is forgotten");
}

#[test]
fn the_lines_that_are_spared_are_bounded() {
    let (mut queue, verdict) = (queue(), failed(Class::Server));
    let (batch, end) = (BatchId::new(), absent(&verdict));
    queue.open();
    let spared = (0..=SPARED_LINES_MAX as u64).filter(|no| queue.spares(&end, (batch, *no), 0));
    assert_eq!(spared.count(), SPARED_LINES_MAX);
    assert!(queue.spares(&end, (batch, 0), 0), "one that is known goes on");
}

#[test]
fn a_target_that_was_not_reached_is_always_believed() {
    let (mut queue, verdict) = (queue(), failed(Class::Network));
    queue.open();
    let end = AttemptEnd { reached: false, ..first_try(&verdict) };
    assert!((0..1_000).all(|_| queue.spares(&end, (BatchId::new(), 1), 0)));
    assert!(!queue.spares(&first_try(&verdict), (BatchId::new(), 1), 0), "it may have seen it");
}

#[test]
fn the_stricter_of_the_two_breakers_holds() {
    let mut queue = queue();
    queue.set_host_open(Some(500), 0);
    assert_eq!(queue.breaker(0), BreakerState::Open { until_ms: 500 });
    assert_eq!(queue.breaker(500), BreakerState::HalfOpen);
    queue.open();
    assert_eq!(queue.breaker(0), BreakerState::Open { until_ms: OPEN_MS });
    assert_eq!(queue.breaker(700), BreakerState::Open { until_ms: OPEN_MS });
    queue.set_host_open(None, 700);
    assert_eq!(queue.breaker(700), BreakerState::Open { until_ms: OPEN_MS });
}

#[test]
fn targets_that_share_a_host_share_its_claims() {
    let mut queue = queue();
    queue.ready_ms = Some(0);
    assert_eq!(queue.wants(1.0, 0), Some(64));
    queue.sharers = 6;
    assert_eq!(queue.wants(1.0, 0), Some(10));
    queue.sharers = 1_000;
    assert_eq!(queue.wants(1.0, 0), Some(1));
}

/// A minute of refusals a few seconds apart does not make the claims behind it small.
#[test]
fn a_target_that_throttles_says_nothing_about_the_size_of_claims() {
    let (mut queue, verdict) = (queue(), failed(Class::Throttled));
    (0..20).for_each(|no| queue.ends(no * 5_000, true, &verdict));
    assert_eq!(queue.slice.item_ms(), None);
}
