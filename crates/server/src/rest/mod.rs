//! The jobs API under `/api`: what a dashboard and a script need of batches.
//!
//! Here a batch is a job and a line is an item: `jobId` is the batch's id, `itemId` the line's number
//! in its file. Fields are camelCase, times RFC 3339, lists go by opaque cursors.
//!
//! | file | calls |
//! |---|---|
//! | `create`, `deferred_seal` | `POST /api/jobs`: an upload that becomes a job in one step |
//! | `jobs`, `job`, `delete` | list, retrieve, pause, resume, cancel, delete; the job object |
//! | `items`, `attempts`, `pending`, `export` | the items of a job and the attempts of one; pending items of all jobs; results as a table |
//! | `events`, `kickoff`, `reprocess` | follow a job, drive it for a while, run items again |
//! | `keys` | API keys, for admins |
//! | `params`, `queries` | statuses, ids and query parameters of this API |

mod attempts;
mod create;
mod deferred_seal;
mod delete;
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
        // Uploads have their own limit and are not held in memory.
        .layer(DefaultBodyLimit::disable());
    OpenApiRouter::default()
        .routes(routes!(jobs::retrieve, delete::delete))
        .routes(routes!(jobs::pause))
        .routes(routes!(jobs::resume))
        .routes(routes!(jobs::cancel))
        .routes(routes!(jobs::continue_job))
        .routes(routes!(kickoff::kickoff))
        .routes(routes!(reprocess::reprocess))
        .routes(routes!(export::export, export::export_by_post))
        .routes(routes!(events::events))
        .routes(routes!(items::list))
        .routes(routes!(attempts::attempts))
        .routes(routes!(pending::list))
        .routes(routes!(keys::list, keys::create))
        .routes(routes!(keys::revoke))
        .layer(DefaultBodyLimit::max(options.body_bytes_max))
        .merge(uploads)
}
