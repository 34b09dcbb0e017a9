//! `GET /api/pending`: what waits or runs, over all jobs; only where it is switched on.

use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use windrow_domain::{Owner, Target};
use windrow_store::inspect::{PendingLine, PendingQuery};

use super::items::{InputSummary, Standing};
use super::lists::{self, Jobs, JobsQuery, Listed, PageQuery};
use super::words::{self, ItemPlace, job_id};
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
    /// Only of this job.
    #[param(schema_with = words::job_id_schema)]
    job_id: Option<String>,
}

/// An item without a result, with what is known of its job.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = PendingItem)]
pub(crate) struct Row {
    #[serde(flatten)]
    standing: Standing,
    #[schema(value_type = String)]
    owner: Owner,
    #[schema(required)]
    job_type: Option<String>,
    #[schema(value_type = String)]
    target: Target,
    input_summary: InputSummary,
}

/// Lists what waits or runs
///
/// Over all jobs; only where `pending_dashboard` is switched on.
#[utoipa::path(
    get, path = "/pending", operation_id = "listPending", tag = "Items", security(("key" = [])),
    params(ListQuery, JobsQuery, PageQuery),
    responses((status = 200, description = "A page.", body = Listed<Row>), Missing))]
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<ListQuery>,
    Query(jobs): Query<JobsQuery>,
    Query(page): Query<PageQuery>,
) -> Result<axum::Json<Listed<Row>>> {
    if !app.options.pending_dashboard {
        let message = "The list of what is pending over all jobs is switched off on this server.";
        return Err(Error::new(StatusCode::NOT_FOUND, "feature_off", message));
    }
    let (Jobs { scope, job_type, from, to }, (after, limit)) = (jobs.read(&caller)?, page.read()?);
    let statuses = words::item_statuses(query.statuses.as_deref())?;
    if statuses.iter().any(|status| status.outcome().is_some()) {
        let message = "Only PENDING and PROCESSING can be asked for here.";
        return Err(Error::invalid("statuses", message));
    }
    let has_cursor = after.is_some();
    let batch = words::given(query.job_id).as_deref().map(job_id).transpose()?;
    let places = statuses.iter().flat_map(|status| status.places()).copied().collect();
    let query = PendingQuery { batch, places, job_type, from, to, after, limit };
    let page = lists::page(app.store.pending(&scope, query).await, has_cursor)?;
    Ok(axum::Json(Listed::of(page)))
}

impl From<PendingLine> for Row {
    fn from(line: PendingLine) -> Self {
        Self {
            standing: Standing::from(&line),
            owner: line.owner,
            job_type: line.job_type,
            target: line.target,
            input_summary: line.summary.into(),
        }
    }
}
