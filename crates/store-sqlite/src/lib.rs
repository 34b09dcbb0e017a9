//! The embedded store: SQLite, in a file or in memory.
//!
//! One thread writes and commits once for all calls that wait together (`writer`); a few threads
//! read beside it (`readers`). The same file may serve several processes: SQLite's own lock
//! orders them, and the tokens in the rows decide which instance may write.
//!
//! Holds throughout: lease → returned → lane → batch is the order in which a call touches rows, as
//! in the other backends; with one writer at a time nothing here depends on it.
//! Absent on purpose: foreign keys and cascades; rows are reaped in chunks.

mod batch;
mod batch_events;
mod call;
mod claim;
mod error;
mod event;
mod finalise;
mod ingest;
mod inspect;
mod key;
mod lane_counts;
mod lease;
mod member;
mod message;
mod object;
mod open;
mod partition;
mod permits;
mod readers;
mod record;
mod returned;
mod rows;
mod schema;
mod sweep;
mod transactional;
mod tx;
mod upstream;
mod wake;
mod writer;

use std::fmt;
use std::sync::atomic::Ordering;

use windrow_store::{Capabilities, Gauges, MessageStore, Result, Store};

pub use open::{Durability, Location, Options};

use readers::Readers;
use tx::Tx;
use writer::Writer;

/// A store in an SQLite database. Cheap to clone; the last clone closes it.
#[derive(Clone)]
pub struct SqliteStore {
    backend: SqliteBackend,
}

windrow_store::checked_store!(SqliteStore);

/// How well calls share commits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Calls that went through the writer.
    pub calls: u64,
    /// Transactions they took.
    pub commits: u64,
}

impl SqliteStore {
    /// Opens the database, creating it when it is not there, and brings its schema up to date.
    pub async fn open(options: Options) -> Result<Self> {
        Ok(Self { backend: SqliteBackend::open(options).await? })
    }

    /// What the writer did since it began.
    pub fn stats(&self) -> Stats {
        self.backend.stats()
    }
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteStore").field("stats", &self.stats()).finish_non_exhaustive()
    }
}

/// What does the work behind the seam: arguments are checked before it sees them, and its errors are
/// named after it gave them.
#[derive(Clone)]
struct SqliteBackend {
    writer: Writer,
    /// None in memory, where only the writer's connection can see the database.
    readers: Option<Readers>,
}

impl SqliteBackend {
    async fn open(options: Options) -> Result<Self> {
        open::open(options).await
    }

    fn stats(&self) -> Stats {
        let counters = &self.writer.counters;
        Stats {
            calls: counters.calls.load(Ordering::Relaxed),
            commits: counters.commits.load(Ordering::Relaxed),
        }
    }

    async fn write<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Tx<'_>) -> Result<T> + Send + 'static,
    {
        self.writer.call(work).await
    }

    async fn read<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Tx<'_>) -> Result<T> + Send + 'static,
    {
        match &self.readers {
            Some(readers) => readers.call(work).await,
            None => self.writer.call(work).await,
        }
    }
}

impl MessageStore for SqliteBackend {}

impl Store for SqliteBackend {
    fn capabilities(&self) -> Capabilities {
        Capabilities { name: "sqlite", durable: self.readers.is_some() }
    }

    fn gauges(&self) -> Gauges {
        let Stats { calls, commits } = self.stats();
        let readers = self.readers.as_ref().map_or((0, 0), Readers::open_and_busy);
        let open = 1 + readers.0;
        let busy = readers.1 + usize::from(self.writer.counters.busy.load(Ordering::Relaxed));
        Gauges {
            connections_max: open,
            connections_open: open,
            connections_idle: open.saturating_sub(busy),
            waiting: self.writer.waiting(),
            calls,
            commits,
            ..Gauges::default()
        }
    }
}
