//! Files as others see them: complete ones only, and their exact bytes.

use bytes::{Bytes, BytesMut};
use rusqlite::{params, params_from_iter};
use uuid::Uuid;
use windrow_domain::FileId;
use windrow_store::ingest::{File, LineError};
use windrow_store::inspect::{Binding, Cursor, FileLane, FilesQuery, Page, behind};
use windrow_store::{Error, Kind, Result, Scope};

use super::Where;
use crate::ingest::read_file;
use crate::rows;
use crate::tx::{Tx, sql};

pub(super) fn one(tx: &Tx<'_>, scope: &Scope, file: FileId) -> Result<File> {
    let of = params![file.0.into_bytes(), scope.owner()];
    tx.one(sql!("inspect/file"), of, read_file)?.ok_or_else(|| Error::of(Kind::Missing))
}

pub(super) fn page(tx: &Tx<'_>, scope: &Scope, query: &FilesQuery) -> Result<Page<File>> {
    let key = |file: &File| (file.created_at.as_microsecond(), file.id.0);
    let binding = Binding::new("files", scope, &(&query.purpose, query.ascending));
    let after: Option<(i64, Uuid)> = match query.after_id {
        Some(id) => Some(key(&behind(one(tx, scope, id))?)),
        None => Cursor::open(&binding, query.after.as_deref())?,
    };
    let (order, beyond) = if query.ascending {
        ("ASC", "(created_at, id) > (?, ?)")
    } else {
        ("DESC", "(created_at, id) < (?, ?)")
    };
    let mut filter = Where::default();
    filter.maybe("owner = ?", scope.owner().map(str::to_owned));
    filter.maybe("purpose = ?", query.purpose.clone());
    if let Some((at, id)) = after {
        filter.and(beyond, vec![Box::new(at), Box::new(id.into_bytes())]);
    }
    let text = format!(
        "SELECT /* inspect/files */ id, owner, name, purpose, state, lines, bytes, chunks, \
         created_at, sealed_at, expires_at, place, batch_id, endpoint, NULL, original_bytes FROM files \
         WHERE state IN ('sealed', 'invalid'){} \
         ORDER BY created_at {order}, id {order} LIMIT {}",
        filter.text,
        query.limit + 1
    );
    let rows = tx.all(&text, params_from_iter(filter.values), read_file)?;
    Ok(super::page(rows, query.limit, &binding, key))
}

pub(super) fn errors(tx: &Tx<'_>, scope: &Scope, file: FileId) -> Result<Vec<LineError>> {
    let found = one(tx, scope, file)?;
    tx.sure(sql!("inspect/file_errors"), [found.id.0.into_bytes()], |row| match row.get_ref(0)? {
        rusqlite::types::ValueRef::Null => Ok(Vec::new()),
        _ => rows::json(row, 0),
    })
}

pub(super) fn lanes(tx: &Tx<'_>, scope: &Scope, file: FileId) -> Result<Vec<FileLane>> {
    let found = one(tx, scope, file)?;
    tx.all(sql!("inspect/file_lanes"), [found.id.0.into_bytes()], |row| {
        let (lane, lines) = (row.get(0)?, rows::count(row, 2)?);
        Ok(FileLane { lane, target: rows::name(row, 1)?, lines })
    })
}

pub(super) fn chunk_sizes(tx: &Tx<'_>, scope: &Scope, file: FileId) -> Result<Vec<u64>> {
    let found = one(tx, scope, file)?;
    tx.all(sql!("inspect/chunk_sizes"), [found.id.0.into_bytes()], |row| rows::count(row, 0))
}

/// A piece of a chunk: where it belongs, and its place in the buffer.
struct Piece {
    line: u64,
    seq: u64,
    raw: Bytes,
}

pub(super) fn chunk(tx: &Tx<'_>, scope: &Scope, file: FileId, no: u32) -> Result<Bytes> {
    let found = one(tx, scope, file)?;
    let id = found.id.0.into_bytes();
    let spans: Option<String> =
        tx.one(sql!("inspect/chunk_spans"), params![id, no], |row| row.get(0))?;
    let spans = spans.ok_or_else(|| Error::of(Kind::Missing))?;
    let mut pieces = Vec::new();
    for span in spans.split(';').filter(|span| !span.is_empty()) {
        let bad = || tx.corrupt(format!("{span:?} is no span of a chunk"));
        let (lane, first, last) = read_span(span).ok_or_else(bad)?;
        let read = tx.all(sql!("claim/read_lines"), params![id, lane, first, last], |row| {
            let raw = Bytes::copy_from_slice(row.get_ref(2)?.as_blob()?);
            Ok(Piece { seq: rows::count(row, 0)?, line: rows::count(row, 1)?, raw })
        })?;
        pieces.extend(read);
    }
    pieces.sort_by_key(|piece| (piece.line, piece.seq));
    let mut bytes = BytesMut::with_capacity(pieces.iter().map(|piece| piece.raw.len()).sum());
    for piece in &pieces {
        bytes.extend_from_slice(&piece.raw);
    }
    Ok(bytes.freeze())
}

fn read_span(text: &str) -> Option<(i64, i64, i64)> {
    let (lane, range) = text.split_once(':')?;
    let (first, last) = range.split_once('-')?;
    Some((lane.parse().ok()?, first.parse().ok()?, last.parse().ok()?))
}
