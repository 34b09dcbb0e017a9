//! `/v1/calls`: the state of a call, lists of calls and statistics of them.

use std::time::Duration;

use axum::extract::State;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::{IntoParams, ToSchema};
use windrow_domain::{CallState, CrashPolicy, InstanceId, Owner, RequestId};
use windrow_engine::messages::{CallWait, call_wait};
use windrow_store::Kind;
use windrow_store::call::{Call, CallKey, CallStats, CallsQuery, StatsQuery};

use super::body::shown;
use super::objects::WAIT_MS_MAX;
use super::pages::PageQuery;
use super::params::into_api_error;
use crate::app::App;
use crate::auth::Caller;
use crate::error::{Error, Result};
use crate::extract::{Path, Query};
use crate::openapi::error_responses::NotFound;
use crate::pages::SnakePage;
use crate::params::{self, NUMBER_MAX, none_if_empty, number};

/// The default window of statistics: an hour.
pub(super) const WINDOW_MS: u64 = 3_600_000;
/// The longest window: thirty days.
pub(super) const WINDOW_MS_MAX: u64 = 30 * 24 * WINDOW_MS;
/// The default age from which a call without an answer is old or stuck.
pub(super) const OLD_MS: u64 = 60_000;

/// A call.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Call)]
pub(crate) struct CallObject {
    #[schema(value_type = String)]
    request_id: RequestId,
    #[schema(value_type = String)]
    owner: Owner,
    object_type: String,
    object_id: String,
    method: String,
    #[schema(value_type = CallWord)]
    state: CallState,
    #[schema(value_type = CrashWord)]
    crash_policy: CrashPolicy,
    /// The reply, when it is JSON. Lists leave replies out.
    #[schema(value_type = Option<serde_json::Value>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    reply: Option<Box<RawValue>>,
    /// The reply, when it is not JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    reply_base64: Option<String>,
    /// Why the call failed.
    #[schema(required)]
    error: Option<String>,
    /// How often the request was repeated.
    retry_count: u32,
    /// The instance that last started, ran or answered it.
    #[schema(value_type = Option<String>, format = "uuid", required)]
    instance: Option<InstanceId>,
    #[schema(required)]
    caller_object: Option<String>,
    #[schema(required)]
    caller_client: Option<String>,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
    /// When it was answered.
    #[schema(value_type = Option<String>, format = DateTime, required)]
    processed_at: Option<Timestamp>,
    /// Until when it may wait and its answer is kept; null for ever.
    #[schema(value_type = Option<String>, format = DateTime, required)]
    expires_at: Option<Timestamp>,
    archived: bool,
    /// What a pending call waits for. Lists leave it out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    waiting: Option<CallWaitObject>,
}

/// Why a call has no answer yet.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = CallWait)]
struct CallWaitObject {
    /// Since when it waits.
    #[schema(value_type = String, format = DateTime)]
    since: Timestamp,
    /// Why the last attempt gave no answer; null before the first one.
    #[schema(required)]
    reason: Option<String>,
    /// Before this time it is not attempted again.
    #[schema(value_type = Option<String>, format = DateTime, required)]
    not_before: Option<Timestamp>,
    /// The earlier call of the same object that it waits behind; the reason is that call's.
    #[schema(value_type = Option<String>, required)]
    behind: Option<RequestId>,
}

impl From<CallWait> for CallWaitObject {
    fn from(wait: CallWait) -> Self {
        let CallWait { since, reason, not_before, behind } = wait;
        Self { since, reason, not_before, behind }
    }
}

/// The state of a call.
#[derive(ToSchema)]
#[schema(as = CallState, rename_all = "snake_case")]
#[expect(dead_code, reason = "the domain's own goes out; here it is only described")]
enum CallWord {
    /// Waiting for its turn.
    Pending,
    /// An instance has started it.
    Processing,
    /// Answered with a reply.
    Completed,
    /// Answered with an error.
    Failed,
    /// Answered; the answer is no longer kept.
    Expired,
}

/// What happens to a call whose instance dies while it runs.
#[derive(ToSchema)]
#[schema(as = CrashPolicy, rename_all = "snake_case")]
#[expect(dead_code, reason = "the domain's own goes out; here it is only described")]
pub(super) enum CrashWord {
    /// It runs again.
    Retry,
    /// It fails.
    Fail,
}

impl From<Call> for CallObject {
    fn from(call: Call) -> Self {
        let (reply, reply_base64) = shown(call.reply.as_deref().unwrap_or_default());
        Self {
            request_id: call.key.request_id,
            owner: call.key.owner,
            object_type: call.object_type,
            object_id: call.object_id,
            method: call.method,
            state: call.state,
            crash_policy: call.policy,
            reply,
            reply_base64,
            error: call.error,
            retry_count: call.retry_count,
            instance: call.instance,
            caller_object: call.caller_object,
            caller_client: call.caller_client,
            created_at: call.created_at,
            updated_at: call.updated_at,
            processed_at: call.processed_at,
            expires_at: call.expires_at,
            archived: call.is_archived,
            waiting: None,
        }
    }
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub(crate) struct WaitQuery {
    /// How long to wait for the answer, in milliseconds.
    #[param(maximum = 60000, default = 0)]
    wait_ms: Option<u64>,
}

/// Retrieves a call
///
/// With its answer, if it has one.
#[utoipa::path(
    get, path = "/calls/{request_id}", operation_id = "retrieveCall", tag = "Objects",
    security(("key" = [])), params(("request_id" = String, Path), WaitQuery),
    responses((status = 200, description = "The call.", body = CallObject), NotFound))]
pub(crate) async fn retrieve(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    Query(query): Query<WaitQuery>,
) -> Result<axum::Json<CallObject>> {
    let wait_ms = number("waitMs", query.wait_ms, 0, WAIT_MS_MAX)?;
    let request_id = RequestId::new(id.clone()).map_err(|_| Error::missing("call", &id))?;
    let key = CallKey { owner: caller.owner.clone(), request_id };
    let (messages, longest) = (app.messages()?, Duration::from_millis(wait_ms));
    let missing = |error: windrow_store::Error| match error.kind {
        Kind::Missing => Error::missing("call", &id),
        _ => into_api_error(error),
    };
    if !longest.is_zero() {
        messages.wait(&app, &key, longest).await.map_err(missing)?;
    }
    let store = messages.message_store();
    let call = store.call(&key).await.map_err(missing)?;
    let waiting = call_wait(&**store, &call).await.map_err(into_api_error)?;
    Ok(axum::Json(CallObject { waiting: waiting.map(Into::into), ..call.into() }))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub(crate) struct ListQuery {
    /// Only calls of this object, as `type/id`.
    #[param(
        max_length = 256,
        pattern = "^([^/\\u0000-\\u001f\\u007f-\\u009f]+/[^\\u0000-\\u001f\\u007f-\\u009f]+)?$"
    )]
    object: Option<String>,
    /// Only calls in these states, separated by commas.
    #[param(value_type = Option<Vec<CallWord>>, inline, style = Form, explode = false)]
    state: Option<String>,
    /// Only calls that this instance was last seen with.
    #[param(format = "uuid")]
    instance: Option<String>,
    /// Only calls that have been processing for at least so many milliseconds.
    #[param(maximum = 9223372036854775807_u64)]
    stuck_ms: Option<u64>,
}

/// Lists calls
///
/// The newest first, without their replies, and without those in the archive.
#[utoipa::path(
    get, path = "/calls", operation_id = "listCalls", tag = "Objects", security(("key" = [])),
    params(ListQuery, PageQuery),
    responses((status = 200, description = "A page of calls.", body = SnakePage<CallObject>), NotFound))]
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<ListQuery>,
    Query(page): Query<PageQuery>,
) -> Result<axum::Json<SnakePage<CallObject>>> {
    let (scope, mut page) = page.read(&caller)?;
    let asked = CallsQuery {
        object: none_if_empty(query.object).map(object).transpose()?,
        states: states(query.state.as_deref())?,
        instance: query.instance.as_deref().map(instance).transpose()?,
        stuck_ms: query
            .stuck_ms
            .map(|ms| number("stuckMs", Some(ms), 0, NUMBER_MAX))
            .transpose()?,
        after: None,
        limit: 0,
    };
    let message_store = app.messages()?.message_store();
    while let Some((after, limit)) = page.next() {
        let mut step =
            message_store.calls(&scope, CallsQuery { after, limit, ..asked.clone() }).await;
        // A list has no replies: each may be large.
        step.iter_mut().flat_map(|step| &mut step.rows).for_each(|call| call.reply = None);
        page.add(step, |call: &Call| call.args.len())?;
    }
    Ok(page.finish())
}

fn object(name: String) -> Result<(String, String)> {
    let bad = || Error::invalid("object", "`object` must have the form `type/id`.");
    let (object_type, id) = name.split_once('/').ok_or_else(bad)?;
    windrow_domain::call::object_stream(object_type, id).map_err(|_| bad())?;
    Ok((object_type.to_owned(), id.to_owned()))
}

fn states(params: Option<&str>) -> Result<Vec<CallState>> {
    let params =
        params.unwrap_or_default().split(',').map(str::trim).filter(|word| !word.is_empty());
    let states = params.map(|word| word.to_ascii_lowercase().parse());
    states.collect::<Result<_, String>>().map_err(|_| {
        let known = CallState::ALL.map(CallState::as_str).join(", ");
        Error::invalid("state", format!("`state` must be one or more of {known}."))
    })
}

fn instance(id: &str) -> Result<InstanceId> {
    id.parse().map_err(|_| Error::invalid("instance", "`instance` must be the id of an instance."))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub(crate) struct Window {
    /// How far back, in milliseconds.
    #[param(minimum = 1, maximum = 2592000000_u64, default = 3600000)]
    window_ms: Option<u64>,
    /// From when on a call without an answer is old, or stuck, in milliseconds.
    #[param(maximum = 2592000000_u64, default = 60000)]
    old_ms: Option<u64>,
    /// Whose: `me`, or for admins an owner, or `all`.
    #[param(max_length = 256, default = "me", pattern = "^[^\\u0000-\\u001f\\u007f-\\u009f]*$")]
    owner: Option<String>,
}

/// Statistics of calls.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = CallStats)]
pub(crate) struct Stats {
    /// Calls of the window by state, those in the archive included; pending and processing ones of any time.
    #[schema(inline)]
    by_state: Vec<ByState>,
    /// Age of the oldest pending call, in milliseconds.
    #[schema(required)]
    pending_age_ms: Option<u64>,
    /// Pending calls older than `oldMs`.
    pending_old: u64,
    /// Calls that have been processing for longer than `oldMs`.
    stuck: u64,
    /// Milliseconds from request to answer, of calls answered within the window: the median.
    #[schema(required)]
    p50_ms: Option<f64>,
    /// The 95th percentile.
    #[schema(required)]
    p95_ms: Option<f64>,
    /// The 99th percentile.
    #[schema(required)]
    p99_ms: Option<f64>,
    /// Share of the calls answered within the window that failed, without expired ones.
    #[schema(required)]
    failure_rate: Option<f64>,
    /// By method, the most repeated first.
    #[schema(inline)]
    retries: Vec<Retries>,
    /// Calls that are kept.
    rows: u64,
    /// Calls in the archive.
    archived_rows: u64,
    /// Size of both on disk, as far as the database says; null for one owner.
    #[schema(required)]
    bytes: Option<u64>,
}

#[derive(Debug, Serialize, ToSchema)]
struct ByState {
    #[schema(value_type = CallWord)]
    state: CallState,
    calls: u64,
}

#[derive(Debug, Serialize, ToSchema)]
struct Retries {
    object_type: String,
    method: String,
    calls: u64,
    /// Repeats of a call, on average.
    retries_mean: f64,
}

/// How calls are doing
///
/// Counts, ages, latencies, failures and repeats.
#[utoipa::path(
    get, path = "/calls/stats", operation_id = "callStats", tag = "Objects", security(("key" = [])),
    params(Window),
    responses((status = 200, description = "The statistics.", body = Stats), NotFound))]
pub(crate) async fn stats(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<Window>,
) -> Result<axum::Json<Stats>> {
    let scope = params::scope(&caller, "owner", query.owner.as_deref())?;
    if query.window_ms == Some(0) {
        return Err(Error::invalid("windowMs", "`windowMs` must be at least 1."));
    }
    let asked = StatsQuery {
        window_ms: number("windowMs", query.window_ms, WINDOW_MS, WINDOW_MS_MAX)?,
        old_ms: number("oldMs", query.old_ms, OLD_MS, WINDOW_MS_MAX)?,
    };
    let stats =
        app.messages()?.message_store().call_stats(&scope, asked).await.map_err(into_api_error)?;
    Ok(axum::Json(stats.into()))
}

impl From<CallStats> for Stats {
    fn from(stats: CallStats) -> Self {
        let by_state = stats.by_state.into_iter().map(|(state, calls)| ByState { state, calls });
        let retries = stats.retries.into_iter().map(|of| Retries {
            object_type: of.object_type,
            method: of.method,
            calls: of.calls,
            retries_mean: of.retries_mean,
        });
        Self {
            by_state: by_state.collect(),
            pending_age_ms: stats.pending_age_ms,
            pending_old: stats.pending_old,
            stuck: stats.stuck,
            p50_ms: stats.p50_ms,
            p95_ms: stats.p95_ms,
            p99_ms: stats.p99_ms,
            failure_rate: stats.failure_rate,
            retries: retries.collect(),
            rows: stats.rows,
            archived_rows: stats.archived_rows,
            bytes: stats.bytes,
        }
    }
}
