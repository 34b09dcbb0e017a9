//! Inspecting: reads for pages, lists, exports and doctors.
//!
//! Holds throughout: pages go by key and never by offset; a cursor is opaque and checked when it
//! comes back; nothing here takes a lock that a turn would wait for.

mod cursor;
mod rows;
mod summary;
mod verify;

pub use cursor::{Binding, Cursor};
pub use rows::{BatchRow, LaneStart, Merge, PlaceSet, PlaceSets, RowKey, RowsQuery};
pub use summary::{SUMMARY_FIELDS_MAX, SUMMARY_PREFIX_BYTES, Summary};
pub use verify::{BatchRows, LaneRows};

use async_trait::async_trait;
use bytes::Bytes;
use jiff::Timestamp;
use serde::Serialize;
use windrow_domain::attempt::{Class, Status};
use windrow_domain::{
    BatchId, Counts, FileId, InstanceId, LaneNo, Owner, Phase, State, Target, UpstreamId,
};

use crate::Scope;
use crate::audit_log::AuditEntry;
use crate::batch::Batch;
use crate::error::{self, Error, Kind, Result};
use crate::ingest::{File, LineError};
use crate::recipe::{BatchRecipe, JobDefinition};

/// Most rows of one page.
pub const PAGE_MAX: u32 = 1000;

/// Most lines of one question for [`Inspect::attempt_counts`]: a whole tranche.
pub const ATTEMPT_COUNTS_LINES_MAX: usize = 1000;

/// `Invalid` when a page would have no rows, or too many.
pub fn check_limit(limit: u32) -> Result<()> {
    error::within("limit", limit.into(), PAGE_MAX.into())
}

/// `Invalid` when a list would begin behind a cursor and behind an object at once.
fn check_after<T>(after: &Option<String>, after_id: &Option<T>) -> Result<()> {
    if after.is_none() || after_id.is_none() {
        return Ok(());
    }
    Err(Error::invalid("after_id", "after is given, too"))
}

/// What the object says that a list begins behind; `Invalid` when there is none for the caller.
pub fn behind<T>(found: Result<T>) -> Result<T> {
    found.map_err(|error| match error.kind {
        Kind::Missing => Error::invalid("after_id", "there is no such object in this list"),
        _ => error,
    })
}

/// Rows, and how to ask for the next ones.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Page<T> {
    /// The rows, in the order of the page's key.
    pub rows: Vec<T>,
    /// Pass it as `after` to go on; none at the end.
    pub next: Option<String>,
}

/// A lane of a batch as others see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LaneStatus {
    /// Its number.
    pub lane: LaneNo,
    /// The upstream that its lines go to.
    pub upstream: UpstreamId,
    /// What they ask it for.
    pub target: Target,
    /// What may happen to its lines.
    pub phase: Phase,
    /// How many lines are in which place.
    pub counts: Counts,
}

/// Lines of a batch that an instance holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Holder {
    /// The instance.
    pub instance: InstanceId,
    /// Its machine and its process id there; none for one that never registered.
    pub process: Option<(String, u32)>,
    /// How many lines.
    pub lines: u64,
    /// Time until the last of its leases is lost, unless it is renewed.
    pub lost_in_ms: u64,
    /// Time since its last heartbeat; none for one that never registered.
    pub silent_ms: Option<u64>,
}

/// A lane of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FileLane {
    /// Its number.
    pub lane: LaneNo,
    /// Where its lines go.
    pub target: Target,
    /// Requests in it.
    pub lines: u64,
}

/// Which batches to list, newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BatchesQuery {
    /// Only in one of these states; empty for all.
    pub states: Vec<State>,
    /// Only of this kind of work.
    pub job_type: Option<String>,
    /// Only those created at this time or later.
    pub from: Option<Timestamp>,
    /// Only those created before this time.
    pub to: Option<Timestamp>,
    /// Where the last page ended.
    pub after: Option<String>,
    /// Begins behind this batch, instead of `after`.
    pub after_id: Option<BatchId>,
    /// Most rows, up to [`PAGE_MAX`].
    pub limit: u32,
}

/// Which files to list, newest first unless they are wanted the other way round.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilesQuery {
    /// Only for this purpose.
    pub purpose: Option<String>,
    /// Lists the oldest first.
    pub ascending: bool,
    /// Where the last page ended.
    pub after: Option<String>,
    /// Begins behind this file, instead of `after`.
    pub after_id: Option<FileId>,
    /// Most rows, up to [`PAGE_MAX`].
    pub limit: u32,
}

impl BatchesQuery {
    /// `Invalid` when a page would have no rows or too many, or would begin in two places.
    pub fn check(&self) -> Result<()> {
        check_limit(self.limit)?;
        check_after(&self.after, &self.after_id)
    }
}

impl FilesQuery {
    /// `Invalid` when a page would have no rows or too many, or would begin in two places.
    pub fn check(&self) -> Result<()> {
        check_limit(self.limit)?;
        check_after(&self.after, &self.after_id)
    }
}

/// Where a line without a result is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// Beyond the cursor of its lane: never claimed.
    Untouched,
    /// Came back, and waits for its time.
    Returned,
    /// Held by an instance.
    Leased,
}

/// Which unfinished lines to list: of batches that still run, in `(updated_at, batch, lane, seq)`
/// order. Untouched and returned lines of a stopping batch are not pending and not listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PendingQuery {
    /// Only of this batch.
    pub batch: Option<BatchId>,
    /// Only in one of these places; empty for all.
    pub places: Vec<Place>,
    /// Only of this kind of work.
    pub job_type: Option<String>,
    /// Only lines that last moved at this time or later.
    pub from: Option<Timestamp>,
    /// Only lines that last moved before this time.
    pub to: Option<Timestamp>,
    /// Where the last page ended.
    pub after: Option<String>,
    /// Most rows, up to [`PAGE_MAX`].
    pub limit: u32,
}

/// A line without a result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PendingLine {
    /// When it came to where it is.
    pub updated_at: Timestamp,
    /// Its batch.
    pub batch: BatchId,
    /// Its lane.
    pub lane: LaneNo,
    /// Its number in the lane.
    pub seq: u64,
    /// Its number in the file.
    pub line: u64,
    /// The owner of its batch.
    pub owner: Owner,
    /// What kind of work it is.
    pub job_type: Option<String>,
    /// The target that it goes to.
    pub target: Target,
    /// The place that it is in.
    pub place: Place,
    /// Attempts that it has behind it.
    pub attempts: u32,
    /// Lost leases behind it.
    pub crashes: u32,
    /// When it may be claimed again, if it was returned.
    pub not_before: Option<Timestamp>,
    /// The instance that holds it.
    pub held_by: Option<InstanceId>,
    /// Since when that instance holds it.
    pub held_since: Option<Timestamp>,
    /// A stable word for what went wrong the last time.
    pub last_error_code: Option<String>,
    /// A sentence about what went wrong the last time, in this generation or an earlier one.
    pub last_error: Option<String>,
    /// A few words of its input.
    pub summary: Summary,
}

/// Which finished lines to list, in `(batch, line)` order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FinishedQuery {
    /// Only of this batch.
    pub batch: Option<BatchId>,
    /// Only with one of these outcomes; empty for all.
    pub statuses: Vec<Status>,
    /// Only the line with this number in the file.
    pub line: Option<u64>,
    /// Only lines whose request has this id of its own.
    pub custom_id: Option<String>,
    /// Only unsuccessful lines with this word for what went wrong.
    pub error_code: Option<String>,
    /// Only of this kind of work.
    pub job_type: Option<String>,
    /// Only lines that finished at this time or later.
    pub from: Option<Timestamp>,
    /// Only lines that finished before this time.
    pub to: Option<Timestamp>,
    /// A line of the batch that has no result comes with its newest result of an earlier generation; only with
    /// `batch`, else it has no effect.
    pub earlier: bool,
    /// With the raw response and the normalised input, which may be large.
    pub bodies: bool,
    /// The page ends before the row whose bodies ([`FinishedLine::body_bytes`]) would bring their sum
    /// over this, but holds at least one row. Like `bodies` and `limit`, it may change from page to page.
    pub bytes_max: Option<u64>,
    /// Where the last page ended.
    pub after: Option<String>,
    /// Most rows, up to [`PAGE_MAX`].
    pub limit: u32,
}

/// A line with its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FinishedLine {
    /// Its batch.
    pub batch: BatchId,
    /// Its lane.
    pub lane: LaneNo,
    /// When it finished.
    pub finished_at: Timestamp,
    /// The batch's generation when it finished.
    pub generation: u32,
    /// It is of an earlier generation: the line is to run again, or was stopped before it did.
    pub earlier: bool,
    /// The result; `response` and `normalised` only when the query asked for bodies.
    pub result: crate::record::Finished,
}

impl FinishedLine {
    /// How many bytes the texts and bodies of the row have: response, normalised, shaped and error, as
    /// far as the page holds them.
    pub fn body_bytes(&self) -> u64 {
        let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let result = &self.result;
        let response = result.response.as_ref().map_or(0, Bytes::len);
        let texts = [&result.normalised, &result.shaped, &result.error].map(text);
        (response + texts.iter().sum::<usize>()) as u64
    }
}

/// How many of these rows fit a page: as many as stay within `bytes_max` together, but at least one.
pub fn rows_that_fit(rows: &[FinishedLine], bytes_max: Option<u64>) -> usize {
    let Some(bytes_max) = bytes_max else { return rows.len() };
    let mut sum = 0_u64;
    let fits = rows.iter().take_while(|row| {
        sum = sum.saturating_add(row.body_bytes());
        sum <= bytes_max
    });
    fits.count().max(1).min(rows.len())
}

/// An attempt that failed and was to be repeated, or a result that was put back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PastAttempt {
    /// The batch's generation.
    pub generation: u32,
    /// Which attempt, from 1; 0 for a result that came without one. The last of them where it stands for several.
    pub attempt: u32,
    /// How many attempts in a row it stands for; see [`crate::record::ATTEMPT_ENTRIES_MAX`].
    pub times: u32,
    /// What kind of trouble it was; `reprocessed` for a result without any that was put back.
    pub class: Class,
    /// It is a result that was put back to run again.
    pub put_back: bool,
    /// A stable word for what went wrong.
    pub error_code: String,
    /// A sentence about what went wrong.
    pub error: String,
    /// When it might be tried again.
    pub not_before: Timestamp,
    /// When it was recorded.
    pub created_at: Timestamp,
}

/// How much history a line has, over all generations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttemptCounts {
    /// Its number in the file.
    pub line: u64,
    /// What its history has: failed attempts, and results that were put back.
    pub tried: u32,
    /// Those of them whose answer is known ([`Class::is_answered`]).
    pub answered: u32,
    /// Attempts since its attempts began anew (a result that was put back) that it did not use up
    /// ([`Class::is_counted`]).
    pub uncounted: u32,
    /// Misses ([`Class::NotFound`]), results that were put back among them.
    pub missed: u32,
    /// Attempts that it used up since its last miss, or since its attempts began anew.
    pub since_miss: u32,
    /// Those of them whose answer was not accepted ([`Class::Unacceptable`]).
    pub unaccepted: u32,
}

impl AttemptCounts {
    /// Of a line without any history.
    pub fn none(line: u64) -> Self {
        let (tried, answered, uncounted) = (0, 0, 0);
        Self { line, tried, answered, uncounted, missed: 0, since_miss: 0, unaccepted: 0 }
    }

    /// `Invalid` when too many lines are asked for.
    pub fn check(lines: &[u64]) -> Result<()> {
        error::at_most("lines", lines.len(), ATTEMPT_COUNTS_LINES_MAX)
    }
}

/// Reads for pages, lists, exports and checks; they change nothing.
#[async_trait]
pub trait Inspect {
    /// A file that is complete. One that is open or dropped is `Missing`.
    async fn file(&self, scope: &Scope, file: FileId) -> Result<File>;

    /// Complete files, newest first or oldest first. `Invalid` when `after_id` is no complete file of
    /// the scope.
    async fn files(&self, scope: &Scope, query: FilesQuery) -> Result<Page<File>>;

    /// What is wrong with an invalid file, by line.
    async fn file_errors(&self, scope: &Scope, file: FileId) -> Result<Vec<LineError>>;

    /// The lanes of a complete file, by number.
    async fn file_lanes(&self, scope: &Scope, file: FileId) -> Result<Vec<FileLane>>;

    /// How many bytes each chunk of a complete file has, in order; none for an output.
    async fn chunk_sizes(&self, scope: &Scope, file: FileId) -> Result<Vec<u64>>;

    /// The exact bytes of one chunk of a complete file; chunks joined in order are the file.
    async fn read_chunk(&self, scope: &Scope, file: FileId, no: u32) -> Result<Bytes>;

    /// A batch with its counts, in O(lanes).
    async fn batch(&self, scope: &Scope, batch: BatchId) -> Result<Batch>;

    /// Batches, newest first. `Invalid` when `after_id` is no batch of the scope.
    async fn batches(&self, scope: &Scope, query: BatchesQuery) -> Result<Page<Batch>>;

    /// The lanes of a batch, by number.
    async fn lanes(&self, scope: &Scope, batch: BatchId) -> Result<Vec<LaneStatus>>;

    /// Which instances hold lines of a batch, by the database's clock, and for how long; by instance.
    /// For people: whether an instance lives is not decided by it.
    async fn holders(&self, scope: &Scope, batch: BatchId) -> Result<Vec<Holder>>;

    /// What was done to a batch, oldest first: the newest [`crate::audit_log::AUDIT_ENTRIES_MAX`].
    async fn audit_log(&self, scope: &Scope, batch: BatchId) -> Result<Vec<AuditEntry>>;

    /// The recipes of a batch, oldest first; empty when its lines are requests themselves.
    async fn recipes(&self, scope: &Scope, batch: BatchId) -> Result<Vec<BatchRecipe>>;

    /// What the engine needs to run the rows of a batch. For the engine: it has no scope.
    async fn job_definition(&self, batch: BatchId) -> Result<JobDefinition>;

    /// The failed attempts of a line (by its number in the file), oldest first. `Missing` when the batch has
    /// no such line.
    async fn attempts(&self, scope: &Scope, batch: BatchId, line: u64) -> Result<Vec<PastAttempt>>;

    /// How much history these lines of a batch have (up to [`ATTEMPT_COUNTS_LINES_MAX`], by their
    /// numbers in the file), by line. A line without any is absent. For the engine: it has no
    /// scope.
    async fn attempt_counts(&self, batch: BatchId, lines: &[u64]) -> Result<Vec<AttemptCounts>>;

    /// Lines without a result.
    async fn pending(&self, scope: &Scope, query: PendingQuery) -> Result<Page<PendingLine>>;

    /// Lines with a result.
    async fn finished(&self, scope: &Scope, query: FinishedQuery) -> Result<Page<FinishedLine>>;

    /// All rows of a batch in the order of its file, from the first to the last or the other way, whatever their
    /// place: each once, also while lines move. A batch that failed when it was created has none; of one whose
    /// file was dropped, only lines with a result are known. O(rows of the page + sets of the batch).
    async fn rows(&self, scope: &Scope, query: RowsQuery) -> Result<Page<BatchRow>>;

    /// Everything known about a batch's lines, read from the rows themselves in one snapshot.
    /// O(lines): for tests and for `doctor`.
    async fn verify(&self, batch: BatchId) -> Result<BatchRows>;
}
