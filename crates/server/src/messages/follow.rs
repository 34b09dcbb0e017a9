//! `GET /v1/streams/{stream}/events?follow`: events as they happen, as server-sent events.
//!
//! Holds throughout: every event of the stream is told once and in order; a stream is looked at twice
//! a second at most, however many follow it; who follows is let go with the client, with the server,
//! or with the key it was asked for with: within `key_ms_max` and a look after its revocation; and one
//! that falls so far behind that what comes next was pruned, who is told so when it comes again.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use axum::http::{HeaderMap, HeaderValue};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream;
use utoipa::ToSchema;
use windrow_domain::Stream;

use super::params::{self, NUMBER_MAX};
use super::streams::{self, EventObject};
use super::version_cache::Key;
use crate::admission::Permit;
use crate::app::App;
use crate::auth::Caller;
use crate::error::{Error, Result};

/// How often a stream is looked at that nobody here appends to.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How often a silent answer says that it lives.
const ALIVE_EVERY: Duration = Duration::from_secs(15);
/// Events that are read at once.
const EVENTS_MAX: u32 = 100;
const LAST_EVENT_ID: &str = "last-event-id";

/// An event, as the lines of the answer have it.
#[derive(ToSchema)]
#[schema(as = FollowedEvent)]
#[expect(dead_code, reason = "only described: events are written as text")]
pub(crate) struct Followed {
    /// The version.
    #[schema(pattern = "^[1-9][0-9]*$")]
    id: String,
    /// The event as JSON.
    #[schema(content_media_type = "application/json")]
    data: String,
}

/// One who follows.
struct Follower {
    app: App,
    caller: Caller,
    key: Key,
    /// The version that is told next, once those that were read are told.
    next: u64,
    read: VecDeque<EventObject>,
    _permit: Permit,
}

/// The version to begin with: behind the last one that is known, else as the query says.
pub(super) fn first(headers: &HeaderMap, from: u64) -> Result<u64> {
    let Some(last) = headers.get(LAST_EVENT_ID) else { return Ok(from) };
    let last = last.to_str().ok().map(str::trim);
    match last.map(str::parse::<u64>) {
        // A client that has heard of none may say so.
        _ if last == Some("") => Ok(from),
        Some(Ok(last)) if last < NUMBER_MAX => Ok(last + 1),
        _ => Err(Error::invalid("Last-Event-ID", "It must be the version of an event.")),
    }
}

pub(super) fn follow(app: App, caller: Caller, stream: Stream, first: u64) -> Result<Response> {
    app.messages()?;
    let permit = app.admission.listeners.try_acquire(&caller.owner)?;
    let key = (caller.owner.clone(), stream);
    let read = VecDeque::new();
    let follower = Follower { app, caller, key, next: first, read, _permit: permit };
    let events = stream::unfold(follower, |mut follower| async move {
        let event = follower.next().await?;
        Some((Ok::<_, Infallible>(event), follower))
    });
    let mut response =
        Sse::new(events).keep_alive(KeepAlive::new().interval(ALIVE_EVERY)).into_response();
    // Proxies that gather answers would hold events back.
    response.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(response)
}

impl Follower {
    /// The next thing to tell; none at the end.
    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.read.pop_front() {
                return Some(into_api_error(&event));
            }
            if !self.caller.is_still_valid(&self.app).await {
                return None;
            }
            // The database may be back in a moment; the client hears that the answer lives.
            match self.look().await {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => {
                    tracing::warn!(stream = %self.key.1, error = error.message, "not looked at");
                }
            }
            if self.read.is_empty() {
                self.wait().await?;
            }
        }
    }

    /// Reads what there is, when there is something. False when what comes next was pruned.
    async fn look(&mut self) -> Result<bool> {
        let messages = self.app.messages()?;
        let version = messages
            .versions
            .version(&**messages.message_store(), &self.app.clock, &self.key)
            .await?;
        if version < self.next {
            return Ok(true);
        }
        let ((owner, stream), message_store) = (&self.key, messages.message_store());
        let events =
            match streams::page(&**message_store, owner, stream, self.next, EVENTS_MAX).await {
                Err(error) if error.pruned().is_some() => return Ok(false),
                events => events.map_err(params::into_api_error)?,
            };
        if let Some(last) = events.last() {
            self.next = last.version + 1;
        }
        self.read = events.into_iter().map(EventObject::from).collect();
        Ok(true)
    }

    /// Waits for a moment, or until something is appended here; none when the server stops.
    async fn wait(&self) -> Option<()> {
        let messages = self.app.messages().ok()?;
        tokio::select! {
            () = self.app.clock.sleep(LOOK_EVERY) => Some(()),
            () = messages.versions.wait_for(&self.key, self.next) => Some(()),
            () = self.app.tasks.stopping() => None,
        }
    }
}

/// One line of data for each: breaks in JSON are only between its pieces, never within texts.
fn into_api_error(event: &EventObject) -> Event {
    let json = serde_json::to_string(event).expect("an event is plain values");
    Event::default().id(event.version.to_string()).data(json.replace(['\n', '\r'], " "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_comes_again_goes_on_behind_the_last_event_it_had() {
        let with = |id: &'static str| {
            let headers = [(LAST_EVENT_ID.parse().unwrap(), HeaderValue::from_static(id))];
            first(&headers.into_iter().collect(), 3)
        };
        assert_eq!(first(&HeaderMap::new(), 3).unwrap(), 3);
        assert_eq!((with("7").unwrap(), with("").unwrap(), with("0").unwrap()), (8, 3, 1));
        for bad in ["-1", "x", "9223372036854775807", "18446744073709551616"] {
            assert!(with(bad).is_err(), "{bad}");
        }
    }
}
