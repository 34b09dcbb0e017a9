//! Sweeping: takes back what was lost, ends what is late, removes what is not needed any more.
//!
//! Holds throughout: every step is bounded by a limit and safe to run on several instances at the
//! same moment; deletes are chunked and nothing cascades.

use async_trait::async_trait;
use windrow_domain::{BatchId, FileId};

use crate::Result;

/// What taking lost leases back did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Leases taken back.
    pub leases: u64,
    /// Lines that wait to be claimed again.
    pub returned: u64,
    /// Lines that killed their worker too often: they have a failed result now.
    pub failed: u64,
    /// Batches whose last lane this made done.
    pub finalizing: Vec<BatchId>,
}

/// How long to keep what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Closed batches, after their closing.
    pub closed_batch_secs: Option<u64>,
    /// Files that were opened and never sealed, after the last chunk.
    pub open_file_secs: u64,
    /// Tombstoned members, after their tombstone.
    pub member_secs: u64,
}

/// What pruning marked for removal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Batches past their retention.
    pub batches: u64,
    /// Files that were abandoned or have expired, and that no batch needs.
    pub files: u64,
    /// Members removed.
    pub members: u64,
}

/// What a step of reaping removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reaped {
    /// Rows deleted.
    pub rows: u64,
    /// Whether another step is needed.
    pub more: bool,
}

/// A dropped output, or the original of a dropped file, whose bytes are still in the storage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DroppedOutput {
    /// The id of the output or file.
    pub file: FileId,
    /// Its name in the storage.
    pub place: String,
}

/// The error code of a line that took its worker down too often.
pub const WORKER_LOST: &str = "worker_lost";

/// The background stage: returns lost leases, ends batches past their deadline, removes what is
/// past its retention. It repairs what an instance that died has left behind.
#[async_trait]
pub trait Sweep {
    /// Takes back up to `limit` leases whose time has passed or whose holder is tombstoned. Each
    /// adds one to the crash count of its lines and halves their next tranche. A line that is alone in its
    /// lease and would reach `crashes_max` becomes a failed result with the code [`WORKER_LOST`] when the
    /// lease is marked ([`crate::Claim::mark_alone`]); otherwise it goes back, and nothing is counted.
    async fn return_lost(&self, limit: u32, crashes_max: u32) -> Result<Lost>;

    /// Stops up to `limit` batches past their deadline.
    async fn expire_batches(&self, limit: u32) -> Result<Vec<BatchId>>;

    /// Marks for removal up to `limit` each of what is past its retention; outputs go with their batch.
    async fn prune(&self, retention: Retention, limit: u32) -> Result<Pruned>;

    /// Up to `limit` dropped outputs, and originals of dropped files, whose bytes are still in the storage, as
    /// far as is known.
    async fn find_dropped_outputs(&self, limit: u32) -> Result<Vec<DroppedOutput>>;

    /// Notes that the bytes of these outputs are gone. One that is no longer dropped, or whose place
    /// is another by now, is left as it is.
    async fn forget_outputs(&self, outputs: &[DroppedOutput]) -> Result<()>;

    /// Deletes up to about `rows_max` rows of dropped files and deleted batches. A dropped output
    /// or original stays until it was forgotten, so that its bytes can be found.
    async fn reap(&self, rows_max: u32) -> Result<Reaped>;
}
