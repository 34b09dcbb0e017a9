//! Messages: sent, read by the one who owns their partition, and committed with their effects.
//!
//! Holds throughout: positions of a stream are given under its lock, held to the commit, so that its
//! order is its commit order and no reader can skip one that appears later; reading writes nothing; a
//! commit is fenced by epochs under a lock that a take waits for, and every message it ends must still
//! be there, or none of it happens; a message that fails or must wait holds up its own stream only.
//! Absent on purpose: who runs what and when, which is the engine's.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use bytes::Bytes;
use jiff::Timestamp;
use serde::Serialize;
use windrow_domain::message::{
    CONSUMERS_MAX, HEADERS_BYTES_MAX, KIND_BYTES_MAX, MESSAGE_ID_BYTES_MAX, PAYLOAD_BYTES_MAX,
};
use windrow_domain::{DeadLetterId, InstanceId, Owner, PartitionNo, Queue, Stream};

use crate::call::{CallResult, NewCall};
use crate::event::{Append, Appended};
use crate::inspect::Page;
use crate::object::PutState;
use crate::partition::Fence;
use crate::{Error, Result, Scope, call, error};

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

/// Names and values that travel with a message.
pub type Headers = BTreeMap<String, String>;

/// A message to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewMessage {
    /// Where it waits. Calls are submitted, not sent.
    pub queue: Queue,
    /// The owner of the message.
    pub owner: Owner,
    /// What it is in order with.
    pub stream: Stream,
    /// Its name, by which receivers tell a repeat.
    pub id: String,
    /// What it is about: `order.placed`.
    pub kind: String,
    /// What it says.
    pub payload: Bytes,
    /// What travels with it.
    pub headers: Headers,
    /// It, and what comes behind it in its stream, waits until then.
    pub not_before: Option<Timestamp>,
    /// The consumers that must all be done with it. Empty for the usual one: the handler or the publisher.
    pub consumers: Vec<String>,
    /// One with the same owner and id counts once. Always so in the inbox.
    pub dedupe: bool,
}

impl NewMessage {
    /// An empty message of the kind `message`, for anything that handles or publishes it.
    pub fn new(queue: Queue, owner: Owner, stream: Stream, id: impl Into<String>) -> Self {
        Self {
            queue,
            owner,
            stream,
            id: id.into(),
            kind: "message".to_owned(),
            payload: Bytes::new(),
            headers: Headers::new(),
            not_before: None,
            consumers: Vec::new(),
            dedupe: false,
        }
    }

    /// A message for the publishers, such as a webhook.
    ///
    /// ```
    /// # use windrow_domain::{Owner, Stream};
    /// # use windrow_store::message::NewMessage;
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let message = NewMessage::outbox(Owner::new("ann")?, Stream::new("orders")?, "order-7")
    ///     .kind("order.placed")
    ///     .json(&serde_json::json!({ "no": 7 }))?;
    /// assert_eq!(message.payload, r#"{"no":7}"#);
    /// # Ok(())
    /// # }
    /// ```
    pub fn outbox(owner: Owner, stream: Stream, id: impl Into<String>) -> Self {
        Self::new(Queue::Outbox, owner, stream, id)
    }

    /// A message for the consumers. One with the same owner and id counts once.
    pub fn inbox(owner: Owner, stream: Stream, id: impl Into<String>) -> Self {
        Self::new(Queue::Inbox, owner, stream, id)
    }

    /// With a kind, such as `order.placed`.
    #[must_use]
    pub fn kind(mut self, kind: impl Into<String>) -> Self {
        self.kind = kind.into();
        self
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

    /// With a header.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.insert(name.into(), value.into());
        self
    }

    /// Held back until then, together with what comes behind it in its stream.
    #[must_use]
    pub fn not_before(mut self, at: Timestamp) -> Self {
        self.not_before = Some(at);
        self
    }

    /// For this consumer or publisher by name; may be said for several, each of which must be done with it.
    #[must_use]
    pub fn to(mut self, consumer: impl Into<String>) -> Self {
        self.consumers.push(consumer.into());
        self
    }

    /// Counts once, however often a message with its owner and id is sent. Always so in the inbox.
    #[must_use]
    pub fn deduped(mut self) -> Self {
        self.dedupe = true;
        self
    }

    /// Whether its id is remembered.
    pub fn is_deduped(&self) -> bool {
        self.dedupe || self.queue == Queue::Inbox
    }

    /// `Invalid` when it has no id, is too large, or is a call.
    pub fn check(&self) -> Result<()> {
        if self.queue == Queue::Calls {
            return Err(Error::invalid("queue", "calls are submitted"));
        }
        check_body(&self.id, &self.kind, &self.payload, &self.headers)?;
        let consumers = self.consumers.len().max(1) as u64;
        error::within("consumers", consumers, CONSUMERS_MAX as u64)?;
        for name in &self.consumers {
            error::within("consumer", name.len() as u64, KIND_BYTES_MAX as u64)?;
            error::text("consumer", name, KIND_BYTES_MAX)?;
        }
        let each: BTreeSet<_> = self.consumers.iter().collect();
        if each.len() < self.consumers.len() {
            let because = "a consumer is named twice";
            return Err(Error::invalid("consumers", because));
        }
        Ok(())
    }
}

/// `Invalid` when an id or a kind is empty, or something is too long.
pub(crate) fn check_body(id: &str, kind: &str, payload: &[u8], headers: &Headers) -> Result<()> {
    error::within("id", id.len() as u64, MESSAGE_ID_BYTES_MAX as u64)?;
    error::text("id", id, MESSAGE_ID_BYTES_MAX)?;
    error::within("kind", kind.len() as u64, KIND_BYTES_MAX as u64)?;
    error::text("kind", kind, KIND_BYTES_MAX)?;
    error::at_most("payload", payload.len(), PAYLOAD_BYTES_MAX)?;
    let bytes: usize = headers.iter().map(|(name, value)| name.len() + value.len()).sum();
    error::at_most("headers", bytes, HEADERS_BYTES_MAX)?;
    for text in headers.iter().flat_map(|(name, value)| [name, value]) {
        error::text("headers", text, HEADERS_BYTES_MAX)?;
    }
    Ok(())
}

/// `Invalid` when there are too many messages at once, too many bytes, or one is wrong.
pub fn check_send(messages: &[NewMessage]) -> Result<()> {
    error::at_most("messages", messages.len(), SEND_MAX)?;
    let bytes: usize = messages.iter().map(|message| message.payload.len()).sum();
    error::at_most("bytes", bytes, SEND_BYTES_MAX)?;
    messages.iter().try_for_each(|message| message.check())
}

/// `Invalid` when too many dead letters are named at once.
pub fn check_dead_letters(ids: &[DeadLetterId]) -> Result<()> {
    error::at_most("ids", ids.len(), SEND_MAX)
}

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
    /// Where it is.
    pub at: MessageRef,
    /// Where it waits.
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
    /// What travels with it. Of a call: see [`call::headers`].
    pub headers: Headers,
    /// When it was sent.
    pub sent_at: Timestamp,
    /// Not to be run before.
    pub not_before: Option<Timestamp>,
    /// Tries that were counted.
    pub attempts: u32,
    /// The epoch in which an owner stored that it begins, unless that try is known to have ended.
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

/// A message that is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    /// Which.
    pub at: MessageRef,
    /// By which of its consumers; those that are left begin with no tries behind them. None ends the
    /// message, whatever other consumers it waits for.
    pub consumer: Option<String>,
}

/// A message whose owner says, before it begins, that it does: the try counts now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Started {
    /// Which.
    pub at: MessageRef,
}

/// A call whose handler has run for a while, and goes on. Only told: no try counts by it, and what
/// becomes of the call after a crash is as before. The report may be late: it holds only while the
/// message is as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Running {
    /// The call's message.
    pub at: MessageRef,
    /// [`Message::attempts`], as it was read.
    pub attempts: u32,
    /// [`Message::not_before`], as it was read: a failure that did not count changed it.
    pub not_before: Option<Timestamp>,
}

impl Running {
    /// The call of this message runs.
    pub fn of(message: &Message) -> Self {
        Self { at: message.at, attempts: message.attempts, not_before: message.not_before }
    }
}

/// A message that is tried again later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedTry {
    /// Which.
    pub at: MessageRef,
    /// What went wrong.
    pub error: String,
    /// When it may be tried again.
    pub not_before: Timestamp,
    /// The consumers it waits for from now on; empty for no change.
    pub waiting: Vec<String>,
    /// The try counts. One that was [`Started`] has been counted: it is not counted again, and taken back
    /// when it does not count.
    pub counts: bool,
}

/// A message that is given up on. Not for calls: those fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dead {
    /// Which.
    pub at: MessageRef,
    /// What it is called from now on.
    pub id: DeadLetterId,
    /// Why.
    pub error: String,
}

/// The effects of many handlers, committed together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// The instance that commits, and owns the partitions.
    pub instance: InstanceId,
    /// Every partition of a message or state below, with its epoch.
    pub fences: Vec<Fence>,
    /// Begun, see [`Started`].
    pub started: Vec<Started>,
    /// Calls that run for long, see [`Running`]: each is `processing` from now on, by this instance. One
    /// that is answered, was put off or is no call any more is left as it is, and is no `Conflict`.
    pub running: Vec<Running>,
    /// Done.
    pub done: Vec<Done>,
    /// To be tried again.
    pub failed: Vec<FailedTry>,
    /// Given up.
    pub dead: Vec<Dead>,
    /// Calls that have their answer; their messages are done.
    pub calls: Vec<CallResult>,
    /// What objects are from now on.
    pub states: Vec<PutState>,
    /// What happened.
    pub events: Vec<Append>,
    /// What goes out because of it, in this order.
    pub messages: Vec<NewMessage>,
    /// What objects are asked because of it, each as by [`crate::Calls::submit_call`]: a call that was
    /// asked for before is left as it is, and counts as a retry; other arguments under its id are a
    /// `Conflict`.
    pub submits: Vec<NewCall>,
}

impl Commit {
    /// One without effects.
    pub fn new(instance: InstanceId) -> Self {
        Self {
            instance,
            fences: Vec::new(),
            started: Vec::new(),
            running: Vec::new(),
            done: Vec::new(),
            failed: Vec::new(),
            dead: Vec::new(),
            calls: Vec::new(),
            states: Vec::new(),
            events: Vec::new(),
            messages: Vec::new(),
            submits: Vec::new(),
        }
    }

    /// `Invalid` when it is too large, when something in it is wrong, when a message is ended twice, or
    /// when a message's partition is not among the fences.
    pub fn check(&self) -> Result<()> {
        let sizes = [
            ("started", self.started.len()),
            ("running", self.running.len()),
            ("done", self.done.len()),
            ("failed", self.failed.len()),
            ("dead", self.dead.len()),
            ("calls", self.calls.len()),
            ("states", self.states.len()),
            ("submits", self.submits.len()),
        ];
        for (field, size) in sizes {
            error::at_most(field, size, SEND_MAX)?;
        }
        check_send(&self.messages)?;
        crate::event::check_appends(&self.events)?;
        self.states.iter().try_for_each(|state| state.check())?;
        self.calls.iter().try_for_each(|call| call.check())?;
        self.submits.iter().try_for_each(|call| call.check())?;
        self.check_refs()
    }

    fn check_refs(&self) -> Result<()> {
        let ended = (self.done.iter().map(|done| (done.at, done.consumer.as_deref())))
            .chain(self.failed.iter().map(|failed| (failed.at, None)))
            .chain(self.dead.iter().map(|dead| (dead.at, None)))
            .chain(self.calls.iter().map(|call| (call.at, None)));
        let mut seen = BTreeSet::new();
        let started = self.started.iter().map(|started| started.at.partition);
        let running = self.running.iter().map(|running| running.at.partition);
        let mut partitions: Vec<_> = started.chain(running).collect();
        for (at, consumer) in ended {
            if !seen.insert((at, consumer)) {
                let because = format!("message {at:?} is named twice");
                return Err(Error::invalid("messages", because));
            }
            partitions.push(at.partition);
        }
        let fenced: BTreeSet<_> = self.fences.iter().map(|fence| fence.partition).collect();
        match partitions.iter().find(|partition| !fenced.contains(partition)) {
            None => Ok(()),
            Some(missing) => {
                let because = format!("partition {missing} has no fence");
                Err(Error::invalid("fences", because))
            }
        }
    }
}

/// What a commit gave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Committed {
    /// The messages it sent, in their order.
    pub sent: Vec<Sent>,
    /// The messages of the calls it submitted that were not there before.
    pub submitted: Vec<MessageRef>,
    /// The events it appended, in the order of the appends.
    pub appended: Vec<Appended>,
}

/// Everything at once: what was done, what is new, what is next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// The effects.
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
pub struct PastTry {
    /// When it failed.
    pub at: Timestamp,
    /// What went wrong.
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
    pub history: Vec<PastTry>,
    /// Why it was given up on.
    pub error: String,
    /// When.
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
    /// Which queue.
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

/// What was tidied away.
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
    /// Everything together.
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
    /// ends is not there any more, or an append meets another version ([`Error::version_conflict`]).
    async fn commit(&self, commit: Commit) -> Result<Committed>;

    /// A commit, a heartbeat and a read in one transaction.
    async fn exchange(&self, exchange: Exchange) -> Result<Exchanged>;

    /// Messages that wait, with their payload.
    async fn messages(&self, scope: &Scope, query: MessagesQuery) -> Result<Page<Message>>;

    /// Messages that were given up on.
    async fn dead_letters(&self, scope: &Scope, query: MessagesQuery) -> Result<Page<DeadLetter>>;

    /// Sends these again, each at the end of its stream and with no tries behind it, and forgets the
    /// dead letters. All or none: `Missing` when one is not there.
    async fn replay_dead(&self, scope: &Scope, ids: &[DeadLetterId]) -> Result<Vec<Sent>>;

    /// Forgets these. Gives how many there were.
    async fn discard_dead(&self, scope: &Scope, ids: &[DeadLetterId]) -> Result<u64>;

    /// How much waits, for every queue.
    async fn backlog(&self) -> Result<Vec<Backlog>>;

    /// Tidies up to `limit` rows of each kind away.
    async fn prune_messages(&self, upkeep: MessageRetention, limit: u32) -> Result<PrunedMessages>;
}

/// What a call's message says besides its arguments.
pub use call::headers as call_headers;
