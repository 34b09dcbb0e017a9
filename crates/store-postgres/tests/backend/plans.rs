//! Hot verbs reach rows by key, whatever the planner knows of the tables.

use std::collections::BTreeMap;

use futures_util::future::join_all;
use windrow_domain::attempt::Status;
use windrow_domain::{BatchId, InstanceId, LeaseId};
use windrow_store::claim::{Poll, Request};
use windrow_store::inspect::{BatchesQuery, FinishedQuery, PendingQuery, Place, RowsQuery};
use windrow_store::record::{Outcomes, Turn};
use windrow_store::{Claim, Finalise, Inspect, Record, Scope, Sweep};
use windrow_store_postgres::PostgresStore;
use windrow_testkit::postgres::Database;

use crate::support::{LEASE_MS, Session, again, batch, file, fresh, sessions_ended, store, turn};

const LINES: u64 = 50_000;
/// Enough of them that a scan costs more than a look by key; the planner scans what fits few pages.
const SMALL_BATCHES: usize = 2_000;
const SMALL_TURNS: usize = 50;
const SMALL_LINES: u64 = 20;
const TRANCHE_LINES: u32 = 200;
const TURNS: u64 = 10;
/// Tables that grow with lines and batches: a scan of one is a fault that shows only when large.
const LARGE: [&str; 5] = ["templates", "results", "attempts", "lane_states", "batch_lanes"];

/// A database with much in it, and what its tables saw.
struct Watched {
    database: Database,
    session: Session,
    /// The batch over the large file.
    large: BatchId,
    instance: InstanceId,
    scans: Vec<String>,
}

/// What the server counted for a table since it was made.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    scans: i64,
    fetched: i64,
}

impl Watched {
    /// Fills a database through the store and drains some of it. Nothing is analysed on purpose.
    async fn fill() -> Self {
        let database = fresh().await;
        let session = Session::open(&database.url()).await.unwrap();
        let filler = store(&database.url()).await;
        let small = file(&filler, SMALL_LINES).await;
        let made: Vec<_> = (0..SMALL_BATCHES).map(|_| batch(&filler, small)).collect();
        join_all(made).await;
        let large = batch(&filler, file(&filler, LINES).await).await;
        let instance = InstanceId::new();
        let mut claimed = None;
        for _ in 0..SMALL_TURNS {
            let next = turn(instance, claimed.as_ref(), TRANCHE_LINES);
            claimed = filler.turn(next).await.unwrap().claimed;
        }
        drain_some(&filler, instance, large).await;
        retry_some(&filler, instance, large).await;
        Self { database, session, large, instance, scans: Vec::new() }
    }

    /// Lets the planner know what is in the tables.
    async fn analyse(&self) {
        self.session.batch_execute("ANALYZE").await.unwrap();
    }

    async fn seen(&self) -> BTreeMap<String, Seen> {
        sessions_ended(&self.session).await;
        let counts = "SELECT relname::text, seq_scan, coalesce(idx_tup_fetch, 0) AS fetched
                      FROM pg_stat_user_tables WHERE schemaname = 'windrow'";
        let rows = self.session.query(counts, &[]).await.unwrap();
        let seen =
            |row: &tokio_postgres::Row| Seen { scans: row.get(1), fetched: row.get("fetched") };
        rows.iter().map(|row| (row.get(0), seen(row))).collect()
    }

    /// Runs a verb on a store of its own and notes every large table that it scanned. Gives how
    /// many templates it read.
    async fn during(&mut self, verb: &str, run: impl AsyncFnOnce(&PostgresStore)) -> i64 {
        let before = self.seen().await;
        let worker = store(&self.database.url()).await;
        run(&worker).await;
        drop(worker);
        let after = self.seen().await;
        for table in LARGE {
            let scans = after[table].scans - before[table].scans;
            if scans > 0 {
                self.scans.push(format!("{verb} scanned {table} {scans} times"));
            }
        }
        after["templates"].fetched - before["templates"].fetched
    }

    /// Takes turns; a claim reads the lines that it leases and hardly any other.
    async fn turns(&mut self) {
        let (instance, large) = (self.instance, self.large);
        let mut leased = 0;
        let read =
            self.during("turn", async |store| leased = drain_some(store, instance, large).await);
        let read = u64::try_from(read.await).unwrap();
        assert!(leased >= TURNS * u64::from(TRANCHE_LINES), "the batch has enough lines");
        assert!(read <= 2 * leased, "{read} templates read for {leased} lines");
    }

    async fn looks(&mut self) {
        let (instance, large) = (self.instance, self.large);
        let all = &Scope::All;
        self.during("status", async |store| {
            store.batch(all, large).await.unwrap();
            store.lanes(all, large).await.unwrap();
        })
        .await;
        self.during("batches", async |store| {
            let query = BatchesQuery { limit: 20, ..BatchesQuery::default() };
            store.batches(all, query).await.unwrap();
        })
        .await;
        self.during("finished", async |store| {
            let query = FinishedQuery { batch: Some(large), limit: 100, ..Default::default() };
            let page = store.finished(all, query.clone()).await.unwrap();
            store.finished(all, FinishedQuery { after: page.next, ..query }).await.unwrap();
        })
        .await;
        self.rows().await;
        self.during("attempts", async |store| drop(store.attempts(all, large, 1).await.unwrap()))
            .await;
        self.during("tries", async |store| {
            let lines: Vec<u64> = (2001..=3000).collect();
            assert!(!store.attempt_counts(large, &lines).await.unwrap().is_empty());
        })
        .await;
        self.during("pending of a batch", async |store| {
            let query = PendingQuery { batch: Some(large), limit: 100, ..Default::default() };
            let page = store.pending(all, query.clone()).await.unwrap();
            store.pending(all, PendingQuery { after: page.next, ..query }).await.unwrap();
        })
        .await;
        self.during("waiting", async |store| {
            store.waiting(Poll::targets(100)).await.unwrap();
            store.waiting(Poll { only: Some(large), ..Poll::targets(100) }).await.unwrap();
        })
        .await;
        self.during("extend", async |store| {
            store.extend_leases(instance, vec![LeaseId::new()], LEASE_MS).await.unwrap();
        })
        .await;
    }

    /// A page of rows reads its own lines and hardly any other, wherever it begins.
    async fn rows(&mut self) {
        let (large, all) = (self.large, &Scope::All);
        let every = RowsQuery { earlier: true, ..RowsQuery::of(large, 100) };
        let failed = RowsQuery { statuses: vec![Status::Failed], ..every.clone() };
        let held = RowsQuery { places: vec![Place::Leased, Place::Returned], ..every.clone() };
        for query in [every, failed, held] {
            for backward in [false, true] {
                let middle = RowsQuery { backward, from: Some(LINES / 2), ..query.clone() };
                let mut given = 0;
                let read = self.during("rows", async |store| {
                    for query in [RowsQuery { from: None, ..middle.clone() }, middle] {
                        let page = store.rows(all, query.clone()).await.unwrap();
                        given += page.rows.len();
                        let after = RowsQuery { from: None, after: page.next, ..query };
                        given += store.rows(all, after).await.unwrap().rows.len();
                    }
                });
                let read = usize::try_from(read.await).unwrap();
                // Each row by its key, its number, one more of each page, and a bisection of each lane.
                assert!(read <= 3 * given + 200, "{read} templates read for {given} rows");
            }
        }
    }

    async fn sweeps(&mut self) {
        self.during("find unclosed", async |store| drop(store.find_unclosed(10).await.unwrap()))
            .await;
        self.during("return lost", async |store| drop(store.return_lost(10, 3).await.unwrap()))
            .await;
        self.during("expire batches", async |store| drop(store.expire_batches(10).await.unwrap()))
            .await;
    }
}

/// Takes turns on one batch, the last of which keeps its lease. Gives how many lines were leased.
async fn drain_some(store: &PostgresStore, instance: InstanceId, only: BatchId) -> u64 {
    let mut claimed = None;
    let mut leased = 0;
    for _ in 0..TURNS {
        let next = turn(instance, claimed.as_ref(), TRANCHE_LINES);
        claimed = store.turn(within(next, only)).await.unwrap().claimed;
        leased += claimed.as_ref().map_or(0, |tranche| tranche.lines.len() as u64);
    }
    leased
}

/// Tries lines in vain, so that there is a history.
async fn retry_some(store: &PostgresStore, instance: InstanceId, only: BatchId) {
    for _ in 0..TURNS {
        let next = within(turn(instance, None, TRANCHE_LINES), only);
        let tranche = store.turn(next).await.unwrap().claimed.unwrap();
        let due = tranche.lease.expires_at;
        let again = tranche.lines.iter().map(|line| again(line, due)).collect();
        let outcomes = Outcomes { again, ..Outcomes::of(tranche.lease.held) };
        store.record(instance, vec![outcomes]).await.unwrap();
    }
}

/// The same turn, with a claim from one batch only.
fn within(turn: Turn, only: BatchId) -> Turn {
    let claim = turn.claim.map(|claim| Request { only: Some(only), ..claim });
    Turn { claim, ..turn }
}

#[tokio::test(flavor = "multi_thread")]
async fn hot_verbs_scan_no_large_table_before_and_after_analyze() {
    let mut watched = Watched::fill().await;
    watched.turns().await;
    watched.analyse().await;
    watched.turns().await;
    watched.looks().await;
    watched.sweeps().await;
    assert!(watched.scans.is_empty(), "{}", watched.scans.join("\n"));
}
