//! The store on PostgreSQL, for work that many machines share.
//!
//! Holds throughout: a verb is one pipelined write in one transaction, so no lock ever waits for a
//! client; what must be decided under a lock is decided by a function inside the database; time is
//! the database's `clock_timestamp()`, read after the lock was got.
//! Absent on purpose: triggers, session state that a transaction pooler would break, and reads of
//! a lane's rows to count them.

#![warn(missing_docs)]

mod batch;
mod call;
mod claim;
mod db;
mod error;
mod event;
mod finalise;
mod function;
mod grants;
mod ingest;
mod inspect;
mod key;
mod member;
mod message;
mod migrate;
mod object;
mod partition;
mod record;
mod rows;
mod sweep;
mod transactional;
mod upstream;
mod wake;

use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::time::Duration;

use windrow_store::{Capabilities, Gauges, MessageStore, Result, Store, Time};

use db::Db;

pub use grants::grants;
pub use migrate::NoRight;

/// How to reach the database, and what bounds a call.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// `postgres://user@host:port/database`.
    pub url: String,
    /// Most connections of this process.
    pub pool_max: usize,
    /// The URL leads through a transaction pooler: use no prepared statements.
    pub transaction_pooler: bool,
    /// The clock that decides when a lease has expired.
    pub time: Time,
    /// Longest wait for a connection of the pool.
    pub acquire_timeout: Duration,
    /// Longest wait for a lock.
    pub lock_timeout: Duration,
    /// Longest statement.
    pub statement_timeout: Duration,
    /// Longest pause of this process inside a transaction, should it be stopped there.
    pub idle_timeout: Duration,
}

windrow_domain::option_setters! {
    Options {
        pool_max: usize,
        transaction_pooler: bool,
        time: Time,
        acquire_timeout: Duration,
        lock_timeout: Duration,
        statement_timeout: Duration,
        idle_timeout: Duration,
    }
}

impl Options {
    /// Defaults for that URL.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            pool_max: 16,
            transaction_pooler: false,
            time: Time::Database,
            acquire_timeout: Duration::from_secs(5),
            lock_timeout: Duration::from_secs(5),
            statement_timeout: Duration::from_secs(30),
            idle_timeout: Duration::from_secs(10),
        }
    }
}

/// The store on PostgreSQL. Cheap to clone; clones share the pool.
#[derive(Clone)]
pub struct PostgresStore {
    backend: PostgresBackend,
}

windrow_store::checked_store!(PostgresStore);

impl PostgresStore {
    /// Opens a pool. No connection is made yet: the first call says whether the database can be
    /// reached (`Unavailable`) and whether its schema is the one this program knows (`Corrupt`).
    pub async fn connect(options: Options) -> Result<Self> {
        let db = Db::open(options)?;
        let (leases_from, claims) = (Arc::default(), Arc::default());
        let backend = PostgresBackend { db, leases_from, claims, streams: Arc::default() };
        Ok(Self { backend })
    }

    /// Brings the schema up to date; safe to run on several processes at once. Where it is, nothing is
    /// written, and the role needs no right to. Otherwise it needs a direct connection, not a
    /// transaction pooler, and a role without the rights gets an error whose cause is [`NoRight`].
    pub async fn migrate(&self) -> Result<()> {
        migrate::run(&self.backend.db).await
    }

    /// Refuses a schema that is not the one of this program, and changes nothing. The cause is
    /// [`windrow_store::error::NotMigrated`] for one that is not there or older, [`NoRight`] for one that
    /// the role may not use.
    pub async fn check_schema(&self) -> Result<()> {
        migrate::check(&self.backend.db).await
    }
}

/// What does the work behind the seam: arguments are checked before it sees them, and its errors are
/// named after it gave them.
#[derive(Clone)]
struct PostgresBackend {
    db: Db,
    /// Leases before this token were gone when the last claim looked: a hint, never a truth.
    leases_from: Arc<AtomicI64>,
    claims: Arc<AtomicI64>,
    streams: Arc<message::StreamCache>,
}

impl Store for PostgresBackend {
    fn capabilities(&self) -> Capabilities {
        Capabilities { name: "postgres", durable: true }
    }

    fn gauges(&self) -> Gauges {
        self.db.gauges()
    }
}

impl MessageStore for PostgresBackend {}
