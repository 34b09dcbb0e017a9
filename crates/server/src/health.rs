//! `/healthz` and `/readyz`: whether the process is alive, and whether it reaches its database.

use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;
use windrow_store::Scope;
use windrow_store::inspect::BatchesQuery;

use crate::app::App;
use crate::error::Result;
use crate::openapi::error_responses::{InternalError, Unavailable};

/// The health of the server.
#[derive(Serialize, ToSchema)]
#[schema(as = Well)]
pub(crate) struct Health {
    status: HealthWord,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = WellWord)]
enum HealthWord {
    Ok,
    Ready,
}

/// Whether the process lives
#[utoipa::path(
    get, path = "/healthz", operation_id = "health", tag = "Operations",
    responses((status = 200, description = "The process is alive.", body = Health)))]
pub(crate) async fn healthz() -> axum::Json<Health> {
    axum::Json(Health { status: HealthWord::Ok })
}

/// Whether the database answers
#[utoipa::path(
    get, path = "/readyz", operation_id = "readiness", tag = "Operations",
    responses((status = 200, description = "The database answers.", body = Health), InternalError, Unavailable))]
pub(crate) async fn readyz(State(app): State<App>) -> Result<axum::Json<Health>> {
    let query = BatchesQuery { limit: 1, ..BatchesQuery::default() };
    app.store.batches(&Scope::All, query).await?;
    Ok(axum::Json(Health { status: HealthWord::Ready }))
}
