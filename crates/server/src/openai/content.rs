//! `GET /v1/files/{id}/content`: the exact bytes of an upload, or an output; also while it grows.
//!
//! Holds throughout: a piece at a time is in memory; a slow reader holds no lock and no transaction;
//! only a bounded number of outputs is made at the same time.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use futures_util::stream::{self, BoxStream, StreamExt as _, TryStreamExt as _};
use windrow_domain::{BatchId, Ending, OutputKind};
use windrow_engine::output::{self, Source, StoreRetry};
use windrow_engine::storage;
use windrow_store::ingest::{File, Output};
use windrow_store::{Scope, Store};

use super::files::{FileLookup, find};
use crate::admission::Permit;
use crate::app::App;
use crate::auth::Caller;
use crate::download::{Download, pipe};
use crate::error::{Code, Error, Result};
use crate::extract::Path;
use crate::openapi::Binary;
use crate::openapi::error_responses::{NotFound, RangeNotSatisfiable};
use crate::range::{RequestedRange, read_range};

/// Most bytes of results in memory while an output is built for one reader.
const OUTPUT_BYTES_MAX: u64 = 4 << 20;
/// The header of an output whose batch is still running.
const INCOMPLETE: &str = "x-incomplete";

/// Reads a file
///
/// The exact bytes of an upload, or an output. The output of a batch that is still running is what
/// there is so far, with `X-Incomplete: true`; ranges of it cannot be read.
#[utoipa::path(
    get, path = "/files/{id}/content", operation_id = "readFile", tag = "Files",
    security(("key" = [])),
    params(("id" = String, Path, pattern = "^file-[0-9a-f]{32}$"),
        ("Range" = Option<String>, Header, example = "bytes=0-99",
            description = "One range of bytes; anything else is ignored.")),
    responses(
        (status = 200, description = "The whole file.", content_type = "application/jsonl", body = inline(Binary),
            headers(("X-Incomplete" = String, description = "`true` while the batch is still running."))),
        (status = 206, description = "The requested range.", content_type = "application/jsonl",
            body = inline(Binary), headers(("Content-Range" = String))),
        NotFound, RangeNotSatisfiable))]
pub(crate) async fn content(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Response> {
    let scope = caller.scope();
    match find(&app, &scope, &id).await? {
        FileLookup::Stored(file) => serve_stored(app, &caller, *file, &headers).await,
        FileLookup::Growing { batch, kind, .. } => {
            let permit = app.admission.downloads.try_acquire(&caller.owner)?;
            let bytes = build_output(&app, scope, batch.id, kind, None, permit);
            let mut response = Download::jsonl(&id).of(bytes);
            response.headers_mut().insert(INCOMPLETE, HeaderValue::from_static("true"));
            Ok(response)
        }
    }
}

async fn serve_stored(
    app: App,
    caller: &Caller,
    file: File,
    headers: &HeaderMap,
) -> Result<Response> {
    let scope = caller.scope();
    let download = Download::jsonl(&file.name);
    let range = match read_range(headers, file.bytes) {
        RequestedRange::Whole => 0..file.bytes,
        RequestedRange::Part(range) => range,
        RequestedRange::Unsatisfiable => return Ok(range_not_satisfiable(file.bytes)),
    };
    let bytes = match &file.output {
        None => chunks(&app, scope, &file, range.clone()).await?,
        Some(output) => {
            match app.storage.read_range(&output.place, range.clone()).await {
                Ok(pieces) => pieces.map_err(io::Error::other).boxed(),
                // Another machine's folder, or tidied away: the database has it all, and all of it is
                // what is given, whatever part was asked for.
                Err(error) if error.kind == storage::Kind::Missing => {
                    return rebuild_output(&app, caller, output, &download).await;
                }
                Err(error) => return Err(Error::internal(windrow_store::error::chain(&error))),
            }
        }
    };
    Ok(download.part(bytes, range, file.bytes))
}

/// An output that is built again from the results.
async fn rebuild_output(
    app: &App,
    caller: &Caller,
    of: &Output,
    download: &Download,
) -> Result<Response> {
    let (scope, permit) = (caller.scope(), app.admission.downloads.try_acquire(&caller.owner)?);
    let batch = app.store.batch(&scope, of.batch).await?;
    Ok(download.of(build_output(app, scope, of.batch, of.kind, batch.state.ending(), permit)))
}

type Pieces = BoxStream<'static, io::Result<Bytes>>;

/// An output that is built while it is read.
fn build_output(
    app: &App,
    scope: Scope,
    batch: BatchId,
    kind: OutputKind,
    ending: Option<Ending>,
    permit: Permit,
) -> Pieces {
    let (store, clock) = (app.store.clone(), app.clock.clone());
    pipe(move |mut sink| async move {
        let _permit = permit;
        let source = Source {
            store: &*store,
            scope: &scope,
            batch,
            ending,
            bytes_max: OUTPUT_BYTES_MAX,
            store_retry: StoreRetry::usual(clock),
        };
        let written = match kind {
            OutputKind::Output => output::write(&source, &mut sink, &mut ()).await,
            OutputKind::Errors => output::write(&source, &mut (), &mut sink).await,
        };
        written.map(drop).map_err(io::Error::other)
    })
}

/// The bytes of an upload within a range, from the chunks that have them.
async fn chunks(app: &App, scope: Scope, file: &File, range: Range<u64>) -> Result<Pieces> {
    let sizes = app.store.chunk_sizes(&scope, file.id).await?;
    let (store, id): (Arc<dyn Store>, _) = (app.store.clone(), file.id);
    let scope = Arc::new(scope);
    let wanted = cuts(&sizes, range);
    let pieces = stream::iter(wanted).then(move |(no, cut)| {
        let (store, scope) = (store.clone(), scope.clone());
        async move {
            let chunk = store.read_chunk(&scope, id, no).await.map_err(io::Error::other)?;
            let cut = cut.start.min(chunk.len())..cut.end.min(chunk.len());
            Ok(chunk.slice(cut))
        }
    });
    Ok(pieces.boxed())
}

/// The part of each chunk that a range needs.
fn cuts(sizes: &[u64], range: Range<u64>) -> Vec<(u32, Range<usize>)> {
    let mut start = 0;
    let mut cuts = Vec::new();
    for (no, size) in (0..).zip(sizes) {
        let end = start + size;
        let (from, to) = (range.start.max(start), range.end.min(end));
        if from < to {
            let at = |place: u64| usize::try_from(place - start).unwrap_or(usize::MAX);
            cuts.push((no, at(from)..at(to)));
        }
        start = end;
    }
    cuts
}

/// The error of a range outside the file.
fn range_not_satisfiable(bytes: u64) -> Response {
    let error = Error::new(
        Code::RangeNotSatisfiable,
        format!("The requested range is outside the file, which has {bytes} bytes."),
    );
    let mut response = error.at("Range").into_response();
    if let Ok(value) = HeaderValue::try_from(format!("bytes */{bytes}")) {
        response.headers_mut().insert(header::CONTENT_RANGE, value);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_takes_what_it_needs_of_each_chunk() {
        let sizes = [10, 0, 5, 7];
        assert_eq!(cuts(&sizes, 0..22), [(0, 0..10), (2, 0..5), (3, 0..7)]);
        assert_eq!(cuts(&sizes, 9..11), [(0, 9..10), (2, 0..1)]);
        assert_eq!(cuts(&sizes, 15..16), [(3, 0..1)]);
        assert_eq!(cuts(&sizes, 22..22), []);
    }
}
