//! The limit settles where the target does, in a small simulated world.

use std::collections::BinaryHeap;

use proptest::prelude::*;
use windrow_domain::control::concurrency::{Bounds, Concurrency, Load, Sample};

use super::wild;

/// What the simulation asks of a controller.
trait Limit {
    fn limit(&self) -> u32;
    fn observe(&mut self, sample: Sample);
}

impl Limit for Concurrency {
    fn limit(&self) -> u32 {
        Concurrency::limit(self)
    }

    fn observe(&mut self, sample: Sample) {
        Concurrency::observe(self, sample);
    }
}

/// The textbook: one up per answer, a half down per refusal, nothing else.
struct Plain(f64);

impl Limit for Plain {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small numbers")]
    fn limit(&self) -> u32 {
        self.0 as u32
    }

    fn observe(&mut self, sample: Sample) {
        self.0 = match sample.load {
            Load::Good => self.0 + 1.0 / self.0,
            Load::Congested => self.0 * 0.5,
            Load::Neutral => self.0,
        };
        self.0 = self.0.clamp(1.0, 64.0);
    }
}

/// What came of a run.
#[derive(Debug)]
struct Seen {
    /// Mean requests in flight that the target was working on.
    used: f64,
    limit_max: u32,
    refused: f64,
}

/// A target that works on `room` requests for 100 ms or a little more, and refuses the others after
/// 20 ms; `room` may change. There is always more to do; the first two seconds are not counted.
fn run(mut control: impl Limit, room: impl Fn(u64) -> u32, seconds: u64) -> Seen {
    let (from_ms, to_ms) = (2_000, seconds * 1_000);
    let mut ends = BinaryHeap::new();
    let (mut working, mut used, mut good, mut refused, mut limit_max) = (0, 0_u64, 0.0, 0.0, 0);
    for (roll, now_ms) in (0_u64..).zip(0..to_ms) {
        while let Some(std::cmp::Reverse((end_ms, started_ms, with, ok))) = ends.peek().copied() {
            if end_ms > now_ms {
                break;
            }
            ends.pop();
            working -= u32::from(ok);
            *(if ok { &mut good } else { &mut refused }) += 1.0;
            let load = if ok { Load::Good } else { Load::Congested };
            control.observe(Sample { started_ms, now_ms, in_flight: with, load });
        }
        while ends.len() < control.limit() as usize {
            let ok = working < room(now_ms);
            working += u32::from(ok);
            let with = u32::try_from(ends.len()).unwrap() + 1;
            let takes_ms = if ok { 100 + (roll + u64::from(with) * 7) % 13 } else { 20 };
            ends.push(std::cmp::Reverse((now_ms + takes_ms, now_ms, with, ok)));
        }
        if now_ms >= from_ms {
            used += u64::from(working);
            limit_max = limit_max.max(control.limit());
        }
    }
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    let used = used as f64 / (to_ms - from_ms) as f64;
    Seen { used, limit_max, refused: refused / (good + refused) }
}

#[test]
fn the_limit_settles_at_what_the_target_takes() {
    for room in [5, 10, 25, 40, 60] {
        let seen = run(Concurrency::new(Bounds::default()), |_| room, 60);
        assert!(seen.used >= f64::from(room) * 0.7, "{room}: {seen:?}");
        assert!(seen.limit_max <= room + 2, "{room}: {seen:?}");
        assert!(seen.refused < 0.05, "{room}: {seen:?}");
    }
}

/// The target drops everything for a moment, every five seconds: one congestion, many refusals.
#[test]
fn it_gets_over_a_burst_of_refusals_better_than_the_textbook() {
    let room = |now_ms| if now_ms % 5_000 < 50 { 0 } else { 40 };
    let ours = run(Concurrency::new(Bounds::default()), room, 60);
    let plain = run(Plain(8.0), room, 60);
    assert!(ours.used > plain.used * 1.1 && ours.used > 40.0 * 0.6, "{ours:?} {plain:?}");
}

#[test]
fn a_target_that_takes_everything_gets_the_most_within_a_few_round_trips() {
    let mut control = Concurrency::new(Bounds { start: 1, ..Bounds::default() });
    let mut limits = Vec::new();
    for round in 0..7 {
        let limit = control.limit();
        limits.push(limit);
        feed(&mut control, round, limit, limit, Load::Good);
    }
    assert_eq!(limits, [1, 2, 4, 8, 16, 32, 64]);
    assert_eq!(control.limit(), 64);
}

fn feed(control: &mut Concurrency, at_ms: u64, times: u32, in_flight: u32, load: Load) {
    let sample = Sample { started_ms: at_ms, now_ms: at_ms, in_flight, load };
    (0..times).for_each(|_| control.observe(sample));
}

#[test]
fn requests_that_met_the_same_congestion_shrink_it_once() {
    let mut control = Concurrency::new(Bounds { start: 40, ..Bounds::default() });
    for late in 0..30 {
        let (started_ms, now_ms) = (100 + late, 200 + late);
        control.observe(Sample { started_ms, now_ms, in_flight: 40, load: Load::Congested });
    }
    assert_eq!(control.limit(), 20);
    feed(&mut control, 150, 100, 40, Load::Good);
    assert_eq!(control.limit(), 20, "good answers from before say nothing about the new limit");
    feed(&mut control, 300, 1, 20, Load::Congested);
    assert_eq!(control.limit(), 10);
    feed(&mut control, 400, 10, 10, Load::Good);
    assert_eq!(control.limit(), 11, "by one after the first congestion");
}

/// After a minute in which everything was refused, round trips are few until it is back.
#[test]
fn a_limit_that_fell_to_the_least_is_soon_back() {
    let mut control = Concurrency::new(Bounds { start: 64, ..Bounds::default() });
    (1..=70).for_each(|second| feed(&mut control, second * 1_000, 1, 1, Load::Congested));
    assert_eq!(control.limit(), 1);
    let mut limits = Vec::new();
    for round in 0..7 {
        let limit = control.limit();
        limits.push(limit);
        feed(&mut control, 80_000 + round, limit, limit, Load::Good);
    }
    assert_eq!(
        limits,
        [1, 2, 4, 8, 16, 32, 33],
        "it doubles to a half of what it was, then by one"
    );
}

#[test]
fn a_limit_that_is_not_used_does_not_grow() {
    let mut control = Concurrency::new(Bounds::default());
    feed(&mut control, 1, 1_000, 7, Load::Good);
    feed(&mut control, 1, 1_000, 8, Load::Neutral);
    assert_eq!(control.limit(), 8);
    feed(&mut control, 1, 8, 8, Load::Good);
    assert_eq!(control.limit(), 16);
}

fn load() -> impl Strategy<Value = Load> {
    prop::sample::select(vec![Load::Good, Load::Good, Load::Congested, Load::Neutral])
}

proptest! {
    #[test]
    fn the_limit_stays_in_bounds(
        (min, max, start) in any::<(u32, u32, u32)>(),
        backoff in wild(),
        samples in prop::collection::vec((any::<(u64, u64, u32)>(), load()), 0..200),
    ) {
        let mut control = Concurrency::new(Bounds { min, max, start, backoff });
        for ((started_ms, now_ms, in_flight), load) in samples {
            let before = control.limit();
            control.observe(Sample { started_ms, now_ms, in_flight, load });
            prop_assert!(control.limit() >= min.max(1) && control.limit() <= max.max(min).max(1));
            prop_assert!(load == Load::Congested || control.limit() >= before);
            prop_assert!(load == Load::Good || control.limit() <= before);
        }
    }
}
