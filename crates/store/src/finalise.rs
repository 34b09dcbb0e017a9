//! Finalising: a batch whose last lane is done is closed by exactly one instance.
//!
//! Holds throughout: the fold that made the last lane done flipped the batch to `finalizing` in the
//! same transaction; outputs are written with no lock held; closing checks token, generation and
//! that the rows read equal the counts, and makes the outputs files of the owner in the same commit.

use async_trait::async_trait;
use jiff::Timestamp;
use windrow_domain::{BatchId, Counts, Ending, InstanceId, OutputKind};

use crate::batch::Batch;
use crate::error::{self, Error, Result};

/// Longest name of an output, for people and in the storage, in bytes.
pub const OUTPUT_NAME_BYTES_MAX: usize = 1024;

/// The right to close one batch, for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finalisation {
    /// The batch.
    pub batch: BatchId,
    /// The instance that finalises.
    pub instance: InstanceId,
    /// Rises with every taking; part of the names of outputs, so a slow loser overwrites nothing.
    pub token: u64,
    /// The batch's generation when it was taken.
    pub generation: u32,
    /// How the batch will end.
    pub ending: Ending,
    /// What the outputs must hold.
    pub counts: Counts,
    /// When another instance may take it.
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

/// An output that was written, and becomes a file with the closing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewOutput {
    /// Which of the batch's outputs.
    pub kind: OutputKind,
    /// What people call it.
    pub name: String,
    /// Its name in the storage.
    pub place: String,
    /// How many lines it has.
    pub lines: u64,
    /// Its size in bytes.
    pub bytes: u64,
}

/// `Invalid` when a kind is there twice, or a name is too long.
pub fn check_outputs(outputs: &[NewOutput]) -> Result<()> {
    for (at, output) in outputs.iter().enumerate() {
        error::text("name", &output.name, OUTPUT_NAME_BYTES_MAX)?;
        error::text("place", &output.place, OUTPUT_NAME_BYTES_MAX)?;
        if outputs[..at].iter().any(|earlier| earlier.kind == output.kind) {
            let because = format!("a batch has one file of {}", output.kind.as_str());
            return Err(Error::invalid("outputs", because));
        }
    }
    Ok(())
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
    ///
    /// The outputs become files of the batch's owner in the same moment, under ids that follow from
    /// the batch ([`windrow_domain::FileId::of_output`]), and live for the batch's `output_secs`. They
    /// take the place of those of an earlier closing, dropped ones included; an earlier one that this
    /// closing does not have is dropped.
    async fn close_batch(
        &self,
        held: &Finalisation,
        rows: Rows,
        summary: &str,
        outputs: &[NewOutput],
    ) -> Result<Batch>;

    /// Batches that wait to be closed and that no instance is closing, oldest first: what a tombstoned
    /// instance was closing is among them at once. Also flips any whose lanes are all done (the same
    /// test that the fold uses), should one ever have been missed.
    async fn find_unclosed(&self, limit: u32) -> Result<Vec<BatchId>>;
}
