//! Idle: next to nothing is asked of the database.

use std::time::Duration;

use windrow_engine::clock::Clock;
use windrow_engine::messages::{Options, Runner};

use crate::support::*;
use crate::watched::{Fate, Watched};

crate::on_both_stores! {
    an_idle_runner_with_all_partitions_asks_at_most_twice_a_second,
}

/// How far the runner's clock moves at a time, and how long the runner has for what is due by then.
const STEP: Duration = Duration::from_millis(100);
const REAL_STEP: Duration = Duration::from_millis(10);

/// Moves the clock on, in steps that leave the runner time to act.
async fn pass(clock: &Clock, time: Duration) {
    let (real, until) = (Clock::machine(), clock.elapsed() + time);
    while clock.elapsed() < until {
        clock.advance(STEP);
        real.sleep(REAL_STEP).await;
    }
}

async fn an_idle_runner_with_all_partitions_asks_at_most_twice_a_second(backend: Backend) {
    let store = Watched::new(store(backend).await, |_, _| Fate::Passes);
    let clock = Clock::manual(Clock::machine().now());
    let runner = Runner::builder(store.clone(), "test").options(Options::default());
    let runner = runner.clock(clock.clone()).typed(Wallet).start().await.unwrap();
    until("it has all", || async { runner.gauges().partitions_owned == 256 }).await;
    // Longer than it takes to become idle.
    pass(&clock, Duration::from_millis(2_500)).await;
    let (before, counts) = (store.layer().total(), store.layer().counts());
    let secs = 6;
    pass(&clock, Duration::from_secs(secs)).await;
    let asked = store.layer().total() - before;
    let after = store.layer().counts();
    assert!(asked <= 2 * secs, "{asked} in {secs} s: {counts:?} then {after:?}");
    assert!(asked >= secs / 2, "it did not live in that time: {counts:?} then {after:?}");
}
