//! `POST /v1/calls`: submits many calls in one transaction and waits for none of them.
//!
//! Holds throughout: all of them are submitted or none; each has an id, given or generated, and one that was
//! submitted before counts as a repeat.

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;
use uuid::Uuid;
use windrow_domain::{CrashPolicy, RequestId};
use windrow_engine::messages::ClientError;
use windrow_store::Kind;
use windrow_store::call::{CALLER_BYTES_MAX, CallKey, NewCall};
use windrow_store::message::SEND_MAX;

use super::body::{self, Raw, given, whole_number};
use super::calls::{CallObject, CrashWord};
use super::objects::{EXPIRES_SECS_MAX, check_name};
use super::state::refused;
use crate::app::App;
use crate::auth::Caller;
use crate::error::{Code, Error, Result};
use crate::openapi::error_responses::{
    NotFound, PayloadTooLarge, RequestTimeout, UnsupportedMediaType,
};

/// A call to submit.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewCall)]
pub(crate) struct NewCallBody {
    /// The id of the call: a repeat with the same id and the same arguments happens once. Generated when
    /// omitted.
    #[schema(min_length = 1, max_length = 255, pattern = "^[!-~]([ -~]*[!-~])?$")]
    request_id: Option<String>,
    #[schema(min_length = 1, max_length = 128, pattern = "^[A-Za-z0-9._-]+$")]
    object_type: String,
    #[schema(min_length = 1, max_length = 127, pattern = "^[ -~]+$")]
    object_id: String,
    #[schema(min_length = 1, max_length = 128, pattern = "^[A-Za-z0-9._-]+$")]
    method: String,
    /// The arguments as JSON; kept byte for byte.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<serde_json::Value>)]
    args: Option<Box<RawValue>>,
    /// The arguments as Base64, when they are not JSON.
    #[schema(
        pattern = "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?$"
    )]
    args_base64: Option<String>,
    /// What happens when the instance that runs the call dies; `retry` by default.
    #[schema(value_type = Option<CrashWord>)]
    crash_policy: Option<CrashPolicy>,
    /// The object that makes the call, for tracing.
    #[schema(max_length = 256, pattern = "^[^\\u0000]*$")]
    caller_object: Option<String>,
    /// After so many seconds a call that still waits fails, and an answer is no longer kept; never by
    /// default.
    #[schema(value_type = Option<u64>, minimum = 1, maximum = 316224000)]
    expires_in_secs: Option<serde_json::Value>,
}

/// Calls to submit together.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewCalls)]
pub(crate) struct NewCallsBody {
    #[schema(min_items = 1, max_items = 1000)]
    calls: Vec<NewCallBody>,
}

/// Calls that were submitted.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = SubmittedCalls)]
pub(crate) struct SubmittedCalls {
    /// In the order of the request, without their replies. A repeat is shown as it is now.
    data: Vec<CallObject>,
}

/// Submits calls
///
/// Up to 1000 at once: all or none, in this order for each object. It waits for no answer; read each at
/// `/v1/calls/{request_id}`.
#[utoipa::path(
    post, path = "/calls", operation_id = "submitCalls", tag = "Objects", security(("key" = [])),
    request_body = NewCallsBody,
    responses((status = 202, description = "The calls are stored and will be run.", body = SubmittedCalls),
        NotFound, RequestTimeout, PayloadTooLarge, UnsupportedMediaType))]
pub(crate) async fn submit(
    State(app): State<App>,
    caller: Caller,
    headers: HeaderMap,
    Raw(body): Raw,
) -> Result<(StatusCode, axum::Json<SubmittedCalls>)> {
    let messages = app.messages()?;
    let calls = body::read::<NewCallsBody>(&headers, &body)?.calls;
    if !(1..=SEND_MAX).contains(&calls.len()) {
        let message = format!("`calls` must have 1 to {SEND_MAX} entries.");
        return Err(Error::invalid("calls", message));
    }
    let now = app.clock.now();
    let new = calls.into_iter().map(|call| call.into_new(&caller, now));
    let new = new.collect::<Result<Vec<NewCall>>>()?;
    let submitted = messages.client.submit_many(new).await.map_err(|error| match error {
        ClientError::Store(error) if error.kind == Kind::Conflict => reused(&error),
        error => refused(error),
    })?;
    let shown = submitted.into_iter().map(|one| {
        let mut call = one.call;
        // A list has no replies: each may be large.
        call.reply = None;
        CallObject::from(call)
    });
    Ok((StatusCode::ACCEPTED, axum::Json(SubmittedCalls { data: shown.collect() })))
}

fn reused(error: &windrow_store::Error) -> Error {
    let causes = windrow_store::error::chain(error);
    let message = format!(
        "A request id was used before for another object or method, or with other arguments; nothing was \
         submitted: {causes}."
    );
    Error::new(Code::IdempotencyKeyReused, message).at("request_id")
}

impl NewCallBody {
    fn into_new(self, caller: &Caller, now: Timestamp) -> Result<NewCall> {
        let id = self.request_id.unwrap_or_else(|| Uuid::now_v7().to_string());
        let bad = |bad| Error::invalid("request_id", format!("The {bad}."));
        let request_id = RequestId::new(id).map_err(bad)?;
        check_name("object_type", &self.object_type)?;
        check_name("method", &self.method)?;
        windrow_domain::call::object_stream(&self.object_type, &self.object_id)
            .map_err(|bad| Error::invalid("object_id", format!("The {bad}.")))?;
        let caller_object = self.caller_object.filter(|object| !object.is_empty());
        if caller_object.as_ref().is_some_and(|object| object.len() > CALLER_BYTES_MAX) {
            let message = format!("`caller_object` must have at most {CALLER_BYTES_MAX} bytes.");
            return Err(Error::invalid("caller_object", message));
        }
        let expires_at = self.expires_in_secs.map(|secs| expiry(now, &secs)).transpose()?;
        let key = CallKey { owner: caller.owner.clone(), request_id };
        let call = NewCall::new(key, self.object_type, self.object_id, self.method)
            .args(body::payload(self.args, self.args_base64)?)
            .policy(self.crash_policy.unwrap_or_default());
        Ok(NewCall {
            caller_object,
            caller_client: Some(format!("key:{}", caller.key)),
            expires_at,
            ..call
        })
    }
}

fn expiry(now: Timestamp, secs: &serde_json::Value) -> Result<Timestamp> {
    let bad = || {
        let message = format!("`expires_in_secs` must be 1 to {EXPIRES_SECS_MAX}.");
        Error::invalid("expires_in_secs", message)
    };
    let is_known = |secs: &u64| (1..=EXPIRES_SECS_MAX).contains(secs);
    let secs = whole_number(secs).filter(is_known).ok_or_else(bad)?;
    let life = SignedDuration::from_secs(i64::try_from(secs).map_err(|_| bad())?);
    now.checked_add(life).map_err(|_| bad())
}
