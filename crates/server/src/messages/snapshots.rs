//! `/v1/streams/{stream}/snapshot`: reads and keeps the snapshot of a stream.
//!
//! A snapshot is the state of a stream at a version, in the writer's own format. A reader takes it and
//! then the events behind it. Holds throughout: an older snapshot never replaces a newer one; events
//! are pruned only where a snapshot stands for them, so what is written here must be complete.

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use utoipa::ToSchema;
use windrow_domain::Stream;
use windrow_store::Kind;
use windrow_store::event::Snapshot;

use super::body::{self, Raw, given, shown, whole_number};
use super::params::{self, into_api_error};
use super::path_segments::PathSegments;
use crate::app::App;
use crate::auth::Caller;
use crate::error::{Code, Error, Result};
use crate::openapi::error_responses::{
    NotFound, PayloadTooLarge, RequestTimeout, UnsupportedMediaType,
};
use crate::params::{NUMBER_MAX, number};

/// The last piece of the path of a stream's snapshot.
const SNAPSHOT: &str = "snapshot";
/// The methods of a stream's snapshot and of its events, as `Allow` says them.
pub(super) const SNAPSHOT_METHODS: &str = "GET,HEAD,PUT";
const EVENTS_METHODS: &str = "GET,HEAD,POST";

/// The snapshot of a stream.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Snapshot)]
pub(crate) struct SnapshotObject {
    #[schema(value_type = String)]
    stream: Stream,
    /// The version of the last event that the state includes. Read events from the next one on.
    version: u64,
    /// The state, when it is JSON.
    #[schema(value_type = Option<serde_json::Value>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<Box<RawValue>>,
    /// The state, when it is not JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    state_base64: Option<String>,
}

impl From<Snapshot> for SnapshotObject {
    fn from(snapshot: Snapshot) -> Self {
        let (state, state_base64) = shown(&snapshot.state);
        Self { stream: snapshot.stream, version: snapshot.version, state, state_base64 }
    }
}

/// A snapshot to be kept.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewSnapshot)]
pub(crate) struct Put {
    /// The version of the last event that the state includes.
    #[schema(value_type = u64, minimum = 1, maximum = 9223372036854775807_u64)]
    version: Value,
    /// The state, as JSON; kept as it is written here.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<serde_json::Value>)]
    state: Option<Box<RawValue>>,
    /// The state, when it is not JSON.
    #[schema(
        pattern = "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?$"
    )]
    state_base64: Option<String>,
}

/// Whether a path names a snapshot: the pieces of a stream's name, then `snapshot`.
pub(super) fn is_snapshot(names: &[String]) -> bool {
    names.last().is_some_and(|last| last == SNAPSHOT)
}

/// The methods of a path below a stream, for the `Allow` of a refusal.
pub(crate) fn methods_of_stream(path: &str) -> Option<&'static str> {
    let rest = path.strip_prefix("/v1/streams/")?;
    match rest.rsplit('/').next() {
        Some(SNAPSHOT) => Some(SNAPSHOT_METHODS),
        Some("events") => Some(EVENTS_METHODS),
        _ => None,
    }
}

/// Reads a stream's snapshot
///
/// The newest one. Its stream goes on with the events from `version + 1`. A slash in the stream's name
/// may be written as it is, or as `%2F`.
#[utoipa::path(
    get, path = "/streams/{stream}/snapshot", operation_id = "readSnapshot", tag = "Events",
    security(("key" = [])),
    params(("stream" = String, Path, min_length = 1, max_length = 256, pattern = "^[^\\u0000-\\u001f\\u007f-\\u009f]+$")),
    responses((status = 200, description = "The snapshot.", body = SnapshotObject), NotFound))]
pub(crate) async fn read(
    State(app): State<App>,
    caller: Caller,
    PathSegments(names): PathSegments,
) -> Result<axum::Json<SnapshotObject>> {
    let stream = stream_of(names)?;
    let message_store = app.messages()?.message_store();
    let snapshot = message_store.snapshot(&caller.owner, &stream).await.map_err(into_api_error)?;
    let snapshot = snapshot.ok_or_else(|| Error::missing("snapshot of stream", stream.as_str()))?;
    Ok(axum::Json(snapshot.into()))
}

/// Keeps a snapshot of a stream
///
/// The answer is the newest one: an older snapshot never replaces a newer one. Events up to its
/// version may be pruned from then on, where the server's configuration says so
/// (`messages.retention_event_secs`).
#[utoipa::path(
    put, path = "/streams/{stream}/snapshot", operation_id = "putSnapshot", tag = "Events",
    security(("key" = [])),
    params(("stream" = String, Path, min_length = 1, max_length = 256, pattern = "^[^\\u0000-\\u001f\\u007f-\\u009f]+$")),
    request_body = Put,
    responses((status = 200, description = "The newest snapshot.", body = SnapshotObject),
        NotFound, RequestTimeout, PayloadTooLarge, UnsupportedMediaType))]
pub(crate) async fn put(
    State(app): State<App>,
    caller: Caller,
    PathSegments(names): PathSegments,
    headers: HeaderMap,
    Raw(body): Raw,
) -> Result<Response> {
    let message_store = app.messages()?.message_store();
    if names.last().is_some_and(|last| last == "events") {
        return Ok(wrong_method("PUT is not a method of a stream's events.", EVENTS_METHODS));
    }
    let stream = stream_of(names)?;
    let put: Put = body::read(&headers, &body)?;
    let version = whole_number(&put.version)
        .ok_or_else(|| Error::invalid("version", "`version` must be a whole number."))?;
    let version = number("version", Some(version), 1, NUMBER_MAX)?;
    let state = body::payload(put.state, put.state_base64).map_err(of_state)?;
    let (owner, of) = (caller.owner.clone(), stream.clone());
    let kept = message_store.put_snapshot(Snapshot { owner, stream: of, version, state }).await;
    kept.map_err(|error| match error.kind {
        Kind::Invalid => {
            let message = format!("The stream {:?} has no version {version}.", stream.as_str());
            Error::invalid("version", message)
        }
        _ => into_api_error(error),
    })?;
    let newest = message_store.snapshot(&caller.owner, &stream).await.map_err(into_api_error)?;
    let newest = newest.ok_or_else(|| Error::internal("a snapshot that was kept is not there"))?;
    Ok(axum::Json(SnapshotObject::from(newest)).into_response())
}

/// The stream that a path names: all that is before `snapshot`.
fn stream_of(names: Vec<String>) -> Result<Stream> {
    params::stream_before(
        SNAPSHOT,
        names,
        "A stream's snapshot is at /v1/streams/{stream}/snapshot.",
    )
}

/// Refuses a method that only the other of the two calls under a stream's path has.
pub(super) fn wrong_method(message: &str, allow: &'static str) -> Response {
    let error = Error::new(Code::MethodNotAllowed, message);
    let mut response = error.into_response();
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allow));
    response
}

/// A refusal of a payload, in the words of a snapshot.
fn of_state(mut error: Error) -> Error {
    error.message = error.message.replace("payload", "state");
    error.param = error.param.map(|param| param.replace("payload", "state"));
    error
}

#[cfg(test)]
mod tests {
    use axum::http::StatusCode;

    use super::*;

    #[test]
    fn a_stream_is_all_that_comes_before_its_snapshot() {
        let of = |path: &str| stream_of(path.split('/').map(str::to_owned).collect());
        assert_eq!(of("wallet/1/snapshot").unwrap().as_str(), "wallet/1");
        assert_eq!(of("snapshot/snapshot").unwrap().as_str(), "snapshot");
        assert_eq!(of("snapshot").unwrap_err().status(), StatusCode::BAD_REQUEST);
        assert_eq!(of("wallet/1").unwrap_err().status(), StatusCode::NOT_FOUND);
    }
}
