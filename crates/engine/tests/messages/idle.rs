//! Idle: next to nothing is asked of the database.

use std::time::Duration;

use windrow_engine::clock::Clock;
use windrow_engine::messages::{Options, Runner};

use crate::kit::*;
use crate::watched::{Fate, Watched};

crate::on_both_stores! {
    an_idle_runner_with_all_partitions_asks_at_most_twice_a_second,
}

async fn an_idle_runner_with_all_partitions_asks_at_most_twice_a_second(backend: Backend) {
    let store = Watched::new(store(backend).await, |_, _| Fate::Passes);
    let runner = Runner::builder(store.clone(), "test").options(Options::default());
    let runner = runner.object(wallet()).start().await.unwrap();
    until("it has all", || async { runner.gauges().partitions_owned == 256 }).await;
    let clock = Clock::machine();
    // Longer than it stays awake.
    clock.sleep(Duration::from_millis(2_500)).await;
    let (before, counts) = (store.layer().total(), store.layer().counts());
    let secs = 6;
    clock.sleep(Duration::from_secs(secs)).await;
    let asked = store.layer().total() - before;
    let after = store.layer().counts();
    assert!(asked <= 2 * secs, "{asked} in {secs} s: {counts:?} then {after:?}");
}
