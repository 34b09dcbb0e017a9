//! `POST /v1/calls/{request_id}/cancel`: ends a call that has no answer.
//!
//! Holds throughout: only its owner ends a call; one that has its answer keeps it; what a handler returns for
//! a cancelled call is refused.

use axum::extract::State;
use axum::http::HeaderMap;
use serde::Deserialize;
use utoipa::ToSchema;
use windrow_domain::RequestId;
use windrow_store::Kind;
use windrow_store::call::{CallKey, REASON_BYTES_MAX};

use super::body::{self, Raw};
use super::calls::CallObject;
use super::params::into_api_error;
use crate::app::App;
use crate::auth::Caller;
use crate::error::{Code, Error, Result};
use crate::extract::Path;
use crate::openapi::error_responses::{
    NotFound, PayloadTooLarge, RequestTimeout, UnsupportedMediaType,
};

/// Why a call is cancelled.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = CancelCall)]
pub(crate) struct CancelBody {
    /// Added to the error of the call.
    #[schema(max_length = 125, pattern = "^[^\\u0000]*$")]
    reason: Option<String>,
}

/// Cancels a call
///
/// One that waits or runs: it fails with `cancelled`, and whoever waits for it is told. A handler that runs it
/// is not stopped, but what it returns is refused. A call that was cancelled before is returned as it is.
#[utoipa::path(
    post, path = "/calls/{request_id}/cancel", operation_id = "cancelCall", tag = "Objects",
    security(("key" = [])), params(("request_id" = String, Path)), request_body = Option<CancelBody>,
    responses((status = 200, description = "The call.", body = CallObject),
        NotFound, RequestTimeout, PayloadTooLarge, UnsupportedMediaType))]
pub(crate) async fn cancel(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    headers: HeaderMap,
    Raw(body): Raw,
) -> Result<axum::Json<CallObject>> {
    let request_id = RequestId::new(id.clone()).map_err(|_| Error::missing("call", &id))?;
    let key = CallKey { owner: caller.owner.clone(), request_id };
    let reason = match body.is_empty() {
        true => None,
        false => body::read::<Option<CancelBody>>(&headers, &body)?.and_then(|body| body.reason),
    };
    let reason = reason.filter(|reason| !reason.is_empty());
    if reason.as_ref().is_some_and(|reason| reason.len() > REASON_BYTES_MAX) {
        let message = format!("`reason` must have at most {REASON_BYTES_MAX} bytes.");
        return Err(Error::invalid("reason", message));
    }
    let cancelled = app.messages()?.client.cancel(&key, reason).await;
    let call = cancelled.map_err(|error| match error.kind {
        Kind::Missing => Error::missing("call", &id),
        Kind::Conflict => {
            let message = format!("The call {id:?} has its answer and keeps it.");
            Error::new(Code::CallAnswered, message)
        }
        _ => into_api_error(error),
    })?;
    Ok(axum::Json(call.into()))
}
