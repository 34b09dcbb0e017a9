//! OpenAI's files and batches, as the official clients speak them.
//!
//! | file | calls |
//! |---|---|
//! | `upload` | `POST /v1/files` |
//! | `files`, `content` | list, retrieve, delete a file; read its bytes |
//! | `batches`, `validate` | create, retrieve, cancel, list batches; check a batch against its file |
//! | `object`, `list`, `ids`, `model` | the objects and ids of the contract |

mod batches;
mod content;
mod files;
pub(crate) mod ids;
mod list;
mod model;
pub(crate) mod object;
mod upload;
mod validate;

use axum::extract::DefaultBodyLimit;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(crate) use model::Models;

use crate::app::App;
use crate::error::Error;
use crate::options::Options;

/// Everything under `/v1`.
pub(crate) fn routes(options: &Options) -> OpenApiRouter<App> {
    let uploads = OpenApiRouter::default()
        .routes(routes!(upload::upload, files::list))
        // Uploads have their own limit and are not held in memory.
        .layer(DefaultBodyLimit::disable());
    OpenApiRouter::default()
        .routes(routes!(files::retrieve, files::delete))
        .routes(routes!(content::content))
        .routes(routes!(batches::create, batches::list))
        .routes(routes!(batches::retrieve))
        .routes(routes!(batches::cancel))
        .layer(DefaultBodyLimit::max(options.body_bytes_max))
        .merge(uploads)
}

/// The error of a list whose `after` does not exist, or belongs to another owner.
fn behind(
    error: windrow_store::Error,
    after: Option<&str>,
    missing: impl FnOnce(&str) -> Error,
) -> Error {
    match (error.kind, after) {
        (windrow_store::Kind::Invalid, Some(after)) => missing(after).at("after"),
        _ => error.into(),
    }
}
