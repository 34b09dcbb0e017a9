//! `/api/jobs`: lists, retrieves, pauses, resumes, cancels.

use axum::extract::State;
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa::openapi::Schema;
use windrow_domain::{BatchId, State as BatchState};
use windrow_store::batch::{Batch, Continue};
use windrow_store::inspect::BatchesQuery;

use super::job::Job;
use super::params::{self, JobStatus, job_id, or_job_not_found};
use super::queries::{JobsFilter, JobsQuery, PageQuery};
use crate::app::App;
use crate::audit_log::{Action, note};
use crate::auth::Caller;
use crate::error::{Code, Error, Result};
use crate::extract::{Path, Query};
use crate::openapi::error_responses::NotFound;
use crate::pages::{self, CamelPage};
use crate::params::{window, window_schema};

#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub(crate) struct ListQuery {
    /// Only those: separated by commas.
    #[param(value_type = Option<Vec<JobStatus>>, inline, style = Form, explode = false)]
    statuses: Option<String>,
}

/// Lists jobs
///
/// The newest first.
#[utoipa::path(
    get, path = "/jobs", operation_id = "listJobs", tag = "Jobs", security(("key" = [])),
    params(ListQuery, JobsQuery, PageQuery),
    responses((status = 200, description = "A page of jobs.", body = CamelPage<Job>)))]
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<ListQuery>,
    Query(jobs): Query<JobsQuery>,
    Query(page): Query<PageQuery>,
) -> Result<axum::Json<CamelPage<Job>>> {
    let (JobsFilter { scope, job_type, from, to }, (after, limit)) =
        (jobs.read(&caller)?, page.read()?);
    let has_cursor = after.is_some();
    let states = params::job_states(query.statuses.as_deref())?;
    let query =
        BatchesQuery { states, job_type, from, to, after, limit, ..BatchesQuery::default() };
    let page = pages::page(app.store.batches(&scope, query).await, has_cursor, Error::from)?;
    Ok(axum::Json(page.into()))
}

/// Retrieves a job
#[utoipa::path(
    get, path = "/jobs/{id}", operation_id = "retrieveJob", tag = "Jobs", security(("key" = [])),
    params(("id" = String, Path, format = "uuid")),
    responses((status = 200, description = "The job.", body = Job), NotFound))]
pub(crate) async fn retrieve(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<axum::Json<Job>> {
    let (id, scope) = (job_id(&id)?, caller.scope());
    let batch = or_job_not_found(app.status(&scope, id).await, id)?;
    let lanes = or_job_not_found(app.store.lanes(&scope, id).await, id)?;
    let acts = or_job_not_found(app.store.audit_log(&scope, id).await, id)?;
    let state = batch.state;
    Ok(axum::Json(Job::from(batch).with(state, lanes, acts)))
}

/// Pauses a job
///
/// What is in flight is finished, and nothing new is begun.
#[utoipa::path(
    post, path = "/jobs/{id}/pause", operation_id = "pauseJob", tag = "Jobs", security(("key" = [])),
    params(("id" = String, Path, format = "uuid")),
    responses((status = 200, description = "The job.", body = Job), NotFound))]
pub(crate) async fn pause(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<axum::Json<Job>> {
    let id = job_id(&id)?;
    let paused = app.store.pause_batch(&caller.scope(), id, None).await;
    steered(&app, &caller, id, Action::Pause, paused).await
}

/// Goes on with a paused job
///
/// One whose window is over, also one that has expired, needs a new `window`.
#[utoipa::path(
    post, path = "/jobs/{id}/resume", operation_id = "resumeJob", tag = "Jobs", security(("key" = [])),
    params(("id" = String, Path, format = "uuid"), WindowQuery),
    responses((status = 200, description = "The job.", body = Job), NotFound))]
pub(crate) async fn resume(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    Query(query): Query<WindowQuery>,
) -> Result<axum::Json<Job>> {
    let (id, scope, window_secs) = (job_id(&id)?, caller.scope(), query.read()?);
    let batch = or_job_not_found(app.store.batch(&scope, id).await, id)?;
    let resumed = match window_secs {
        None if batch.is_late(app.clock.now()) => return Err(late(&batch)),
        _ if batch.state == BatchState::Cancelled => return Err(cancelled(&batch)),
        Some(_) if batch.state == BatchState::Expired => {
            let open_max = app.options.open_batches_max;
            let how = Continue { batch: id, window_secs, open_max };
            app.store.continue_batch(&scope, how).await
        }
        _ => app.store.resume_batch(&scope, id, window_secs).await,
    };
    app.forget_status(id);
    steered(&app, &caller, id, Action::Resume, resumed).await
}

/// The window of a job is over.
fn late(batch: &Batch) -> Error {
    let ended = batch.deadline.map(|end| format!(" at {end:.0}")).unwrap_or_default();
    let message = format!(
        "The window of the job ended{ended}; give it a new one with `window`: POST \
         /api/jobs/{}/resume?window=24h.",
        batch.id
    );
    Error::new(Code::Refused, message).at("window")
}

/// A job that was cancelled goes on by another call.
fn cancelled(batch: &Batch) -> Error {
    let message = format!(
        "The job is cancelled; what never ran of it runs after POST /api/jobs/{}/continue.",
        batch.id
    );
    Error::new(Code::Refused, message)
}

/// Cancels a job
///
/// What was finished until then stays.
#[utoipa::path(
    post, path = "/jobs/{id}/cancel", operation_id = "cancelJob", tag = "Jobs", security(("key" = [])),
    params(("id" = String, Path, format = "uuid")),
    responses((status = 200, description = "The job.", body = Job), NotFound))]
pub(crate) async fn cancel(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<axum::Json<Job>> {
    let id = job_id(&id)?;
    let cancelled = app.store.cancel_batch(&caller.scope(), id).await;
    steered(&app, &caller, id, Action::Cancel, cancelled).await
}

/// The new window of a job that goes on.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct WindowQuery {
    /// How long it may take from now on, such as `24h`; as long as the last time unless given.
    #[param(schema_with = window_param, required = false)]
    window: Option<String>,
}

impl WindowQuery {
    /// The window in seconds.
    fn read(&self) -> Result<Option<u64>> {
        self.window.as_deref().map(|text| window("window", text)).transpose()
    }
}

fn window_param() -> Schema {
    window_schema().into()
}

/// Goes on with a cancelled or expired job
///
/// What never ran runs, in a new window; nothing that is finished is sent again.
#[utoipa::path(
    post, path = "/jobs/{id}/continue", operation_id = "continueJob", tag = "Jobs", security(("key" = [])),
    params(("id" = String, Path, format = "uuid"), WindowQuery),
    responses((status = 200, description = "The job.", body = Job), NotFound))]
pub(crate) async fn continue_job(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    Query(query): Query<WindowQuery>,
) -> Result<axum::Json<Job>> {
    let id = job_id(&id)?;
    let window_secs = query.read()?;
    let how = Continue { batch: id, window_secs, open_max: app.options.open_batches_max };
    let continued = app.store.continue_batch(&caller.scope(), how).await;
    app.forget_status(id);
    steered(&app, &caller, id, Action::Continue, continued).await
}

async fn steered(
    app: &App,
    caller: &Caller,
    id: BatchId,
    action: Action,
    batch: windrow_store::Result<Batch>,
) -> Result<axum::Json<Job>> {
    let batch = or_job_not_found(batch, id)?;
    note(app, caller, id, action).await;
    // There may be lines to claim, or a batch to close.
    app.wake();
    tracing::info!(batch.id = %id, owner = %batch.owner, action = action.as_str(), "job state changed");
    Ok(axum::Json(batch.into()))
}
