//! `POST /api/jobs/{id}/kickoff`: runs one job for a slice of time, in this process.
//!
//! Holds throughout: the loop is the one that every worker runs, so leases and limits hold; a slice that
//! was begun runs to its end, also when the client disconnects.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use windrow_domain::millis;
use windrow_domain::{BatchId, State as BatchState};
use windrow_engine::execute::Executor;
use windrow_engine::signal::Stop;
use windrow_engine::{Engine, Until};
use windrow_store::Scope;
use windrow_store::batch::Batch;

use super::params::{JobStatus, job_id, job_status, or_job_not_found};
use crate::app::App;
use crate::audit_log::{Action, note};
use crate::auth::Caller;
use crate::error::{Code, Error, Result};
use crate::extract::{Path, Query};
use crate::openapi::error_responses::NotFound;

const DURATION_MS_USUAL: u64 = 5_000;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub(crate) struct KickoffQuery {
    /// How long; what is leased at the end is finished or released.
    #[param(minimum = 1, maximum = 60000, default = 5000)]
    duration_ms: Option<u64>,
}

/// What a kickoff did.
#[derive(Clone, Copy, Debug, Default, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Slice)]
pub(crate) struct KickoffResult {
    /// Items that were finished.
    finished: u64,
    /// Attempts that failed and will be retried.
    retried: u64,
    /// Items that were leased and released unfinished.
    released: u64,
    /// The state of the job now; `expired` also when its window is over and it is not closed yet.
    #[schema(value_type = JobStatus)]
    status: &'static str,
    /// Whether the job is closed now.
    closed: bool,
    /// Items without a result.
    remaining: u64,
    took_ms: u64,
}

/// Drives a job for a slice of time
///
/// In the process that gets the request; leases and limits hold.
#[utoipa::path(
    post, path = "/jobs/{id}/kickoff", operation_id = "kickoffJob", tag = "Jobs", security(("key" = [])),
    params(("id" = String, Path, format = "uuid"), KickoffQuery),
    responses((status = 200, description = "What the kickoff did.", body = KickoffResult), NotFound))]
pub(crate) async fn kickoff(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    Query(query): Query<KickoffQuery>,
) -> Result<axum::Json<KickoffResult>> {
    let id = job_id(&id)?;
    let most = millis(app.options.kickoff_max);
    let duration_ms = query.duration_ms.unwrap_or(DURATION_MS_USUAL.min(most));
    if !(1..=most).contains(&duration_ms) {
        let message = format!("`durationMs` must be between 1 and {most}.");
        return Err(Error::invalid("durationMs", message));
    }
    let batch = or_job_not_found(app.store.batch(&caller.scope(), id).await, id)?;
    let Some(executor) = app.executor.clone() else {
        let message = "This server runs no worker; workers elsewhere run the job.";
        return Err(Error::new(Code::NoWorker, message));
    };
    if batch.state.is_closed() || batch.state == BatchState::Paused {
        return Ok(axum::Json(KickoffResult::of(&app, &batch)));
    }
    let permit = app.admission.kickoffs.try_acquire(&caller.owner)?;
    note(&app, &caller, id, Action::Kickoff).await;
    let driver = app.clone();
    let slice = async move {
        let _permit = permit;
        drive(&driver, executor, id, Duration::from_millis(duration_ms)).await
    };
    app.tasks.run_detached(slice).await.map(axum::Json)
}

async fn drive(
    app: &App,
    executor: Arc<dyn Executor>,
    id: BatchId,
    time: Duration,
) -> Result<KickoffResult> {
    let (began_ms, stop) = (app.clock.millis(), Stop::new());
    let engine = Engine::builder(app.store.clone())
        .executor(executor)
        .storage(app.storage.clone())
        .options((*app.work).clone())
        .clock(app.clock.clone())
        .stop(stop.clone())
        .service("windrow kickoff")
        .only(id)
        .until(Until::Closed(id))
        .build();
    let handle = engine.handle();
    let mut running = Box::pin(engine.run());
    let report = tokio::select! {
        report = &mut running => report,
        () = async {
            tokio::select! {
                () = app.clock.sleep(time) => {}
                () = app.tasks.stopping() => {}
            }
        } => {
            stop.give();
            running.await
        }
    }?;
    let progress = handle.progress();
    let batch = or_job_not_found(app.store.batch(&Scope::All, id).await, id)?;
    let took_ms = app.clock.millis().saturating_sub(began_ms);
    tracing::info!(batch.id = %id, lines = progress.finished, elapsed_ms = took_ms, "kickoff finished");
    Ok(KickoffResult {
        finished: progress.finished,
        retried: progress.retries,
        released: report.released,
        took_ms,
        ..KickoffResult::of(app, &batch)
    })
}

impl KickoffResult {
    /// What the job is like, without what was done.
    fn of(app: &App, batch: &Batch) -> Self {
        // No line of a late job runs, also before a sweep has found it.
        let is_late = batch.is_late(app.clock.now());
        Self {
            status: job_status(if is_late { BatchState::Expired } else { batch.state }),
            closed: batch.state.is_closed(),
            remaining: batch.counts.unfinished(),
            ..Self::default()
        }
    }
}
