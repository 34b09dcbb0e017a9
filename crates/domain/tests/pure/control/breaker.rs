//! The breaker opens, probes and closes; never lets more through than it says.

use proptest::prelude::*;
use windrow_domain::control::breaker::{Bounds, Breaker, BreakerState, Permit};

use super::wild;

fn opened() -> Breaker {
    let mut breaker = Breaker::new(Bounds::default());
    (0..10).for_each(|_| breaker.observe(0, false, false));
    assert_eq!(breaker.state(0), BreakerState::Open { until_ms: 1_000 });
    breaker
}

#[test]
fn failures_in_a_row_open_it_and_one_success_between_does_not() {
    let mut breaker = Breaker::new(Bounds::default());
    (0..9).for_each(|_| breaker.observe(0, false, false));
    breaker.observe(0, true, false);
    (0..9).for_each(|_| breaker.observe(0, false, false));
    assert_eq!((breaker.state(0), breaker.may_start(0)), (BreakerState::Closed, Permit::Yes));
    breaker.observe(0, false, false);
    assert_eq!(breaker.may_start(999), Permit::No { until_ms: 1_000 });
}

#[test]
fn a_window_with_nine_failures_in_ten_opens_it() {
    let mut breaker = Breaker::new(Bounds::default());
    let opened = (1..).find(|sample| {
        breaker.observe(0, sample % 10 == 0, false);
        breaker.state(0) != BreakerState::Closed
    });
    assert_eq!(opened, Some(51), "a full window, then a failure that makes 45 of 50");
    let mut breaker = Breaker::new(Bounds { window: 0, ..Bounds::default() });
    (0..1_000).for_each(|sample| breaker.observe(0, sample % 10 == 0, false));
    assert_eq!(breaker.state(0), BreakerState::Closed, "no window, no share");
}

#[test]
fn one_probe_at_a_time_decides() {
    let mut breaker = opened();
    assert_eq!(
        (breaker.state(1_000), breaker.may_start(1_000)),
        (BreakerState::HalfOpen, Permit::Probe)
    );
    assert_eq!(breaker.may_start(1_000), Permit::No { until_ms: 2_000 });
    breaker.release_probe();
    assert_eq!(breaker.may_start(1_000), Permit::Probe, "a probe that was given back");
    breaker.observe(1_500, true, true);
    assert_eq!(
        (breaker.state(1_500), breaker.may_start(1_500)),
        (BreakerState::Closed, Permit::Yes)
    );
}

#[test]
fn the_open_time_doubles_to_its_most_and_starts_again_after_a_success() {
    let (mut breaker, mut now_ms, mut open) = (opened(), 1_000, Vec::new());
    for _ in 0..7 {
        assert_eq!(breaker.may_start(now_ms), Permit::Probe);
        breaker.observe(now_ms, false, true);
        let BreakerState::Open { until_ms } = breaker.state(now_ms) else {
            panic!("it opens again")
        };
        open.push(until_ms - now_ms);
        now_ms = until_ms;
    }
    assert_eq!(open, [2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000]);
    assert_eq!(breaker.may_start(now_ms), Permit::Probe);
    breaker.observe(now_ms, true, true);
    (0..10).for_each(|_| breaker.observe(now_ms, false, false));
    assert_eq!(breaker.state(now_ms), BreakerState::Open { until_ms: now_ms + 1_000 });
}

/// Silence, then bad answers, then silence again: only silence makes the pause longer, and only a
/// good answer ends it.
#[test]
fn a_probe_that_was_answered_badly_leaves_the_pause_as_it_is() {
    let (mut breaker, mut now_ms, mut open) = (opened(), 1_000, Vec::new());
    for badly in [true, true, false, false, true, true, false] {
        assert_eq!(breaker.may_start(now_ms), Permit::Probe);
        match badly {
            true => breaker.probe_answered_badly(now_ms),
            false => breaker.observe(now_ms, false, true),
        }
        let BreakerState::Open { until_ms } = breaker.state(now_ms) else {
            panic!("it opens again")
        };
        open.push(until_ms - now_ms);
        now_ms = until_ms;
    }
    assert_eq!(open, [1_000, 1_000, 2_000, 4_000, 4_000, 4_000, 8_000]);
}

#[test]
fn one_that_is_tripped_is_open_as_any_other() {
    let mut breaker = Breaker::new(Bounds::default());
    breaker.trip(10);
    assert_eq!(breaker.open_until_ms(), Some(1_010));
    breaker.trip(900);
    assert_eq!(breaker.open_until_ms(), Some(1_010), "it is open already");
    assert_eq!(breaker.may_start(1_010), Permit::Probe);
    breaker.observe(1_020, true, true);
    assert_eq!(breaker.open_until_ms(), None);
}

#[test]
fn what_was_in_flight_when_it_opened_changes_nothing() {
    let mut breaker = opened();
    for now_ms in [1, 500, 999, 1_000, 5_000] {
        breaker.observe(now_ms, false, false);
        breaker.observe(now_ms, true, false);
    }
    assert_eq!(breaker.state(999), BreakerState::Open { until_ms: 1_000 });
    assert_eq!(breaker.may_start(5_000), Permit::Probe);
    breaker.observe(5_100, true, true);
    (0..100).for_each(|_| breaker.observe_started(900, 6_000, false, false));
    assert_eq!(breaker.state(6_000), BreakerState::Closed, "not even once it has closed");
    (0..10).for_each(|_| breaker.observe_started(5_100, 6_000, false, false));
    assert_eq!(breaker.state(6_000), BreakerState::Open { until_ms: 7_000 });
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Wait(u64),
    Start,
    /// The oldest request in flight ends so.
    End(bool),
    /// Or it is a probe with a bad answer.
    Badly,
    Release,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => (0_u64..3_000).prop_map(Step::Wait),
        6 => Just(Step::Start),
        6 => prop::bool::weighted(0.2).prop_map(Step::End),
        2 => Just(Step::Badly),
        1 => Just(Step::Release),
    ]
}

proptest! {
    #[test]
    fn nothing_starts_while_it_is_open_and_probes_are_counted(
        (failures_max, window, probes) in (0_u32..6, 0_u32..8, 0_u32..4),
        (open_ms_min, open_ms_max) in (0_u64..2_000, 0_u64..4_000),
        ratio in wild(),
        steps in prop::collection::vec(step(), 0..300),
    ) {
        let bounds = Bounds { failures_max, ratio, window, open_ms_min, open_ms_max, probes };
        let mut breaker = Breaker::new(bounds);
        let (mut now_ms, mut flying, mut out) = (0, std::collections::VecDeque::new(), 0);
        for step in steps {
            match step {
                Step::Wait(ms) => now_ms += ms,
                Step::Start => match (breaker.state(now_ms), breaker.may_start(now_ms)) {
                    (BreakerState::Closed, Permit::Yes) => flying.push_back(false),
                    (BreakerState::HalfOpen, Permit::Probe) => {
                        flying.push_back(true);
                        out += 1;
                        prop_assert!(out <= probes.max(1));
                    }
                    (BreakerState::HalfOpen | BreakerState::Open { .. }, Permit::No { until_ms }) => {
                        prop_assert!(until_ms > now_ms && until_ms <= now_ms + open_ms_max.max(1));
                    }
                    (state, permit) => prop_assert!(false, "{state:?} gave {permit:?}"),
                },
                Step::End(ok) => if let Some(probe) = flying.pop_front() {
                    out -= u32::from(probe);
                    breaker.observe(now_ms, ok, probe);
                    prop_assert!(!(probe && ok) || breaker.state(now_ms) == BreakerState::Closed);
                },
                Step::Badly => if flying.front() == Some(&true) {
                    flying.pop_front();
                    out -= 1;
                    let before = breaker.state(now_ms);
                    breaker.probe_answered_badly(now_ms);
                    prop_assert_eq!(
                        breaker.state(now_ms) == BreakerState::Closed,
                        before == BreakerState::Closed,
                        "a bad answer neither closes it nor opens it"
                    );
                    if before == BreakerState::HalfOpen {
                        prop_assert_ne!(breaker.state(now_ms), BreakerState::HalfOpen);
                    }
                },
                Step::Release => if let Some(at) = flying.iter().position(|probe| *probe) {
                    flying.remove(at);
                    out -= 1;
                    breaker.release_probe();
                },
            }
        }
        // Whatever happened: once what flies has ended, a good probe closes it.
        flying.into_iter().for_each(|probe| breaker.observe(now_ms, false, probe));
        now_ms += open_ms_max.max(1);
        if breaker.may_start(now_ms) == Permit::Probe {
            breaker.observe(now_ms, true, true);
        }
        prop_assert_eq!(breaker.state(now_ms), BreakerState::Closed);
    }
}
