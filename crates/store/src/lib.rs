//! The store contract: what a database must promise so that every line is in exactly one place.
//!
//! One small trait per stage, named as the stage is everywhere else: [`Ingest`], [`Batches`],
//! [`Claim`], [`Record`], [`Finalise`], [`Members`], [`Sweep`], [`Inspect`], [`Keys`], [`Upstreams`]; for messages
//! [`Partitions`], [`Messages`], [`Transactions`], [`Objects`], [`Events`], [`Calls`], [`Wakes`], which
//! [`MessageStore`] joins.
//! [`Store`] is all of it.
//! What the contract means is said by `windrow-store-conformance`, which every backend passes.
//!
//! Holds throughout: a verb either happened whole or not at all (one over several leases or batches,
//! such as extending or expiring, for each of them); a caller whose reply was lost may repeat a
//! verb of the batch plane, and one of the message plane that carries an id or an expected version,
//! while a repeated `commit` or `replay_dead` is refused and changes nothing; ownership is part of
//! the query ([`Scope`]), never a filter afterwards.
//! Absent on purpose: retries and loops. A backend reports [`Kind`] and the engine decides; only
//! PostgreSQL plans a call again, a bounded number of times, when a row changed before it was
//! locked.

#![warn(missing_docs)]

pub mod audit_log;
pub mod batch;
pub mod call;
pub mod checked;
pub mod claim;
pub mod error;
pub mod event;
pub mod finalise;
pub mod ingest;
pub mod inspect;
mod into_store;
pub mod key;
pub mod layer;
pub mod member;
pub mod message;
pub mod object;
pub mod partition;
pub mod pool_wait;
pub mod recipe;
pub mod record;
pub mod sweep;
pub mod time;
pub mod transactional;
pub mod upstream;
pub mod verbs;
pub mod wake;

pub use batch::Batches;
pub use call::Calls;
pub use claim::Claim;
pub use error::{Error, Kind, Result, Retry};
pub use event::Events;
pub use finalise::Finalise;
pub use ingest::Ingest;
pub use inspect::Inspect;
pub use into_store::IntoStore;
pub use key::Keys;
pub use member::Members;
pub use message::Messages;
pub use object::Objects;
pub use partition::Partitions;
pub use record::Record;
pub use sweep::Sweep;
pub use time::Time;
pub use transactional::Transactions;
pub use upstream::Upstreams;
pub use wake::Wakes;

use serde::Serialize;
use windrow_domain::Owner;

/// On whose behalf a call is made. Bound inside every query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Only what belongs to this owner exists.
    Owner(Owner),
    /// Everything exists: an administrator, or the engine itself.
    All,
}

impl Scope {
    /// The owner that queries are bound to; none means all.
    pub fn owner(&self) -> Option<&str> {
        match self {
            Scope::Owner(owner) => Some(owner.as_str()),
            Scope::All => None,
        }
    }
}

/// What a backend can do beyond the contract, so that a suite can say why it skips a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// The backend's name, for messages.
    pub name: &'static str,
    /// What was written is there after the process ends.
    pub durable: bool,
}

/// How busy the way to the database is: numbers of this process and this moment, each for itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Gauges {
    /// Most connections.
    pub connections_max: usize,
    /// Connections that are open.
    pub connections_open: usize,
    /// Open ones that no call uses.
    pub connections_idle: usize,
    /// Calls that wait for a connection; on SQLite, for the one that writes.
    pub waiting: usize,
    /// Times that a call asked the pool for a connection, since the process began. None on SQLite.
    pub pool_waits: u64,
    /// How long those waited for it together, in microseconds.
    pub pool_wait_micros: u64,
    /// Calls of the one that writes, since the process began. None on PostgreSQL.
    pub calls: u64,
    /// Transactions that those calls took together.
    pub commits: u64,
}

/// What messages, events and calls ask of a database.
pub trait MessageStore:
    Members
    + Partitions
    + Messages
    + Transactions
    + Objects
    + Events
    + Calls
    + Wakes
    + Send
    + Sync
    + 'static
{
}

/// Everything the engine asks of a database.
pub trait Store:
    MessageStore + Ingest + Batches + Claim + Record + Finalise + Sweep + Inspect + Keys + Upstreams
{
    /// What this backend can do.
    fn capabilities(&self) -> Capabilities;

    /// How busy it is. Cheap: it asks no database.
    fn gauges(&self) -> Gauges;
}
