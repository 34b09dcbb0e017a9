//! The words these tests are written in: databases, lines, workers, and waiting for a state.

use std::error::Error as _;
use std::ops::Deref;
use std::time::Duration;

use jiff::Timestamp;
use tokio::task::JoinSet;
use tokio_postgres::{Client, NoTls};
use windrow_domain::attempt::{Class, Status};
use windrow_domain::{BatchId, FileId, InstanceId, LeaseId, Owner, Target};
use windrow_store::batch::NewBatch;
use windrow_store::claim::{Line, Request, Tranche};
use windrow_store::ingest::{Chunk, FileVerdict, NewFile, NewLane, NewLine};
use windrow_store::record::{Again, Finished, Outcomes, Turn};
use windrow_store::{Batches, Error, Ingest, Inspect, Result, Retry, Scope};
use windrow_store_postgres::{Options, PostgresStore};
use windrow_testkit::postgres::Database;

pub(crate) const LEASE_MS: u64 = 600_000;
const POLL_MS: u64 = 20;
const WAIT_SECS_MAX: u64 = 60;
const CHUNK_LINES: u64 = 10_000;

/// A migrated database of the test's own.
pub(crate) async fn fresh() -> Database {
    Database::fresh(async |url| {
        PostgresStore::connect(Options::new(url)).await?.migrate().await?;
        Ok::<_, Error>(())
    })
    .await
}

/// A store with four connections at most.
pub(crate) async fn store(url: &str) -> PostgresStore {
    PostgresStore::connect(Options::new(url).pool_max(4)).await.unwrap()
}

/// A session of the test's own, beside the store's.
pub(crate) struct Session {
    client: Client,
    _connection: JoinSet<()>,
}

impl Session {
    pub(crate) async fn open(url: &str) -> Result<Self, tokio_postgres::Error> {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
        let mut tasks = JoinSet::new();
        tasks.spawn(async move { drop(connection.await) });
        Ok(Self { client, _connection: tasks })
    }
}

impl Deref for Session {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

/// Lets a little time pass between two looks at a state, or two tries.
#[expect(clippy::disallowed_methods, reason = "the one place where these tests wait between looks")]
pub(crate) async fn pause() {
    tokio::time::sleep(Duration::from_millis(POLL_MS)).await;
}

/// Looks again and again until it is so, within bounds.
pub(crate) async fn until(what: &str, is_so: impl AsyncFn() -> bool) {
    let looked = tokio::time::timeout(Duration::from_secs(WAIT_SECS_MAX), async {
        while !is_so().await {
            pause().await;
        }
    });
    looked.await.unwrap_or_else(|_| panic!("waited {WAIT_SECS_MAX} s until {what}"));
}

/// Repeats a call that may succeed later until it does; any other error ends the test.
pub(crate) async fn persist<T, F>(call: impl Fn() -> F) -> T
where
    F: Future<Output = Result<T>>,
{
    let tried = tokio::time::timeout(Duration::from_secs(WAIT_SECS_MAX), async {
        loop {
            match call().await {
                Ok(value) => return value,
                Err(error) if error.kind.retry() == Retry::Never => panic!("{}", whole(&error)),
                Err(_) => pause().await,
            }
        }
    });
    tried.await.unwrap_or_else(|_| panic!("the call did not succeed within {WAIT_SECS_MAX} s"))
}

/// Everything an error says, causes included.
pub(crate) fn whole(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(deeper) = cause {
        text = format!("{text}: {deeper}");
        cause = deeper.source();
    }
    text
}

pub(crate) fn owner() -> Owner {
    Owner::new("ada").unwrap()
}

pub(crate) fn target() -> Target {
    Target::new("model-a").unwrap()
}

pub(crate) fn new_file() -> NewFile {
    let (id, name) = (FileId::new(), "requests.jsonl".to_owned());
    NewFile { id, owner: owner(), name, purpose: "batch".to_owned(), expires_at: None }
}

/// A chunk of one lane that starts with that line (from 0).
pub(crate) fn chunk(no: u32, first: u64, lines: u64) -> Chunk {
    let lane = |seq| NewLine {
        lane: Some(0),
        seq,
        line: seq + 1,
        raw: format!("{{\"custom_id\":\"r-{seq}\",\"body\":{{\"model\":\"model-a\"}}}}\n").into(),
    };
    let lanes = if no == 0 { vec![NewLane { lane: 0, target: target() }] } else { Vec::new() };
    Chunk { no, lanes, lines: (first..first + lines).map(lane).collect() }
}

/// A sealed file of so many lines.
pub(crate) async fn file(store: &PostgresStore, lines: u64) -> FileId {
    let new = new_file();
    let id = new.id;
    store.open_file(new).await.unwrap();
    for (no, first) in (0..).zip((0..lines).step_by(CHUNK_LINES.try_into().unwrap())) {
        let piece = chunk(no, first, CHUNK_LINES.min(lines - first));
        store.add_lines(id, piece).await.unwrap();
    }
    store.seal_file(id, FileVerdict::Valid).await.unwrap().id
}

pub(crate) fn new_batch(file: FileId) -> NewBatch {
    NewBatch { window_secs: Some(86_400), ..NewBatch::over(file, owner(), "/v1/do") }
}

pub(crate) async fn batch(store: &PostgresStore, file: FileId) -> BatchId {
    store.create_batch(new_batch(file)).await.unwrap().id
}

/// A claim of so many lines under a new lease.
pub(crate) fn request(lines_max: u32) -> Request {
    let routes = vec![target().into()];
    let (lease, binds) = (LeaseId::new(), false);
    Request { lease, routes, binds, only: None, lines_max, lease_ms: LEASE_MS }
}

/// Every line of the tranche completed.
pub(crate) fn completed(tranche: &Tranche) -> Outcomes {
    let attempts = tranche.lease.attempts + 1;
    let done = |line: &Line| Finished::bare(line.seq, line.line, Status::Completed, attempts);
    let finished = tranche.lines.iter().map(done).collect();
    Outcomes { finished, ..Outcomes::of(tranche.lease.held.clone()) }
}

/// A line that was tried in vain.
pub(crate) fn again(line: &Line, not_before: Timestamp) -> Again {
    let (error_code, error) = ("http_500".to_owned(), "the target failed".to_owned());
    let (seq, line, class) = (line.seq, line.line, Class::Server);
    Again { seq, line, not_before, class, error_code, error }
}

/// A turn that completes a tranche and claims the next so many lines.
pub(crate) fn turn(instance: InstanceId, tranche: Option<&Tranche>, lines_max: u32) -> Turn {
    let outcomes = tranche.map(completed).into_iter().collect();
    Turn { instance, outcomes, claim: Some(request(lines_max)) }
}

/// Every line is in exactly one place, and so many have a result.
pub(crate) async fn assert_finished(store: &PostgresStore, batch: BatchId, lines: u64) {
    let audit = store.verify(batch).await.unwrap();
    audit.check().unwrap();
    let results: u64 = audit.lanes.iter().map(|lane| lane.results).sum();
    assert_eq!(results, lines, "result rows");
    assert_eq!(store.batch(&Scope::All, batch).await.unwrap().counts.finished(), lines);
}

/// Sessions tell what they saw when they end, at the latest: so wait until the store's have.
pub(crate) async fn sessions_ended(session: &Session) {
    let sessions = "SELECT FROM pg_stat_activity
                     WHERE datname = current_database() AND application_name = 'windrow'";
    until("the store's sessions ended", async || {
        session.query(sessions, &[]).await.unwrap().is_empty()
    })
    .await;
}
