//! `POST /api/jobs`: an upload becomes a job, in one call.
//!
//! Holds throughout: when a call fails, neither a file nor a job is left; a repeat with the same
//! `Idempotency-Key` gets the first job, also when both arrive at the same moment; the file is sealed in
//! the same step that creates its job, so that neither is ever visible without the other.

use std::io;

use axum::body::BodyDataStream;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use bytes::Bytes;
use futures_util::{Stream, StreamExt as _, TryStreamExt as _};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use utoipa::openapi::Schema;
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;
use windrow_domain::{BatchId, FileId, Owner};
use windrow_engine::ingest::Ingested;
use windrow_store::Kind;
use windrow_store::batch::{Batch, NewBatch};
use windrow_store::ingest::{ENDPOINT_BYTES_MAX, FileState};

use super::deferred_seal::{DeferredSeal, PendingSeal};
use super::job::Job;
use super::params;
use crate::app::App;
use crate::audit_log::{Action, note};
use crate::auth::Caller;
use crate::body_timeout::BodyTimeout;
use crate::error::{Code, Error, Result};
use crate::extract::Query;
use crate::openapi::Binary;
use crate::openapi::error_responses::{PayloadTooLarge, RequestTimeout, UnsupportedMediaType};
use crate::params::{idempotency_key, window, window_schema};
use crate::upload::{self, MultipartForm, NewUpload, Purpose};

const WINDOW_USUAL: &str = "24h";
const PRIORITY: std::ops::RangeInclusive<i16> = -100..=100;
/// Content types of a body that is the file itself.
const FILE_TYPES: [&str; 5] = [
    "application/jsonl",
    "application/x-ndjson",
    "application/json-lines",
    "text/plain",
    "application/octet-stream",
];
const FORM_TYPE: &str = "multipart/form-data";

#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub(crate) struct CreateQuery {
    /// The name of the file, where the body is the file.
    #[param(
        max_length = 255,
        pattern = "^(([^\\u0000]*[/\\\\])?[^/\\\\\\u0000-\\u001f\\u007f-\\u009f]+)?$"
    )]
    name: Option<String>,
    /// A type of your own, to filter jobs by.
    #[param(max_length = 64, pattern = "^[^\\u0000-\\u001f\\u007f-\\u009f]*$")]
    job_type: Option<String>,
    /// The endpoint that the lines request; required only where they request different ones.
    #[param(
        max_length = 2048,
        example = "/v1/chat/completions",
        pattern = "^/[^\\u0000-\\u001f\\u007f-\\u009f]*$"
    )]
    endpoint: Option<String>,
    /// How long the job may take: minutes, hours or days, from one minute to 30 days.
    #[param(schema_with = usual_window_schema)]
    window: Option<String>,
    /// Jobs with a higher priority are run first.
    #[param(minimum = -100, maximum = 100, default = 0)]
    priority: Option<i16>,
}

fn usual_window_schema() -> Schema {
    window_schema().default(Some(WINDOW_USUAL.into())).into()
}

/// The file as a multipart form.
#[derive(ToSchema)]
#[expect(dead_code, reason = "the parts are read as they come; here they are only described")]
pub(crate) struct NewJob {
    /// One request per line.
    #[schema(value_type = String, format = Binary)]
    file: Vec<u8>,
}

/// What is known of the job before its file is read.
struct JobSpec {
    id: BatchId,
    name: Option<String>,
    job_type: Option<String>,
    endpoint: Option<String>,
    window_secs: u64,
    priority: i16,
    idempotency_key: Option<String>,
}

/// The two ways to upload a file.
enum JobBody {
    File(BodyDataStream),
    Form(MultipartForm),
}

/// Creates a job
///
/// The body is the file, one request per line, or a form with it. It is stored and validated as it
/// comes in; a job over a file with errors is `failed`, and lists them.
#[utoipa::path(
    post, path = "/jobs", operation_id = "createJob", tag = "Jobs", security(("key" = [])),
    params(CreateQuery, ("Idempotency-Key" = Option<String>, Header, max_length = 255,
        pattern = "^[!-~]([ -~]*[!-~])?$",
        description = "A repeat with the same key gets the same job and creates no second one.")),
    request_body(content((Binary = "application/jsonl"), (Binary = "application/octet-stream"),
        (NewJob = "multipart/form-data"))),
    responses((status = 201, description = "The job.", body = Job),
        (status = 200, description = "The job that an earlier request with the same key created.", body = Job), RequestTimeout,
        PayloadTooLarge, UnsupportedMediaType))]
pub(crate) async fn create(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<CreateQuery>,
    request: Request,
) -> Result<(StatusCode, axum::Json<Job>)> {
    let spec = JobSpec::read(query, &caller.owner, request.headers())?;
    let body = JobBody::read(&app, request).await?;
    let (maker, permit) = (app.clone(), app.admission.uploads.try_acquire(&caller.owner)?);
    // A client that disconnects leaves nothing half done.
    let making = async move {
        let _permit = permit;
        create_from_body(&maker, &caller, &spec, body).await
    };
    let (status, batch) = app.tasks.run_detached(making).await?;
    Ok((status, axum::Json(batch.into())))
}

/// Stores the file and creates the job, or finds the job that the same key created before.
async fn create_from_body(
    app: &App,
    caller: &Caller,
    spec: &JobSpec,
    body: JobBody,
) -> Result<(StatusCode, Batch)> {
    if let Some(first) = existing_job(app, caller, spec).await? {
        let bytes = body.drain(app).await?;
        let job = check_repeat(app, caller, spec, first, bytes).await?;
        return Ok((StatusCode::OK, job));
    }
    let deferred = DeferredSeal::new(app, spec.endpoint.clone());
    let ingested = match body {
        JobBody::Form(form) => {
            upload::store_form(app, &deferred, caller, form, Purpose::Implied).await?
        }
        JobBody::File(bytes) => {
            let (id, name) = (FileId::new(), spec.name.as_deref());
            let new_upload =
                NewUpload { id, name, life_secs: app.options.file_retention.as_secs() };
            let bytes = bytes.map_err(io::Error::other);
            upload::store_stream(app, &deferred, caller, Purpose::Implied, new_upload, bytes)
                .await?
        }
    };
    let bytes = ingested.file.bytes;
    match create_job(app, caller, spec, &ingested, deferred).await {
        Ok(Some(batch)) => {
            note(app, caller, batch.id, Action::Create).await;
            app.wake();
            tracing::info!(
                batch.id = %batch.id, file.id = %batch.file, owner = %caller.owner, "job created"
            );
            Ok((StatusCode::CREATED, batch))
        }
        // A concurrent request with the same key was faster.
        Ok(None) => {
            let unneeded = upload::discard(app, caller, Some(ingested), reused()).await;
            let first = existing_job(app, caller, spec).await?.ok_or(unneeded)?;
            let job = check_repeat(app, caller, spec, first, Some(bytes)).await?;
            Ok((StatusCode::OK, job))
        }
        Err(error) => Err(upload::discard(app, caller, Some(ingested), error).await),
    }
}

/// Creates the job and seals its file. None when its id, or its key, is in use.
async fn create_job(
    app: &App,
    caller: &Caller,
    spec: &JobSpec,
    ingested: &Ingested,
    deferred: DeferredSeal,
) -> Result<Option<Batch>> {
    let file = &ingested.file;
    let pending_seal = deferred.into_pending_seal();
    let PendingSeal { verdict, errors, mixes_paths } =
        pending_seal.ok_or_else(|| Error::internal("a file that was taken in has no verdict"))?;
    let endpoint = match (&spec.endpoint, &file.endpoint) {
        (Some(endpoint), _) | (None, Some(endpoint)) => endpoint.clone(),
        (None, None) if file.state == FileState::Sealed && !mixes_paths => {
            let message = "The lines request different endpoints; set `endpoint` to the one the job is \
                    for, or let the upstream take them all with `paths` of its table, such as \
                    paths = [\"/items/*\"].";
            return Err(Error::invalid("endpoint", message));
        }
        // Its lines have paths of their own; or it fails with the errors of its file, whatever its
        // endpoint.
        (None, None) => "/".to_owned(),
    };
    let batch = NewBatch {
        id: spec.id,
        file: file.id,
        owner: caller.owner.clone(),
        upstreams: app.routes.upstreams(&endpoint),
        endpoint,
        window_secs: Some(spec.window_secs),
        priority: spec.priority,
        job_type: spec.job_type.clone(),
        source_address: caller.source_address(),
        metadata: Default::default(),
        idempotency_key: spec.idempotency_key.clone(),
        output_secs: Some(app.options.output_retention.as_secs()),
        open_max: app.options.open_batches_max,
        errors,
        recipe: None,
        target: None,
    };
    match app.store.create_batch_with_file(batch, verdict).await {
        Ok(batch) => Ok(Some(batch)),
        Err(error) if error.kind == Kind::Conflict => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The job that an earlier request with the same key created.
async fn existing_job(app: &App, caller: &Caller, spec: &JobSpec) -> Result<Option<Batch>> {
    if spec.idempotency_key.is_none() {
        return Ok(None);
    }
    match app.store.batch(&caller.own(), spec.id).await {
        Ok(batch) => Ok(Some(batch)),
        Err(error) if error.kind == Kind::Missing => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The first job, when this request is a repeat of it, as far as can be known without storing its
/// file.
async fn check_repeat(
    app: &App,
    caller: &Caller,
    spec: &JobSpec,
    first: Batch,
    bytes: Option<u64>,
) -> Result<Batch> {
    // A job that went on has the window that it was given then.
    let is_same_window = !first.has_first_window() || first.window_secs == Some(spec.window_secs);
    let is_same = first.job_type == spec.job_type
        && first.priority == spec.priority
        && is_same_window
        && spec.endpoint.as_ref().is_none_or(|endpoint| *endpoint == first.endpoint);
    // A file may expire before its job.
    let file = app.store.file(&caller.own(), first.file).await.ok();
    let is_same_size = bytes.zip(file).is_none_or(|(bytes, file)| bytes == file.bytes);
    if is_same && is_same_size { Ok(first) } else { Err(reused()) }
}

fn reused() -> Error {
    Error::new(
        Code::IdempotencyKeyReused,
        "This Idempotency-Key was used for a different job; use a new one.",
    )
}

impl JobSpec {
    fn read(query: CreateQuery, owner: &Owner, headers: &HeaderMap) -> Result<Self> {
        let idempotency_key = idempotency_key(headers)?;
        let priority = query.priority.unwrap_or(0);
        if !PRIORITY.contains(&priority) {
            let (least, most) = (PRIORITY.start(), PRIORITY.end());
            let message = format!("`priority` must be between {least} and {most}.");
            return Err(Error::invalid("priority", message));
        }
        let is_plain = |text: &str| !text.chars().any(char::is_control);
        let name = query.name.filter(|text| !text.is_empty());
        name.as_deref().map_or(Ok(()), upload::check_name)?;
        let job_type = params::job_type(query.job_type)?;
        let is_path = |text: &String| {
            text.starts_with('/') && text.len() <= ENDPOINT_BYTES_MAX && is_plain(text)
        };
        if !query.endpoint.as_ref().is_none_or(is_path) {
            let message = "`endpoint` must be a path that starts with `/`.";
            return Err(Error::invalid("endpoint", message));
        }
        Ok(Self {
            id: idempotency_key.as_ref().map_or_else(BatchId::new, |key| id(owner, key)),
            name,
            job_type,
            endpoint: query.endpoint,
            window_secs: window("window", query.window.as_deref().unwrap_or(WINDOW_USUAL))?,
            priority,
            idempotency_key,
        })
    }
}

/// The id of the job that an owner's key stands for, so that a repeat finds it before it is read.
///
/// A stored contract, as the id of a command's run is (`run/identity.rs` of the program). The two hash
/// differently and stay two: with another hash, context or order of parts a repeated `Idempotency-Key`
/// makes a second job, and everything is sent again.
fn id(owner: &Owner, key: &str) -> BatchId {
    let mut hasher = Sha256::new_with_prefix("windrow 2026 job");
    for part in [owner.as_str(), key] {
        hasher.update((part.len() as u64).to_le_bytes());
        hasher.update(part.as_bytes());
    }
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hasher.finalize()[..16]);
    BatchId(Uuid::new_v8(bytes))
}

impl JobBody {
    async fn read(app: &App, request: Request) -> Result<Self> {
        let given = request.headers().get(header::CONTENT_TYPE);
        let given = given.and_then(|value| value.to_str().ok()).unwrap_or_default();
        let essence = given.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        let unsupported = || {
            let message = format!(
                "The body must be JSONL with one of these as its `Content-Type`: {}; or a \
                    multipart form ({FORM_TYPE}) with a part `file`.",
                FILE_TYPES.join(", ")
            );
            Error::new(Code::UnsupportedMediaType, message)
        };
        if essence == FORM_TYPE {
            return MultipartForm::from_request(app, request)
                .await
                .map(JobBody::Form)
                .ok_or_else(unsupported);
        }
        if FILE_TYPES.contains(&essence.as_str()) {
            Ok(JobBody::File(request.into_body().into_data_stream()))
        } else {
            Err(unsupported())
        }
    }

    /// Reads the body to its end and stores nothing, so that the client reads the response. Gives
    /// the size of the file.
    async fn drain(self, app: &App) -> Result<Option<u64>> {
        let mut form = match self {
            JobBody::File(bytes) => {
                return count(app, bytes.map_err(io::Error::other)).await.map(Some);
            }
            JobBody::Form(form) => form,
        };
        let mut file = None;
        for _ in 0..upload::PARTS_MAX {
            let Some(mut part) = form.next().await? else { break };
            let is_file = part.name() == Some("file");
            let mut bytes = 0;
            while let Some(piece) = part.chunk().await? {
                bytes = add(app, bytes, &piece)?;
            }
            file = if is_file { Some(bytes) } else { file };
        }
        Ok(file)
    }
}

/// Counts the bytes of a body, within the limits of an upload.
async fn count(app: &App, bytes: impl Stream<Item = io::Result<Bytes>> + Send) -> Result<u64> {
    let mut bytes = BodyTimeout::new(app.clock.clone(), &app.options).watch(bytes);
    let mut sum = 0;
    while let Some(piece) = bytes.next().await {
        let Ok(piece) = piece else {
            let message = "The upload ended early or was too slow.";
            return Err(Error::new(Code::UploadBroken, message));
        };
        sum = add(app, sum, &piece)?;
    }
    Ok(sum)
}

/// A body beyond the limit is not the file that came first.
fn add(app: &App, sum: u64, piece: &Bytes) -> Result<u64> {
    let sum = sum.saturating_add(piece.len() as u64);
    if sum > app.options.upload_bytes_max { Err(reused()) } else { Ok(sum) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_of_a_job_under_a_key_stays_what_it_is() {
        let owner = Owner::new("ada").unwrap();
        assert_eq!(id(&owner, "order-7").to_string(), "eac04994-19e1-83fb-af2d-0d230df09029");
        assert_ne!(id(&owner, "order-8"), id(&owner, "order-7"));
    }
}
