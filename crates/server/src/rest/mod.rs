//! The jobs API: what a person's page and a program's script need of batches.
//!
//! Here a batch is a job and a line is an item: `jobId` is the batch's id, `itemId` the line's number
//! in its file. Fields are camelCase, times RFC 3339, lists go by opaque cursors.

mod create;
mod events;
mod export;
mod items;
mod job;
mod jobs;
mod keys;
mod kickoff;
mod pending;
mod reprocess;
mod shared;
mod words;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::routing::{delete, get, post};

use crate::app::App;
use crate::options::Options;
pub(crate) use shared::Shared;

/// Everything under `/api`.
pub(crate) fn routes(options: &Options) -> Router<App> {
    let uploads = Router::new()
        .route("/jobs", post(create::create).get(jobs::list))
        // Its own bound holds there: nothing is kept in memory.
        .layer(DefaultBodyLimit::disable());
    Router::new()
        .route("/jobs/{id}", get(jobs::retrieve))
        .route("/jobs/{id}/pause", post(jobs::pause))
        .route("/jobs/{id}/resume", post(jobs::resume))
        .route("/jobs/{id}/cancel", post(jobs::cancel))
        .route("/jobs/{id}/kickoff", post(kickoff::kickoff))
        .route("/jobs/{id}/reprocess", post(reprocess::reprocess))
        .route("/jobs/{id}/export", get(export::export).post(export::export))
        .route("/jobs/{id}/events", get(events::events))
        .route("/jobs/{id}/items", get(items::list))
        .route("/jobs/{id}/items/{item}/attempts", get(items::attempts))
        .route("/pending", get(pending::list))
        .route("/keys", get(keys::list).post(keys::create))
        .route("/keys/{id}", delete(keys::revoke))
        .layer(DefaultBodyLimit::max(options.body_bytes_max))
        .merge(uploads)
}
