//! For operators: whether it lives, and whether it can do its work.

use axum::extract::State;
use serde_json::{Value, json};
use windrow_store::Scope;
use windrow_store::inspect::BatchesQuery;

use crate::app::App;
use crate::error::Result;

/// The process lives.
pub(crate) async fn healthz() -> axum::Json<Value> {
    axum::Json(json!({ "status": "ok" }))
}

/// The database answers.
pub(crate) async fn readyz(State(app): State<App>) -> Result<axum::Json<Value>> {
    let query = BatchesQuery { limit: 1, ..BatchesQuery::default() };
    app.store.batches(&Scope::All, query).await?;
    Ok(axum::Json(json!({ "status": "ready" })))
}
