//! A server that is down, restarted, killed or full: a typed error, and the same call succeeds later.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use windrow_domain::{BatchId, InstanceId};
use windrow_store::inspect::PendingQuery;
use windrow_store::{
    Batches, Claim, Finalise, Ingest, Inspect, Kind, Members, Record, Result, Retry, Scope, Sweep,
};
use windrow_store_postgres::{Options, PostgresStore};
use windrow_testkit::postgres::{self, Cluster, Shutdown};

use crate::support::{
    Session, assert_finished, batch, chunk, file, fresh, new_batch, new_file, pause, persist,
    request, store, turn, until, whole,
};

const LINES: u64 = 10_000;
const TRANCHE_LINES: u32 = 25;
/// Turns that are done when the server goes: far from the 400 that all lines take.
const TURNS_BEFORE: u32 = 40;

/// A server of the test's own that loses nothing when it is killed.
fn cluster(connections_max: u32) -> Cluster {
    let settings = vec![("superuser_reserved_connections".to_owned(), "0".to_owned())];
    let options =
        postgres::Options { durable: true, connections_max, settings, ..Default::default() };
    Cluster::start(&options).unwrap()
}

async fn migrated(cluster: &Cluster) -> PostgresStore {
    let store = store(&cluster.url()).await;
    store.migrate().await.unwrap();
    store
}

#[track_caller]
fn assert_unavailable<T>(verb: &str, outcome: Result<T>) {
    let error = outcome.err().unwrap_or_else(|| panic!("{verb} succeeded without a server"));
    assert_eq!(error.kind, Kind::Unavailable, "{verb}: {}", whole(&error));
    assert_eq!(error.kind.retry(), Retry::Later, "{verb}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_down_is_unavailable_and_the_same_calls_succeed_when_it_is_back() {
    let mut cluster = cluster(50);
    let store = migrated(&cluster).await;
    let sheet = file(&store, 10).await;
    let running = batch(&store, sheet).await;
    let (opened, made, me) = (new_file(), new_batch(sheet), InstanceId::new());
    let (claim, page) = (request(5), PendingQuery { limit: 10, ..PendingQuery::default() });

    cluster.stop(Shutdown::Fast);
    // Twice: first with connections that broke, then with none.
    for _ in 0..2 {
        assert_unavailable("open file", store.open_file(opened.clone()).await);
        assert_unavailable("add lines", store.add_lines(opened.id, chunk(0, 0, 3)).await);
        assert_unavailable("create batch", store.create_batch(made.clone()).await);
        assert_unavailable("claim", store.lease_tranche(me, claim.clone()).await);
        assert_unavailable("extend", store.extend_leases(me, vec![claim.lease], 1000).await);
        assert_unavailable("status", store.batch(&Scope::All, running).await);
        assert_unavailable("pending", store.pending(&Scope::All, page.clone()).await);
        assert_unavailable("find unclosed", store.find_unclosed(10).await);
        assert_unavailable("return lost", store.return_lost(10, 3).await);
        assert_unavailable("heartbeat", store.heartbeat(me).await);
        assert_unavailable("migrate", store.migrate().await);
    }

    cluster.start_again().unwrap();
    store.migrate().await.unwrap();
    store.open_file(opened.clone()).await.unwrap();
    store.add_lines(opened.id, chunk(0, 0, 3)).await.unwrap();
    store.create_batch(made).await.unwrap();
    assert_eq!(store.lease_tranche(me, claim.clone()).await.unwrap().unwrap().lines.len(), 5);
    assert_eq!(
        store.extend_leases(me, vec![claim.lease], 1000).await.unwrap().extended,
        vec![claim.lease]
    );
    assert_eq!(store.batch(&Scope::All, running).await.unwrap().counts.total, 10);
    assert_eq!(store.pending(&Scope::All, page).await.unwrap().rows.len(), 10);
    assert!(store.find_unclosed(10).await.unwrap().is_empty());
    assert_eq!(store.return_lost(10, 3).await.unwrap().leases, 0);
    // It never registered: the server is there again and says so.
    assert_eq!(store.heartbeat(me).await.unwrap_err().kind, Kind::Missing);
}

/// Takes turns until every line of the batch is finished, repeating a turn whose answer was lost.
/// Gives how many tries failed.
async fn drain(store: PostgresStore, batch: BatchId, turns: Arc<AtomicU32>) -> u32 {
    let instance = InstanceId::new();
    let failures = AtomicU32::new(0);
    let mut next = turn(instance, None, TRANCHE_LINES);
    loop {
        let reply = persist(|| async {
            let answered = store.turn(next.clone()).await;
            failures.fetch_add(u32::from(answered.is_err()), Ordering::Relaxed);
            answered
        });
        let reply = reply.await;
        turns.fetch_add(1, Ordering::Relaxed);
        next = turn(instance, reply.claimed.as_ref(), TRANCHE_LINES);
        if reply.claimed.is_none() {
            // The other one may hold the last lines, or the lane just now.
            let counts = persist(|| store.batch(&Scope::All, batch)).await.counts;
            if counts.unfinished() == 0 {
                return failures.into_inner();
            }
            pause().await;
        }
    }
}

async fn drain_through(how: Shutdown) {
    let mut cluster = cluster(50);
    let first = migrated(&cluster).await;
    let batch = batch(&first, file(&first, LINES).await).await;
    let turns = Arc::new(AtomicU32::new(0));
    let mut workers = JoinSet::new();
    for store in [first.clone(), store(&cluster.url()).await] {
        workers.spawn(drain(store, batch, Arc::clone(&turns)));
    }
    until("turns were taken", async || turns.load(Ordering::Relaxed) >= TURNS_BEFORE).await;
    cluster.stop(how);
    cluster.start_again().unwrap();
    for failures in workers.join_all().await {
        assert!(failures > 0, "the server went in the middle of the drain");
    }
    assert_finished(&first, batch, LINES).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_goes_on_after_a_restart() {
    drain_through(Shutdown::Fast).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_goes_on_after_a_crash() {
    drain_through(Shutdown::Immediate).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_out_of_connections_is_unavailable_until_one_is_free() {
    let cluster = cluster(4);
    let url = cluster.url();
    migrated(&cluster).await;
    let mut others = Vec::new();
    let full = loop {
        match Session::open(&url).await {
            Ok(session) => others.push(session),
            // One of those before may still be leaving: full means that ours are all there are.
            Err(error) if others.len() < 4 => drop(error),
            Err(error) => break error,
        }
        assert!(others.len() < 5, "the server takes more than it was told");
    };
    assert_eq!(full.code().map(|code| code.code()), Some("53300"));

    let late = store(&url).await;
    assert_unavailable("find unclosed", late.find_unclosed(10).await);
    drop(others);
    let found = persist(|| late.find_unclosed(10)).await;
    assert!(found.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_in_use_is_busy_until_a_connection_comes_back() {
    let database = fresh().await;
    let options =
        Options::new(database.url()).pool_max(1).acquire_timeout(Duration::from_millis(100));
    let lone = PostgresStore::connect(options).await.unwrap();
    let running = batch(&lone, file(&lone, 10).await).await;

    let holder = Session::open(&database.url()).await.unwrap();
    holder.batch_execute("BEGIN; SELECT id FROM windrow.batches FOR UPDATE").await.unwrap();
    let (slow, me) = (lone.clone(), InstanceId::new());
    let mut tasks = JoinSet::new();
    tasks.spawn(async move { slow.pause_batch(&Scope::All, running, None).await });
    let other = Session::open(&database.url()).await.unwrap();
    let waiting = "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = $1";
    until("the slow call waits", async || {
        other.query_opt(waiting, &[&database.name()]).await.unwrap().is_some()
    })
    .await;

    let claim = request(5);
    let error = lone.lease_tranche(me, claim.clone()).await.unwrap_err();
    assert_eq!(error.kind, Kind::Busy, "{}", whole(&error));
    assert_eq!(error.kind.retry(), Retry::AtOnce);

    holder.batch_execute("ROLLBACK").await.unwrap();
    tasks.join_next().await.unwrap().unwrap().unwrap();
    lone.resume_batch(&Scope::All, running, None).await.unwrap();
    assert_eq!(lone.lease_tranche(me, claim).await.unwrap().unwrap().lines.len(), 5);
}
