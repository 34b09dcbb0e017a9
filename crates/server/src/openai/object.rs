//! The objects of the contract: File and Batch. Absent values are null, times are Unix seconds.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;
use windrow_domain::{Ending, FileId, State};
use windrow_engine::finalise::Summary;
use windrow_engine::output::Usage;
use windrow_store::batch::Batch;
use windrow_store::ingest::{File, FileState, LineError};

use super::ids;
use super::list::ListTag;
use crate::app::App;
use crate::error::Result;

/// An uploaded file, or an output.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = File)]
pub(crate) struct FileObject {
    #[schema(pattern = "^file-[0-9a-f]{32}$")]
    pub(crate) id: String,
    #[schema(inline)]
    object: FileTag,
    bytes: u64,
    /// Unix seconds, as all times.
    created_at: i64,
    #[schema(required)]
    expires_at: Option<i64>,
    #[schema(example = "requests.jsonl")]
    filename: String,
    #[schema(value_type = FilePurpose)]
    purpose: String,
    status: FileStatus,
    #[schema(required)]
    status_details: Option<String>,
}

/// The type of the object.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FileTag {
    File,
}

/// What a file is for.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
#[expect(dead_code, reason = "the store has it as text; here it is only described")]
pub(crate) enum FilePurpose {
    Batch,
    BatchOutput,
}

/// The status of a file. One with an error has lines that cannot be run.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum FileStatus {
    Uploaded,
    Processed,
    Error,
}

impl From<File> for FileObject {
    fn from(file: File) -> Self {
        Self {
            id: ids::file(file.id),
            object: FileTag::File,
            bytes: file.bytes,
            created_at: file.created_at.as_second(),
            expires_at: file.expires_at.map(Timestamp::as_second),
            filename: file.name,
            purpose: file.purpose,
            status: match file.state {
                FileState::Open => FileStatus::Uploaded,
                FileState::Sealed => FileStatus::Processed,
                FileState::Invalid | FileState::Dropped => FileStatus::Error,
            },
            status_details: (file.state == FileState::Invalid).then(|| {
                "The file is invalid; a batch over it fails with the list of errors.".to_owned()
            }),
        }
    }
}

/// An output of a batch that still runs: what there is of it so far.
pub(crate) fn growing_output(batch: &Batch, id: FileId, name: String) -> FileObject {
    FileObject {
        id: ids::file(id),
        object: FileTag::File,
        bytes: 0,
        created_at: batch.created_at.as_second(),
        expires_at: None,
        filename: name,
        purpose: "batch_output".to_owned(),
        status: FileStatus::Uploaded,
        status_details: Some("The batch is still running; this output is incomplete.".to_owned()),
    }
}

/// A batch.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Batch)]
pub(crate) struct BatchObject {
    #[schema(pattern = "^batch_[0-9a-f]{32}$")]
    pub(crate) id: String,
    #[schema(inline)]
    object: BatchTag,
    #[schema(example = "/v1/chat/completions")]
    endpoint: String,
    /// The model that every line names, when they all name the same.
    #[schema(required)]
    model: Option<String>,
    /// Why the batch failed before it started.
    #[schema(required)]
    errors: Option<Errors>,
    #[schema(pattern = "^file-[0-9a-f]{32}$")]
    input_file_id: String,
    #[schema(example = "24h")]
    completion_window: String,
    status: BatchStatus,
    /// Readable while the batch runs, and marked incomplete until it is closed.
    #[schema(required)]
    output_file_id: Option<String>,
    #[schema(required)]
    error_file_id: Option<String>,
    /// Unix seconds, as all times.
    created_at: i64,
    #[schema(required)]
    in_progress_at: Option<i64>,
    #[schema(required)]
    expires_at: Option<i64>,
    #[schema(required)]
    finalizing_at: Option<i64>,
    #[schema(required)]
    completed_at: Option<i64>,
    #[schema(required)]
    failed_at: Option<i64>,
    #[schema(required)]
    expired_at: Option<i64>,
    #[schema(required)]
    cancelling_at: Option<i64>,
    #[schema(required)]
    cancelled_at: Option<i64>,
    request_counts: RequestCounts,
    #[schema(required)]
    usage: Option<Tokens>,
    #[schema(required)]
    metadata: Option<BTreeMap<String, String>>,
}

/// The type of the object.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum BatchTag {
    Batch,
}

/// The status of a batch. A paused one is in progress in this API, which knows no pause.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum BatchStatus {
    Validating,
    Failed,
    InProgress,
    Finalizing,
    Completed,
    Expired,
    Cancelling,
    Cancelled,
}

/// What is wrong with a file, line by line.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BatchErrors)]
struct Errors {
    #[schema(inline)]
    object: ListTag,
    data: Vec<BatchError>,
}

/// What is wrong with a line, or with the whole file.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct BatchError {
    #[schema(example = "invalid_json_line")]
    code: String,
    /// Which line; null when it is the file.
    #[schema(required)]
    line: Option<u64>,
    message: String,
    #[schema(required)]
    param: Option<String>,
}

impl From<LineError> for BatchError {
    fn from(LineError { code, line, message, param }: LineError) -> Self {
        Self { code, line, message, param }
    }
}

#[derive(Debug, Serialize, ToSchema)]
struct RequestCounts {
    total: u64,
    completed: u64,
    failed: u64,
}

/// Tokens of all lines, as far as their responses report them.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BatchUsage)]
struct Tokens {
    input_tokens: u64,
    #[schema(inline)]
    input_tokens_details: CachedTokens,
    output_tokens: u64,
    #[schema(inline)]
    output_tokens_details: ReasoningTokens,
    total_tokens: u64,
}

#[derive(Debug, Serialize, ToSchema)]
struct CachedTokens {
    cached_tokens: u64,
}

#[derive(Debug, Serialize, ToSchema)]
struct ReasoningTokens {
    reasoning_tokens: u64,
}

impl From<Usage> for Tokens {
    fn from(usage: Usage) -> Self {
        let cached_tokens = usage.input_tokens_details.cached_tokens;
        let reasoning_tokens = usage.output_tokens_details.reasoning_tokens;
        Self {
            input_tokens: usage.input_tokens,
            input_tokens_details: CachedTokens { cached_tokens },
            output_tokens: usage.output_tokens,
            output_tokens_details: ReasoningTokens { reasoning_tokens },
            total_tokens: usage.total_tokens,
        }
    }
}

impl BatchObject {
    /// The object of a batch.
    pub(crate) async fn of(app: &App, batch: Batch) -> Result<Self> {
        let model = app.models.of(&*app.store, &batch).await?;
        Ok(Self::new(batch, model))
    }

    fn new(batch: Batch, model: Option<String>) -> Self {
        let closed = |state: State| (batch.state == state).then_some(batch.closed_at).flatten();
        let (secs, failed) = (Timestamp::as_second, closed(State::Failed));
        let outputs = Outputs::of(&batch);
        Self {
            id: ids::batch(batch.id),
            object: BatchTag::Batch,
            model,
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
            usage: Summary::of(&batch).and_then(|summary| summary.usage).map(Tokens::from),
            metadata: (!batch.metadata.is_empty()).then_some(batch.metadata),
            errors: (!batch.errors.is_empty()).then(|| Errors {
                object: ListTag::List,
                data: batch.errors.into_iter().map(BatchError::from).collect(),
            }),
            endpoint: batch.endpoint,
        }
    }

    /// The response of a creation: whatever is known already, a new batch is validating.
    pub(crate) fn validating(mut self) -> Self {
        self.status = BatchStatus::Validating;
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

/// The window as it was requested: the largest unit that divides it.
fn window(batch: &Batch) -> String {
    match batch.window_secs.unwrap_or(24 * 3600) {
        secs if secs % 3600 == 0 => format!("{}h", secs / 3600),
        secs if secs % 60 == 0 => format!("{}m", secs / 60),
        secs => format!("{secs}s"),
    }
}

/// A paused batch is in progress in this API, which knows no pause.
fn status(state: State) -> BatchStatus {
    match state {
        State::InProgress | State::Paused => BatchStatus::InProgress,
        State::Cancelling | State::Finalizing(Ending::Cancelled) => BatchStatus::Cancelling,
        State::Expiring | State::Finalizing(Ending::Completed | Ending::Expired) => {
            BatchStatus::Finalizing
        }
        State::Completed => BatchStatus::Completed,
        State::Failed => BatchStatus::Failed,
        State::Cancelled => BatchStatus::Cancelled,
        State::Expired => BatchStatus::Expired,
    }
}

fn counts(batch: &Batch) -> RequestCounts {
    let counts = &batch.counts;
    let failed = counts.failed + counts.not_found + counts.skipped;
    RequestCounts { total: counts.total, completed: counts.completed, failed }
}
