//! A store that passes every verb on, remembers which were asked, and holds one back on demand.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::watch;
use windrow_domain::{BatchId, FileId, InstanceId, KeyId, LeaseId, Target};
use windrow_store::act::{Act, NewAct};
use windrow_store::batch::{Batch, NewBatch, Reprocess, Reprocessed};
use windrow_store::claim::{Extended, Waiting};
use windrow_store::finalise::{Finalisation, NewOutput, Rows};
use windrow_store::ingest::{Chunk, File, LineError, NewFile, Verdict};
use windrow_store::inspect::{
    Attempt, BatchAudit, BatchesQuery, FileLane, FilesQuery, FinishedLine, FinishedQuery,
    LaneStatus, Page, PendingLine, PendingQuery, Tries,
};
use windrow_store::key::{Key, KeysQuery, NewKey};
use windrow_store::member::{Member, NewMember};
use windrow_store::record::{Reply, Turn};
use windrow_store::sweep::{DroppedOutput, Lost, Pruned, Reaped, Retention};
use windrow_store::{
    Batches, Capabilities, Claim, Finalise, Gauges, Ingest, Inspect, Keys, Members, Record, Result,
    Scope, Store, Sweep,
};

/// How a turn that claims is remembered.
pub(crate) const CLAIM: &str = "turn with a claim";

pub(crate) struct Watched {
    inner: Arc<dyn Store>,
    asked: Mutex<Vec<&'static str>>,
    /// The verb that is held back.
    held: watch::Sender<Option<&'static str>>,
}

impl Watched {
    pub(crate) fn new(inner: Arc<dyn Store>) -> Arc<Self> {
        let (asked, held) = (Mutex::new(Vec::new()), watch::Sender::new(None));
        Arc::new(Self { inner, asked, held })
    }

    /// Calls of this verb are not passed on until another one is held, or none.
    pub(crate) fn hold(&self, verb: Option<&'static str>) {
        self.held.send_replace(verb);
    }

    /// How often the verb was asked, passed on or not.
    pub(crate) fn asked(&self, verb: &str) -> usize {
        self.asked.lock().unwrap().iter().filter(|asked| **asked == verb).count()
    }

    /// How often anything was asked.
    pub(crate) fn asked_any(&self) -> usize {
        self.asked.lock().unwrap().len()
    }

    async fn pass(&self, verb: &'static str) {
        self.asked.lock().unwrap().push(verb);
        let mut held = self.held.subscribe();
        held.wait_for(|held| *held != Some(verb)).await.unwrap();
    }
}

macro_rules! pass_on {
    ($stage:ident { $($verb:ident($($name:ident: $kind:ty),*) -> $reply:ty;)* }) => {
        #[async_trait]
        impl $stage for Watched {
            $(async fn $verb(&self, $($name: $kind),*) -> Result<$reply> {
                self.pass(stringify!($verb)).await;
                self.inner.$verb($($name),*).await
            })*
        }
    };
}

pass_on!(Ingest {
    open_file(file: NewFile) -> ();
    add_lines(file: FileId, chunk: Chunk) -> ();
    seal_file(file: FileId, verdict: Verdict) -> File;
    drop_file(scope: &Scope, file: FileId) -> ();
});

pass_on!(Batches {
    create_batch(batch: NewBatch) -> Batch;
    pause_batch(scope: &Scope, batch: BatchId, reason: Option<String>) -> Batch;
    resume_batch(scope: &Scope, batch: BatchId) -> Batch;
    cancel_batch(scope: &Scope, batch: BatchId) -> Batch;
    reprocess(scope: &Scope, step: Reprocess) -> Reprocessed;
    delete_batch(scope: &Scope, batch: BatchId) -> ();
    add_act(scope: &Scope, batch: BatchId, act: NewAct) -> ();
});

pass_on!(Claim {
    waiting(only: Option<BatchId>, limit: u32) -> Vec<Waiting>;
    extend_leases(instance: InstanceId, known: Vec<LeaseId>, lease_ms: u64) -> Extended;
    release_leases(instance: InstanceId, leases: Vec<LeaseId>) -> u64;
    set_limit(target: &Target, in_flight_max: Option<u32>) -> ();
});

pass_on!(Finalise {
    take_finalisation(batch: BatchId, instance: InstanceId, lease_ms: u64) -> Finalisation;
    close_batch(held: &Finalisation, rows: Rows, summary: &str, outputs: &[NewOutput]) -> Batch;
    find_unclosed(limit: u32) -> Vec<BatchId>;
});

pass_on!(Members {
    register(member: NewMember) -> ();
    heartbeat(instance: InstanceId) -> ();
    tombstone(instance: InstanceId) -> u64;
    reap_members(stale_ms: u64, limit: u32) -> Vec<InstanceId>;
    members() -> Vec<Member>;
    take_duty(instance: InstanceId, duty: &str, lease_ms: u64) -> bool;
});

pass_on!(Sweep {
    return_lost(limit: u32, crashes_max: u32) -> Lost;
    expire_batches(limit: u32) -> Vec<BatchId>;
    prune(retention: Retention, limit: u32) -> Pruned;
    reap(rows_max: u32) -> Reaped;
    find_dropped_outputs(limit: u32) -> Vec<DroppedOutput>;
    forget_outputs(outputs: &[DroppedOutput]) -> ();
});

pass_on!(Inspect {
    file(scope: &Scope, file: FileId) -> File;
    files(scope: &Scope, query: FilesQuery) -> Page<File>;
    file_errors(scope: &Scope, file: FileId) -> Vec<LineError>;
    file_lanes(scope: &Scope, file: FileId) -> Vec<FileLane>;
    chunk_sizes(scope: &Scope, file: FileId) -> Vec<u64>;
    read_chunk(scope: &Scope, file: FileId, no: u32) -> Bytes;
    batch(scope: &Scope, batch: BatchId) -> Batch;
    batches(scope: &Scope, query: BatchesQuery) -> Page<Batch>;
    lanes(scope: &Scope, batch: BatchId) -> Vec<LaneStatus>;
    acts(scope: &Scope, batch: BatchId) -> Vec<Act>;
    attempts(scope: &Scope, batch: BatchId, line: u64) -> Vec<Attempt>;
    tries(batch: BatchId, lines: &[u64]) -> Vec<Tries>;
    pending(scope: &Scope, query: PendingQuery) -> Page<PendingLine>;
    finished(scope: &Scope, query: FinishedQuery) -> Page<FinishedLine>;
    audit(batch: BatchId) -> BatchAudit;
});

pass_on!(Keys {
    add_key(key: NewKey) -> Key;
    find_key(hash: &[u8; 32]) -> Key;
    touch_keys(keys: &[KeyId]) -> ();
    revoke_key(scope: &Scope, key: KeyId) -> Key;
    keys(scope: &Scope, query: KeysQuery) -> Page<Key>;
});

#[async_trait]
impl Record for Watched {
    async fn turn(&self, turn: Turn) -> Result<Reply> {
        self.pass(if turn.claim.is_some() { CLAIM } else { "turn" }).await;
        self.inner.turn(turn).await
    }
}

impl Store for Watched {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn gauges(&self) -> Gauges {
        self.inner.gauges()
    }
}
