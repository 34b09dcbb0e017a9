//! The readers: a few connections beside the writer, each on its own thread, each call in one
//! snapshot.
//!
//! Holds throughout: a read takes no lock that a turn would wait for, and can change nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use rusqlite::Connection;
use tokio::sync::mpsc;
use windrow_store::{Result, Time};

use crate::tx::Tx;
use crate::writer::{Job, submit};

/// Most reads that wait; the next caller waits to be let in.
const QUEUE_CALLS_MAX: usize = 256;

/// Sends reads to the threads.
#[derive(Clone)]
pub(crate) struct Readers {
    queue: mpsc::Sender<Box<dyn Job>>,
    connections: usize,
    busy: Arc<AtomicUsize>,
}

impl Readers {
    /// Starts a thread for each connection; they end when the last `Readers` is dropped.
    pub(crate) fn start(conns: Vec<Connection>, time: &Time) -> std::io::Result<Self> {
        let (queue, jobs) = mpsc::channel(QUEUE_CALLS_MAX);
        let jobs = Arc::new(Mutex::new(jobs));
        let (connections, busy) = (conns.len(), Arc::<AtomicUsize>::default());
        for conn in conns {
            let (jobs, time, busy) = (Arc::clone(&jobs), time.clone(), Arc::clone(&busy));
            let thread = std::thread::Builder::new().name("windrow-reader".to_owned());
            thread.spawn(move || work(&conn, &time, &jobs, &busy))?;
        }
        Ok(Self { queue, connections, busy })
    }

    /// How many connections there are, and how many of them are reading.
    pub(crate) fn open_and_busy(&self) -> (usize, usize) {
        (self.connections, self.busy.load(Ordering::Relaxed))
    }

    pub(crate) async fn call<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Tx<'_>) -> Result<T> + Send + 'static,
    {
        submit(&self.queue, false, work).await
    }
}

fn work(
    conn: &Connection,
    time: &Time,
    jobs: &Mutex<mpsc::Receiver<Box<dyn Job>>>,
    busy: &AtomicUsize,
) {
    // The lock is held while waiting: its holder takes the next call, the others queue for it.
    let next = || jobs.lock().blocking_recv();
    while let Some(mut job) = next() {
        if job.is_abandoned() {
            continue;
        }
        busy.fetch_add(1, Ordering::Relaxed);
        let began = conn.execute_batch("BEGIN");
        if began.is_ok() {
            job.run(conn, time);
        }
        if !conn.is_autocommit() {
            // Nothing was written, so ending the snapshot cannot lose anything.
            let _ = conn.execute_batch("ROLLBACK");
        }
        busy.fetch_sub(1, Ordering::Relaxed);
        job.answer(began.as_ref().err());
    }
}
