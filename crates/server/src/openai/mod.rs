//! OpenAI's files and batches, as official clients speak them.

pub(crate) mod batches;
mod content;
mod files;
pub(crate) mod ids;
mod list;
mod object;
mod upload;
pub(crate) mod validate;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::routing::{get, post};

use crate::app::App;
use crate::error::{Error, Result};
use crate::options::Options;

/// Everything under `/v1`.
pub(crate) fn routes(options: &Options) -> Router<App> {
    let uploads = Router::new()
        .route("/files", post(upload::upload).get(files::list))
        // Its own bound holds there: nothing is kept in memory.
        .layer(DefaultBodyLimit::disable());
    Router::new()
        .route("/files/{id}", get(files::retrieve).delete(files::delete))
        .route("/files/{id}/content", get(content::content))
        .route("/batches", post(batches::create).get(batches::list))
        .route("/batches/{id}", get(batches::retrieve))
        .route("/batches/{id}/cancel", post(batches::cancel))
        .layer(DefaultBodyLimit::max(options.body_bytes_max))
        .merge(uploads)
}

/// How many rows were asked for, within bounds.
fn limit(asked: Option<u32>, usual: u32, most: u32) -> Result<u32> {
    match asked.unwrap_or(usual) {
        limit if (1..=most).contains(&limit) => Ok(limit),
        _ => Err(Error::invalid("limit", format!("`limit` must be between 1 and {most}."))),
    }
}
