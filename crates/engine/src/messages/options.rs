//! The bounds of a message runner, each with a name.

use std::path::PathBuf;
use std::time::Duration;

use windrow_domain::millis;
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

const HOUR_MS: u64 = 3_600_000;
const HOUR: Duration = Duration::from_millis(HOUR_MS);
/// A hundred years.
const GIVE_UP_SECS_MAX: u64 = 100 * 366 * 24 * 3600;

windrow_domain::options! {
    /// The bounds of a runner: what it takes, holds, waits for and retries.
    #[derive(Clone, Debug)]
    pub struct Options {
        /// Partitions of this database. Fixed by the first instance that sets it up.
        partitions: u16 = PARTITIONS_DEFAULT,
        /// Most partitions that this instance owns.
        own_max: u16 = PARTITIONS_MAX,
        /// Whether what happens to batches goes out as messages.
        lifecycle: bool = false,
        /// Time between two heartbeats of an instance.
        heartbeat_every: Duration = Duration::from_secs(5),
        /// The folder of this machine in which each instance holds a lock, so that others know at once when it
        /// is dead: one for each database, such as `<database>-live`. Without it a dead instance is waited for.
        live_folder: Option<PathBuf> = None,
        /// Silence, as another instance observes it, after which an instance is taken for dead.
        stale_after: Duration = Duration::from_secs(15),
        /// Time between two polls of an idle instance, which is notified of new work as well.
        poll_every: Duration = Duration::from_secs(1),
        /// Time between two polls of a busy instance, which is not notified.
        poll_awake_every: Duration = Duration::from_millis(50),
        /// Time without work after which an instance is idle.
        idle_after: Duration = Duration::from_secs(1),
        /// Most streams that run at the same time.
        streams_in_flight_max: usize = 256,
        /// Most messages in memory.
        messages_held_max: usize = 5_000,
        /// Most bytes of them. The size of what is read next is guessed from what was read last.
        bytes_held_max: usize = 64 << 20,
        /// Most messages of one read.
        read_messages_max: u32 = 1_000,
        /// Most messages of one stream in one read.
        stream_messages_max: u32 = 100,
        /// Most messages that one commit ends.
        commit_messages_max: usize = 250,
        /// Longest wait of a result for others to commit with, while other commits are under way.
        commit_linger: Duration = Duration::from_millis(2),
        /// Most commits under way.
        commits_in_flight_max: usize = 4,
        /// Most handlers that run in their own transactions at the same time: each holds a connection.
        transactions_in_flight_max: usize = 4,
        /// Longest run of a handler or a publisher. One with its own transaction has its own bound.
        handler_timeout: Duration = Duration::from_secs(30),
        /// Running time after which a call is shown as *processing*.
        processing_after: Duration = Duration::from_secs(1),
        /// Longest wait for running handlers when the runner is stopped.
        grace: Duration = Duration::from_secs(10),
        /// How often and how soon failed attempts are repeated.
        retry: Policy = Policy::default(),
        /// How long messages wait for unavailable handlers and publishers. Such attempts do not count.
        give_up: GiveUpPolicy = GiveUpPolicy::default(),
        /// What becomes of messages of the inbox and the outbox that no handler or publisher takes.
        unrouted: Unrouted = Unrouted::default(),
        /// Most states of objects that are kept in memory.
        states_max: usize = 50_000,
        /// Most bytes of them.
        states_bytes_max: usize = 64 << 20,
        /// How long rows are kept that work does not need.
        retention: MessageRetention = MessageRetention {
            dedupe_ms: 7 * 24 * HOUR_MS,
            archive_ms: 24 * HOUR_MS,
            archived_ms: None,
            tombstone_ms: 30 * 24 * HOUR_MS,
            dead_ms: None,
            stream_ms: HOUR_MS,
            event_ms: None,
        },
        /// Time between two rounds of maintenance.
        maintenance_every: Duration = Duration::from_secs(60),
        /// Most rows of each kind that one step of maintenance removes.
        maintenance_rows_max: u32 = 1_000,
        /// Most calls that clients wait for in memory; further ones poll the database.
        waiters_max: usize = 10_000,
    }
}

impl Options {
    /// `Invalid`, naming the bound, when one is out of its own bounds.
    pub(super) fn check(&self) -> windrow_store::Result<()> {
        let held = self.messages_held_max as u64;
        within("partitions", self.partitions.into(), PARTITIONS_MAX.into())?;
        within("own_max", self.own_max.into(), PARTITIONS_MAX.into())?;
        let time = |name, time, most| within(name, millis(time), millis(most));
        let silence = self.stale_after.saturating_sub(2 * self.heartbeat_every);
        time("heartbeat_ms", self.heartbeat_every, HOUR)?;
        time("stale_ms", silence, HOUR)?;
        time("poll_ms", self.poll_every, HOUR)?;
        time("poll_awake_ms", self.poll_awake_every, self.poll_every)?;
        within("streams_in_flight_max", self.streams_in_flight_max as u64, held)?;
        within("messages_held_max", held, HELD_MAX as u64)?;
        within("read_messages_max", self.read_messages_max.into(), READ_MAX.into())?;
        let stream = self.stream_messages_max.into();
        within("stream_messages_max", stream, self.read_messages_max.into())?;
        within("commit_messages_max", self.commit_messages_max as u64, SEND_MAX as u64)?;
        within("commits_in_flight_max", self.commits_in_flight_max as u64, 64)?;
        let transactions = self.transactions_in_flight_max as u64;
        within("transactions_in_flight_max", transactions, 64)?;
        time("handler_ms_max", self.handler_timeout, 24 * HOUR)?;
        time("processing_after_ms", self.processing_after, 24 * HOUR)?;
        within("give_up_secs", self.give_up.give_up_secs, GIVE_UP_SECS_MAX)?;
        within("away_backoff_ms_max", self.give_up.backoff_ms_max, 24 * HOUR_MS)?;
        within("attempts_max", self.retry.attempts_max.into(), 1_000)
    }
}
