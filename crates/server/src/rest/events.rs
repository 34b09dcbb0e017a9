//! `GET /api/jobs/{id}/events`: progress as it happens, as server-sent events.
//!
//! Holds throughout: a job is looked at twice a second at most, however many listen; the stream ends
//! with the job, with the client, with the server, or with the key it was asked for with: within
//! `key_ms_max` and a look after its revocation or its end.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream;
use utoipa::ToSchema;
use windrow_domain::BatchId;
use windrow_store::Kind;
use windrow_store::batch::Batch;

use super::job::Progress;
use super::params::{job_id, or_job_not_found};
use crate::admission::Permit;
use crate::app::App;
use crate::auth::Caller;
use crate::error::Result;
use crate::extract::Path;
use crate::openapi::error_responses::NotFound;

/// How often a job is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How often a silent stream says that it lives.
const ALIVE_EVERY: Duration = Duration::from_secs(15);

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

/// One who listens.
struct Listener {
    app: App,
    caller: Caller,
    id: BatchId,
    /// What it will be told of next; none when it has to be looked for.
    batch: Option<Batch>,
    told: Option<Progress>,
    over: bool,
    _permit: Permit,
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
    let permit = app.admission.listeners.try_acquire(&caller.owner)?;
    let listener = Listener { app, caller, id, batch, told: None, over: false, _permit: permit };
    let events = stream::unfold(listener, |mut listener| async move {
        let event = listener.next().await?;
        Some((Ok::<_, Infallible>(event), listener))
    });
    let mut response =
        Sse::new(events).keep_alive(KeepAlive::new().interval(ALIVE_EVERY)).into_response();
    // Proxies that gather answers would hold events back.
    let as_it_comes = axum::http::HeaderValue::from_static("no");
    response.headers_mut().insert("x-accel-buffering", as_it_comes);
    Ok(response)
}

impl Listener {
    /// The next thing to tell; none at the end.
    async fn next(&mut self) -> Option<Event> {
        while !self.over {
            let batch = match self.batch.take() {
                Some(batch) => batch,
                None => self.look().await?,
            };
            let progress = Progress::of(&batch);
            if self.told.as_ref() != Some(&progress) {
                let event = event("progress", &progress);
                self.told = Some(progress);
                // One that is closed is told so next, without another look.
                self.batch = batch.state.is_closed().then_some(batch);
                return Some(event);
            }
            if batch.state.is_closed() {
                self.over = true;
                return Some(event("closed", &progress));
            }
        }
        None
    }

    /// Waits a moment and looks; none when there is nothing to look at any more.
    async fn look(&self) -> Option<Batch> {
        loop {
            tokio::select! {
                () = self.app.clock.sleep(LOOK_EVERY) => {}
                () = self.app.tasks.stopping() => return None,
            }
            if !self.caller.is_still_valid(&self.app).await {
                return None;
            }
            match self.app.tasks.look(&self.app, self.id).await {
                Ok(batch) => return Some(batch),
                Err(error) if error.kind == Kind::Missing => return None,
                // The database may be back in a moment; the client hears that the stream lives.
                Err(error) => {
                    tracing::warn!(
                        batch.id = %self.id, error = %windrow_store::error::chain(&error), "not looked at"
                    );
                }
            }
        }
    }
}

fn event(name: &str, progress: &Progress) -> Event {
    Event::default().event(name).json_data(progress).expect("progress is plain values")
}
