//! `GET /v1/calls/retries`: which objects' calls are repeated again and again.

use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use windrow_store::call::{ObjectRetries, RETRIES_ABOVE, RetriesQuery};

use super::calls::{WINDOW_MS, WINDOW_MS_MAX};
use super::params::into_api_error;
use crate::app::App;
use crate::auth::Caller;
use crate::error::{Error, Result};
use crate::extract::Query;
use crate::openapi::error_responses::NotFound;
use crate::params::{self, number};

/// Largest threshold.
const ABOVE_MAX: u64 = 1_000_000;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub(crate) struct Asked {
    /// How far back, in milliseconds.
    #[param(minimum = 1, maximum = 2592000000_u64, default = 3600000)]
    window_ms: Option<u64>,
    /// Only calls that were repeated more often than this.
    #[param(maximum = 1000000, default = 3)]
    above: Option<u64>,
    /// Whose: `me`, or for admins an owner, or `all`.
    #[param(max_length = 256, default = "me", pattern = "^[^\\u0000-\\u001f\\u007f-\\u009f]*$")]
    owner: Option<String>,
}

/// Objects whose calls are repeated again and again.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = CallRetries)]
pub(crate) struct CallRetries {
    /// The most repeated first; at most 100.
    data: Vec<RetriedObject>,
}

/// Repeats of one method of one object, of the calls above the threshold.
#[derive(Debug, Serialize, ToSchema)]
struct RetriedObject {
    object_type: String,
    object_id: String,
    method: String,
    /// The calls that were repeated so often.
    calls: u64,
    /// Repeats of such a call, on average.
    retries_mean: f64,
    /// Repeats of the most repeated one.
    retries_max: u32,
}

/// Finds calls that are repeated again and again
///
/// By object and method, those in the archive included.
#[utoipa::path(
    get, path = "/calls/retries", operation_id = "callRetries", tag = "Objects", security(("key" = [])),
    params(Asked),
    responses((status = 200, description = "Objects and methods.", body = CallRetries), NotFound))]
pub(crate) async fn retries(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<Asked>,
) -> Result<axum::Json<CallRetries>> {
    let scope = params::scope(&caller, "owner", query.owner.as_deref())?;
    if query.window_ms == Some(0) {
        return Err(Error::invalid("windowMs", "`windowMs` must be at least 1."));
    }
    let above = number("above", query.above, RETRIES_ABOVE.into(), ABOVE_MAX)?;
    let asked = RetriesQuery {
        window_ms: number("windowMs", query.window_ms, WINDOW_MS, WINDOW_MS_MAX)?,
        above: u32::try_from(above).unwrap_or(u32::MAX),
    };
    let found = app.messages()?.message_store().call_retries(&scope, asked).await;
    let found = found.map_err(into_api_error)?;
    Ok(axum::Json(CallRetries { data: found.into_iter().map(Into::into).collect() }))
}

impl From<ObjectRetries> for RetriedObject {
    fn from(of: ObjectRetries) -> Self {
        Self {
            object_type: of.object_type,
            object_id: of.object_id,
            method: of.method,
            calls: of.calls,
            retries_mean: of.retries_mean,
            retries_max: of.retries_max,
        }
    }
}
