//! OpenAI's files and batches, as official clients speak them.

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
        // Its own bound holds there: nothing is kept in memory.
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

/// The error of a list that was to go on behind something: that is not there, or somebody else's.
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
