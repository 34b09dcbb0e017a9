//! `GET /api/pending`: what waits or runs, over all jobs; only where it is switched on.

use axum::extract::State;
use axum::http::StatusCode;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use windrow_domain::{BatchId, InstanceId, Owner, Target};
use windrow_store::inspect::{PendingLine, PendingQuery};

use super::items::InputSummary;
use super::jobs::Listed;
use super::words::{self, ItemStatus, job_id};
use crate::app::App;
use crate::auth::Caller;
use crate::error::{Error, Result};
use crate::extract::Query;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ListQuery {
    statuses: Option<String>,
    user_id: Option<String>,
    job_type: Option<String>,
    job_id: Option<String>,
    from: Option<String>,
    to: Option<String>,
    page_size: Option<u32>,
    after: Option<String>,
}

/// An item without a result, with what is known of its job.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Row {
    item_id: String,
    job_id: BatchId,
    owner: Owner,
    job_type: Option<String>,
    target: Target,
    status: ItemStatus,
    attempts: u32,
    locked_by: Option<InstanceId>,
    locked_at: Option<Timestamp>,
    updated_at: Timestamp,
    not_before: Option<Timestamp>,
    custom_id: Option<String>,
    input_summary: InputSummary,
}

pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<ListQuery>,
) -> Result<axum::Json<Listed<Row>>> {
    if !app.options.pending_dashboard {
        let message = "The list of what is pending over all jobs is switched off on this server.";
        return Err(Error::new(StatusCode::NOT_FOUND, "feature_off", message));
    }
    let scope = words::scope(&caller, query.user_id.as_deref())?;
    let statuses = words::item_statuses(query.statuses.as_deref())?;
    if statuses.iter().any(|status| status.outcome().is_some()) {
        let message = "Only PENDING and PROCESSING can be asked for here.";
        return Err(Error::invalid("statuses", message));
    }
    let page = PendingQuery {
        batch: words::after(query.job_id).as_deref().map(job_id).transpose()?,
        places: statuses.iter().flat_map(|status| status.places()).copied().collect(),
        job_type: words::after(query.job_type),
        from: words::time("from", query.from.as_deref())?,
        to: words::time("to", query.to.as_deref())?,
        after: words::after(query.after),
        limit: words::page_size(query.page_size)?,
    };
    let page = app.store.pending(&scope, page).await?;
    Ok(axum::Json(Listed::of(page)))
}

impl From<PendingLine> for Row {
    fn from(line: PendingLine) -> Self {
        Self {
            item_id: line.line.to_string(),
            job_id: line.batch,
            owner: line.owner,
            job_type: line.job_type,
            target: line.target,
            status: line.place.into(),
            attempts: line.attempts,
            locked_by: line.held_by,
            locked_at: line.held_since,
            updated_at: line.updated_at,
            not_before: line.not_before,
            custom_id: line.summary.custom_id.clone(),
            input_summary: line.summary.into(),
        }
    }
}
