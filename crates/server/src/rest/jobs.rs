//! `/api/jobs`: lists, retrieves, pauses, resumes, cancels.

use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use windrow_domain::BatchId;
use windrow_store::batch::Batch;
use windrow_store::inspect::{BatchesQuery, Page};

use super::job::Job;
use super::words::{self, JobStatus, found, job_id};
use crate::act::{Action, note};
use crate::app::App;
use crate::auth::Caller;
use crate::describe::refusals::Missing;
use crate::error::Result;
use crate::extract::{Path, Query};

#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub(crate) struct ListQuery {
    /// Only those: separated by commas.
    #[param(value_type = Option<Vec<JobStatus>>, inline, style = Form, explode = false)]
    statuses: Option<String>,
    /// Whose: `me`, or for admins an owner, or `all`.
    #[param(max_length = 256, default = "me", pattern = "^[^\\u0000-\\u001f\\u007f-\\u009f]*$")]
    user_id: Option<String>,
    /// Only those with this word.
    #[param(max_length = 64, pattern = "^[^\\u0000-\\u001f\\u007f-\\u009f]*$")]
    job_type: Option<String>,
    /// Not before this time.
    #[param(schema_with = words::time_schema)]
    from: Option<String>,
    /// Before this time.
    #[param(schema_with = words::time_schema)]
    to: Option<String>,
    /// How many.
    #[param(minimum = 1, maximum = 1000, default = 100)]
    page_size: Option<u32>,
    /// The `nextCursor` of the page before, which asked for the same.
    #[param(max_length = 1024, pattern = "^[A-Za-z0-9._-]*$")]
    after: Option<String>,
}

/// Rows, and how to ask for the next ones.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Page)]
pub(crate) struct Listed<T> {
    data: Vec<T>,
    /// Null on the last page.
    #[schema(required)]
    next_cursor: Option<String>,
}

impl<T> Listed<T> {
    pub(super) fn new(data: Vec<T>, next_cursor: Option<String>) -> Self {
        Self { data, next_cursor }
    }

    pub(super) fn of<R>(page: Page<R>) -> Self
    where
        T: From<R>,
    {
        Self::new(page.rows.into_iter().map(T::from).collect(), page.next)
    }
}

/// Lists jobs
///
/// The newest first.
#[utoipa::path(
    get, path = "/jobs", operation_id = "listJobs", tag = "Jobs", security(("key" = [])),
    params(ListQuery),
    responses((status = 200, description = "A page.", body = Listed<Job>)))]
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<ListQuery>,
) -> Result<axum::Json<Listed<Job>>> {
    let scope = words::scope(&caller, query.user_id.as_deref())?;
    let page = BatchesQuery {
        states: words::job_states(query.statuses.as_deref())?,
        job_type: words::job_type(query.job_type)?,
        from: words::time("from", query.from.as_deref())?,
        to: words::time("to", query.to.as_deref())?,
        after: words::after(query.after),
        limit: words::page_size(query.page_size)?,
        ..BatchesQuery::default()
    };
    let has_cursor = page.after.is_some();
    let page = words::page(app.store.batches(&scope, page).await, has_cursor)?;
    Ok(axum::Json(Listed::of(page)))
}

/// Retrieves a job
#[utoipa::path(
    get, path = "/jobs/{id}", operation_id = "retrieveJob", tag = "Jobs", security(("key" = [])),
    params(("id" = String, Path, format = "uuid")),
    responses((status = 200, description = "The job.", body = Job), Missing))]
pub(crate) async fn retrieve(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<axum::Json<Job>> {
    let (id, scope) = (job_id(&id)?, caller.scope());
    let batch = found(app.store.batch(&scope, id).await, id)?;
    let lanes = found(app.store.lanes(&scope, id).await, id)?;
    let acts = found(app.store.acts(&scope, id).await, id)?;
    let state = batch.state;
    Ok(axum::Json(Job::from(batch).with(state, lanes, acts)))
}

/// Pauses a job
///
/// What is in flight is finished, and nothing new is begun.
#[utoipa::path(
    post, path = "/jobs/{id}/pause", operation_id = "pauseJob", tag = "Jobs", security(("key" = [])),
    params(("id" = String, Path, format = "uuid")),
    responses((status = 200, description = "The job.", body = Job), Missing))]
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
#[utoipa::path(
    post, path = "/jobs/{id}/resume", operation_id = "resumeJob", tag = "Jobs", security(("key" = [])),
    params(("id" = String, Path, format = "uuid")),
    responses((status = 200, description = "The job.", body = Job), Missing))]
pub(crate) async fn resume(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<axum::Json<Job>> {
    let id = job_id(&id)?;
    let resumed = app.store.resume_batch(&caller.scope(), id).await;
    steered(&app, &caller, id, Action::Resume, resumed).await
}

/// Cancels a job
///
/// What was finished until then stays.
#[utoipa::path(
    post, path = "/jobs/{id}/cancel", operation_id = "cancelJob", tag = "Jobs", security(("key" = [])),
    params(("id" = String, Path, format = "uuid")),
    responses((status = 200, description = "The job.", body = Job), Missing))]
pub(crate) async fn cancel(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<axum::Json<Job>> {
    let id = job_id(&id)?;
    let cancelled = app.store.cancel_batch(&caller.scope(), id).await;
    steered(&app, &caller, id, Action::Cancel, cancelled).await
}

async fn steered(
    app: &App,
    caller: &Caller,
    id: BatchId,
    action: Action,
    batch: windrow_store::Result<Batch>,
) -> Result<axum::Json<Job>> {
    let batch = found(batch, id)?;
    note(app, caller, id, action).await;
    // There may be lines to claim, or a batch to close.
    app.wake();
    tracing::info!(batch.id = %id, owner = %batch.owner, action = action.as_str(), "job steered");
    Ok(axum::Json(batch.into()))
}
