//! `GET /api/jobs/{id}/events`: the progress of a job as server-sent events.
//!
//! Holds throughout: a job is read about twice a second at most, however many clients listen; the
//! stream ends with the job, or as [`crate::sse`] says.

use async_trait::async_trait;
use axum::extract::State;
use axum::response::Response;
use axum::response::sse::Event;
use utoipa::ToSchema;
use windrow_domain::BatchId;
use windrow_store::batch::Batch;
use windrow_store::{Kind, Scope};

use super::job::Progress;
use super::params::{job_id, or_job_not_found};
use crate::app::App;
use crate::auth::Caller;
use crate::error::Result;
use crate::extract::Path;
use crate::openapi::error_responses::NotFound;
use crate::sse::{self, Polled};

/// An event, as the lines of the stream have it.
#[derive(ToSchema)]
#[expect(dead_code, reason = "only described: events are written as text")]
pub(crate) struct JobEvent {
    #[schema(inline)]
    event: EventName,
    /// The job's progress as JSON.
    #[schema(content_media_type = "application/json")]
    data: String,
}

#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
#[expect(dead_code, reason = "only described")]
enum EventName {
    Progress,
    Closed,
}

/// Follows a job
///
/// Server-sent events, as it happens.
#[utoipa::path(
    get, path = "/jobs/{id}/events", operation_id = "followJob", tag = "Jobs", security(("key" = [])),
    params(("id" = String, Path, format = "uuid")),
    responses((status = 200, description = "Events `progress`, and `closed` at the end; the data of each\n        is the job's progress as JSON.", content_type = "text/event-stream", body = JobEvent), NotFound))]
pub(crate) async fn events(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Response> {
    let id = job_id(&id)?;
    let batch = Some(or_job_not_found(app.store.batch(&caller.scope(), id).await, id)?);
    let source = JobEvents { id, batch, sent: None, is_over: false };
    sse::respond(app, caller, source)
}

/// The progress of one job, for one client.
struct JobEvents {
    id: BatchId,
    /// What was read last, as long as there may be something in it to send.
    batch: Option<Batch>,
    sent: Option<Progress>,
    is_over: bool,
}

#[async_trait]
impl sse::Source for JobEvents {
    fn ready(&mut self) -> Option<Event> {
        let batch = self.batch.take()?;
        let (progress, is_closed) = (Progress::of(&batch), batch.state.is_closed());
        if self.sent.as_ref() != Some(&progress) {
            let event = event("progress", &progress);
            self.sent = Some(progress);
            // A closed job says so next, without being read again.
            self.batch = is_closed.then_some(batch);
            return Some(event);
        }
        self.is_over = is_closed;
        is_closed.then(|| event("closed", &progress))
    }

    async fn poll(&mut self, app: &App) -> Polled {
        if self.is_over {
            return Polled::Ended;
        }
        match current(app, self.id).await {
            Ok(batch) => self.batch = Some(batch),
            Err(error) if error.kind == Kind::Missing => return Polled::Ended,
            Err(error) => {
                let error = windrow_store::error::chain(&error);
                tracing::warn!(batch.id = %self.id, %error, "could not read a job for its listeners");
                return Polled::Failed;
            }
        }
        Polled::Read
    }

    async fn changed(&self, _: &App) {
        std::future::pending::<()>().await;
    }
}

/// The job as it was a moment ago, read once for all its listeners.
async fn current(app: &App, id: BatchId) -> windrow_store::Result<Batch> {
    let now_ms = app.clock.millis();
    if let Some(batch) = app.job_status.fresh(&id, now_ms) {
        return Ok(batch);
    }
    let batch = app.store.batch(&Scope::All, id).await?;
    app.job_status.update(id, now_ms, |_| batch.clone());
    Ok(batch)
}

fn event(name: &str, progress: &Progress) -> Event {
    Event::default().event(name).json_data(progress).expect("progress is plain values")
}
