//! One of three instances dies, and others serve its partitions soon.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use windrow::domain::Queue;
use windrow::domain::partition::{PartitionNo, partition_of};
use windrow::engine::clock::Clock;
use windrow::store::Store;
use windrow_fault::instance::{Bounds, PARTITIONS};
use windrow_fault::{Backend, Fixture, wait};

use crate::instances::Instances;
use crate::{WITHIN, history, numbered, on_both_stores, owner, stream};

const STALE_MS: u64 = 3_000;
const BOUNDS: Bounds = Bounds { heartbeat_ms: 300, stale_ms: STALE_MS, attempts_max: 1000 };
const INSTANCES: usize = 3;

on_both_stores!(partitions_of_a_killed_instance_are_served_within_twice_the_stale_time);

async fn partitions_of_a_killed_instance_are_served_within_twice_the_stale_time(backend: Backend) {
    let fixture = Fixture::on(backend).await;
    history::record(&fixture).await;
    let mut instances = Instances::start(&fixture, INSTANCES, BOUNDS).await;
    let names = one_stream_each();
    wait_shared(fixture.store()).await;
    send(fixture.store(), &names, 1).await;
    history::settle(fixture.store()).await;

    let clock = Clock::machine();
    instances.kill(0);
    send(fixture.store(), &names, 2).await;
    history::settle(fixture.store()).await;
    let took = clock.elapsed();
    println!("{backend:?}: served again after {} ms", took.as_millis());
    assert!(took > Duration::from_millis(STALE_MS / 2), "nobody died: {took:?}");
    assert!(took < Duration::from_millis(2 * STALE_MS), "it took {took:?}");
    instances.all_run();
    history::check(&fixture, &names.into_iter().map(|name| (name, 2)).collect()).await;
}

async fn send(store: &dyn Store, names: &[String], no: u64) {
    let messages = names.iter().map(|name| numbered(Queue::Inbox, name, no));
    store.send(messages.collect()).await.unwrap();
}

/// A stream of every partition.
fn one_stream_each() -> Vec<String> {
    let mut names: BTreeMap<PartitionNo, String> = BTreeMap::new();
    for name in (0..).map(|no| format!("s{no}")) {
        names.entry(partition_of(&owner(), &stream(&name), PARTITIONS)).or_insert(name);
        if names.len() == usize::from(PARTITIONS) {
            break;
        }
    }
    names.into_values().collect()
}

/// Each of them owns its part.
async fn wait_shared(store: &dyn Store) {
    let look = || async {
        let partitions = store.partitions().await.ok()?;
        let owners: BTreeSet<_> = partitions.iter().map(|partition| partition.instance).collect();
        let all = partitions.iter().all(|partition| partition.is_owner_live);
        (all && owners.len() == INSTANCES).then_some(())
    };
    wait::until(WITHIN, look, || async { format!("{:?}", store.partitions().await) }).await;
}
