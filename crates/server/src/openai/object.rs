//! The objects of the contract: File and Batch. Absent values are null, times are Unix seconds.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;
use windrow_domain::{Ending, FileId, State};
use windrow_engine::finalise::Summary;
use windrow_engine::output::Usage;
use windrow_store::batch::Batch;
use windrow_store::ingest::{File, FileState, LineError};

use super::ids;

/// An uploaded file, or an output.
#[derive(Debug, Serialize)]
pub(crate) struct FileObject {
    pub(crate) id: String,
    object: &'static str,
    bytes: u64,
    created_at: i64,
    expires_at: Option<i64>,
    filename: String,
    purpose: String,
    status: &'static str,
    status_details: Option<String>,
}

impl From<File> for FileObject {
    fn from(file: File) -> Self {
        Self {
            id: ids::file(file.id),
            object: "file",
            bytes: file.bytes,
            created_at: file.created_at.as_second(),
            expires_at: file.expires_at.map(Timestamp::as_second),
            filename: file.name,
            purpose: file.purpose,
            status: match file.state {
                FileState::Open => "uploaded",
                FileState::Sealed => "processed",
                FileState::Invalid | FileState::Dropped => "error",
            },
            status_details: (file.state == FileState::Invalid).then(|| {
                "The file does not validate; a batch over it fails with the list of errors."
                    .to_owned()
            }),
        }
    }
}

/// An output of a batch that still runs: what there is of it so far.
pub(crate) fn growing_output(batch: &Batch, id: FileId, name: String) -> FileObject {
    FileObject {
        id: ids::file(id),
        object: "file",
        bytes: 0,
        created_at: batch.created_at.as_second(),
        expires_at: None,
        filename: name,
        purpose: "batch_output".to_owned(),
        status: "uploaded",
        status_details: Some("The batch still runs; this output is incomplete.".to_owned()),
    }
}

/// A batch.
#[derive(Debug, Serialize)]
pub(crate) struct BatchObject {
    pub(crate) id: String,
    object: &'static str,
    endpoint: String,
    model: Option<String>,
    errors: Option<Errors>,
    input_file_id: String,
    completion_window: String,
    status: &'static str,
    output_file_id: Option<String>,
    error_file_id: Option<String>,
    created_at: i64,
    in_progress_at: Option<i64>,
    expires_at: Option<i64>,
    finalizing_at: Option<i64>,
    completed_at: Option<i64>,
    failed_at: Option<i64>,
    expired_at: Option<i64>,
    cancelling_at: Option<i64>,
    cancelled_at: Option<i64>,
    request_counts: RequestCounts,
    usage: Option<Usage>,
    metadata: Option<BTreeMap<String, String>>,
}

#[derive(Debug, Serialize)]
struct Errors {
    object: &'static str,
    data: Vec<LineError>,
}

#[derive(Debug, Serialize)]
struct RequestCounts {
    total: u64,
    completed: u64,
    failed: u64,
}

impl From<Batch> for BatchObject {
    fn from(batch: Batch) -> Self {
        let closed = |state: State| (batch.state == state).then_some(batch.closed_at).flatten();
        let (secs, failed) = (Timestamp::as_second, closed(State::Failed));
        let outputs = Outputs::of(&batch);
        Self {
            id: ids::batch(batch.id),
            object: "batch",
            model: None,
            input_file_id: ids::file(batch.file),
            completion_window: window(&batch),
            status: status(batch.state),
            output_file_id: outputs.output.map(ids::file),
            error_file_id: outputs.errors.map(ids::file),
            created_at: batch.created_at.as_second(),
            in_progress_at: failed.is_none().then(|| batch.created_at.as_second()),
            expires_at: batch.deadline.map(secs),
            finalizing_at: batch.finalizing_at.map(secs),
            completed_at: closed(State::Completed).map(secs),
            failed_at: failed.map(secs),
            expired_at: closed(State::Expired).map(secs),
            cancelling_at: batch.cancelling_at.map(secs),
            cancelled_at: closed(State::Cancelled).map(secs),
            request_counts: counts(&batch),
            usage: Summary::of(&batch).and_then(|summary| summary.usage),
            metadata: (!batch.metadata.is_empty()).then_some(batch.metadata),
            errors: (!batch.errors.is_empty())
                .then_some(Errors { object: "list", data: batch.errors }),
            endpoint: batch.endpoint,
        }
    }
}

impl BatchObject {
    /// The answer to a creation: whatever is known already, it begins by validating.
    pub(crate) fn validating(mut self) -> Self {
        self.status = "validating";
        self.in_progress_at = None;
        self.failed_at = None;
        self.errors = None;
        self
    }
}

/// Which outputs a batch has, or has begun.
pub(crate) struct Outputs {
    pub(crate) output: Option<FileId>,
    pub(crate) errors: Option<FileId>,
}

impl Outputs {
    pub(crate) fn of(batch: &Batch) -> Self {
        let counts = &batch.counts;
        let others = counts.failed + counts.not_found + counts.skipped;
        let stopped = matches!(batch.state, State::Cancelled | State::Expired);
        let never_run = stopped && others + counts.completed < counts.total;
        Self {
            output: (counts.completed > 0).then(|| FileId::output_of(batch.id)),
            errors: (others > 0 || never_run).then(|| FileId::errors_of(batch.id)),
        }
    }
}

/// The window as it was asked for: the largest unit that divides it.
fn window(batch: &Batch) -> String {
    let Some(deadline) = batch.deadline else { return "24h".to_owned() };
    let secs = deadline.duration_since(batch.created_at).as_secs();
    match secs {
        secs if secs % 3600 == 0 => format!("{}h", secs / 3600),
        secs if secs % 60 == 0 => format!("{}m", secs / 60),
        secs => format!("{secs}s"),
    }
}

/// A paused batch is in progress to those who know no pause.
fn status(state: State) -> &'static str {
    match state {
        State::InProgress | State::Paused => "in_progress",
        State::Cancelling | State::Finalizing(Ending::Cancelled) => "cancelling",
        State::Expiring | State::Finalizing(Ending::Completed | Ending::Expired) => "finalizing",
        State::Completed => "completed",
        State::Failed => "failed",
        State::Cancelled => "cancelled",
        State::Expired => "expired",
    }
}

fn counts(batch: &Batch) -> RequestCounts {
    let counts = &batch.counts;
    let failed = counts.failed + counts.not_found + counts.skipped;
    RequestCounts { total: counts.total, completed: counts.completed, failed }
}
