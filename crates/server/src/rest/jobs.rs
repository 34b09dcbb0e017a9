//! `/api/jobs`: lists, retrieves, pauses, resumes, cancels.

use axum::extract::State;
use serde::{Deserialize, Serialize};
use windrow_domain::BatchId;
use windrow_store::batch::Batch;
use windrow_store::inspect::{BatchesQuery, Page};

use super::job::Job;
use super::words::{self, found, job_id};
use crate::act::{Action, note};
use crate::app::App;
use crate::auth::Caller;
use crate::error::Result;
use crate::extract::{Path, Query};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ListQuery {
    statuses: Option<String>,
    user_id: Option<String>,
    job_type: Option<String>,
    from: Option<String>,
    to: Option<String>,
    page_size: Option<u32>,
    after: Option<String>,
}

/// Rows, and how to ask for the next ones.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Listed<T> {
    data: Vec<T>,
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

pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<ListQuery>,
) -> Result<axum::Json<Listed<Job>>> {
    let scope = words::scope(&caller, query.user_id.as_deref())?;
    let page = BatchesQuery {
        states: words::job_states(query.statuses.as_deref())?,
        job_type: words::after(query.job_type),
        from: words::time("from", query.from.as_deref())?,
        to: words::time("to", query.to.as_deref())?,
        after: words::after(query.after),
        limit: words::page_size(query.page_size)?,
        ..BatchesQuery::default()
    };
    let page = app.store.batches(&scope, page).await?;
    Ok(axum::Json(Listed::of(page)))
}

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

pub(crate) async fn pause(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<axum::Json<Job>> {
    let id = job_id(&id)?;
    let paused = app.store.pause_batch(&caller.scope(), id, None).await;
    steered(&app, &caller, id, Action::Pause, paused).await
}

pub(crate) async fn resume(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<axum::Json<Job>> {
    let id = job_id(&id)?;
    let resumed = app.store.resume_batch(&caller.scope(), id).await;
    steered(&app, &caller, id, Action::Resume, resumed).await
}

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
