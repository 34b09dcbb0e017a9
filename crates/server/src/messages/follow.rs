//! `GET /v1/streams/{stream}/events?follow`: events as they are appended, as server-sent events.
//!
//! Holds throughout: a client gets every event of the stream once and in order, from the version it
//! asks for; the database is asked about twice a second at most, however many follow a stream. The
//! response ends as [`crate::sse`] says, and when the client is so far behind that its next event was
//! pruned: when it reconnects it is refused with `events_pruned`.

use std::collections::VecDeque;

use async_trait::async_trait;
use axum::http::HeaderMap;
use axum::response::Response;
use axum::response::sse::Event;
use utoipa::ToSchema;
use windrow_domain::Stream;

use super::params;
use super::streams::{self, EventObject};
use super::version_cache::Key;
use crate::app::App;
use crate::auth::Caller;
use crate::error::{Error, Result};
use crate::params::NUMBER_MAX;
use crate::sse::{self, Polled};

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

/// The version to begin with: behind the last one that is known, else as the query says.
pub(super) fn first(headers: &HeaderMap, from: u64) -> Result<u64> {
    let Some(last) = headers.get(LAST_EVENT_ID) else { return Ok(from) };
    let last = last.to_str().ok().map(str::trim);
    match last.map(str::parse::<u64>) {
        // A client that has heard of none may say so.
        _ if last == Some("") => Ok(from),
        Some(Ok(last)) if last < NUMBER_MAX => Ok(last + 1),
        _ => {
            Err(Error::invalid("Last-Event-ID", "`Last-Event-ID` must be the version of an event."))
        }
    }
}

pub(super) fn follow(app: App, caller: Caller, stream: Stream, first: u64) -> Result<Response> {
    app.messages()?;
    let key = (caller.owner.clone(), stream);
    sse::respond(app, caller, StreamEvents { key, next: first, read: VecDeque::new() })
}

/// The events of one stream, for one client.
struct StreamEvents {
    key: Key,
    /// The version that is read next.
    next: u64,
    /// Events that were read and are not sent yet.
    read: VecDeque<EventObject>,
}

#[async_trait]
impl sse::Source for StreamEvents {
    fn ready(&mut self) -> Option<Event> {
        self.read.pop_front().map(|event| to_sse(&event))
    }

    async fn poll(&mut self, app: &App) -> Polled {
        match self.read_next(app).await {
            Ok(true) => Polled::Read,
            Ok(false) => Polled::Ended,
            Err(error) => {
                let error = error.message;
                tracing::warn!(stream = %self.key.1, error, "could not read a stream for a follower");
                Polled::Failed
            }
        }
    }

    async fn changed(&self, app: &App) {
        match app.messages() {
            Ok(messages) => messages.versions.wait_for(&self.key, self.next).await,
            Err(_) => std::future::pending().await,
        }
    }
}

impl StreamEvents {
    /// Reads what was appended. False when what comes next was pruned.
    async fn read_next(&mut self, app: &App) -> Result<bool> {
        let messages = app.messages()?;
        let ((owner, stream), store) = (&self.key, &**messages.message_store());
        let version = messages.versions.version(store, &app.clock, &self.key).await?;
        if version < self.next {
            return Ok(true);
        }
        let events = match streams::page(store, owner, stream, self.next, EVENTS_MAX).await {
            Err(error) if error.pruned().is_some() => return Ok(false),
            events => events.map_err(params::into_api_error)?,
        };
        if let Some(last) = events.last() {
            self.next = last.version + 1;
        }
        self.read = events.into_iter().map(EventObject::from).collect();
        Ok(true)
    }
}

/// One line of data for each: breaks in JSON are only between its pieces, never within texts.
fn to_sse(event: &EventObject) -> Event {
    let json = serde_json::to_string(event).expect("an event is plain values");
    Event::default().id(event.version.to_string()).data(json.replace(['\n', '\r'], " "))
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

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
