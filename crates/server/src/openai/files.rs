//! `/v1/files`: lists, retrieves and deletes files.

use std::collections::HashMap;

use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use windrow_domain::{BatchId, FileId, OutputKind, State as BatchState};
use windrow_store::batch::Batch;
use windrow_store::ingest::File;
use windrow_store::inspect::{BatchesQuery, FilesQuery, PAGE_MAX};
use windrow_store::{Kind, Scope};

use super::ids;
use super::list::List;
use super::object::{FileObject, FileTag, Outputs, growing_output};
use crate::app::App;
use crate::auth::Caller;
use crate::error::{Code, Error, Result};
use crate::extract::{Path, Query};
use crate::openapi::error_responses::NotFound;
use crate::params;

/// Most files of one page.
const LIMIT_MAX: u32 = 10_000;
const PURPOSE_BYTES_MAX: usize = 64;

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListQuery {
    /// Only files with this purpose: `batch` or `batch_output`.
    #[param(max_length = 64, pattern = "^[a-zA-Z0-9_-]+$")]
    purpose: Option<String>,
    /// How many files.
    #[param(minimum = 1, maximum = 10000, default = 10000)]
    limit: Option<u32>,
    /// By creation time; `desc` by default.
    #[param(inline, nullable = false)]
    order: Option<Order>,
    /// The last id of the previous page.
    #[param(pattern = "^file-[0-9a-f]{32}$")]
    after: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Order {
    Asc,
    Desc,
}

/// A file that was deleted.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = DeletedFile)]
pub(crate) struct Deleted {
    id: String,
    #[schema(inline)]
    object: FileTag,
    deleted: bool,
}

/// Lists files
#[utoipa::path(
    get, path = "/files", operation_id = "listFiles", tag = "Files", security(("key" = [])),
    params(ListQuery),
    responses((status = 200, description = "A page of files.", body = List<FileObject>), NotFound))]
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<ListQuery>,
) -> Result<axum::Json<List<FileObject>>> {
    let limit = params::limit("limit", query.limit, LIMIT_MAX, LIMIT_MAX)?;
    let after = query.after.as_deref();
    query.purpose.as_deref().map(check_purpose).transpose()?;
    let mut page = FilesQuery {
        after_id: after
            .map(ids::parse_file)
            .transpose()
            .map_err(|_| ids::invalid_cursor("file"))?,
        purpose: query.purpose,
        ascending: query.order == Some(Order::Asc),
        limit: limit.min(PAGE_MAX),
        ..FilesQuery::default()
    };
    let (scope, mut files, mut has_more) = (caller.own(), Vec::new(), true);
    while has_more && files.len() < limit as usize {
        page.limit = PAGE_MAX.min(limit - u32::try_from(files.len()).unwrap_or(limit));
        let found = app.store.files(&scope, page.clone()).await;
        let found = found.map_err(|error| super::behind(error, after, ids::file_not_found))?;
        files.extend(found.rows);
        has_more = found.next.is_some();
        (page.after, page.after_id) = (found.next, None);
    }
    let again = if files.iter().any(|file| file.output.is_some()) {
        run_again(&app, &scope).await?
    } else {
        HashMap::new()
    };
    let shown = |file: File| match &file.output {
        Some(output) if again.contains_key(&output.batch) => {
            let batch = &again[&output.batch];
            growing_output(batch, file.id, output_name(batch, output.kind))
        }
        _ => file.into(),
    };
    let data = files.into_iter().map(shown).collect();
    Ok(axum::Json(List::new(data, has_more, |file: &FileObject| file.id.clone())))
}

/// Batches that were closed and run again: their outputs are not final any more.
async fn run_again(app: &App, scope: &Scope) -> Result<HashMap<BatchId, Batch>> {
    let states = BatchState::ALL.into_iter().filter(|state| !state.is_closed()).collect();
    let mut page = BatchesQuery { states, limit: PAGE_MAX, ..BatchesQuery::default() };
    let mut again = HashMap::new();
    loop {
        let found = app.store.batches(scope, page.clone()).await?;
        let rows = found.rows.into_iter().filter(|batch| batch.generation > 0);
        again.extend(rows.map(|batch| (batch.id, batch)));
        page.after = found.next;
        if page.after.is_none() {
            return Ok(again);
        }
    }
}

/// A purpose that no file has is fine; a text that is not a word is not.
fn check_purpose(purpose: &str) -> Result<()> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    if (1..=PURPOSE_BYTES_MAX).contains(&purpose.len()) && purpose.bytes().all(plain) {
        Ok(())
    } else {
        Err(Error::invalid("purpose", "`purpose` must be a word such as `batch`."))
    }
}

/// Retrieves a file
#[utoipa::path(
    get, path = "/files/{id}", operation_id = "retrieveFile", tag = "Files",
    security(("key" = [])), params(("id" = String, Path, pattern = "^file-[0-9a-f]{32}$")),
    responses((status = 200, description = "The file.", body = FileObject), NotFound))]
pub(crate) async fn retrieve(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<axum::Json<FileObject>> {
    let found = find(&app, &caller.scope(), &id).await?;
    Ok(axum::Json(match found {
        FileLookup::Stored(file) => (*file).into(),
        FileLookup::Growing { batch, kind, id } => {
            growing_output(&batch, id, output_name(&batch, kind))
        }
    }))
}

/// Deletes a file
///
/// A file that a batch still needs cannot be deleted.
#[utoipa::path(
    delete, path = "/files/{id}", operation_id = "deleteFile", tag = "Files",
    security(("key" = [])), params(("id" = String, Path, pattern = "^file-[0-9a-f]{32}$")),
    responses((status = 200, description = "The file was deleted.", body = Deleted), NotFound))]
pub(crate) async fn delete(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<axum::Json<Deleted>> {
    let file = ids::parse_file(&id)?;
    match app.store.drop_file(&caller.scope(), file).await {
        Ok(()) => {
            Ok(axum::Json(Deleted { id: ids::file(file), object: FileTag::File, deleted: true }))
        }
        Err(error) if error.kind == Kind::Missing => Err(ids::file_not_found(&id)),
        Err(error) if error.kind == Kind::Conflict => Err(Error::new(
            Code::FileInUse,
            "An open batch still needs this file; wait until it has ended, or cancel it.",
        )),
        Err(error) => Err(error.into()),
    }
}

/// The file that an id names.
pub(crate) enum FileLookup {
    /// A complete file.
    Stored(Box<File>),
    /// An output of a batch that is still running.
    Growing { batch: Box<Batch>, kind: OutputKind, id: FileId },
}

/// The file with that id, or the output that it will be.
pub(crate) async fn find(app: &App, scope: &Scope, text: &str) -> Result<FileLookup> {
    let id = ids::parse_file(text)?;
    let missing = match app.store.file(scope, id).await {
        Ok(file) => return current_state(app, scope, file).await,
        Err(error) if error.kind == Kind::Missing => ids::file_not_found(text),
        Err(error) => return Err(error.into()),
    };
    let Some((batch, kind)) = id.source() else { return Err(missing) };
    let batch = match app.store.batch(scope, batch).await {
        Ok(batch) => batch,
        Err(error) if error.kind == Kind::Missing => return Err(missing),
        Err(error) => return Err(error.into()),
    };
    // A closed batch has its outputs as files; what is missing was deleted, or never existed.
    let outputs = Outputs::of(&batch);
    let begun = match kind {
        OutputKind::Output => outputs.output.is_some(),
        OutputKind::Errors => outputs.errors.is_some(),
    };
    if begun && !batch.state.is_closed() {
        Ok(FileLookup::Growing { batch: Box::new(batch), kind, id })
    } else {
        Err(missing)
    }
}

/// An output of a batch that was reprocessed is not final any more.
async fn current_state(app: &App, scope: &Scope, file: File) -> Result<FileLookup> {
    let Some(output) = &file.output else { return Ok(FileLookup::Stored(Box::new(file))) };
    match app.store.batch(scope, output.batch).await {
        Ok(batch) if !batch.state.is_closed() => {
            Ok(FileLookup::Growing { batch: Box::new(batch), kind: output.kind, id: file.id })
        }
        Ok(_) => Ok(FileLookup::Stored(Box::new(file))),
        // A batch may be deleted before its outputs.
        Err(error) if error.kind == Kind::Missing => Ok(FileLookup::Stored(Box::new(file))),
        Err(error) => Err(error.into()),
    }
}

fn output_name(batch: &Batch, kind: OutputKind) -> String {
    let batch = ids::batch(batch.id);
    match kind {
        OutputKind::Output => format!("{batch}_output.jsonl"),
        OutputKind::Errors => format!("{batch}_errors.jsonl"),
    }
}
