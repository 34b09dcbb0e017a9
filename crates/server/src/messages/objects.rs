//! `POST /v1/objects/{type}/{id}/{method}`: calls an object's method once, however often the request is
//! repeated.
//!
//! Holds throughout: a repeat gets the first call's answer; a client that stops waiting gets the
//! `Location` of the call, which goes on without it.

use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use utoipa::IntoParams;
use uuid::Uuid;
use windrow_domain::{CallState, CrashPolicy, RequestId};
use windrow_engine::messages::{CallOutcome, ClientError};
use windrow_store::Kind;
use windrow_store::call::{CALLER_BYTES_MAX, Call, CallKey, NewCall};

use super::body::{Raw, as_json, check_json, is_json};
use super::calls::CallObject;
use super::path_segments::{PathSegments, encode};
use super::state::refused;
use crate::app::App;
use crate::auth::Caller;
use crate::error::{Code, Error, Result};
use crate::openapi::Binary;
use crate::openapi::error_responses::{NotFound, PayloadTooLarge, RequestTimeout};
use crate::params::{idempotency_key, number};

/// The default wait for an answer.
const WAIT_MS: u64 = 10_000;
/// Longest wait for an answer.
pub(super) const WAIT_MS_MAX: u64 = 60_000;
/// Longest life of a call when the caller says how long: ten years.
pub(super) const EXPIRES_SECS_MAX: u64 = 10 * 366 * 24 * 3600;
/// `Retry-After` of a call without an answer yet.
const AGAIN_SECS: u64 = 1;

const REQUEST_ID: HeaderName = HeaderName::from_static("windrow-request-id");
const RETRY_COUNT: HeaderName = HeaderName::from_static("windrow-retry-count");
const CRASH_POLICY: &str = "windrow-crash-policy";
const CALLER_OBJECT: &str = "windrow-caller-object";
const EXPIRES_IN: &str = "windrow-expires-in";
const PREFER: &str = "prefer";

#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub(crate) struct CallQuery {
    /// How long to wait for the answer, in milliseconds.
    #[param(maximum = 60000, default = 10000)]
    wait_ms: Option<u64>,
}

/// Calls a method
///
/// Of one object, which runs its calls one after another. The body is the arguments, as the object
/// takes them. With an `Idempotency-Key` the call can be repeated and happens once; the answer to a
/// repeat is the first one's. Without one a key is generated and returned in `Windrow-Request-Id`. An
/// answer that takes longer than the wait can be read at `/v1/calls/{request_id}`.
#[utoipa::path(
    post, path = "/objects/{type}/{id}/{method}", operation_id = "callObject", tag = "Objects",
    security(("key" = [])),
    params(
        ("type" = String, Path, min_length = 1, max_length = 128, pattern = "^[A-Za-z0-9._-]+$"),
        ("id" = String, Path, min_length = 1, max_length = 127, pattern = "^[ -~]+$"),
        ("method" = String, Path, min_length = 1, max_length = 128, pattern = "^[A-Za-z0-9._-]+$"),
        ("Idempotency-Key" = Option<String>, Header, max_length = 255, pattern = "^[!-~]([ -~]*[!-~])?$",
            description = "The id of the call. A repeat with other arguments is refused."),
        ("Windrow-Crash-Policy" = Option<String>, Header, pattern = "^(retry|fail)$",
            description = "What happens when the instance that runs the call dies: `retry` (the default) or `fail`."),
        ("Windrow-Caller-Object" = Option<String>, Header, max_length = 256, pattern = "^[!-~]([ -~]*[!-~])?$",
            description = "The object that makes the call, for tracing."),
        ("Windrow-Expires-In" = Option<u32>, Header, minimum = 1, maximum = 316224000,
            description = "After so many seconds a call that still waits fails, and an answer is no longer kept; never by default."),
        ("Prefer" = Option<String>, Header, max_length = 200, pattern = "^[!-~]([ -~]*[!-~])?$",
            description = "`wait=SECONDS`, or `respond-async` not to wait. `waitMs` takes precedence."),
        CallQuery),
    request_body(content((Binary = "application/octet-stream"), (serde_json::Value = "application/json")),
        description = "The arguments."),
    responses(
        (status = 200, description = "The object's reply: JSON or bytes.",
            content((serde_json::Value = "application/json"), (Binary = "application/octet-stream")),
            headers(("Windrow-Request-Id" = String, description = "The id of the call."),
                ("Windrow-Retry-Count" = u32, description = "How often the request was repeated."))),
        (status = 202, description = "The call has no answer yet; poll `Location`.", body = CallObject,
            headers(("Location" = String, description = "The URL of the call."),
                ("Windrow-Request-Id" = String, description = "The id of the call."),
                ("Windrow-Retry-Count" = u32, description = "How often the request was repeated."),
                ("Retry-After" = u64, description = "Seconds to wait before the next poll."))),
        (status = 410, description = "The answer is no longer kept (`call_expired`).",
            body = crate::error::ErrorResponse<'_>),
        (status = 422, description = "The object answered with an error (`call_failed`).",
            body = crate::error::ErrorResponse<'_>),
        NotFound, RequestTimeout, PayloadTooLarge))]
pub(crate) async fn call(
    State(app): State<App>,
    caller: Caller,
    PathSegments(names): PathSegments,
    crate::extract::Query(query): crate::extract::Query<CallQuery>,
    headers: HeaderMap,
    Raw(args): Raw,
) -> Result<Response> {
    let messages = app.messages()?;
    let longest = longest_wait(&headers, query.wait_ms)?;
    let mut call = new_call(&caller, names, &headers, app.clock.now())?;
    if is_json(&headers) && !args.is_empty() {
        check_json(&args)?;
    }
    call.args = args;
    call.waiter = (!longest.is_zero()).then(|| messages.client.waiter());
    let key = call.key.clone();
    let submitted = messages.client.submit(call).await.map_err(|error| match error {
        ClientError::Store(error) if error.kind == Kind::Conflict => reused(&key.request_id),
        error => refused(error),
    })?;
    let mut call = submitted.call;
    if !call.state.is_ended() && !longest.is_zero() {
        // The call is stored by now: an error while waiting must not look as if it were not.
        match messages.wait(&app, &key, longest).await {
            Ok(outcome) => take(&mut call, outcome),
            Err(error) => {
                tracing::warn!(error = %windrow_store::error::chain(&error), "could not wait for the answer to a call");
            }
        }
    }
    Ok(answer(&call))
}

/// Applies an outcome to the call.
fn take(call: &mut Call, outcome: CallOutcome) {
    match outcome {
        CallOutcome::Pending => {}
        CallOutcome::Expired => call.state = CallState::Expired,
        CallOutcome::Reply(reply) => (call.state, call.reply) = (CallState::Completed, Some(reply)),
        CallOutcome::Failed(error) => (call.state, call.error) = (CallState::Failed, Some(error)),
    }
}

/// The call that path and headers describe, without its arguments.
fn new_call(
    caller: &Caller,
    names: Vec<String>,
    headers: &HeaderMap,
    now: Timestamp,
) -> Result<NewCall> {
    let [object_type, object_id, method] = <[String; 3]>::try_from(names).map_err(|_| {
        let message = "Calls go to /v1/objects/{type}/{id}/{method}; encode a slash within a name as \
                    %2F.";
        Error::new(Code::NotFound, message)
    })?;
    check_name("type", &object_type)?;
    check_name("method", &method)?;
    windrow_domain::call::object_stream(&object_type, &object_id)
        .map_err(|bad| Error::invalid("id", format!("The {bad}.")))?;
    let named = idempotency_key(headers)?;
    let request_id = named.unwrap_or_else(|| Uuid::now_v7().to_string());
    let request_id = RequestId::new(request_id)
        .map_err(|bad| Error::invalid("Idempotency-Key", format!("The {bad}.")))?;
    Ok(NewCall {
        key: CallKey { owner: caller.owner.clone(), request_id },
        object_type,
        object_id,
        method,
        args: Bytes::new(),
        policy: policy(headers)?,
        caller_object: caller_object(headers)?,
        // The key cannot be forged.
        caller_client: Some(format!("key:{}", caller.key)),
        expires_at: expires_at(headers, now)?,
        waiter: None,
    })
}

/// Types and methods are single path segments.
pub(super) fn check_name(param: &str, name: &str) -> Result<()> {
    let bad = name.is_empty() || name.contains('/') || name.chars().any(char::is_control);
    if bad || name.len() > windrow_domain::message::KIND_BYTES_MAX {
        let message = format!("`{param}` must have 1 to 256 bytes and no slash.");
        Err(Error::invalid(param, message))
    } else {
        Ok(())
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &str, shown: &str) -> Result<Option<&'a str>> {
    let value = headers.get(name).map(HeaderValue::to_str).transpose();
    value.map_err(|_| Error::invalid(shown, format!("`{shown}` must be printable ASCII.")))
}

fn policy(headers: &HeaderMap) -> Result<CrashPolicy> {
    let name = "Windrow-Crash-Policy";
    let policy = text(headers, CRASH_POLICY, name)?.map(str::parse).transpose();
    Ok(policy.map_err(|bad: String| Error::invalid(name, format!("{bad}.")))?.unwrap_or_default())
}

fn caller_object(headers: &HeaderMap) -> Result<Option<String>> {
    let name = "Windrow-Caller-Object";
    match text(headers, CALLER_OBJECT, name)? {
        Some(object) if object.len() > CALLER_BYTES_MAX => Err(Error::invalid(
            name,
            format!("`{name}` may have at most {CALLER_BYTES_MAX} bytes."),
        )),
        object => Ok(object.filter(|object| !object.is_empty()).map(str::to_owned)),
    }
}

fn expires_at(headers: &HeaderMap, now: Timestamp) -> Result<Option<Timestamp>> {
    let name = "Windrow-Expires-In";
    let Some(secs) = text(headers, EXPIRES_IN, name)? else { return Ok(None) };
    let secs = secs.trim().parse::<u64>().ok().filter(|secs| (1..=EXPIRES_SECS_MAX).contains(secs));
    let bad = || Error::invalid(name, format!("`{name}` must be 1 to {EXPIRES_SECS_MAX} seconds."));
    let secs = i64::try_from(secs.ok_or_else(bad)?).map_err(|_| bad())?;
    now.checked_add(SignedDuration::from_secs(secs)).map(Some).map_err(|_| bad())
}

/// How long to wait: as `waitMs` says, or else the header `Prefer`.
fn longest_wait(headers: &HeaderMap, wait_ms: Option<u64>) -> Result<Duration> {
    let ms = match wait_ms {
        Some(_) => number("waitMs", wait_ms, WAIT_MS, WAIT_MS_MAX)?,
        None => preferred_ms(headers).unwrap_or(WAIT_MS).min(WAIT_MS_MAX),
    };
    Ok(Duration::from_millis(ms))
}

/// RFC 7240: what is not understood is left alone.
fn preferred_ms(headers: &HeaderMap) -> Option<u64> {
    let values = headers.get_all(PREFER).iter().filter_map(|value| value.to_str().ok());
    let mut params = values.flat_map(|value| value.split([',', ';'])).map(str::trim);
    params.find_map(|word| match word.split_once('=') {
        Some((name, secs)) if name.trim().eq_ignore_ascii_case("wait") => {
            secs.trim().trim_matches('"').parse::<u64>().ok()?.checked_mul(1000)
        }
        None if word.eq_ignore_ascii_case("respond-async") => Some(0),
        _ => None,
    })
}

fn reused(id: &RequestId) -> Error {
    let message = format!(
        "The Idempotency-Key {:?} was used for a call of another object or method, or with other \
         arguments; use a new one.",
        id.as_str()
    );
    Error::new(Code::IdempotencyKeyReused, message).at("Idempotency-Key")
}

/// The response of a call.
fn answer(call: &Call) -> Response {
    let mut response = match call.state {
        CallState::Completed => reply(call.reply.clone().unwrap_or_default()),
        CallState::Failed => {
            let error = call.error.clone().unwrap_or_else(|| "The call failed.".to_owned());
            Error::new(Code::CallFailed, error).into_response()
        }
        CallState::Expired => {
            let message = "This call was answered, and its answer has expired.";
            Error::new(Code::CallExpired, message).into_response()
        }
        CallState::Pending | CallState::Processing => pending(call),
    };
    let headers = response.headers_mut();
    // Ids that came in a header fit into one, and those generated here do, too.
    if let Ok(id) = HeaderValue::from_str(call.key.request_id.as_str()) {
        headers.insert(REQUEST_ID, id);
    }
    headers.insert(RETRY_COUNT, HeaderValue::from(call.retry_count));
    response
}

fn reply(reply: Bytes) -> Response {
    let kind = match as_json(&reply) {
        Some(_) => "application/json",
        None => "application/octet-stream",
    };
    ([(header::CONTENT_TYPE, kind), (header::X_CONTENT_TYPE_OPTIONS, "nosniff")], reply)
        .into_response()
}

fn pending(call: &Call) -> Response {
    let into_api_error = axum::Json(CallObject::from(call.clone()));
    let mut response = (StatusCode::ACCEPTED, into_api_error).into_response();
    let headers = response.headers_mut();
    if let Ok(location) = HeaderValue::try_from(location(&call.key.request_id)) {
        headers.insert(header::LOCATION, location);
    }
    headers.insert(header::RETRY_AFTER, HeaderValue::from(AGAIN_SECS));
    response
}

/// The path of a call.
fn location(id: &RequestId) -> String {
    match id.as_str() {
        // Unencoded it would be another path.
        "stats" => "/v1/calls/%73tats".to_owned(),
        "retries" => "/v1/calls/%72etries".to_owned(),
        id => format!("/v1/calls/{}", encode(id)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefer(values: &[&'static str]) -> HeaderMap {
        values.iter().map(|value| (header::HeaderName::from_static(PREFER), value)).fold(
            HeaderMap::new(),
            |mut headers, (name, value)| {
                headers.append(name, HeaderValue::from_static(value));
                headers
            },
        )
    }

    #[test]
    fn a_wait_is_preferred_and_bounded() {
        let ms = |values: &[&'static str], wait_ms| {
            longest_wait(&prefer(values), wait_ms).map(|wait| wait.as_millis())
        };
        assert_eq!(ms(&[], None).unwrap(), 10_000);
        assert_eq!(ms(&["wait=3"], None).unwrap(), 3_000);
        assert_eq!(ms(&["handling=lenient, Wait=\"2\""], None).unwrap(), 2_000);
        assert_eq!(ms(&["respond-async"], None).unwrap(), 0);
        assert_eq!(ms(&["respond-async", "wait=9"], None).unwrap(), 0);
        assert_eq!(ms(&["wait=100000"], None).unwrap(), 60_000);
        assert_eq!(ms(&["wait=18446744073709551615"], None).unwrap(), 10_000);
        assert_eq!(ms(&["wait=-1", "wait=x"], None).unwrap(), 10_000);
        assert_eq!(ms(&["wait=9"], Some(0)).unwrap(), 0);
        assert!(ms(&[], Some(60_001)).is_err());
    }

    #[test]
    fn every_call_has_a_place_of_its_own() {
        let location = |id: &str| location(&RequestId::new(id).unwrap());
        assert_eq!(location("a/b c"), "/v1/calls/a%2Fb%20c");
        assert_eq!(location("stats"), "/v1/calls/%73tats");
        assert_eq!(location("retries"), "/v1/calls/%72etries");
    }
}
