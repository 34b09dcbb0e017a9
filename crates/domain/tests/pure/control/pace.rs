//! No host gets more than its rate, whatever the clock and the caller do.

use proptest::prelude::*;
use windrow_domain::control::pace::{Bounds, Pace};

use super::wild;

/// Starts as many as it may until then; when each of them started.
fn starts(pace: &mut Pace, from_ms: u64, to_ms: u64) -> Vec<u64> {
    let (mut now_ms, mut started) = (from_ms, Vec::new());
    while now_ms < to_ms {
        match pace.next(now_ms) {
            Ok(()) => started.push(now_ms),
            Err(until_ms) => {
                assert!(until_ms > now_ms);
                now_ms = until_ms;
            }
        }
    }
    started
}

fn rate(per_sec: f64, burst: u32) -> Bounds {
    Bounds { per_sec_max: Some(per_sec), burst, ..Bounds::default() }
}

#[test]
fn a_burst_then_the_rate() {
    let mut pace = Pace::new(rate(10.0, 3));
    assert_eq!(starts(&mut pace, 0, 500), [0, 0, 0, 100, 200, 300, 400]);
    assert_eq!(starts(&mut pace, 10_000, 10_200), [10_000, 10_000, 10_000, 10_100], "rested");
}

#[test]
fn rates_beyond_the_clock_are_reached() {
    for per_sec in [999.0, 1_500.0, 2_000.0, 30_000.0] {
        let started = starts(&mut Pace::new(rate(per_sec, 1)), 0, 10_000).len();
        let started = f64::from(u32::try_from(started).unwrap()) / 10.0;
        assert!((started - per_sec).abs() < per_sec * 0.01, "{per_sec}: {started}");
    }
}

#[test]
fn nothing_starts_before_the_time_the_host_asked_for() {
    let mut pace = Pace::new(Bounds::default());
    pace.hold(5_000);
    pace.hold(3_000);
    assert_eq!(
        (pace.next(4_999), pace.next(5_000), pace.next(5_000)),
        (Err(5_000), Ok(()), Ok(()))
    );
}

#[test]
fn the_delay_doubles_once_per_window_and_fades() {
    let mut pace = Pace::new(Bounds::default());
    (0..100).for_each(|_| pace.throttled(0));
    assert_eq!(starts(&mut pace, 0, 10), [2, 4, 6, 8]);
    pace.throttled(499);
    assert!((pace.delay_ms() - 2.0).abs() < 1e-9);
    (1..60).for_each(|second| pace.throttled(second * 5_000));
    assert!((pace.delay_ms() - 5_000.0).abs() < 1e-9, "{}", pace.delay_ms());
    let good = (1..).find(|_| {
        pace.good();
        pace.delay_ms() == 0.0
    });
    assert!(good.unwrap() < 100, "{good:?}");
    assert!((0..100).all(|_| pace.next(900_000).is_ok()), "as if nothing had been");
}

/// A minute and more of nothing but 429: the delay grew with the time, and not with what the host bears.
#[test]
fn the_first_good_answer_after_an_outage_brings_the_pace_back() {
    let mut pace = Pace::new(Bounds::default());
    (0..140).for_each(|half| pace.throttled(half * 500));
    assert!(pace.delay_ms() >= 4_000.0, "{}", pace.delay_ms());
    assert!(pace.next(80_000).is_ok());
    pace.good();
    assert!(pace.delay_ms() < 5.0, "{}", pace.delay_ms());
    assert!(pace.next(80_001).is_ok(), "nor does the wait behind the last start hold it up");
}

/// A host that takes some and refuses some: good answers make it quicker step by step, not at once.
#[test]
fn one_that_throttles_now_and_then_is_not_rushed() {
    let mut pace = Pace::new(Bounds::default());
    for second in 1..8_u64 {
        pace.throttled(second * 1_000);
        let before = pace.delay_ms();
        pace.good();
        assert!(pace.delay_ms() >= before * 0.8, "{} {before}", pace.delay_ms());
    }
    assert!(pace.delay_ms() > 20.0, "{}", pace.delay_ms());
}

proptest! {
    #[test]
    fn no_span_of_time_has_more_than_the_rate(
        per_sec in 0.01_f64..5_000.0,
        burst in 0_u32..20,
        asks in prop::collection::vec(0_u64..400, 1..300),
    ) {
        let mut pace = Pace::new(rate(per_sec, burst));
        let (mut now_ms, mut started) = (0, Vec::new());
        for wait_ms in asks {
            now_ms += wait_ms;
            while started.len() < 500 && pace.next(now_ms).is_ok() {
                started.push(now_ms);
            }
        }
        let most = f64::from(burst.max(1));
        for (first, from_ms) in started.iter().enumerate() {
            for (last, to_ms) in started.iter().enumerate().skip(first) {
                #[expect(clippy::cast_precision_loss, reason = "small numbers")]
                let (count, span) = ((last - first + 1) as f64, (to_ms - from_ms + 1) as f64);
                prop_assert!(count <= most + span * per_sec / 1_000.0 + 1e-6);
            }
        }
    }

    #[test]
    fn any_numbers_give_an_answer(
        per_sec_max in prop::option::of(wild()),
        burst: u32,
        (delay_ms_min, delay_ms_max, delay_window_ms) in any::<(u64, u64, u64)>(),
        steps in prop::collection::vec((any::<u64>(), 0..4), 0..100),
    ) {
        let bounds = Bounds { per_sec_max, burst, delay_ms_min, delay_ms_max, delay_window_ms };
        let mut pace = Pace::new(bounds);
        for (now_ms, what) in steps {
            match what {
                0 => pace.hold(now_ms),
                1 => pace.throttled(now_ms),
                2 => pace.good(),
                _ => prop_assert!(pace.next(now_ms).map_or_else(|until_ms| until_ms > now_ms, |()| true)),
            }
            #[expect(clippy::cast_precision_loss, reason = "rounds the same way on both sides")]
            let most = delay_ms_max as f64;
            prop_assert!(pace.delay_ms() >= 0.0 && pace.delay_ms() <= most);
        }
    }
}
