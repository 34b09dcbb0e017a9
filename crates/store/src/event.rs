//! Events: what happened to a stream, appended and never changed.
//!
//! Holds throughout: versions of a stream are dense from one and given under its lock; the feed of all
//! events gives each once, a stream's own in their order, and never skips one that a slower
//! transaction commits later: it lags behind open transactions instead. Old events may be pruned as
//! far as a snapshot stands for them ([`crate::message::MessageRetention`]); versions and the feed go on as if
//! they were there.

use std::fmt;

use async_trait::async_trait;
use bytes::Bytes;
use jiff::Timestamp;
use serde::Serialize;
use windrow_domain::event::VersionConflict;
use windrow_domain::{Expected, Owner, Stream};

use crate::inspect::Page;
use crate::message::{Headers, SEND_BYTES_MAX, SEND_MAX, check_body};
use crate::{Result, Scope, error};

/// What is told of batches, where the set-up asks for it ([`crate::partition::Setup::lifecycle`]): in the
/// same transaction an event of the stream `batch/<id>` and a message of the outbox, under the same id.
pub const BATCH_KINDS: [&str; 10] = [
    "batch.created",
    "batch.paused",
    "batch.resumed",
    "batch.cancelling",
    "batch.expiring",
    "batch.reprocessed",
    "batch.completed",
    "batch.failed",
    "batch.cancelled",
    "batch.expired",
];

/// An event to be appended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewEvent {
    /// The id of the event, made by its writer: a repeated append is known by it.
    pub id: String,
    /// What happened: `money.deposited`.
    pub kind: String,
    /// What is to be known about it.
    pub payload: Bytes,
    /// What travels with it.
    pub headers: Headers,
}

impl NewEvent {
    /// An event without a payload.
    pub fn new(id: impl Into<String>, kind: impl Into<String>) -> Self {
        let (id, kind) = (id.into(), kind.into());
        Self { id, kind, payload: Bytes::new(), headers: Headers::new() }
    }

    /// With these bytes as payload.
    #[must_use]
    pub fn payload(mut self, payload: impl Into<Bytes>) -> Self {
        self.payload = payload.into();
        self
    }

    /// With this value as payload, in JSON.
    pub fn json<T: Serialize + ?Sized>(self, value: &T) -> serde_json::Result<Self> {
        Ok(self.payload(serde_json::to_vec(value)?))
    }
}

/// Events to be appended to a stream, all or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Append {
    /// The owner of the stream.
    pub owner: Owner,
    /// The stream that the events are appended to.
    pub stream: Stream,
    /// What its last version must be.
    pub expected: Expected,
    /// The events, at least one.
    pub events: Vec<NewEvent>,
}

/// `Invalid` when there are too many events at once, or one is wrong.
pub fn check_appends(appends: &[Append]) -> Result<()> {
    let events = || appends.iter().flat_map(|append| &append.events);
    error::at_most("events", events().count(), SEND_MAX)?;
    let bytes: usize = events().map(|event| event.payload.len()).sum();
    error::at_most("bytes", bytes, SEND_BYTES_MAX)?;
    for append in appends {
        error::within("events", append.events.len() as u64, SEND_MAX as u64)?;
    }
    events()
        .try_for_each(|event| check_body(&event.id, &event.kind, &event.payload, &event.headers))
}

/// Events that were appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Appended {
    /// The version of the first.
    pub first: u64,
    /// The version of the last.
    pub last: u64,
}

/// An event as others see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Event {
    /// The owner of the stream.
    pub owner: Owner,
    /// The stream that the event belongs to.
    pub stream: Stream,
    /// Its place in the stream, from one.
    pub version: u64,
    /// The id of the event, made by its writer.
    pub id: String,
    /// What happened, as a word: `money.deposited`.
    pub kind: String,
    /// What is to be known about it.
    #[serde(skip)]
    pub payload: Bytes,
    /// What travels with it.
    pub headers: Headers,
    /// When it was appended.
    pub at: Timestamp,
}

/// A stream's state at a version, kept so that it need not be computed anew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The owner of the stream.
    pub owner: Owner,
    /// The stream that the snapshot is of.
    pub stream: Stream,
    /// The version that it includes.
    pub version: u64,
    /// The state of the stream at that version, in a format of the caller.
    pub state: Bytes,
}

/// What is left of a stream, for a reader that asked for events that were pruned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrunedStream {
    /// The stream whose events were asked for.
    pub stream: String,
    /// The first version that is kept, or that comes next.
    pub first: u64,
    /// The version that its snapshot includes, at least `first - 1`: the snapshot and what comes
    /// behind it are the whole stream.
    pub snapshot: u64,
}

impl fmt::Display for PrunedStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { stream, first, snapshot } = self;
        write!(f, "stream {stream} begins at version {first}; its snapshot is at {snapshot}")
    }
}

impl std::error::Error for PrunedStream {}

/// Which versions do not fit, when an append or a read was refused.
impl crate::Error {
    /// Both versions, when an append met another one than it expected.
    pub fn version_conflict(&self) -> Option<&VersionConflict> {
        std::error::Error::source(self)?.downcast_ref()
    }

    /// Where a stream begins, when it was asked for events that were pruned.
    pub fn pruned(&self) -> Option<&PrunedStream> {
        std::error::Error::source(self)?.downcast_ref()
    }
}

/// Streams of events: appended, read one by one or all together, and summed up in snapshots.
#[async_trait]
pub trait Events {
    /// Appends, all or none. A `Conflict` names both versions ([`crate::Error::version_conflict`]). An
    /// append with an expected version that is already there with the same ids gives the same answer,
    /// as long as these events are kept. Appends to the same stream follow one another.
    async fn append(&self, appends: Vec<Append>) -> Result<Vec<Appended>>;

    /// A stream's events from a version on, up to `limit` (at most [`crate::inspect::PAGE_MAX`]). Empty
    /// for a stream that has none. `Missing` when the version was pruned, with where the stream begins
    /// now ([`crate::Error::pruned`]).
    async fn read_stream(
        &self,
        owner: &Owner,
        stream: &Stream,
        from: u64,
        limit: u32,
    ) -> Result<Vec<Event>>;

    /// A stream's last version; zero when it has no events.
    async fn stream_version(&self, owner: &Owner, stream: &Stream) -> Result<u64>;

    /// The events of all owners that the scope covers, without those that were pruned. `next` is always
    /// there and leads on, also from the end: ask again with it for what comes later.
    async fn read_all(&self, scope: &Scope, after: Option<&str>, limit: u32)
    -> Result<Page<Event>>;

    /// Keeps a snapshot; an older one never replaces a newer one. `Invalid` for a version that the
    /// stream does not have. Events up to it may be pruned when they are old.
    async fn put_snapshot(&self, snapshot: Snapshot) -> Result<()>;

    /// The newest snapshot of a stream, if there is one.
    async fn snapshot(&self, owner: &Owner, stream: &Stream) -> Result<Option<Snapshot>>;
}
