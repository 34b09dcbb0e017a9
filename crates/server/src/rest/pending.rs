//! `GET /api/pending`: what waits or runs, over all jobs; only where it is switched on.

use axum::extract::State;
use axum::http::StatusCode;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use windrow_domain::{BatchId, InstanceId, Owner, Target};
use windrow_store::inspect::{PendingLine, PendingQuery};

use super::items::InputSummary;
use super::jobs::Listed;
use super::words::{self, ItemPlace, ItemStatus, job_id};
use crate::app::App;
use crate::auth::Caller;
use crate::describe::refusals::Missing;
use crate::error::{Error, Result};
use crate::extract::Query;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub(crate) struct ListQuery {
    /// Only those: separated by commas.
    #[param(value_type = Option<Vec<ItemPlace>>, inline, style = Form, explode = false)]
    statuses: Option<String>,
    /// Whose: `me`, or for admins an owner, or `all`.
    #[param(max_length = 256, default = "me", pattern = "^[^\\u0000-\\u001f\\u007f-\\u009f]*$")]
    user_id: Option<String>,
    /// Only those with this word.
    #[param(max_length = 64, pattern = "^[^\\u0000-\\u001f\\u007f-\\u009f]*$")]
    job_type: Option<String>,
    /// Only of this job.
    #[param(schema_with = words::job_id_schema)]
    job_id: Option<String>,
    /// Not before this time.
    #[param(schema_with = words::time_schema)]
    from: Option<String>,
    /// Before this time.
    #[param(schema_with = words::time_schema)]
    to: Option<String>,
    /// How many.
    #[param(minimum = 1, maximum = 1000, default = 100)]
    page_size: Option<u32>,
    /// The `nextCursor` of the page before, which asked for the same.
    #[param(max_length = 1024, pattern = "^[A-Za-z0-9._-]*$")]
    after: Option<String>,
}

/// An item without a result, with what is known of its job.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = PendingItem)]
pub(crate) struct Row {
    #[schema(pattern = "^[1-9][0-9]*$")]
    item_id: String,
    #[schema(value_type = String, format = "uuid")]
    job_id: BatchId,
    #[schema(value_type = String)]
    owner: Owner,
    #[schema(required)]
    job_type: Option<String>,
    #[schema(value_type = String)]
    target: Target,
    status: ItemStatus,
    attempts: u32,
    #[schema(value_type = Option<String>, format = "uuid", required)]
    locked_by: Option<InstanceId>,
    #[schema(value_type = Option<String>, format = DateTime, required)]
    locked_at: Option<Timestamp>,
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
    #[schema(value_type = Option<String>, format = DateTime, required)]
    not_before: Option<Timestamp>,
    #[schema(required)]
    custom_id: Option<String>,
    input_summary: InputSummary,
}

/// Lists what waits or runs
///
/// Over all jobs; only where `pending_dashboard` is switched on.
#[utoipa::path(
    get, path = "/pending", operation_id = "listPending", tag = "Items", security(("key" = [])),
    params(ListQuery),
    responses((status = 200, description = "A page.", body = Listed<Row>), Missing))]
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
        job_type: words::job_type(query.job_type)?,
        from: words::time("from", query.from.as_deref())?,
        to: words::time("to", query.to.as_deref())?,
        after: words::after(query.after),
        limit: words::page_size(query.page_size)?,
    };
    let has_cursor = page.after.is_some();
    let page = words::page(app.store.pending(&scope, page).await, has_cursor)?;
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
