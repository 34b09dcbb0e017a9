//! A store that passes every verb on, and at one call ends the process without a word.
//!
//! Holds throughout: calls are counted over all verbs in the order in which they begin; before the
//! call nothing of it happened, after it all of it did and nobody heard.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use windrow::prelude::*;
use windrow::store::act::{Act, NewAct};
use windrow::store::batch::{Reprocess, Reprocessed};
use windrow::store::claim::{Extended, Waiting};
use windrow::store::finalise::{Finalisation, NewOutput, Rows};
use windrow::store::ingest::{Chunk, File, LineError, Verdict};
use windrow::store::inspect::{
    Attempt, BatchAudit, BatchesQuery, FileLane, FilesQuery, FinishedLine, FinishedQuery,
    LaneStatus, Page, PendingLine, PendingQuery, Tries,
};
use windrow::store::key::{Key, KeysQuery, NewKey};
use windrow::store::member::{Member, NewMember};
use windrow::store::record::{Fold, Reply};
use windrow::store::sweep::{DroppedOutput, Lost, Pruned, Reaped, Retention};
use windrow::store::{Capabilities, Gauges, Result};

use super::journal::{Entry, Journal};

/// On which side of the call the process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The call never happened.
    Before,
    /// It happened, and its reply is lost.
    After,
}

/// Where the process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Which call, from 1.
    pub call: u64,
    /// On which side of it.
    pub side: Side,
}

/// The store.
pub struct Crashing {
    inner: Arc<dyn Store>,
    cut: Option<Cut>,
    calls: AtomicU64,
    journal: Arc<Journal>,
}

impl Crashing {
    /// Passes on to `inner` until the cut.
    pub fn new(inner: Arc<dyn Store>, cut: Option<Cut>, journal: Arc<Journal>) -> Self {
        Self { inner, cut, calls: AtomicU64::new(0), journal }
    }

    /// Calls that began so far.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::SeqCst)
    }

    fn begin(&self) -> u64 {
        let call = self.calls.fetch_add(1, Ordering::SeqCst) + 1;
        self.cut_at(call, Side::Before);
        call
    }

    fn cut_at(&self, call: u64, side: Side) {
        if self.cut == Some(Cut { call, side }) {
            std::process::abort();
        }
    }
}

macro_rules! pass_on {
    ($stage:ident { $($verb:ident($($name:ident: $kind:ty),*) -> $reply:ty;)* }) => {
        #[async_trait]
        impl $stage for Crashing {
            $(async fn $verb(&self, $($name: $kind),*) -> Result<$reply> {
                let call = self.begin();
                let reply = self.inner.$verb($($name),*).await;
                self.cut_at(call, Side::After);
                reply
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
impl Record for Crashing {
    async fn turn(&self, turn: Turn) -> Result<Reply> {
        let call = self.begin();
        let finished: Vec<Vec<(u64, u64)>> = turn
            .outcomes
            .iter()
            .map(|outcomes| outcomes.finished.iter().map(|line| (line.seq, line.line)).collect())
            .collect();
        let reply = self.inner.turn(turn).await;
        if let Ok(reply) = &reply {
            // Before the cut, so that the journal knows what the process never heard of.
            for (fold, lines) in reply.folds.iter().zip(finished) {
                let Fold::Kept { ignored, .. } = fold else { continue };
                let kept = lines.into_iter().filter(|(seq, _)| !ignored.contains(*seq));
                kept.for_each(|(_, line)| self.journal.write(&Entry::Kept(line)));
            }
        }
        self.cut_at(call, Side::After);
        reply
    }
}

impl Store for Crashing {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn gauges(&self) -> Gauges {
        self.inner.gauges()
    }
}
