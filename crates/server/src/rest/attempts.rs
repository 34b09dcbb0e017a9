//! `/api/jobs/{id}/items/{item}/attempts`: every attempt of an item, and what the next one waits for.

use axum::extract::State;
use jiff::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;
use windrow_engine::line_history::LineHistory;
use windrow_store::Kind;
use windrow_store::inspect::{FinishedLine, PastAttempt};

use super::items::line;
use super::params::{ItemStatus, job_id, or_job_not_found};
use crate::app::App;
use crate::auth::Caller;
use crate::error::{Error, Result};
use crate::extract::Path;
use crate::openapi::error_responses::NotFound;

/// An attempt of an item.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Attempt)]
pub(crate) struct AttemptObject {
    generation: u32,
    attempt: u32,
    /// Why it gave no result; null for the last attempt of a finished item.
    #[schema(value_type = Option<AttemptClass>, required)]
    class: Option<&'static str>,
    /// It is a result that was put back to run again.
    put_back: bool,
    /// How the item ended, of its last attempt; null for one that gave no result.
    #[schema(required)]
    status: Option<ItemStatus>,
    /// Whether the item used up an attempt; one that was throttled does not.
    counted: bool,
    #[schema(required)]
    http_status: Option<u16>,
    #[schema(required)]
    error_code: Option<String>,
    #[schema(required)]
    error: Option<String>,
    /// When the item might be tried again; null for its last attempt.
    #[schema(value_type = Option<String>, format = DateTime, required)]
    not_before: Option<Timestamp>,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
}

/// All attempts of an item.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Attempts)]
pub(crate) struct AttemptList {
    /// The oldest first; of a finished item, the last one gave its result.
    data: Vec<AttemptObject>,
    /// Always null: there is one page.
    #[schema(value_type = Option<String>, required)]
    next_cursor: (),
    /// How many of them the item did not use up.
    uncounted: u64,
    /// What the next attempt waits for, as a sentence; null when there is no next one.
    #[schema(required)]
    next: Option<String>,
    /// The earliest time of the next attempt, when it waits for a time.
    #[schema(value_type = Option<String>, format = DateTime, required)]
    next_not_before: Option<Timestamp>,
}

/// Why an attempt gave no result.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
#[expect(dead_code, reason = "the domain's own words go out; here they are only described")]
enum AttemptClass {
    Throttled,
    Server,
    Network,
    Timeout,
    Unacceptable,
    NotFound,
    Permanent,
    Reprocessed,
}

/// Lists the attempts of an item
///
/// Every one, the last included, the oldest first; and what the next one waits for.
#[utoipa::path(
    get, path = "/jobs/{id}/items/{item}/attempts", operation_id = "listAttempts", tag = "Items", security(("key" = [])),
    params(("id" = String, Path, format = "uuid"), ("item" = String, Path, pattern = "^[1-9][0-9]{0,17}$")),
    responses((status = 200, description = "All attempts of the item.", body = AttemptList), NotFound))]
pub(crate) async fn attempts(
    State(app): State<App>,
    caller: Caller,
    Path((id, item)): Path<(String, String)>,
) -> Result<axum::Json<AttemptList>> {
    let id = job_id(&id)?;
    let (line, scope) = (line(&item).ok_or_else(|| Error::missing("item", &item))?, caller.scope());
    let batch = or_job_not_found(app.store.batch(&scope, id).await, id)?;
    let history = LineHistory::read(&*app.store, &scope, &batch, line).await;
    let history = history.map_err(|error| match error.kind {
        Kind::Missing => Error::missing("item", &item),
        _ => error.into(),
    })?;
    let now = app.clock.now();
    let (uncounted, next) = (history.uncounted(), history.next.as_ref());
    Ok(axum::Json(AttemptList {
        next_cursor: (),
        uncounted,
        next: next.map(|next| next.sentence(now)),
        next_not_before: next.and_then(|next| next.not_before(now)),
        data: {
            let last = history.result.map(|line| AttemptObject::from(*line));
            history.attempts.into_iter().map(AttemptObject::from).chain(last).collect()
        },
    }))
}

impl From<PastAttempt> for AttemptObject {
    fn from(attempt: PastAttempt) -> Self {
        Self {
            generation: attempt.generation,
            attempt: attempt.attempt,
            class: Some(attempt.class.as_str()),
            put_back: attempt.put_back,
            status: None,
            counted: attempt.class.is_counted(),
            http_status: None,
            error_code: Some(attempt.error_code),
            error: Some(attempt.error),
            not_before: Some(attempt.not_before),
            created_at: attempt.created_at,
        }
    }
}

impl From<FinishedLine> for AttemptObject {
    fn from(line: FinishedLine) -> Self {
        Self {
            generation: line.generation,
            attempt: line.result.attempts,
            class: None,
            put_back: false,
            status: Some(line.result.status.into()),
            counted: true,
            http_status: line.result.http_status,
            error_code: line.result.error_code,
            error: line.result.error,
            not_before: None,
            created_at: line.finished_at,
        }
    }
}
