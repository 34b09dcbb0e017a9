//! The jobs API: what a person's page and a program's script need of batches.
//!
//! Here a batch is a job and a line is an item: `jobId` is the batch's id, `itemId` the line's number
//! in its file. Fields are camelCase, times RFC 3339, lists go by opaque cursors.

mod create;
mod deferred_seal;
mod events;
mod export;
mod items;
pub(crate) mod job;
mod jobs;
mod keys;
mod kickoff;
mod params;
mod pending;
mod queries;
mod reprocess;

use axum::extract::DefaultBodyLimit;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::App;
use crate::options::Options;

/// Everything under `/api`.
pub(crate) fn routes(options: &Options) -> OpenApiRouter<App> {
    let uploads = OpenApiRouter::default()
        .routes(routes!(create::create, jobs::list))
        // Its own bound holds there: nothing is kept in memory.
        .layer(DefaultBodyLimit::disable());
    OpenApiRouter::default()
        .routes(routes!(jobs::retrieve))
        .routes(routes!(jobs::pause))
        .routes(routes!(jobs::resume))
        .routes(routes!(jobs::cancel))
        .routes(routes!(kickoff::kickoff))
        .routes(routes!(reprocess::reprocess))
        .routes(routes!(export::export, export::export_by_post))
        .routes(routes!(events::events))
        .routes(routes!(items::list))
        .routes(routes!(items::attempts))
        .routes(routes!(pending::list))
        .routes(routes!(keys::list, keys::create))
        .routes(routes!(keys::revoke))
        .layer(DefaultBodyLimit::max(options.body_bytes_max))
        .merge(uploads)
}
