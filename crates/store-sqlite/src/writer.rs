//! The writer: one thread, one connection, and one commit for all calls that wait together.
//!
//! Holds throughout: a call that fails is rolled back alone (its own savepoint) and its neighbours
//! do not notice; no caller is answered before the commit is durable; a commit that fails is an
//! error for every call in it; a panic in a call is that call's error and the thread lives on.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use rusqlite::{Connection, ffi};
use tokio::sync::{mpsc, oneshot};
use windrow_store::error::panic_text;
use windrow_store::{Error, Kind, Result, Time};

use crate::error;
use crate::tx::Tx;

/// Most calls that wait for the writer; the next caller waits to be let in.
const QUEUE_CALLS_MAX: usize = 1024;
/// Most calls of one commit, so that the first does not wait for ever.
const GROUP_CALLS_MAX: usize = 64;
/// Past this size, readers are waited for so that the log can start over.
const WAL_BYTES_MAX: u64 = 128 << 20;
/// How long the writer stands still for them; a reader that stays longer is met at the next look.
const WAL_WAIT: Duration = Duration::from_millis(50);
/// How often the size of the log is looked at.
const WAL_LOOK_COMMITS: u64 = 64;

/// What the writer did since it began.
#[derive(Debug, Default)]
pub(crate) struct WriterCounters {
    pub(crate) calls: AtomicU64,
    pub(crate) commits: AtomicU64,
    /// A group is being written.
    pub(crate) busy: AtomicBool,
}

/// A call on its way through a thread.
pub(crate) trait Job: Send {
    /// Does the work, keeps its answer; says whether it succeeded.
    fn run(&mut self, conn: &Connection, time: &Time) -> bool;
    /// Tells the caller; `failed` overrules the answer, because nothing was committed.
    fn answer(self: Box<Self>, failed: Option<&rusqlite::Error>);
    /// The caller is gone: what it asked for need not begin.
    fn is_abandoned(&self) -> bool;
    /// It may run for long, so it gets a transaction of its own and no other call shares its
    /// commit.
    fn is_alone(&self) -> bool;
}

/// A closure, its answer, and where to send it.
pub(crate) struct QueuedCall<T, F> {
    work: Option<F>,
    alone: bool,
    answer: Option<Result<T>>,
    reply: oneshot::Sender<Result<T>>,
}

impl<T, F> QueuedCall<T, F>
where
    T: Send + 'static,
    F: FnOnce(&Tx<'_>) -> Result<T> + Send + 'static,
{
    pub(crate) fn boxed(alone: bool, work: F) -> (Box<dyn Job>, oneshot::Receiver<Result<T>>) {
        let (reply, receiver) = oneshot::channel();
        let work = Some(work);
        (Box::new(Self { work, alone, answer: None, reply }), receiver)
    }
}

impl<T, F> Job for QueuedCall<T, F>
where
    T: Send + 'static,
    F: FnOnce(&Tx<'_>) -> Result<T> + Send + 'static,
{
    fn run(&mut self, conn: &Connection, time: &Time) -> bool {
        let Some(work) = self.work.take() else {
            return false;
        };
        let attempt = || Tx::new(conn, time).and_then(|tx| work(&tx));
        let answer = catch_unwind(AssertUnwindSafe(attempt)).unwrap_or_else(|panic| {
            let because = format!("the call panicked: {}", panic_text(panic.as_ref()));
            Err(Error::of(Kind::Corrupt).because(because))
        });
        self.answer.insert(answer).is_ok()
    }

    fn answer(self: Box<Self>, failed: Option<&rusqlite::Error>) {
        let answer = match (self.answer, failed) {
            // A call that failed by itself says so, whatever became of its neighbours.
            (Some(Err(own)), _) => Err(own),
            (_, Some(cause)) => Err(error::shared(cause)),
            (Some(Ok(value)), None) => Ok(value),
            (None, None) => Err(Error::of(Kind::Unavailable)),
        };
        // A caller that left does not need its answer.
        let _ = self.reply.send(answer);
    }

    fn is_abandoned(&self) -> bool {
        self.reply.is_closed()
    }

    fn is_alone(&self) -> bool {
        self.alone
    }
}

/// Sends calls to the thread.
#[derive(Clone)]
pub(crate) struct Writer {
    queue: mpsc::Sender<Box<dyn Job>>,
    pub(crate) counters: Arc<WriterCounters>,
}

impl Writer {
    /// Starts the thread on its connection; it ends when the last `Writer` is dropped.
    pub(crate) fn start(conn: Connection, time: Time, log: Option<Log>) -> std::io::Result<Self> {
        let (queue, jobs) = mpsc::channel(QUEUE_CALLS_MAX);
        let counters = Arc::new(WriterCounters::default());
        let writer = WriterThread { conn, time, log, counters: Arc::clone(&counters) };
        let thread = std::thread::Builder::new().name("windrow-writer".to_owned());
        thread.spawn(move || writer.work(jobs))?;
        Ok(Self { queue, counters })
    }

    /// Calls in the queue.
    pub(crate) fn waiting(&self) -> usize {
        self.queue.max_capacity() - self.queue.capacity()
    }

    pub(crate) async fn call<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Tx<'_>) -> Result<T> + Send + 'static,
    {
        submit(&self.queue, false, work).await
    }

    /// The same, in a transaction that no other call shares.
    pub(crate) async fn call_alone<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Tx<'_>) -> Result<T> + Send + 'static,
    {
        submit(&self.queue, true, work).await
    }
}

/// Hands a call to a thread and waits for its answer.
pub(crate) async fn submit<T, F>(
    queue: &mpsc::Sender<Box<dyn Job>>,
    alone: bool,
    work: F,
) -> Result<T>
where
    T: Send + 'static,
    F: FnOnce(&Tx<'_>) -> Result<T> + Send + 'static,
{
    let gone = || Error::of(Kind::Unavailable).because("the store is closed");
    let (job, answer) = QueuedCall::boxed(alone, work);
    if queue.send(job).await.is_err() {
        return Err(gone());
    }
    answer.await.unwrap_or_else(|_| Err(gone()))
}

/// What the thread owns: the one connection that writes.
struct WriterThread {
    conn: Connection,
    time: Time,
    log: Option<Log>,
    counters: Arc<WriterCounters>,
}

/// The write-ahead log of a database in a file.
pub(crate) struct Log {
    pub(crate) path: PathBuf,
    /// How long calls wait for other processes.
    pub(crate) busy: Duration,
}

impl WriterThread {
    fn work(self, mut jobs: mpsc::Receiver<Box<dyn Job>>) {
        let mut group = Vec::with_capacity(GROUP_CALLS_MAX);
        let mut next: Option<Box<dyn Job>> = None;
        while let Some(first) = next.take().or_else(|| jobs.blocking_recv()) {
            let mut is_full = first.is_alone();
            group.push(first);
            while !is_full && group.len() < GROUP_CALLS_MAX {
                match jobs.try_recv() {
                    Ok(job) if job.is_alone() => {
                        next = Some(job);
                        is_full = true;
                    }
                    Ok(job) => group.push(job),
                    Err(_) => is_full = true,
                }
            }
            group.retain(|job| !job.is_abandoned());
            self.counters.busy.store(true, Ordering::Relaxed);
            let failed = self.commit_together(&mut group).err();
            self.counters.busy.store(false, Ordering::Relaxed);
            for job in group.drain(..) {
                job.answer(failed.as_ref());
            }
            self.bound_wal();
        }
    }

    /// Runs the group in one transaction. Err when none of it is committed.
    fn commit_together(&self, group: &mut [Box<dyn Job>]) -> rusqlite::Result<()> {
        if group.is_empty() {
            return Ok(());
        }
        self.execute("BEGIN IMMEDIATE")?;
        self.counters.calls.fetch_add(group.len() as u64, Ordering::Relaxed);
        let ran = match group {
            // Alone, the transaction is its savepoint.
            [only] => Ok(only.run(&self.conn, &self.time)),
            several => several.iter_mut().try_for_each(|job| self.run_apart(job)).map(|()| true),
        };
        let committed = match ran {
            Ok(true) => self.execute("COMMIT"),
            // It failed alone, and answers for itself.
            Ok(false) => Ok(()),
            Err(cause) => Err(cause),
        };
        self.counters.commits.fetch_add(1, Ordering::Relaxed);
        if !self.conn.is_autocommit() {
            // The next group must not find a transaction that is still open.
            let _ = self.execute("ROLLBACK");
        }
        committed
    }

    /// Runs one call so that its failure undoes only its own work.
    fn run_apart(&self, job: &mut Box<dyn Job>) -> rusqlite::Result<()> {
        self.execute("SAVEPOINT call")?;
        if !job.run(&self.conn, &self.time) {
            if self.conn.is_autocommit() {
                // A full disk or an I/O error took the whole transaction with it.
                let cause = ffi::Error::new(ffi::SQLITE_ABORT_ROLLBACK);
                let because = "another call in the same commit met a failure of the disk";
                return Err(rusqlite::Error::SqliteFailure(cause, Some(because.to_owned())));
            }
            self.execute("ROLLBACK TO call")?;
        }
        self.execute("RELEASE call")
    }

    fn execute(&self, command: &str) -> rusqlite::Result<()> {
        self.conn.prepare_cached(command)?.execute([]).map(|_| ())
    }

    /// Readers that overlap without a gap would let the log grow for ever.
    fn bound_wal(&self) {
        let Some(log) = &self.log else { return };
        if !self.counters.commits.load(Ordering::Relaxed).is_multiple_of(WAL_LOOK_COMMITS) {
            return;
        }
        if std::fs::metadata(&log.path).is_ok_and(|file| file.len() > WAL_BYTES_MAX) {
            // Whether it worked shows at the next look.
            let _ = self.conn.busy_timeout(WAL_WAIT);
            let _ = self.conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
            let _ = self.conn.busy_timeout(log.busy);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Options, SqliteBackend};

    const PUT: &str = "INSERT INTO targets (target, in_flight_max, granted) VALUES (?1, 1, 0)";
    const COUNT: &str = "SELECT count(*) FROM targets";

    async fn open() -> (tempfile::TempDir, SqliteBackend) {
        let dir = tempfile::tempdir().unwrap();
        let store = SqliteBackend::open(Options::file(dir.path().join("w.db"))).await.unwrap();
        (dir, store)
    }

    async fn put(store: &SqliteBackend, target: &'static str) -> Result<()> {
        store.write(move |tx| tx.run(PUT, [target]).map(|_| ())).await
    }

    async fn count(store: &SqliteBackend) -> i64 {
        store.read(|tx| tx.sure(COUNT, [], |row| row.get(0))).await.unwrap()
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_call_that_fails_or_panics_takes_nobody_with_it() {
        let (_dir, store) = open().await;
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let before = store.stats();
        // Holds the thread until the others wait behind it, so that they share a commit.
        let first = store.write(move |_| {
            let _ = wait.recv();
            Ok(())
        });
        let refused = store.write(|tx| {
            tx.run(PUT, ["b"])?;
            Err::<(), _>(Error::of(Kind::Conflict))
        });
        let panics = store.write(|tx| {
            tx.run(PUT, ["c"])?;
            panic!("broken on purpose");
            #[expect(unreachable_code, reason = "gives the closure its type")]
            Ok(())
        });
        let release = async move { drop(go) };
        let (first, a, refused, panics, d, ()) =
            tokio::join!(first, put(&store, "a"), refused, panics, put(&store, "d"), release);
        first.unwrap();
        a.unwrap();
        d.unwrap();
        assert_eq!(refused.unwrap_err().kind, Kind::Conflict);
        assert_eq!(panics.unwrap_err().kind, Kind::Corrupt);
        assert_eq!(count(&store).await, 2);
        let after = store.stats();
        assert_eq!(after.calls - before.calls, 5);
        assert!(after.commits - before.commits <= 2, "{before:?} became {after:?}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_full_disk_is_unavailable_and_then_works() {
        let (_dir, store) = open().await;
        let bound = |pages: u32| {
            let text = format!("PRAGMA max_page_count = {pages}");
            store.write(move |tx| tx.sure(&text, [], |row| row.get::<_, i64>(0)))
        };
        let fill = |store: &SqliteBackend| {
            let store = store.clone();
            async move {
                let work = |tx: &Tx<'_>| tx.run(PUT, ["x".repeat(1 << 20)]).map(|_| ());
                store.write(work).await
            }
        };
        bound(1).await.unwrap();
        let alone = fill(&store).await.unwrap_err();
        assert_eq!(alone.kind, Kind::Unavailable);

        let (go, wait) = std::sync::mpsc::channel::<()>();
        let first = store.write(move |_| {
            let _ = wait.recv();
            Ok(())
        });
        let release = async move { drop(go) };
        let (_, neighbour, full, ()) = tokio::join!(first, put(&store, "a"), fill(&store), release);
        assert_eq!(full.unwrap_err().kind, Kind::Unavailable);
        // What was not committed was not answered as if it were.
        let kept = i64::from(neighbour.is_ok());
        assert_eq!(count(&store).await, kept);

        bound(1_000_000).await.unwrap();
        put(&store, "b").await.unwrap();
        assert_eq!(count(&store).await, kept + 1);
    }

    #[tokio::test]
    async fn the_log_is_cut_when_it_grows_past_its_bound() {
        let (dir, store) = open().await;
        let wal = dir.path().join("w.db-wal");
        // A reader that stays holds the log back until it leaves.
        let reader = Connection::open(dir.path().join("w.db")).unwrap();
        reader.execute_batch("BEGIN; SELECT count(*) FROM targets").unwrap();
        let text = "x".repeat(2 << 20);
        let write = |no: u64| {
            let text = format!("{no}{text}");
            store.write(move |tx| {
                tx.run("DELETE FROM targets", [])?;
                tx.run(PUT, [text]).map(|_| ())
            })
        };
        let mut no = 0;
        while std::fs::metadata(&wal).unwrap().len() <= WAL_BYTES_MAX {
            write(no).await.unwrap();
            no += 1;
        }
        drop(reader);
        for more in 0..WAL_LOOK_COMMITS + 2 {
            put(&store, Box::leak(format!("small{more}").into_boxed_str())).await.unwrap();
        }
        assert!(std::fs::metadata(&wal).unwrap().len() < WAL_BYTES_MAX / 2);
    }
}
