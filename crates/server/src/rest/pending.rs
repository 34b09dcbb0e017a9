//! `GET /api/pending`: pending and processing items of all jobs; only where it is enabled.

use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use windrow_domain::{Owner, Target};
use windrow_store::inspect::{PendingLine, PendingQuery};

use super::items::{InputSummary, ItemState};
use super::params::{self, ItemPlace, job_id};
use super::queries::{JobsFilter, JobsQuery, PageQuery};
use crate::app::App;
use crate::auth::Caller;
use crate::error::{Code, Error, Result};
use crate::extract::Query;
use crate::openapi::error_responses::NotFound;
use crate::pages::{self, CamelPage};
use crate::params::none_if_empty;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub(crate) struct ListQuery {
    /// Only those: separated by commas.
    #[param(value_type = Option<Vec<ItemPlace>>, inline, style = Form, explode = false)]
    statuses: Option<String>,
    /// Only of this job.
    #[param(schema_with = params::job_id_schema)]
    job_id: Option<String>,
}

/// An item without a result, with what is known of its job.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = PendingItem)]
pub(crate) struct PendingItem {
    #[serde(flatten)]
    state: ItemState,
    #[schema(value_type = String)]
    owner: Owner,
    #[schema(required)]
    job_type: Option<String>,
    #[schema(value_type = String)]
    target: Target,
    input_summary: InputSummary,
    /// A stable word for what went wrong the last time.
    #[schema(required)]
    last_error_code: Option<String>,
    /// What went wrong the last time.
    #[schema(required)]
    last_error: Option<String>,
}

/// Lists what waits or runs
///
/// Over all jobs; only where `pending_dashboard` is switched on.
#[utoipa::path(
    get, path = "/pending", operation_id = "listPending", tag = "Items", security(("key" = [])),
    params(ListQuery, JobsQuery, PageQuery),
    responses((status = 200, description = "A page of items.", body = CamelPage<PendingItem>), NotFound))]
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<ListQuery>,
    Query(jobs): Query<JobsQuery>,
    Query(page): Query<PageQuery>,
) -> Result<axum::Json<CamelPage<PendingItem>>> {
    if !app.options.pending_dashboard {
        let message = "The list of pending items over all jobs is disabled on this server.";
        return Err(Error::new(Code::FeatureOff, message));
    }
    let (JobsFilter { scope, job_type, from, to }, (after, limit)) =
        (jobs.read(&caller)?, page.read()?);
    let statuses = params::item_statuses(query.statuses.as_deref())?;
    if statuses.iter().any(|status| status.outcome().is_some()) {
        let message = "`statuses` must be PENDING or PROCESSING here.";
        return Err(Error::invalid("statuses", message));
    }
    let has_cursor = after.is_some();
    let batch = none_if_empty(query.job_id).as_deref().map(job_id).transpose()?;
    let places = statuses.iter().flat_map(|status| status.places()).copied().collect();
    let query = PendingQuery { batch, places, job_type, from, to, after, limit };
    let page = pages::page(app.store.pending(&scope, query).await, has_cursor, Error::from)?;
    Ok(axum::Json(page.into()))
}

impl From<PendingLine> for PendingItem {
    fn from(line: PendingLine) -> Self {
        Self {
            state: ItemState::from(&line),
            owner: line.owner,
            job_type: line.job_type,
            target: line.target,
            input_summary: line.summary.into(),
            last_error_code: line.last_error_code,
            last_error: line.last_error,
        }
    }
}
