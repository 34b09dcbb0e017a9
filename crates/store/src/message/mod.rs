//! Messages: sent, read by the owner of their partition, and committed with their effects.
//!
//! Holds throughout: positions of a stream are given under its lock, held to the commit, so that its
//! order is its commit order and no reader can skip one that appears later; reading writes nothing; a
//! commit is fenced by epochs under a lock that a take waits for, and every message it ends must still
//! be there, or none of it happens; a message that fails or must wait holds up its own stream only.
//! Absent on purpose: which instance runs which message and when, which the engine decides.

mod commit;
mod send;

use std::borrow::Cow;
use std::collections::BTreeMap;

use async_trait::async_trait;
use bytes::Bytes;
use jiff::Timestamp;
use serde::Serialize;
use windrow_domain::{DeadLetterId, InstanceId, Owner, PartitionNo, Queue, Stream, text};

use crate::inspect::Page;
use crate::partition::Fence;
use crate::{Result, Scope, error};

pub use commit::{Commit, Committed, Dead, Done, FailedAttempt, ProcessingReport, Started};
pub(crate) use send::check_body;
pub use send::{NewMessage, check_dead_letters, check_send};

/// Most messages of one send, and of each list of one commit.
pub const SEND_MAX: usize = 1000;
/// Most bytes of payload in one send or commit.
pub const SEND_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Most messages that one read gives.
pub const READ_MAX: u32 = 5000;
/// Most streams that a reader says it holds.
pub const HELD_MAX: usize = 10_000;
/// Failures that a message remembers; older ones are dropped.
pub const HISTORY_MAX: usize = 20;
/// Longest error that is kept, in bytes; what is longer is cut.
pub const ERROR_BYTES_MAX: usize = 2000;

/// An error as a store keeps it: at most [`ERROR_BYTES_MAX`], without zero characters.
pub fn error_text(error: &str) -> Cow<'_, str> {
    text::storable(error, ERROR_BYTES_MAX)
}

/// Names and values that travel with a message.
pub type Headers = BTreeMap<String, String>;

/// Where a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct MessageRef {
    /// The partition of its stream.
    pub partition: PartitionNo,
    /// The number of its stream in this database.
    pub stream_no: u64,
    /// Its place in the stream. A later one is greater.
    pub position: u64,
}

/// A message that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Sent {
    /// Where it is; of a repeat, where the first one is or was.
    pub at: MessageRef,
    /// It was there before, and nothing was sent.
    pub is_duplicate: bool,
}

/// A message as its partition's owner reads it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Message {
    /// Its place: partition, stream and position.
    pub at: MessageRef,
    /// The queue that it waits in.
    pub queue: Queue,
    /// The owner of the message.
    pub owner: Owner,
    /// What it is in order with. Of a call: the object's stream.
    pub stream: Stream,
    /// Its name. Of a call: the request id.
    pub id: String,
    /// What it is about. Of a call: the method.
    pub kind: String,
    /// What it says. Of a call: the arguments.
    #[serde(skip)]
    pub payload: Bytes,
    /// What travels with it. Of a call: see [`crate::call::headers`].
    pub headers: Headers,
    /// When it was sent.
    pub sent_at: Timestamp,
    /// Not to be run before.
    pub not_before: Option<Timestamp>,
    /// Attempts that were counted.
    pub attempts: u32,
    /// The epoch in which an owner stored that an attempt begins, unless that attempt is known to
    /// have ended.
    pub started: Option<u64>,
    /// The consumers it still waits for; empty for the usual one.
    pub waiting: Vec<String>,
    /// What went wrong the last time.
    pub error: Option<String>,
}

/// A partition to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadFrom {
    /// Which, with the proof that it is the reader's.
    pub fence: Fence,
    /// Only streams with a greater number: where the last read of this partition ended; 0 to begin.
    pub after_stream: u64,
}

/// Which messages to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    /// The instance that reads, and owns what it reads.
    pub instance: InstanceId,
    /// Where, in this order.
    pub from: Vec<ReadFrom>,
    /// Streams that the reader holds messages of, each with the last position it has: only later ones
    /// are given. (`stream_no`, `position`), in any order.
    pub held: Vec<(u64, u64)>,
    /// Most messages, up to [`READ_MAX`].
    pub messages_max: u32,
    /// Most messages of one stream: one stream cannot fill the reader.
    pub stream_messages_max: u32,
}

impl Read {
    /// `Invalid` when it asks for nothing or too much.
    pub fn check(&self) -> Result<()> {
        error::within("messages_max", self.messages_max.into(), READ_MAX.into())?;
        error::within("stream_messages_max", self.stream_messages_max.into(), READ_MAX.into())?;
        error::at_most("held", self.held.len(), HELD_MAX)
    }
}

/// Where a read ended in a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The partition.
    pub partition: PartitionNo,
    /// The last stream that was looked at; 0 when the read came to the partition's end, so that the
    /// next one begins anew.
    pub after_stream: u64,
}

/// What a read found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// The messages, by partition (as asked), stream and position. The first of a stream that is not
    /// held is due; those behind it may have a `not_before` of their own.
    pub messages: Vec<Message>,
    /// Where the read ended, for every partition that it came to and that is the reader's.
    pub marks: Vec<Mark>,
    /// Partitions that are no longer the reader's at that epoch.
    pub lost: Vec<PartitionNo>,
    /// When the next message of these partitions that must wait may be due. A hint.
    pub next_due: Option<Timestamp>,
}

/// Everything at once: what was done, what is new, what is next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// The commit with the effects.
    pub commit: Commit,
    /// Counts as a heartbeat, too.
    pub heartbeat: bool,
    /// What to read afterwards.
    pub read: Option<Read>,
}

impl Exchange {
    /// `Invalid` when its commit or its read is.
    pub fn check(&self) -> Result<()> {
        self.commit.check()?;
        self.read.as_ref().map_or(Ok(()), Read::check)
    }
}

/// What an exchange gave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exchanged {
    /// What the commit gave.
    pub committed: Committed,
    /// What is next. Nothing that the same call ended.
    pub work: Work,
}

/// A failure that a message remembers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PastFailure {
    /// When it failed.
    pub at: Timestamp,
    /// The error of that attempt.
    pub error: String,
}

/// A message that was given up on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DeadLetter {
    /// Its identity.
    pub id: DeadLetterId,
    /// The message as it was when it was given up on.
    pub message: Message,
    /// Its last failures, oldest first.
    pub history: Vec<PastFailure>,
    /// Why it was given up on.
    pub error: String,
    /// When it was given up on.
    pub dead_at: Timestamp,
}

/// Which messages or dead letters to list: messages by partition, stream and position, dead letters
/// newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MessagesQuery {
    /// Only in this queue.
    pub queue: Option<Queue>,
    /// Only of this stream.
    pub stream: Option<Stream>,
    /// Where the last page ended.
    pub after: Option<String>,
    /// Most rows, up to [`crate::inspect::PAGE_MAX`].
    pub limit: u32,
}

/// How much waits in a queue. Counted up to [`BACKLOG_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Backlog {
    /// The queue that is counted.
    pub queue: Queue,
    /// Messages in it.
    pub messages: u64,
    /// When the oldest of those counted was sent.
    pub oldest_sent_at: Option<Timestamp>,
    /// Dead letters that came from it.
    pub dead: u64,
}

/// As far as a backlog is counted.
pub const BACKLOG_MAX: u64 = 100_000;

/// How long things are kept that no work needs any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageRetention {
    /// Ids of messages, after they were first seen. One whose message is not done is kept.
    pub dedupe_ms: u64,
    /// Answered calls before they move to the archive.
    pub archive_ms: u64,
    /// Answers in the archive, counted from the answer; then a tombstone is left of the call. None for as
    /// long as the call wanted, which is for ever when it said nothing.
    pub archived_ms: Option<u64>,
    /// Expired calls, as tombstones that still refuse to run again.
    pub tombstone_ms: u64,
    /// Dead letters; none for ever.
    pub dead_ms: Option<u64>,
    /// Streams without messages.
    pub stream_ms: u64,
    /// Events that their stream's snapshot stands for (see [`crate::Events::put_snapshot`]); none for
    /// ever. A stream without a snapshot keeps all of its own. The last event of all may stay.
    pub event_ms: Option<u64>,
}

/// How many rows of each kind pruning removed or moved to the archive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PrunedMessages {
    /// Ids of messages that may be used again.
    pub ids: u64,
    /// Calls that moved to the archive.
    pub archived: u64,
    /// Calls whose answer was dropped because its time had passed.
    pub expired: u64,
    /// Tombstones of calls that were dropped.
    pub tombstones: u64,
    /// Dead letters that were dropped.
    pub dead: u64,
    /// Streams that were forgotten.
    pub streams: u64,
    /// Events that were pruned.
    pub events: u64,
}

impl PrunedMessages {
    /// How many rows were removed or moved in all.
    pub fn total(&self) -> u64 {
        let Self { ids, archived, expired, tombstones, dead, streams, events } = self;
        ids + archived + expired + tombstones + dead + streams + events
    }
}

/// Messages: sent, read by the owner of their partition, committed, listed and pruned.
#[async_trait]
pub trait Messages {
    /// Sends messages, all or none, in this order within each stream. One that repeats an id of its
    /// owner is a duplicate when it says the same, else all of it is a `Conflict`. `Refused` before the
    /// set-up. The owner of a partition that sleeps (see [`crate::Wakes`]) is woken.
    async fn send(&self, messages: Vec<NewMessage>) -> Result<Vec<Sent>>;

    /// Reads what the instance owns, and writes nothing. Streams whose first message must still wait
    /// are left out.
    async fn read_owned(&self, read: Read) -> Result<Work>;

    /// Writes the effects of many handlers, all or none. `LeaseLost` when a partition is no longer the
    /// instance's at that epoch or the instance is tombstoned; `Conflict` when a message or call that it
    /// ends is not there any more, or an append meets another version ([`crate::Error::version_conflict`]).
    async fn commit(&self, commit: Commit) -> Result<Committed>;

    /// A commit, a heartbeat and a read in one transaction.
    async fn exchange(&self, exchange: Exchange) -> Result<Exchanged>;

    /// Messages that wait, with their payload.
    async fn messages(&self, scope: &Scope, query: MessagesQuery) -> Result<Page<Message>>;

    /// Messages that were given up on.
    async fn dead_letters(&self, scope: &Scope, query: MessagesQuery) -> Result<Page<DeadLetter>>;

    /// Sends these again, each at the end of its stream and with no attempts behind it, and forgets
    /// the dead letters. All or none: `Missing` when one is not there.
    async fn replay_dead(&self, scope: &Scope, ids: &[DeadLetterId]) -> Result<Vec<Sent>>;

    /// Forgets these. Gives how many there were.
    async fn discard_dead(&self, scope: &Scope, ids: &[DeadLetterId]) -> Result<u64>;

    /// How much waits, for every queue.
    async fn backlog(&self) -> Result<Vec<Backlog>>;

    /// Prunes up to `limit` rows of each kind that are past their retention.
    async fn prune_messages(
        &self,
        retention: MessageRetention,
        limit: u32,
    ) -> Result<PrunedMessages>;
}

/// What a call's message says besides its arguments.
pub use crate::call::headers as call_headers;
