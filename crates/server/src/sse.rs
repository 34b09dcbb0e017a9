//! Server-sent events: the response that the jobs API and the messages API stream events with.
//!
//! Holds throughout: a stream ends with its source, with the client, with the server, or with the API
//! key it was opened with: within `key_ms_max` and one poll after the key was revoked or expired. A
//! silent stream sends a comment every fifteen seconds, so that proxies keep it open.

use std::convert::Infallible;
use std::time::Duration;

use async_trait::async_trait;
use axum::http::HeaderValue;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream;

use crate::admission::Permit;
use crate::app::App;
use crate::auth::Caller;
use crate::error::Result;

/// How often a source is polled.
const POLL_EVERY: Duration = Duration::from_millis(500);
/// How often a silent stream says that it is alive.
const KEEP_ALIVE_EVERY: Duration = Duration::from_secs(15);

/// What a stream of events reads from.
#[async_trait]
pub(crate) trait Source: Send + 'static {
    /// The next event that is ready without asking the database.
    fn ready(&mut self) -> Option<Event>;

    /// Asks the database for more.
    async fn poll(&mut self, app: &App) -> Polled;

    /// Resolves when there is likely more, before the next poll is due.
    async fn changed(&self, app: &App);
}

/// What a poll came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Polled {
    /// The source knows what there is.
    Read,
    /// The database did not answer; it may be back at the next poll.
    Failed,
    /// There will never be more.
    Ended,
}

/// One client that is connected to a stream.
struct Listener<S> {
    app: App,
    caller: Caller,
    source: S,
    _permit: Permit,
}

/// Streams the events of a source, while the server has room for one more listener.
pub(crate) fn respond(app: App, caller: Caller, source: impl Source) -> Result<Response> {
    let permit = app.admission.listeners.try_acquire(&caller.owner)?;
    let listener = Listener { app, caller, source, _permit: permit };
    let events = stream::unfold(listener, |mut listener| async move {
        let event = listener.next().await?;
        Some((Ok::<_, Infallible>(event), listener))
    });
    let mut response =
        Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE_EVERY)).into_response();
    // Proxies that buffer responses would hold events back.
    response.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(response)
}

impl<S: Source> Listener<S> {
    /// The next event; none at the end of the stream.
    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.source.ready() {
                return Some(event);
            }
            if !self.caller.is_still_valid(&self.app).await {
                return None;
            }
            let polled = self.source.poll(&self.app).await;
            if polled == Polled::Ended {
                return None;
            }
            if let Some(event) = self.source.ready() {
                return Some(event);
            }
            tokio::select! {
                () = self.app.clock.sleep(POLL_EVERY) => {}
                () = self.source.changed(&self.app), if polled == Polled::Read => {}
                () = self.app.tasks.stopping() => return None,
            }
        }
    }
}
