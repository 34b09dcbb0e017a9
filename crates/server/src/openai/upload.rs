//! `POST /v1/files`: a multipart form with the file and what it is for.

use axum::extract::{Request, State};
use utoipa::ToSchema;

use super::object::FileObject;
use crate::app::App;
use crate::auth::Caller;
use crate::error::{Code, Error, Result};
use crate::openapi::error_responses::{PayloadTooLarge, RequestTimeout, UnsupportedMediaType};
use crate::upload::{self, Anchor, MultipartForm, Purpose};

/// The parts of the form, in any order.
#[derive(ToSchema)]
#[expect(dead_code, reason = "the parts are read as they come; here they are only described")]
pub(crate) struct NewFile {
    #[schema(inline)]
    purpose: NewFilePurpose,
    /// Requires `expires_after[seconds]`.
    #[schema(inline, nullable = false, rename = "expires_after[anchor]")]
    anchor: Option<Anchor>,
    /// How long the file is kept.
    #[schema(
        rename = "expires_after[seconds]",
        nullable = false,
        minimum = 3600,
        maximum = 2592000
    )]
    seconds: Option<u64>,
    /// One request per line.
    #[schema(value_type = String, format = Binary)]
    file: Vec<u8>,
}

/// The purpose of an upload.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
#[expect(dead_code, reason = "only described")]
enum NewFilePurpose {
    Batch,
}

/// Uploads a file
///
/// It is stored and validated as it arrives. A file with errors is kept, with the status `error`;
/// a batch over it fails, and lists them.
#[utoipa::path(
    post, path = "/files", operation_id = "uploadFile", tag = "Files", security(("key" = [])),
    request_body(content = NewFile, content_type = "multipart/form-data"),
    responses((status = 200, description = "The file.", body = FileObject), RequestTimeout, PayloadTooLarge,
        UnsupportedMediaType))]
pub(crate) async fn upload(
    State(app): State<App>,
    caller: Caller,
    request: Request,
) -> Result<axum::Json<FileObject>> {
    let form = MultipartForm::from_request(&app, request).await.ok_or_else(|| {
        let message = "The body must be a multipart form, with `Content-Type: multipart/form-data` \
                    and its boundary.";
        Error::new(Code::UnsupportedMediaType, message)
    })?;
    let (taker, permit) = (app.clone(), app.admission.uploads.try_acquire(&caller.owner)?);
    // A client that disconnects leaves nothing behind.
    let taking = async move {
        let _permit = permit;
        upload::store_form(&taker, &*taker.store, &caller, form, Purpose::FormField).await
    };
    let ingested = app.tasks.run_detached(taking).await?;
    Ok(axum::Json(ingested.file.into()))
}
