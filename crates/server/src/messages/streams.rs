//! `/v1/streams/{stream}/events` and `/v1/events`: reads, follows and appends events.

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use utoipa::openapi::schema::{OneOfBuilder, Schema};
use utoipa::openapi::{ObjectBuilder, Type};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;
use windrow_domain::event::VersionConflict;
use windrow_domain::{Expected, Owner, Stream};
use windrow_store::MessageStore;
use windrow_store::event::{Append, Event, NewEvent, PrunedStream};
use windrow_store::inspect::PAGE_MAX;
use windrow_store::message::{Headers, SEND_MAX};

use super::body::{self, Raw, given, shown, whole_number};
use super::follow;
use super::pages::{PageBudget, PageQuery};
use super::params::{self, into_api_error};
use super::path_segments::PathSegments;
use super::snapshots;
use crate::app::App;
use crate::auth::Caller;
use crate::error::{Code, Error, Result};
use crate::extract::Query;
use crate::openapi::error_responses::{
    NotFound, PayloadTooLarge, RequestTimeout, UnsupportedMediaType,
};
use crate::pages::SnakePage;
use crate::params::{NUMBER_MAX, PAGE_USUAL, limit, number};

/// Headers of a version conflict, for programs.
const EXPECTED: &str = "windrow-expected-version";
const ACTUAL: &str = "windrow-actual-version";
/// Headers of a request for pruned events, for programs.
const FIRST: &str = "windrow-first-version";
const SNAPSHOT: &str = "windrow-snapshot-version";
/// For a writer that expects no version.
const ANY: &str = "any";

/// An event.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Event)]
pub(crate) struct EventObject {
    #[schema(value_type = String)]
    owner: Owner,
    #[schema(value_type = String)]
    stream: Stream,
    /// Its position in its stream, from one.
    pub(super) version: u64,
    id: String,
    kind: String,
    /// The payload, when it is JSON.
    #[schema(value_type = Option<serde_json::Value>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<Box<RawValue>>,
    /// The payload as Base64, when it is not JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_base64: Option<String>,
    #[schema(value_type = std::collections::BTreeMap<String, String>)]
    headers: Headers,
    #[schema(value_type = String, format = DateTime)]
    at: Timestamp,
}

impl From<Event> for EventObject {
    fn from(event: Event) -> Self {
        let (payload, payload_base64) = shown(&event.payload);
        Self {
            owner: event.owner,
            stream: event.stream,
            version: event.version,
            id: event.id,
            kind: event.kind,
            payload,
            payload_base64,
            headers: event.headers,
            at: event.at,
        }
    }
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct ReadQuery {
    /// The first version.
    #[param(minimum = 0, maximum = 9223372036854775807_u64, default = 1)]
    from: Option<u64>,
    /// How many at most; fewer when they are large.
    #[param(minimum = 1, maximum = 1000, default = 100)]
    limit: Option<u32>,
    /// Stay connected and get what is appended later, as server-sent events.
    #[param(schema_with = follow_schema)]
    follow: Option<String>,
}

fn follow_schema() -> Schema {
    let params = ["", "true", "false", "1", "0"];
    ObjectBuilder::new().schema_type(Type::String).enum_values(Some(params)).into()
}

/// Events of one stream.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = StreamEvents)]
pub(crate) struct Events {
    #[schema(value_type = String)]
    stream: Stream,
    data: Vec<EventObject>,
    /// Give it as `from` to go on, now or later.
    next_from: u64,
}

/// Reads a stream's events
///
/// From a version on. With `follow` the answer is `text/event-stream`: an event for each, its `id` the
/// version, and it goes on with what is appended later; a client that comes again with `Last-Event-ID`
/// goes on behind that one. A slash in the stream's name may be written as it is, or as `%2F`. Where
/// `from` was pruned, the refusal (`events_pruned`) names the first version that is kept and that of
/// the snapshot, also in `Windrow-First-Version` and `Windrow-Snapshot-Version`; an answer that is
/// followed ends there.
#[utoipa::path(
    get, path = "/streams/{stream}/events", operation_id = "readEvents", tag = "Events",
    security(("key" = [])),
    params(("stream" = String, Path, min_length = 1, max_length = 256, pattern = "^[^\\u0000-\\u001f\\u007f-\\u009f]+$"),
        ReadQuery),
    responses((status = 200, description = "The events; none for an empty stream.",
            content((Events = "application/json"), (follow::Followed = "text/event-stream"))),
        (status = 410, description = "The requested events were pruned (`events_pruned`).",
            body = crate::error::ErrorResponse<'_>,
            headers(("Windrow-First-Version" = u64, description = "The first version that is kept."),
                ("Windrow-Snapshot-Version" = u64, description = "The version of the snapshot."))),
        NotFound))]
pub(crate) async fn read(
    State(app): State<App>,
    caller: Caller,
    PathSegments(names): PathSegments,
    Query(query): Query<ReadQuery>,
    headers: HeaderMap,
) -> Result<Response> {
    if snapshots::is_snapshot(&names) {
        return Ok(snapshots::read(State(app), caller, PathSegments(names)).await?.into_response());
    }
    let stream = stream_of(names)?;
    let from = number("from", query.from, 1, NUMBER_MAX)?.max(1);
    let limit = limit("limit", query.limit, PAGE_USUAL, PAGE_MAX)?;
    let message_store = app.messages()?.message_store();
    let is_followed = is_wanted("follow", query.follow.as_deref())?;
    let (from, limit) =
        if is_followed { (follow::first(&headers, from)?, 1) } else { (from, limit) };
    let events = match page(&**message_store, &caller.owner, &stream, from, limit).await {
        Ok(events) => events,
        Err(error) => match error.pruned().cloned() {
            Some(pruned) => return Ok(gone(&pruned)),
            // A follower waits until the database is back.
            None if is_followed => Vec::new(),
            None => return Err(into_api_error(error)),
        },
    };
    if is_followed {
        return follow::follow(app, caller, stream, from);
    }
    let next_from = events.last().map_or(from, |event| event.version + 1);
    let data = events.into_iter().map(EventObject::from).collect();
    Ok(axum::Json(Events { stream, data, next_from }).into_response())
}

/// A page in small steps, which ends early when its events are large.
pub(super) async fn page(
    message_store: &dyn MessageStore,
    owner: &Owner,
    stream: &Stream,
    from: u64,
    limit: u32,
) -> windrow_store::Result<Vec<Event>> {
    let (mut events, mut budget, mut next) = (Vec::new(), PageBudget::new(limit), from);
    while let Some(rows) = budget.next() {
        let step = message_store.read_stream(owner, stream, next, rows).await?;
        budget.spend(step.iter().map(|event| event.payload.len()));
        let is_last = step.len() < rows as usize;
        next = step.last().map_or(next, |event| event.version + 1);
        events.extend(step);
        if is_last {
            break;
        }
    }
    Ok(events)
}

/// Whether a switch is on: its name alone is enough.
fn is_wanted(param: &str, word: Option<&str>) -> Result<bool> {
    match word {
        None | Some("false" | "0") => Ok(false),
        Some("" | "true" | "1") => Ok(true),
        Some(_) => Err(Error::invalid(param, format!("`{param}` must be true, false or empty."))),
    }
}

/// The stream that a path names: all that is before `events`.
fn stream_of(names: Vec<String>) -> Result<Stream> {
    params::stream_before("events", names, "A stream's events are at /v1/streams/{stream}/events.")
}

/// Events to append.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewEvents)]
pub(crate) struct NewEventsBody {
    /// The version that the stream is at, zero for one without events, or `any`, which is usual.
    #[serde(default = "any")]
    #[schema(schema_with = expected_schema)]
    expected: Value,
    /// All are appended, or none.
    #[schema(min_items = 1, max_items = 1000)]
    events: Vec<NewEventBody>,
}

fn any() -> Value {
    Value::from(ANY)
}

/// The last version that a writer expects.
fn expected(believed: &Value) -> Result<Expected> {
    match whole_number(believed) {
        Some(version) => Ok(Expected::Version(version)),
        None if believed == ANY => Ok(Expected::Any),
        None => {
            let message = "`expected` must be \"any\" or the stream's last version.";
            Err(Error::invalid("expected", message))
        }
    }
}

fn expected_schema() -> Schema {
    let any = ObjectBuilder::new().schema_type(Type::String).enum_values(Some(["any"]));
    let most =
        ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(0)).maximum(Some(i64::MAX));
    Schema::OneOf(OneOfBuilder::new().item(any).item(most).build())
}

/// An event to append.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewEvent)]
pub(crate) struct NewEventBody {
    /// The kind of event.
    #[schema(
        min_length = 1,
        max_length = 256,
        pattern = "^[^\\u0000]+$",
        example = "money.deposited"
    )]
    kind: String,
    /// Its id. With an expected version, a repeat with the same ids gets the same answer.
    #[schema(min_length = 1, max_length = 256, pattern = "^[^\\u0000]+$")]
    id: Option<String>,
    /// The payload as JSON; kept byte for byte.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<serde_json::Value>)]
    payload: Option<Box<RawValue>>,
    /// The payload as Base64, when it is not JSON.
    #[schema(
        pattern = "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?$"
    )]
    payload_base64: Option<String>,
    /// Headers of the event.
    #[serde(default)]
    #[schema(value_type = std::collections::BTreeMap<String, String>)]
    headers: Headers,
}

/// The versions of the appended events.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = AppendedEvents)]
pub(crate) struct Appended {
    #[schema(value_type = String)]
    stream: Stream,
    /// The version of the first.
    first: u64,
    /// The version of the last.
    last: u64,
}

/// Appends events to a stream
///
/// All or none. When the stream is at another version than was expected, the refusal
/// (`version_conflict`) names both, also in `Windrow-Expected-Version` and `Windrow-Actual-Version`.
#[utoipa::path(
    post, path = "/streams/{stream}/events", operation_id = "appendEvents", tag = "Events",
    security(("key" = [])),
    params(("stream" = String, Path, min_length = 1, max_length = 256, pattern = "^[^\\u0000-\\u001f\\u007f-\\u009f]+$")), request_body = NewEventsBody,
    responses((status = 201, description = "The events were appended.", body = Appended),
        NotFound, RequestTimeout, PayloadTooLarge, UnsupportedMediaType))]
pub(crate) async fn append(
    State(app): State<App>,
    caller: Caller,
    PathSegments(names): PathSegments,
    headers: HeaderMap,
    Raw(body): Raw,
) -> Result<Response> {
    let messages = app.messages()?;
    if snapshots::is_snapshot(&names) {
        let message = "POST is not a method of a stream's snapshot.";
        return Ok(snapshots::wrong_method(message, snapshots::SNAPSHOT_METHODS));
    }
    let stream = stream_of(names)?;
    let posts: NewEventsBody = body::read(&headers, &body)?;
    if !(1..=SEND_MAX).contains(&posts.events.len()) {
        return Err(Error::invalid(
            "events",
            format!("`events` must have 1 to {SEND_MAX} entries."),
        ));
    }
    let events =
        posts.events.into_iter().map(NewEventBody::into_new).collect::<Result<Vec<_>>>()?;
    let append = Append {
        owner: caller.owner.clone(),
        stream: stream.clone(),
        expected: expected(&posts.expected)?,
        events,
    };
    let appended = match messages.message_store().append(vec![append]).await {
        Ok(appended) => appended,
        Err(error) => match error.version_conflict().cloned() {
            Some(conflict) => return Ok(conflicting(&conflict)),
            None => return Err(into_api_error(error)),
        },
    };
    let appended =
        appended.first().ok_or_else(|| Error::internal("an append without an answer"))?;
    let (first, last) = (appended.first, appended.last);
    messages.versions.on_append(&app.clock, &(caller.owner, stream.clone()), last);
    Ok((StatusCode::CREATED, axum::Json(Appended { stream, first, last })).into_response())
}

fn gone(pruned: &PrunedStream) -> Response {
    let PrunedStream { stream, first, snapshot } = pruned;
    let message = format!(
        "Old events of the stream {stream:?} were pruned: it starts at version \
                    {first}, and its snapshot is at {snapshot}."
    );
    let error = Error::new(Code::EventsPruned, message).at("from");
    let mut response = error.into_response();
    response.headers_mut().insert(FIRST, HeaderValue::from(*first));
    response.headers_mut().insert(SNAPSHOT, HeaderValue::from(*snapshot));
    response
}

fn conflicting(conflict: &VersionConflict) -> Response {
    let VersionConflict { stream, expected, actual } = conflict;
    let message = format!(
        "The stream {stream:?} is at version {actual}, not at {expected} as expected; \
                    nothing was appended."
    );
    let error = Error::new(Code::VersionConflict, message).at("expected");
    let mut response = error.into_response();
    response.headers_mut().insert(EXPECTED, HeaderValue::from(*expected));
    response.headers_mut().insert(ACTUAL, HeaderValue::from(*actual));
    response
}

impl NewEventBody {
    fn into_new(self) -> Result<NewEvent> {
        Ok(NewEvent {
            id: self.id.unwrap_or_else(|| Uuid::now_v7().to_string()),
            kind: self.kind,
            payload: body::payload(self.payload, self.payload_base64)?,
            headers: self.headers,
        })
    }
}

/// Reads the events of all streams
///
/// In an order in which each stream's own hold, and none is passed over that is committed later.
/// `next_cursor` is always there: ask again with it for what comes later.
#[utoipa::path(
    get, path = "/events", operation_id = "readFeed", tag = "Events", security(("key" = [])),
    params(PageQuery),
    responses((status = 200, description = "A page of events.", body = SnakePage<EventObject>), NotFound))]
pub(crate) async fn feed(
    State(app): State<App>,
    caller: Caller,
    Query(page): Query<PageQuery>,
) -> Result<axum::Json<SnakePage<EventObject>>> {
    let (scope, mut page) = page.read(&caller)?;
    let message_store = app.messages()?.message_store();
    while let Some((after, limit)) = page.next() {
        let step = message_store.read_all(&scope, after.as_deref(), limit).await;
        page.add(step, |event: &Event| event.payload.len())?;
    }
    Ok(page.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_all_that_comes_before_its_events() {
        let of = |path: &str| stream_of(path.split('/').map(str::to_owned).collect());
        assert_eq!(of("wallet/1/events").unwrap().as_str(), "wallet/1");
        assert_eq!(of("events/events").unwrap().as_str(), "events");
        assert_eq!(of("events").unwrap_err().code, Code::InvalidValue);
        assert_eq!(of("wallet/1").unwrap_err().code, Code::NotFound);
    }

    #[test]
    fn a_version_is_a_number_or_any() {
        let read = |text: &str| expected(&serde_json::from_str(text).unwrap());
        assert_eq!(read("7").unwrap(), Expected::Version(7));
        assert_eq!(read("7.0").unwrap(), Expected::Version(7));
        assert_eq!(read("9223372036854775807").unwrap(), Expected::Version(NUMBER_MAX));
        assert_eq!(read("\"any\"").unwrap(), Expected::Any);
        for bad in ["\"7\"", "18446744073709551615", "-1", "1.5", "1e300", "true", "[]", "null"] {
            assert_eq!(read(bad).unwrap_err().param.as_deref(), Some("expected"), "{bad}");
        }
    }

    #[test]
    fn a_switch_is_on_when_it_is_named() {
        for (word, is_on) in
            [(None, false), (Some(""), true), (Some("1"), true), (Some("0"), false)]
        {
            assert_eq!(is_wanted("follow", word).unwrap(), is_on);
        }
        assert!(is_wanted("follow", Some("perhaps")).is_err());
    }
}
