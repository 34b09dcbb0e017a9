//! For operators: whether it lives, and whether it can do its work.

use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;
use windrow_store::Scope;
use windrow_store::inspect::BatchesQuery;

use crate::app::App;
use crate::describe::refusals::{Broken, Unavailable};
use crate::error::Result;

/// That all is well.
#[derive(Serialize, ToSchema)]
pub(crate) struct Well {
    status: Word,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = WellWord)]
enum Word {
    Ok,
    Ready,
}

/// Whether the process lives
#[utoipa::path(
    get, path = "/healthz", operation_id = "health", tag = "Operations",
    responses((status = 200, description = "It lives.", body = Well)))]
pub(crate) async fn healthz() -> axum::Json<Well> {
    axum::Json(Well { status: Word::Ok })
}

/// Whether the database answers
#[utoipa::path(
    get, path = "/readyz", operation_id = "readiness", tag = "Operations",
    responses((status = 200, description = "It answers.", body = Well), Broken, Unavailable))]
pub(crate) async fn readyz(State(app): State<App>) -> Result<axum::Json<Well>> {
    let query = BatchesQuery { limit: 1, ..BatchesQuery::default() };
    app.store.batches(&Scope::All, query).await?;
    Ok(axum::Json(Well { status: Word::Ready }))
}
