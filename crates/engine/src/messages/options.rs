//! The bounds of a message runner, each with a name.

use windrow_domain::partition::{PARTITIONS_DEFAULT, PARTITIONS_MAX};
use windrow_domain::retry::{GiveUpPolicy, Policy};
use windrow_store::error::within;
use windrow_store::message::{HELD_MAX, MessageRetention, READ_MAX, SEND_MAX};

/// What becomes of a message that nothing here takes: no publisher, no handler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unrouted {
    /// It fails like any other, and is a dead letter in the end.
    #[default]
    DeadLetter,
    /// It waits, and holds up its stream, until a handler or publisher takes it.
    Keep,
    /// It is done.
    Drop,
}

/// The bounds of a runner: what it takes, holds, waits for and tries.
#[derive(Clone, Debug)]
pub struct Options {
    /// Partitions of this database. Fixed by the first instance that sets it up.
    pub partitions: u16,
    /// Most partitions that this instance owns.
    pub own_max: u16,
    /// Whether what happens to batches goes out as messages.
    pub lifecycle: bool,
    /// Time between two heartbeats of an instance.
    pub heartbeat_ms: u64,
    /// Silence after which an instance is taken for dead.
    pub stale_ms: u64,
    /// Time between two polls of an idle instance, which is notified of new work as well.
    pub poll_ms: u64,
    /// Time between two polls of a busy instance, which is not notified.
    pub poll_awake_ms: u64,
    /// Time without work after which an instance is idle.
    pub awake_ms: u64,
    /// Most streams that run at the same time.
    pub streams_in_flight_max: usize,
    /// Most messages in memory.
    pub messages_held_max: usize,
    /// Most bytes of them. The size of what is read next is guessed from what was read last.
    pub bytes_held_max: usize,
    /// Most messages of one read.
    pub read_messages_max: u32,
    /// Most messages of one stream in one read.
    pub stream_messages_max: u32,
    /// Most messages that one commit ends.
    pub commit_messages_max: usize,
    /// Longest wait of a result for others to commit with, while other commits are under way.
    pub commit_linger_ms: u64,
    /// Most commits under way.
    pub commits_in_flight_max: usize,
    /// Most handlers that run in their own transactions at the same time: each holds a connection.
    pub transactions_in_flight_max: usize,
    /// Longest run of a handler or a publisher. One with its own transaction has its own bound.
    pub handler_ms_max: u64,
    /// Running time after which a call is shown as *processing*.
    pub processing_after_ms: u64,
    /// Longest wait for running handlers when the runner is stopped.
    pub grace_ms: u64,
    /// How often and how soon failed attempts are repeated.
    pub retry: Policy,
    /// How long messages wait for unavailable handlers and publishers. Such attempts do not count.
    pub give_up: GiveUpPolicy,
    /// What becomes of messages of the inbox and the outbox that no handler or publisher takes.
    pub unrouted: Unrouted,
    /// Most states of objects that are kept in memory.
    pub states_max: usize,
    /// Most bytes of them.
    pub states_bytes_max: usize,
    /// How long rows are kept that work does not need.
    pub upkeep: MessageRetention,
    /// Time between two rounds of maintenance.
    pub upkeep_ms: u64,
    /// Most rows of each kind that one step of maintenance removes.
    pub upkeep_rows_max: u32,
    /// Most calls that clients wait for in memory; further ones poll the database.
    pub waiters_max: usize,
}

const HOUR_MS: u64 = 3_600_000;
/// A hundred years.
const GIVE_UP_SECS_MAX: u64 = 100 * 366 * 24 * 3600;

impl Default for Options {
    fn default() -> Self {
        Self {
            partitions: PARTITIONS_DEFAULT,
            own_max: PARTITIONS_MAX,
            lifecycle: false,
            heartbeat_ms: 5_000,
            stale_ms: 15_000,
            poll_ms: 1_000,
            poll_awake_ms: 50,
            awake_ms: 1_000,
            streams_in_flight_max: 256,
            messages_held_max: 5_000,
            bytes_held_max: 64 << 20,
            read_messages_max: 1_000,
            stream_messages_max: 100,
            commit_messages_max: 250,
            commit_linger_ms: 2,
            commits_in_flight_max: 4,
            transactions_in_flight_max: 4,
            handler_ms_max: 30_000,
            processing_after_ms: 1_000,
            grace_ms: 10_000,
            retry: Policy::default(),
            give_up: GiveUpPolicy::default(),
            unrouted: Unrouted::default(),
            states_max: 50_000,
            states_bytes_max: 64 << 20,
            upkeep: MessageRetention {
                dedupe_ms: 7 * 24 * HOUR_MS,
                archive_ms: 24 * HOUR_MS,
                tombstone_ms: 30 * 24 * HOUR_MS,
                dead_ms: None,
                stream_ms: HOUR_MS,
                event_ms: None,
            },
            upkeep_ms: 60_000,
            upkeep_rows_max: 1_000,
            waiters_max: 10_000,
        }
    }
}

impl Options {
    /// `Invalid`, naming the bound, when one is out of its own bounds.
    pub(super) fn check(&self) -> windrow_store::Result<()> {
        let held = self.messages_held_max as u64;
        within("partitions", self.partitions.into(), PARTITIONS_MAX.into())?;
        within("own_max", self.own_max.into(), PARTITIONS_MAX.into())?;
        within("heartbeat_ms", self.heartbeat_ms, HOUR_MS)?;
        within("stale_ms", self.stale_ms.saturating_sub(2 * self.heartbeat_ms), HOUR_MS)?;
        within("poll_ms", self.poll_ms, HOUR_MS)?;
        within("poll_awake_ms", self.poll_awake_ms, self.poll_ms)?;
        within("streams_in_flight_max", self.streams_in_flight_max as u64, held)?;
        within("messages_held_max", held, HELD_MAX as u64)?;
        within("read_messages_max", self.read_messages_max.into(), READ_MAX.into())?;
        let stream = self.stream_messages_max.into();
        within("stream_messages_max", stream, self.read_messages_max.into())?;
        within("commit_messages_max", self.commit_messages_max as u64, SEND_MAX as u64)?;
        within("commits_in_flight_max", self.commits_in_flight_max as u64, 64)?;
        let transactions = self.transactions_in_flight_max as u64;
        within("transactions_in_flight_max", transactions, 64)?;
        within("handler_ms_max", self.handler_ms_max, 24 * HOUR_MS)?;
        within("processing_after_ms", self.processing_after_ms, 24 * HOUR_MS)?;
        within("give_up_secs", self.give_up.give_up_secs, GIVE_UP_SECS_MAX)?;
        within("away_backoff_ms_max", self.give_up.backoff_ms_max, 24 * HOUR_MS)?;
        within("attempts_max", self.retry.attempts_max.into(), 1_000)
    }
}
