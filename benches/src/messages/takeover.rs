//! Three instances, one killed: how long until its partitions are served again.

use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use futures_util::future::join_all;
use windrow_domain::InstanceId;
use windrow_engine::messages::{CallOutcome, Client};
use windrow_store::Partitions as _;
use windrow_store_postgres::PostgresStore;

use super::instance::{Instance, question};
use crate::postgres::PostgresBackend;
use crate::report::{Bar, Figure};

const HEARTBEAT_MS: u64 = 1_000;
/// An instance is taken for dead after this long.
const STALE_MS: u64 = 3 * HEARTBEAT_MS;
const SPREAD_SECS_MAX: u64 = 60;

/// The time from the kill until calls to every partition were answered, against twice the time after
/// which an instance is taken for dead.
pub(crate) async fn takeover(backend: &PostgresBackend) -> Result<Figure> {
    let store = backend.plane();
    let mut instances = Vec::new();
    for _ in 0..3 {
        instances.push(Instance::spawn(backend.url(), HEARTBEAT_MS)?);
    }
    spread(&store, 3).await?;
    let killed = Instant::now();
    drop(instances.pop());
    // A hundred objects: every third of them or so was the dead one's.
    let client = Client::new(backend.plane());
    let asked = (0..100).map(|n| client.call(question(1_000_000 + n), Duration::from_secs(60)));
    for (n, outcome) in join_all(asked).await.into_iter().enumerate() {
        let outcome = outcome?;
        ensure!(matches!(outcome, CallOutcome::Reply(_)), "call {n} gave {outcome:?}");
    }
    let took = killed.elapsed();
    spread(&store, 2).await?;
    Ok(Figure {
        name: "takeover after a kill / 2 × stale",
        store: "postgres",
        this: format!("{:.1} s", took.as_secs_f64()),
        that: format!("{:.1} s", 2.0 * STALE_MS as f64 / 1e3),
        ratio: took.as_secs_f64() * 1e3 / (2 * STALE_MS) as f64,
        bar: Bar::AtMost(1.0),
        samples: 1,
        detail: None,
    })
}

/// Until so many instances, all alive, own all partitions.
async fn spread(store: &PostgresStore, instances: usize) -> Result<()> {
    let started = Instant::now();
    while started.elapsed().as_secs() < SPREAD_SECS_MAX {
        let partitions = store.partitions().await?;
        let live = partitions.iter().filter(|partition| partition.is_owner_live);
        let owners: Vec<InstanceId> = live.filter_map(|partition| partition.instance).collect();
        let mut each = owners.clone();
        each.sort_unstable();
        each.dedup();
        if !partitions.is_empty() && owners.len() == partitions.len() && each.len() == instances {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    bail!("the partitions did not spread over {instances} instances")
}
