//! The files that a batch leaves behind have ids that follow from the batch's own, and lead back.
//!
//! Holds throughout: two batches never share an output's id; a file id made by [`FileId::new`] is
//! never taken for an output's.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::ids::{BatchId, FileId};

/// Which of a batch's two outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputKind {
    /// The completed lines.
    Output,
    /// The lines that did not complete.
    Errors,
}

impl OutputKind {
    /// Every kind there is.
    pub const ALL: [OutputKind; 2] = [OutputKind::Output, OutputKind::Errors];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            OutputKind::Output => "output",
            OutputKind::Errors => "errors",
        }
    }

    /// The two bits of a UUID's variant that say it. A batch's own are `10`.
    fn variant(self) -> u128 {
        match self {
            OutputKind::Output => 0b10,
            OutputKind::Errors => 0b11,
        }
    }
}

/// Where the version of a UUID is, and how wide.
const VERSION: (u32, u128) = (76, 0xf);
/// Where its variant is.
const VARIANT: (u32, u128) = (62, 0b11);
/// Versions that ids of batches have: by time (7), or made from a command (8).
const BATCH_VERSIONS: [u128; 2] = [7, 8];

fn get(bits: u128, (at, mask): (u32, u128)) -> u128 {
    (bits >> at) & mask
}

fn set(bits: u128, (at, mask): (u32, u128), value: u128) -> u128 {
    (bits & !(mask << at)) | ((value & mask) << at)
}

impl FileId {
    /// The id of one of a batch's outputs: the batch's bits with the next version, so that both
    /// versions of batch ids find back, and the variant of the kind.
    pub fn of_output(batch: BatchId, kind: OutputKind) -> Self {
        let bits = batch.0.as_u128();
        let bits = set(bits, VERSION, get(bits, VERSION) + 1);
        Self(Uuid::from_u128(set(bits, VARIANT, kind.variant())))
    }

    /// The id of a batch's completed lines.
    pub fn output_of(batch: BatchId) -> Self {
        Self::of_output(batch, OutputKind::Output)
    }

    /// The id of a batch's other lines.
    pub fn errors_of(batch: BatchId) -> Self {
        Self::of_output(batch, OutputKind::Errors)
    }

    /// The batch that this would be an output of, and which; none for every other file.
    pub fn source(&self) -> Option<(BatchId, OutputKind)> {
        let bits = self.0.as_u128();
        let version = get(bits, VERSION).checked_sub(1)?;
        let variant = get(bits, VARIANT);
        let kind = OutputKind::ALL.into_iter().find(|kind| kind.variant() == variant)?;
        let bits = set(bits, VERSION, version);
        let batch = BatchId(Uuid::from_u128(set(bits, VARIANT, OutputKind::Output.variant())));
        BATCH_VERSIONS.contains(&version).then_some((batch, kind))
    }
}
