//! Batches: one run over a file, from its creation to its deletion.
//!
//! Holds throughout: creating, pausing, resuming and cancelling cost O(lanes), whatever the file's
//! size, and repeating one of them changes nothing.

use std::collections::BTreeMap;

use async_trait::async_trait;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use windrow_domain::attempt::Status;
use windrow_domain::{BatchId, Counts, FileId, LineSet, Owner, State};

use crate::audit_log::NewAuditEntry;
use crate::ingest::{FileVerdict, LineError};
use crate::{Error, Result, Scope, error};

/// Most pairs of metadata.
pub const METADATA_PAIRS_MAX: usize = 64;
/// Most finished lines that one call of [`Batches::reprocess`] moves.
pub const REPROCESS_LINES_MAX: u32 = 10_000;
/// Longest life of outputs after the closing: a hundred years.
pub const OUTPUT_SECS_MAX: u64 = 100 * 365 * 86_400;
/// Longest time between the creation of a batch and its deadline: a hundred years.
pub const WINDOW_SECS_MAX: u64 = 100 * 365 * 86_400;

/// A run to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewBatch {
    /// Made by the caller, so that the call can be repeated.
    pub id: BatchId,
    /// The file to run over; must be the owner's.
    pub file: FileId,
    /// The owner: only its scope, and the administrator's, sees the batch.
    pub owner: Owner,
    /// What every line asks for, `/v1/chat/completions`.
    pub endpoint: String,
    /// Seconds after its creation at which it expires; none for never.
    pub window_secs: Option<u64>,
    /// Higher goes first, within an owner's own batches and between owners with as much in flight.
    pub priority: i16,
    /// What kind of work it is, for lists.
    pub job_type: Option<String>,
    /// From where it was asked for.
    pub source_address: Option<String>,
    /// The owner's own words.
    pub metadata: BTreeMap<String, String>,
    /// A second creation with the same key by the same owner gives the first batch.
    pub idempotency_key: Option<String>,
    /// How long its outputs live after the closing, up to [`OUTPUT_SECS_MAX`]; none for as long as
    /// the batch.
    pub output_secs: Option<u64>,
    /// With it, the owner has at most so many batches that are not closed, this one included.
    pub open_max: Option<u32>,
    /// What is wrong with it, up to [`crate::ingest::ERRORS_MAX`]: with any, it is created as `Failed`.
    pub errors: Vec<LineError>,
}

impl NewBatch {
    /// A plain run over a file, with a new id: it never expires, has no key and no words of its own.
    pub fn over(file: FileId, owner: Owner, endpoint: impl Into<String>) -> Self {
        Self {
            id: BatchId::new(),
            file,
            owner,
            endpoint: endpoint.into(),
            window_secs: None,
            priority: 0,
            job_type: None,
            source_address: None,
            metadata: BTreeMap::new(),
            idempotency_key: None,
            output_secs: None,
            open_max: None,
            errors: Vec::new(),
        }
    }

    /// `Invalid` when it has too many pairs of metadata, or when its window or the life of its outputs
    /// is out of bounds.
    pub fn check(&self) -> Result<()> {
        error::at_most("metadata", self.metadata.len(), METADATA_PAIRS_MAX)?;
        if self.window_secs.is_some_and(|secs| secs > WINDOW_SECS_MAX) {
            return Err(Error::invalid("window_secs", format!("at most {WINDOW_SECS_MAX}")));
        }
        match self.output_secs {
            Some(secs) => error::within("output_secs", secs, OUTPUT_SECS_MAX),
            None => Ok(()),
        }
    }
}

/// A batch with its counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Batch {
    /// Its identity.
    pub id: BatchId,
    /// The file it runs over.
    pub file: FileId,
    /// The owner: only its scope, and the administrator's, sees the batch.
    pub owner: Owner,
    /// What every line asks for.
    pub endpoint: String,
    /// Where it stands.
    pub state: State,
    /// Raised by each reprocess.
    pub generation: u32,
    /// Higher goes first.
    pub priority: i16,
    /// What kind of work it is.
    pub job_type: Option<String>,
    /// From where it was asked for.
    pub source_address: Option<String>,
    /// The owner's own words.
    pub metadata: BTreeMap<String, String>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it expires.
    pub deadline: Option<Timestamp>,
    /// When it was cancelled.
    pub cancelling_at: Option<Timestamp>,
    /// When its last lane was done.
    pub finalizing_at: Option<Timestamp>,
    /// When it was closed.
    pub closed_at: Option<Timestamp>,
    /// Why it paused, or what went wrong last.
    pub last_error: Option<String>,
    /// What closing it wrote (JSON).
    pub summary: Option<String>,
    /// The errors of its file, when the file does not validate.
    pub errors: Vec<LineError>,
    /// How long its outputs live after the closing.
    pub output_secs: Option<u64>,
    /// How many lines are in which place, over all lanes.
    pub counts: Counts,
}

/// Which finished lines to run again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Select {
    /// All with one of these outcomes.
    Statuses(Vec<Status>),
    /// These, by line number. A line without a result is left where it is.
    Lines(LineSet),
}

/// The sentence that a line's history keeps of a result without an error that was put back.
pub fn put_back_error(status: Status) -> String {
    format!("It was {}, and was put back to run again.", status.as_str().replace('_', " "))
}

/// A step of a reprocess.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reprocess {
    /// The batch.
    pub batch: BatchId,
    /// Which finished lines.
    pub select: Select,
    /// None for the first step; then the generation that the first step gave, so that a line which
    /// finished again in the meantime is not taken twice.
    pub generation: Option<u32>,
    /// Most lines of this step, up to [`REPROCESS_LINES_MAX`].
    pub lines_max: u32,
}

impl Reprocess {
    /// `Invalid` when a step would move no line, or too many.
    pub fn check(&self) -> Result<()> {
        error::within("lines_max", self.lines_max.into(), REPROCESS_LINES_MAX.into())
    }
}

/// What a step of a reprocess did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reprocessed {
    /// Pass it to the next step.
    pub generation: u32,
    /// Lines moved from finished to returned.
    pub moved: u64,
    /// Whether another step is needed.
    pub more: bool,
}

/// The stage that makes and steers runs.
#[async_trait]
pub trait Batches {
    /// Creates a batch over a sealed file, in O(lanes). Over an invalid file it is created as
    /// `Failed`, with the file's errors. `Missing` when the owner has no such file; `Conflict` when
    /// the file is still open, or the id or idempotency key was used with other arguments; `Invalid`
    /// when the file is an output; `Limited` when the owner has `open_max` batches that are not closed
    /// already, however many are created at the same moment. A repeat is never `Limited`.
    async fn create_batch(&self, batch: NewBatch) -> Result<Batch>;

    /// Seals the batch's file, which is open, with this verdict, and creates the batch: both happen or
    /// neither does, so that no caller sees a file whose run was never made. Refused as `create_batch` and
    /// [`crate::Ingest::seal_file`] are; then the file is open as before.
    async fn create_batch_with_file(&self, batch: NewBatch, verdict: FileVerdict) -> Result<Batch>;

    /// Claims nothing more from it until it is resumed; `reason` is kept as its last error.
    async fn pause_batch(
        &self,
        scope: &Scope,
        batch: BatchId,
        reason: Option<String>,
    ) -> Result<Batch>;

    /// Lets a paused batch go on.
    async fn resume_batch(&self, scope: &Scope, batch: BatchId) -> Result<Batch>;

    /// Stops it: what is leased may finish, everything else never runs.
    async fn cancel_batch(&self, scope: &Scope, batch: BatchId) -> Result<Batch>;

    /// Puts finished lines back to run again, one bounded step at a time. What is known of each old
    /// result stays in the line's history, with the class `reprocessed`.
    async fn reprocess(&self, scope: &Scope, step: Reprocess) -> Result<Reprocessed>;

    /// Makes a closed batch vanish, and its outputs with it; its rows are reaped in chunks. `Conflict`
    /// when it is not closed.
    async fn delete_batch(&self, scope: &Scope, batch: BatchId) -> Result<()>;

    /// Adds an entry to the batch's audit log, at the database's time; the newest
    /// [`crate::audit_log::AUDIT_ENTRIES_MAX`] are kept. A repeat with the same id has no effect.
    async fn add_audit_entry(
        &self,
        scope: &Scope,
        batch: BatchId,
        act: NewAuditEntry,
    ) -> Result<()>;
}
