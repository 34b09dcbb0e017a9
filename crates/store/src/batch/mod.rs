//! Batches: one run over a file, from its creation to its deletion.
//!
//! Holds throughout: creating, pausing, resuming and cancelling cost O(lanes), whatever the file's
//! size, and repeating one of them changes nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use serde::{Serialize, Serializer};
use windrow_domain::{BatchId, Counts, Ending, FileId, LineSet, Owner, State, Target, UpstreamId};

use crate::audit_log::NewAuditEntry;
use crate::ingest::{FileVerdict, LineError};
use crate::recipe::{RECIPE_BYTES_MAX, recipe_hash};
use crate::{Error, Result, Scope, error};

mod again;

pub use again::{
    Candidate, Judged, LeftAlone, REPROCESS_HOUR_SECS, REPROCESS_LINES_MAX,
    REPROCESS_WAIT_MINUTES_MAX, RESHAPE_BYTES_MAX, RESHAPE_LINES_MAX, Reprocess, Reprocessed,
    Reshaped, Select, TRY_NOW_RANGES_MAX, TriedNow, check_reshaped, check_tried_now,
    put_back_class, put_back_error,
};

/// Most pairs of metadata.
pub const METADATA_PAIRS_MAX: usize = 64;
/// Longest life of outputs after the closing: a hundred years.
pub const OUTPUT_SECS_MAX: u64 = 100 * 365 * 86_400;
/// Longest time between the creation of a batch and its deadline: a hundred years.
pub const WINDOW_SECS_MAX: u64 = 100 * 365 * 86_400;

/// Which upstream the lanes of a batch go to. The default is the program's own executor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LaneUpstreams {
    /// The upstreams of these targets.
    pub by_target: BTreeMap<Target, UpstreamId>,
    /// The upstream of every other target.
    pub others: UpstreamId,
}

impl LaneUpstreams {
    /// The upstream of a lane.
    pub fn of(&self, target: &Target) -> &UpstreamId {
        self.by_target.get(target).unwrap_or(&self.others)
    }
}

impl From<UpstreamId> for LaneUpstreams {
    /// All lanes go to one upstream.
    fn from(others: UpstreamId) -> Self {
        Self { by_target: BTreeMap::new(), others }
    }
}

/// `Invalid` when a batch would be moved to no upstream that a process could serve.
pub fn check_move(upstream: &UpstreamId) -> Result<()> {
    match upstream.is_unknown() {
        true => Err(Error::invalid("upstream", "must be known")),
        false => Ok(()),
    }
}

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
    /// The upstreams of its lanes: no process that serves others claims lines of them.
    pub upstreams: LaneUpstreams,
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
    /// What it makes of the rows of its file, up to [`RECIPE_BYTES_MAX`]; none when its lines are requests.
    pub recipe: Option<String>,
    /// Where all its lanes go, in place of what the file says; its upstreams are found by it.
    pub target: Option<Target>,
}

impl NewBatch {
    /// A plain run over a file by the program's own executor, with a new id: it never expires, has no
    /// key and no words of its own.
    pub fn over(file: FileId, owner: Owner, endpoint: impl Into<String>) -> Self {
        Self {
            id: BatchId::new(),
            file,
            owner,
            endpoint: endpoint.into(),
            upstreams: LaneUpstreams::default(),
            window_secs: None,
            priority: 0,
            job_type: None,
            source_address: None,
            metadata: BTreeMap::new(),
            idempotency_key: None,
            output_secs: None,
            open_max: None,
            errors: Vec::new(),
            recipe: None,
            target: None,
        }
    }

    /// The hash of its recipe.
    pub fn recipe_hash(&self) -> Option<[u8; 32]> {
        self.recipe.as_deref().map(recipe_hash)
    }

    /// `Invalid` when it has too many pairs of metadata, when its recipe is too long, or when its window or
    /// the life of its outputs is out of bounds.
    pub fn check(&self) -> Result<()> {
        error::at_most("metadata", self.metadata.len(), METADATA_PAIRS_MAX)?;
        if let Some(recipe) = &self.recipe {
            error::text("recipe", recipe, RECIPE_BYTES_MAX)?;
        }
        check_window(self.window_secs)?;
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
    /// The upstreams of its lanes, each once, in the order of their names.
    pub upstreams: Vec<UpstreamId>,
    /// Its state, as [`windrow_domain::batch::apply`] moves it.
    pub state: State,
    /// Raised by each reprocess.
    pub generation: u32,
    /// Batches with a higher number are claimed first.
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
    /// How long its window is, as it was asked for last; none when it never expires.
    #[serde(skip)]
    pub window_secs: Option<u64>,
    /// When it was cancelled.
    pub cancelling_at: Option<Timestamp>,
    /// When its last lane was done.
    pub finalizing_at: Option<Timestamp>,
    /// When it was closed.
    pub closed_at: Option<Timestamp>,
    /// Why it paused, or what went wrong last.
    pub last_error: Option<String>,
    /// What closing it wrote (JSON).
    #[serde(serialize_with = "json_text")]
    pub summary: Option<String>,
    /// The errors of its file, when the file does not validate.
    pub errors: Vec<LineError>,
    /// How long its outputs live after the closing.
    pub output_secs: Option<u64>,
    /// How many lines are in which place, over all lanes.
    pub counts: Counts,
    /// The hash ([`recipe_hash`]) of the recipe that it was made with; none when it was made without one.
    #[serde(skip)]
    pub recipe_hash: Option<[u8; 32]>,
}

impl Batch {
    /// Whether its window began when it was created: a batch that went on after its end, or ran again,
    /// has another one.
    pub fn has_first_window(&self) -> bool {
        // To the last digit: a window that was given within the same second is another one, too.
        let since = |end: Timestamp| end.duration_since(self.created_at).unsigned_abs();
        let window = self.window_secs.map(Duration::from_secs);
        self.generation == 0 && self.deadline.map(since) == window
    }

    /// Whether its window is over: it has expired, or a sweep is about to find that it has.
    pub fn is_late(&self, now: Timestamp) -> bool {
        match self.state {
            State::InProgress | State::Paused => self.deadline.is_some_and(|end| end <= now),
            State::Expiring | State::Finalizing(Ending::Expired) | State::Expired => true,
            State::Cancelling | State::Finalizing(_) => false,
            State::Completed | State::Failed | State::Cancelled => false,
        }
    }
}

/// A text that is JSON, as the value it stands for.
fn json_text<S: Serializer>(text: &Option<String>, serializer: S) -> Result<S::Ok, S::Error> {
    let value = text.as_ref().map(|text| match serde_json::from_str(text) {
        Ok(value) => value,
        Err(_) => serde_json::Value::String(text.clone()),
    });
    value.serialize(serializer)
}

/// How a batch that was stopped goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Continue {
    /// The batch.
    pub batch: BatchId,
    /// Its new window, in seconds; none for one as long as its last.
    pub window_secs: Option<u64>,
    /// As [`NewBatch::open_max`].
    pub open_max: Option<u32>,
}

impl Continue {
    /// `Invalid` when its window is out of bounds.
    pub fn check(&self) -> Result<()> {
        check_window(self.window_secs)
    }
}

/// `Invalid` when a window is out of bounds.
pub fn check_window(window_secs: Option<u64>) -> Result<()> {
    if window_secs.is_some_and(|secs| secs > WINDOW_SECS_MAX) {
        return Err(Error::invalid("window_secs", format!("at most {WINDOW_SECS_MAX}")));
    }
    Ok(())
}

/// The stage that makes and steers runs.
#[async_trait]
pub trait Batches {
    /// Creates a batch over a sealed file, in O(lanes). Over an invalid file it is created as
    /// `Failed`, with the file's errors. `Missing` when the owner has no such file; `Conflict` when
    /// the file is still open, or the id or idempotency key was used with other arguments, another recipe
    /// among them; `Invalid`
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

    /// Lets a paused batch go on; with a window, it has that many seconds from now on, whether it was
    /// paused or not.
    async fn resume_batch(
        &self,
        scope: &Scope,
        batch: BatchId,
        window_secs: Option<u64>,
    ) -> Result<Batch>;

    /// Stops it: what is leased may finish, everything else never runs.
    async fn cancel_batch(&self, scope: &Scope, batch: BatchId) -> Result<Batch>;

    /// Lets a batch go on that was cancelled or has expired: what never ran runs, in a new generation and a
    /// new window; no line changes its place, and nothing finished runs again. `Refused` when it is not
    /// closed so; `Conflict` when every line has a result, or its file was dropped; `Limited` as creating is.
    async fn continue_batch(&self, scope: &Scope, how: Continue) -> Result<Batch>;

    /// Puts finished lines back to run again, one bounded step at a time. Each old result moves to those of
    /// earlier generations, where [`crate::inspect::FinishedQuery::earlier`] finds it while the line has no
    /// new one; the line's history has it, too, with its own class. The first step over a closed batch begins a
    /// new window. Lines that a guard of the step leaves alone stay as they are, and are counted.
    async fn reprocess(&self, scope: &Scope, step: Reprocess) -> Result<Reprocessed>;

    /// Lines of these (by number in the file) that were returned and wait for their time are due now. One that
    /// is leased is left to its holder and counted; all others stay as they are. Nothing of a batch that is
    /// stopping or closed changes. A repeat has no effect.
    async fn try_now(&self, scope: &Scope, batch: BatchId, lines: LineSet) -> Result<TriedNow>;

    /// Writes the shaped rows of finished lines anew, and says how many. A line that has no result any more,
    /// or one of another generation, is left as it is: what was read of it is out of date. A repeat
    /// writes the same.
    async fn reshape(&self, scope: &Scope, batch: BatchId, rows: Vec<Reshaped>) -> Result<u64>;

    /// Makes a closed batch vanish, and its outputs with it; its rows are reaped in chunks. `Conflict`
    /// when it is not closed.
    async fn delete_batch(&self, scope: &Scope, batch: BatchId) -> Result<()>;

    /// Sends what is left of a batch to another upstream: all its lanes, under their locks. What is
    /// leased belongs to the old one: its holder is told to stop, and what was sent already counts.
    /// The entry is added to the audit log in the same transaction.
    async fn move_batch(
        &self,
        scope: &Scope,
        batch: BatchId,
        upstream: UpstreamId,
        entry: NewAuditEntry,
    ) -> Result<Batch>;

    /// Adds an entry to the batch's audit log, at the database's time; the newest
    /// [`crate::audit_log::AUDIT_ENTRIES_MAX`] are kept. A repeat with the same id has no effect.
    async fn add_audit_entry(
        &self,
        scope: &Scope,
        batch: BatchId,
        act: NewAuditEntry,
    ) -> Result<()>;
}
