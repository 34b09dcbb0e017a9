//! Finalising: a batch whose last lane is done is closed by exactly one instance.
//!
//! Holds throughout: the fold that made the last lane done flipped the batch to `finalizing` in the
//! same transaction; outputs are written with no lock held; closing checks token, generation and
//! that the rows read equal the counts.

use async_trait::async_trait;
use jiff::Timestamp;
use windrow_domain::{BatchId, Counts, Ending, InstanceId};

use crate::Result;
use crate::batch::Batch;

/// The right to close one batch, for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finalisation {
    /// The batch.
    pub batch: BatchId,
    /// Who finalises.
    pub instance: InstanceId,
    /// Rises with every taking; part of the names of outputs, so a slow loser overwrites nothing.
    pub token: u64,
    /// The batch's generation when it was taken.
    pub generation: u32,
    /// How the batch will end.
    pub ending: Ending,
    /// What the outputs must hold.
    pub counts: Counts,
    /// When somebody else may take it.
    pub expires_at: Timestamp,
}

/// What the outputs hold, counted while they were written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rows {
    /// Completed lines.
    pub completed: u64,
    /// Failed lines.
    pub failed: u64,
    /// Lines the target does not have.
    pub not_found: u64,
    /// Skipped lines.
    pub skipped: u64,
}

impl Rows {
    /// Whether these are the finished lines of the counts.
    pub fn equal(&self, counts: &Counts) -> bool {
        (self.completed, self.failed, self.not_found, self.skipped)
            == (counts.completed, counts.failed, counts.not_found, counts.skipped)
    }
}

/// The stage that closes batches.
#[async_trait]
pub trait Finalise {
    /// Takes the finalisation. `Contended` while another instance holds it that is not tombstoned;
    /// `Refused` when the batch is not finalizing. The holder may take it again: same token, longer
    /// time.
    async fn take_finalisation(
        &self,
        batch: BatchId,
        instance: InstanceId,
        lease_ms: u64,
    ) -> Result<Finalisation>;

    /// Closes the batch with its summary (JSON). `LeaseLost` when the token or generation is old;
    /// `Conflict` when the rows read do not equal the counts: read them again. A repeat of the
    /// closing that succeeded gives the closed batch.
    async fn close_batch(&self, held: &Finalisation, rows: Rows, summary: &str) -> Result<Batch>;

    /// Batches that wait to be closed and that nobody is closing, oldest first: what a tombstoned
    /// instance was closing is among them at once. Also flips any whose lanes are all done (the same
    /// test that the fold uses), should one ever have been missed.
    async fn find_unclosed(&self, limit: u32) -> Result<Vec<BatchId>>;
}
