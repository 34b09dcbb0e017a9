//! `/api/jobs/{id}/export`: the finished items as a table, made while it is read.
//!
//! Holds throughout: one page of results at a time is in memory; a slow reader holds no lock and no
//! transaction; no cell starts with what a spreadsheet would take for a formula.

use std::io;

use axum::extract::State;
use axum::response::Response;
use bytes::BytesMut;
use serde::Deserialize;
use tokio::io::AsyncReadExt as _;
use utoipa::{IntoParams, ToSchema};
use windrow_domain::BatchId;
use windrow_engine::export::{self, Column, Export, Format};
use windrow_store::Scope;

use super::params::{self, ItemOutcome, job_id, or_job_not_found};
use crate::app::App;
use crate::audit_log::{Action, note};
use crate::auth::Caller;
use crate::download::{Download, Pipe, pipe};
use crate::error::{Error, Result};
use crate::extract::{Path, Query};
use crate::openapi::Binary;
use crate::openapi::error_responses::NotFound;

/// Most columns of an export.
const COLUMNS_MAX: usize = 100;
/// Bytes that go out at once.
const PIECE_BYTES: usize = 64 << 10;

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct ExportQuery {
    /// `jsonl` by default.
    #[param(value_type = Option<ExportFormat>, inline, nullable = false)]
    format: Option<String>,
    /// Separated by commas; all but `earlier` and parts of the response by default.
    #[param(value_type = Option<Vec<ExportColumn>>, inline, max_items = 100, style = Form,
        explode = false)]
    columns: Option<String>,
    /// Only items with these statuses, separated by commas.
    #[param(value_type = Option<Vec<ItemOutcome>>, inline, style = Form, explode = false)]
    statuses: Option<String>,
}

/// The format of an export.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
#[expect(dead_code, reason = "only described: the engine reads the words")]
enum ExportFormat {
    Jsonl,
    Csv,
    Xlsx,
}

/// A column, or a part of the response by its JSON pointer.
#[derive(ToSchema)]
#[schema(value_type = String, example = "response:/choices/0/message/content",
    pattern = "^(line|custom_id|target|status|attempts|http_status|error_code|error|finished_at|earlier|response|response:/[^,\\u0000-\\u0020]*)$")]
#[expect(dead_code, reason = "only described: the engine reads the words")]
struct ExportColumn(String);

/// Exports the finished items of a job
///
/// The finished items in the columns of docs/export.md, made while they are read.
#[utoipa::path(
    get, path = "/jobs/{id}/export", operation_id = "exportJob", tag = "Items", security(("key" = [])),
    params(("id" = String, Path, format = "uuid"), ExportQuery),
    responses((status = 200, description = "The finished items as a table.", content(
        (inline(Binary) = "application/jsonl"), (inline(Binary) = "text/csv"),
        (inline(Binary) = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"))), NotFound))]
pub(crate) async fn export(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    Query(query): Query<ExportQuery>,
) -> Result<Response> {
    let (id, scope) = (job_id(&id)?, caller.scope());
    let export = read(&query)?;
    or_job_not_found(app.store.batch(&scope, id).await, id)?;
    let permit = app.admission.exports.try_acquire(&caller.owner)?;
    note(&app, &caller, id, Action::Export).await;
    let download = label(export.format, id);
    let bytes = pipe(move |pipe| async move {
        let _permit = permit;
        write(&app, &scope, id, &export, &pipe).await
    });
    Ok(download.of(bytes))
}

/// Exports the finished items of a job
///
/// The same as with GET, for clients that prefetch links.
#[utoipa::path(
    post, path = "/jobs/{id}/export", operation_id = "exportJobByPost", tag = "Items", security(("key" = [])),
    params(("id" = String, Path, format = "uuid"), ExportQuery),
    responses((status = 200, description = "The finished items as a table.", content(
        (inline(Binary) = "application/jsonl"), (inline(Binary) = "text/csv"),
        (inline(Binary) = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"))), NotFound))]
pub(crate) async fn export_by_post(
    app: State<App>,
    caller: Caller,
    id: Path<String>,
    query: Query<ExportQuery>,
) -> Result<Response> {
    export(app, caller, id, query).await
}

fn read(query: &ExportQuery) -> Result<Export> {
    let format = query.format.as_deref().unwrap_or("jsonl");
    let format = format.parse::<Format>();
    let format = format.map_err(|unknown| Error::invalid("format", sentence(&unknown)))?;
    let statuses = params::outcomes(query.statuses.as_deref())?;
    let mut export = Export { format, statuses, defuse: true, ..Export::default() };
    let named = query.columns.as_deref().unwrap_or_default();
    if !named.is_empty() {
        let columns = named.split(',').map(|word| word.trim().parse::<Column>());
        let columns: std::result::Result<Vec<_>, _> = columns.take(COLUMNS_MAX + 1).collect();
        export.columns =
            columns.map_err(|unknown| Error::invalid("columns", sentence(&unknown)))?;
    }
    if export.columns.len() <= COLUMNS_MAX {
        Ok(export)
    } else {
        let message = format!("An export may have at most {COLUMNS_MAX} columns.");
        Err(Error::invalid("columns", message))
    }
}

/// The error as a sentence of bounded length: it repeats what the caller sent.
fn sentence(unknown: &impl std::fmt::Display) -> String {
    let text = unknown.to_string();
    let short: String = text.chars().take(400).collect();
    format!("{short}.")
}

fn label(format: Format, id: BatchId) -> Download {
    let (content_type, ending) = match format {
        Format::Jsonl => ("application/jsonl", "jsonl"),
        Format::Csv => ("text/csv; charset=utf-8", "csv"),
        Format::Xlsx => {
            ("application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", "xlsx")
        }
    };
    Download::new(content_type, &format!("{id}.{ending}"))
}

/// Passes on what the export writes, a piece at a time.
async fn write(
    app: &App,
    scope: &Scope,
    id: BatchId,
    export: &Export,
    pipe: &Pipe,
) -> io::Result<()> {
    let (mut writer, mut reader) = tokio::io::duplex(PIECE_BYTES);
    let writing = async move {
        let written = export.write(&*app.store, scope, id, &mut writer).await;
        written.map(drop).map_err(|error| match error {
            export::Error::Write(error) => error,
            other => io::Error::other(other),
        })
    };
    let reading = async move {
        loop {
            let mut piece = BytesMut::with_capacity(PIECE_BYTES);
            if reader.read_buf(&mut piece).await? == 0 {
                return Ok(());
            }
            pipe.put(piece.freeze()).await?;
        }
    };
    tokio::try_join!(writing, reading).map(drop)
}

#[cfg(test)]
mod tests {
    use utoipa::PartialSchema as _;

    use super::*;

    #[test]
    fn the_described_pattern_has_every_named_column() {
        let schema = serde_json::to_value(ExportColumn::schema()).unwrap();
        let pattern = schema["pattern"].as_str().unwrap();
        let words = pattern.strip_prefix("^(").and_then(|rest| rest.strip_suffix(")$")).unwrap();
        let words: Vec<&str> = words.split('|').collect();
        for column in Column::NAMED {
            let name = column.to_string();
            assert!(words.contains(&name.as_str()), "{name} is not in {pattern}");
        }
        // The last one stands for parts of the response.
        assert_eq!(words.len(), Column::NAMED.len() + 1, "{pattern}");
    }
}
