//! `POST /v1/files`: a multipart form with the file and what it is for.

use axum::extract::multipart::MultipartRejection;
use axum::extract::{Multipart, State};
use axum::http::StatusCode;

use super::object::FileObject;
use crate::app::App;
use crate::auth::Caller;
use crate::error::{Error, Result};
use crate::intake::{self, Purpose};

pub(crate) async fn upload(
    State(app): State<App>,
    caller: Caller,
    form: Result<Multipart, MultipartRejection>,
) -> Result<axum::Json<FileObject>> {
    let form = form.map_err(|_| {
        let message = "The body must be a form, with `Content-Type: multipart/form-data` and its \
                       boundary.";
        Error::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", message)
    })?;
    let _permit = intake::permit(&app)?;
    let ingested = intake::receive(&app, &caller, form, Purpose::Said).await?;
    Ok(axum::Json(ingested.file.into()))
}
