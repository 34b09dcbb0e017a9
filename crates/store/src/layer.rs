//! A store with something around every call: a clock, a gate, a counter, an early end.
//!
//! Holds throughout: every verb is passed on as it came, and its reply comes back as it was.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::BoxStream;
use jiff::Timestamp;
use windrow_domain::{
    BatchId, DeadLetterId, FileId, InstanceId, KeyId, LeaseId, Owner, PartitionNo, Stream, Target,
};

use crate::audit_log::{AuditEntry, NewAuditEntry};
use crate::batch::{Batch, NewBatch, Reprocess, Reprocessed};
use crate::call::{Call, CallKey, CallStats, CallsQuery, NewCall, StatsQuery, Submitted};
use crate::claim::{Extended, Waiting};
use crate::event::{Append, Appended, Event, Snapshot};
use crate::finalise::{Finalisation, NewOutput, Rows};
use crate::ingest::{Chunk, File, LineError, NewFile, Verdict};
use crate::inspect::{
    Attempt, AttemptCounts, BatchRows, BatchesQuery, FileLane, FilesQuery, FinishedLine,
    FinishedQuery, LaneStatus, Page, PendingLine, PendingQuery,
};
use crate::key::{Key, KeysQuery, NewKey};
use crate::member::{Member, NewMember};
use crate::message::{
    Backlog, Commit, Committed, DeadLetter, Exchange, Exchanged, Message, MessageRetention,
    MessagesQuery, NewMessage, PrunedMessages, Read, Sent, Work,
};
use crate::object::ObjectKey;
use crate::partition::{Fence, Partition, Setup, Taken};
use crate::record::{Reply, Turn};
use crate::sweep::{DroppedOutput, Lost, Pruned, Reaped, Retention};
use crate::transactional::Script;
use crate::wake::Wake;
use crate::{
    Batches, Calls, Capabilities, Claim, Events, Finalise, Gauges, Ingest, Inspect, Keys, Kind,
    Members, MessageStore, Messages, Objects, Partitions, Record, Result, Scope, Store, Sweep,
    Transactions, Wakes,
};

/// What happens around every call.
#[async_trait]
pub trait StoreLayer: Send + Sync + 'static {
    /// What is known of a call between its beginning and its end.
    type Span: Send;

    /// A call of this verb is about to be passed on, and is when this returns.
    async fn begin(&self, verb: &'static str) -> Self::Span;

    /// It has ended; with what went wrong, if it did.
    fn end(&self, call: Self::Span, verb: &'static str, failed: Option<Kind>);

    /// Passes a call on. Whoever does it otherwise may lose the call, or its reply.
    async fn pass<T: Send>(
        &self,
        verb: &'static str,
        call: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        let begun = self.begin(verb).await;
        let reply = call.await;
        self.end(begun, verb, failure(&reply));
        reply
    }

    /// A turn, which says more than other calls do.
    async fn turn(&self, inner: &dyn Store, turn: Turn) -> Result<Reply> {
        self.pass("turn", inner.turn(turn)).await
    }
}

/// What went wrong with a call.
pub fn failure<T>(reply: &Result<T>) -> Option<Kind> {
    reply.as_ref().err().map(|error| error.kind)
}

/// The store.
pub struct LayeredStore<A> {
    inner: Arc<dyn Store>,
    layer: A,
}

impl<A: StoreLayer> LayeredStore<A> {
    /// Passes on to `inner`.
    pub fn new(inner: Arc<dyn Store>, layer: A) -> Self {
        Self { inner, layer }
    }

    /// What is around it.
    pub fn layer(&self) -> &A {
        &self.layer
    }
}

/// The name of a verb outside of this code: the `verb` label of the metrics. It outlives renames.
macro_rules! label {
    ($verb:ident) => {
        stringify!($verb)
    };
    ($verb:ident $label:ident) => {
        stringify!($label)
    };
}

macro_rules! delegate {
    ($stage:ident {
        $($verb:ident $(as $label:ident)? ($($name:ident: $kind:ty),*) -> $reply:ty;)*
    }) => {
        #[async_trait]
        impl<A: StoreLayer> $stage for LayeredStore<A> {
            $(async fn $verb(&self, $($name: $kind),*) -> Result<$reply> {
                let call = self.inner.$verb($($name),*);
                self.layer.pass(label!($verb $($label)?), call).await
            })*
        }
    };
}

delegate!(Ingest {
    open_file(file: NewFile) -> ();
    add_lines(file: FileId, chunk: Chunk) -> ();
    expire_file(file: FileId, expires_at: Timestamp) -> ();
    seal_file(file: FileId, verdict: Verdict) -> File;
    drop_file(scope: &Scope, file: FileId) -> ();
});

delegate!(Batches {
    create_batch(batch: NewBatch) -> Batch;
    create_batch_with_file(batch: NewBatch, verdict: Verdict) -> Batch;
    pause_batch(scope: &Scope, batch: BatchId, reason: Option<String>) -> Batch;
    resume_batch(scope: &Scope, batch: BatchId) -> Batch;
    cancel_batch(scope: &Scope, batch: BatchId) -> Batch;
    reprocess(scope: &Scope, step: Reprocess) -> Reprocessed;
    delete_batch(scope: &Scope, batch: BatchId) -> ();
    add_audit_entry as add_act(scope: &Scope, batch: BatchId, act: NewAuditEntry) -> ();
});

delegate!(Claim {
    waiting(only: Option<BatchId>, limit: u32) -> Vec<Waiting>;
    extend_leases(instance: InstanceId, known: Vec<LeaseId>, lease_ms: u64) -> Extended;
    release_leases(instance: InstanceId, leases: Vec<LeaseId>) -> u64;
    set_limit(target: &Target, in_flight_max: Option<u32>) -> ();
});

delegate!(Finalise {
    take_finalisation(batch: BatchId, instance: InstanceId, lease_ms: u64) -> Finalisation;
    close_batch(held: &Finalisation, rows: Rows, summary: &str, outputs: &[NewOutput]) -> Batch;
    find_unclosed(limit: u32) -> Vec<BatchId>;
});

delegate!(Members {
    register(member: NewMember) -> ();
    heartbeat(instance: InstanceId) -> ();
    tombstone(instance: InstanceId) -> u64;
    reap_members(stale_ms: u64, limit: u32) -> Vec<InstanceId>;
    members() -> Vec<Member>;
    take_duty(instance: InstanceId, duty: &str, lease_ms: u64) -> bool;
});

delegate!(Sweep {
    return_lost(limit: u32, crashes_max: u32) -> Lost;
    expire_batches(limit: u32) -> Vec<BatchId>;
    prune(retention: Retention, limit: u32) -> Pruned;
    reap(rows_max: u32) -> Reaped;
    find_dropped_outputs(limit: u32) -> Vec<DroppedOutput>;
    forget_outputs(outputs: &[DroppedOutput]) -> ();
});

delegate!(Inspect {
    file(scope: &Scope, file: FileId) -> File;
    files(scope: &Scope, query: FilesQuery) -> Page<File>;
    file_errors(scope: &Scope, file: FileId) -> Vec<LineError>;
    file_lanes(scope: &Scope, file: FileId) -> Vec<FileLane>;
    chunk_sizes(scope: &Scope, file: FileId) -> Vec<u64>;
    read_chunk(scope: &Scope, file: FileId, no: u32) -> Bytes;
    batch(scope: &Scope, batch: BatchId) -> Batch;
    batches(scope: &Scope, query: BatchesQuery) -> Page<Batch>;
    lanes(scope: &Scope, batch: BatchId) -> Vec<LaneStatus>;
    audit_log as acts(scope: &Scope, batch: BatchId) -> Vec<AuditEntry>;
    attempts(scope: &Scope, batch: BatchId, line: u64) -> Vec<Attempt>;
    attempt_counts as tries(batch: BatchId, lines: &[u64]) -> Vec<AttemptCounts>;
    pending(scope: &Scope, query: PendingQuery) -> Page<PendingLine>;
    finished(scope: &Scope, query: FinishedQuery) -> Page<FinishedLine>;
    verify as audit(batch: BatchId) -> BatchRows;
});

delegate!(Partitions {
    set_up(setup: Setup) -> Setup;
    setup() -> Option<Setup>;
    partitions() -> Vec<Partition>;
    take_partitions(instance: InstanceId, wanted: &[PartitionNo]) -> Vec<Taken>;
    release_partitions(instance: InstanceId, fences: &[Fence]) -> u64;
    clear_suspects(instance: InstanceId, fences: &[Fence]) -> ();
});

delegate!(Messages {
    send(messages: Vec<NewMessage>) -> Vec<Sent>;
    read_owned(read: Read) -> Work;
    commit(commit: Commit) -> Committed;
    exchange(exchange: Exchange) -> Exchanged;
    messages(scope: &Scope, query: MessagesQuery) -> Page<Message>;
    dead_letters(scope: &Scope, query: MessagesQuery) -> Page<DeadLetter>;
    replay_dead(scope: &Scope, ids: &[DeadLetterId]) -> Vec<Sent>;
    discard_dead(scope: &Scope, ids: &[DeadLetterId]) -> u64;
    backlog() -> Vec<Backlog>;
    prune_messages as tidy_messages(upkeep: MessageRetention, limit: u32) -> PrunedMessages;
});

delegate!(Transactions {
    commit_with as commit_inside(
        instance: InstanceId,
        fences: &[Fence],
        ms_max: u64,
        script: Box<dyn Script>
    ) -> Committed;
});

delegate!(Objects {
    states(keys: &[ObjectKey]) -> Vec<Option<Bytes>>;
});

delegate!(Events {
    append(appends: Vec<Append>) -> Vec<Appended>;
    read_stream(owner: &Owner, stream: &Stream, from: u64, limit: u32) -> Vec<Event>;
    stream_version(owner: &Owner, stream: &Stream) -> u64;
    read_all(scope: &Scope, after: Option<&str>, limit: u32) -> Page<Event>;
    put_snapshot(snapshot: Snapshot) -> ();
    snapshot(owner: &Owner, stream: &Stream) -> Option<Snapshot>;
});

delegate!(Calls {
    submit_call(call: NewCall) -> Submitted;
    call(key: &CallKey) -> Call;
    calls(scope: &Scope, query: CallsQuery) -> Page<Call>;
    call_stats(scope: &Scope, query: StatsQuery) -> CallStats;
});

delegate!(Wakes {
    listen(instance: InstanceId) -> BoxStream<'static, Wake>;
    set_idle as set_asleep(instance: InstanceId, asleep: bool) -> ();
});

impl<A: StoreLayer> MessageStore for LayeredStore<A> {}

delegate!(Keys {
    add_key(key: NewKey) -> Key;
    find_key(hash: &[u8; 32]) -> Key;
    touch_keys(keys: &[KeyId]) -> ();
    revoke_key(scope: &Scope, key: KeyId) -> Key;
    keys(scope: &Scope, query: KeysQuery) -> Page<Key>;
});

#[async_trait]
impl<A: StoreLayer> Record for LayeredStore<A> {
    async fn turn(&self, turn: Turn) -> Result<Reply> {
        self.layer.turn(&*self.inner, turn).await
    }
}

impl<A: StoreLayer> Store for LayeredStore<A> {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn gauges(&self) -> Gauges {
        self.inner.gauges()
    }
}
