//! `DELETE /api/jobs/{id}`: deletes a finished job and its results.
//!
//! Holds throughout: only a closed job can be deleted, so that no worker loses lines in flight; the
//! input file stays until it expires or is deleted itself. The job's own audit log is deleted with it,
//! so the server's log names the caller that deleted it.

use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;
use windrow_domain::BatchId;
use windrow_store::Kind;

use super::params::{job_id, or_job_not_found};
use crate::app::App;
use crate::auth::Caller;
use crate::error::{Code, Error, Result};
use crate::extract::Path;
use crate::openapi::error_responses::NotFound;

/// A job that was deleted.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = DeletedJob)]
pub(crate) struct Deleted {
    #[schema(value_type = String, format = "uuid")]
    job_id: BatchId,
    /// Always true.
    deleted: bool,
}

/// Deletes a job
///
/// With its results, its outputs and its history; its input file stays. A job that still runs is
/// refused (`job_not_closed`): cancel it first.
#[utoipa::path(
    delete, path = "/jobs/{id}", operation_id = "deleteJob", tag = "Jobs", security(("key" = [])),
    params(("id" = String, Path, format = "uuid")),
    responses((status = 200, description = "The job is deleted.", body = Deleted), NotFound))]
pub(crate) async fn delete(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<axum::Json<Deleted>> {
    let id = job_id(&id)?;
    match app.store.delete_batch(&caller.scope(), id).await {
        Err(error) if error.kind == Kind::Conflict => return Err(not_closed(id)),
        deleted => or_job_not_found(deleted, id)?,
    }
    app.forget_status(id);
    let (owner, address) = (&caller.owner, caller.source_address());
    tracing::info!(batch.id = %id, %owner, by = %caller.key, address, "job deleted");
    Ok(axum::Json(Deleted { job_id: id, deleted: true }))
}

/// A permanent conflict is a 400 in this API, never a 409.
fn not_closed(id: BatchId) -> Error {
    let message = format!(
        "The job is not closed, so it cannot be deleted. Cancel it with POST /api/jobs/{id}/cancel, or \
         wait until it is finished."
    );
    Error::new(Code::JobNotClosed, message)
}
