//! Three instances are killed, frozen and stopped at random while 200 streams are written and read.

use std::net::SocketAddr;
use std::time::Duration;

use windrow::store::Store;
use windrow_fault::instance::Bounds;
use windrow_fault::{Backend, Fixture, rounds, wait};
use windrow_testkit::proxy::{Mode, Proxy};

use crate::instances::Instances;
use crate::writers::Writers;
use crate::{WITHIN, history, on_both_stores};

/// Another seed is another test: change it to look for trouble.
const SEED: u64 = 7;
/// A message that is caught in many crashes must still not be given up on.
const BOUNDS: Bounds = Bounds { heartbeat_ms: 200, stale_ms: 800, attempts_max: 1000 };

on_both_stores!(
    instances_killed_and_frozen_at_random_lose_nothing_and_double_nothing,
    an_instance_that_slept_through_its_own_funeral_changes_nothing_and_joins_again,
);

async fn instances_killed_and_frozen_at_random_lose_nothing_and_double_nothing(backend: Backend) {
    let fixture = Fixture::on(backend).await;
    history::record(&fixture).await;
    let mut instances = Instances::start(&fixture, 3, BOUNDS).await;
    let proxy = proxy_to(fixture.database()).await;
    let way =
        proxy.as_ref().map_or(fixture.database().to_owned(), |proxy| proxy.url(fixture.database()));
    let mut writers = Writers::start(&way, fixture.database(), SEED).await;
    let mut dice = fastrand::Rng::with_seed(SEED);
    for _ in 0..rounds(4, 40) {
        instances.harass(&mut dice, Duration::from_secs(3)).await;
        if let Some(proxy) = &proxy {
            // Every connection of a writer is cut, whatever it is at.
            proxy.set(Mode::Reset);
            wait::pause(Duration::from_millis(50)).await;
            proxy.set(Mode::Pass);
        }
    }
    let written = writers.finish().await;
    history::settle(fixture.store()).await;
    instances.all_run();
    println!("{backend:?}: {:?}, {} sends repeated", instances.counts, written.repeats);
    assert!(written.repeats > 0, "no send was ever cut off");
    history::check(&fixture, &written.streams).await;
    writers.check_read(&written).await;
    wait_owned(fixture.store()).await;
}

/// In the way of the writers, where there is a network.
async fn proxy_to(database: &str) -> Option<Proxy> {
    let address = database.strip_prefix("postgres://")?.split(['@', '/']).nth(1)?;
    let address: SocketAddr = address.replace("localhost", "127.0.0.1").parse().ok()?;
    Some(Proxy::start(address).await.unwrap())
}

/// Every partition is somebody's again.
async fn wait_owned(store: &dyn Store) {
    let look = || async {
        let partitions = store.partitions().await.ok()?;
        partitions.iter().all(|partition| partition.is_owner_live).then_some(())
    };
    let state = || async { format!("{:?}", store.partitions().await) };
    wait::until(WITHIN, look, state).await;
}

/// Frozen with work in its hands, taken for dead, robbed, and woken up while others work.
async fn an_instance_that_slept_through_its_own_funeral_changes_nothing_and_joins_again(
    backend: Backend,
) {
    let fixture = Fixture::on(backend).await;
    history::record(&fixture).await;
    let mut instances = Instances::start(&fixture, 2, BOUNDS).await;
    wait_owned(fixture.store()).await;
    let mut writers = Writers::start(fixture.database(), fixture.database(), SEED).await;
    for _ in 0..rounds(2, 10) {
        let sleeper = 0;
        wait_shared(fixture.store()).await;
        let robbed = wait_robbed(&instances, sleeper, fixture.store()).await;
        println!("{backend:?}: {robbed} partitions changed hands");
        wait::pause(Duration::from_millis(100)).await;
        instances.thaw(sleeper);
    }
    wait_shared(fixture.store()).await;
    let written = writers.finish().await;
    history::settle(fixture.store()).await;
    instances.all_run();
    history::check(&fixture, &written.streams).await;
    writers.check_read(&written).await;
}

/// Two instances have all of it between them.
async fn wait_shared(store: &dyn Store) {
    let look = || async { (owners(store).await? == 2).then_some(()) };
    let state = || async { format!("{:?}", store.partitions().await) };
    wait::until(WITHIN, look, state).await;
}

/// How many own partitions, when every one is owned.
async fn owners(store: &dyn Store) -> Option<usize> {
    let partitions = store.partitions().await.ok()?;
    let all = partitions.iter().all(|partition| partition.is_owner_live);
    let owners: std::collections::BTreeSet<_> =
        partitions.iter().filter_map(|partition| partition.instance).collect();
    all.then_some(owners.len())
}

/// Freezes one until the other has everything. A stopped process keeps the lock of an SQLite file that
/// it is writing to, and everybody waits for it: then it is let go for a moment.
async fn wait_robbed(instances: &Instances<'_>, sleeper: usize, store: &dyn Store) -> usize {
    let before = store.partitions().await.unwrap();
    let look = || async {
        instances.freeze(sleeper).await;
        let robbed = || async { (owners(store).await? == 1).then_some(()) };
        for _ in 0..200 {
            if robbed().await.is_some() {
                return Some(());
            }
            wait::pause(Duration::from_millis(20)).await;
        }
        instances.thaw(sleeper);
        None
    };
    wait::until(WITHIN, look, || async { format!("{:?}", store.partitions().await) }).await;
    let after = store.partitions().await.unwrap();
    before.iter().zip(&after).filter(|(before, after)| before.instance != after.instance).count()
}
