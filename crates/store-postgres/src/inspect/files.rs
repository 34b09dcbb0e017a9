//! Files and their bytes.

use bytes::{Bytes, BytesMut};
use tokio_postgres::types::Type;
use windrow_domain::FileId;
use windrow_store::Scope;
use windrow_store::error::{Error, Kind, Result};
use windrow_store::ingest::{File, LineError};
use windrow_store::inspect::{Binding, Cursor, FileLane, FilesQuery, Page, behind};

use super::TimeKey;
use crate::db::sql;
use crate::{PostgresBackend, rows};

pub(super) async fn file(store: &PostgresBackend, scope: &Scope, file: FileId) -> Result<File> {
    let params = [(&file.0 as _, Type::UUID), (&scope.owner() as _, Type::TEXT)];
    let found = store.db.rows(sql!("inspect/file"), &params).await?;
    found.first().ok_or_else(|| Error::of(Kind::Missing)).and_then(rows::file)
}

pub(super) async fn files(
    store: &PostgresBackend,
    scope: &Scope,
    query: FilesQuery,
) -> Result<Page<File>> {
    let limit = i64::from(query.limit);
    let key = |file: &File| (file.created_at, file.id.0);
    let binding = Binding::new("files", scope, &(&query.purpose, query.ascending));
    let after: Option<TimeKey> = match query.after_id {
        Some(id) => Some(key(&behind(file(store, scope, id).await)?)),
        None => Cursor::open(&binding, query.after.as_deref())?,
    };
    let sql = if query.ascending { sql!("inspect/files_ascending") } else { sql!("inspect/files") };
    let params = [
        (&scope.owner() as _, Type::TEXT),
        (&query.purpose as _, Type::TEXT),
        (&after.map(|key| key.0) as _, Type::TIMESTAMPTZ),
        (&after.map(|key| key.1) as _, Type::UUID),
        (&(limit + 1) as _, Type::INT8),
    ];
    let found = store.db.rows(sql, &params).await?;
    let files = found.iter().map(rows::file).collect::<Result<Vec<_>>>()?;
    Ok(super::page(files, limit, &binding, key))
}

pub(super) async fn errors(
    store: &PostgresBackend,
    scope: &Scope,
    file: FileId,
) -> Result<Vec<LineError>> {
    let params = [(&file.0 as _, Type::UUID), (&scope.owner() as _, Type::TEXT)];
    let found = store.db.rows(sql!("inspect/file_errors"), &params).await?;
    let row = found.first().ok_or_else(|| Error::of(Kind::Missing))?;
    match row.get::<_, Option<&str>>("errors") {
        None => Ok(Vec::new()),
        Some(text) => {
            serde_json::from_str(text).map_err(|cause| Error::of(Kind::Corrupt).because(cause))
        }
    }
}

pub(super) async fn lanes(
    store: &PostgresBackend,
    scope: &Scope,
    file: FileId,
) -> Result<Vec<FileLane>> {
    let params = [(&file.0 as _, Type::UUID), (&scope.owner() as _, Type::TEXT)];
    let found = store.db.rows(sql!("inspect/file_lanes"), &params).await?;
    if found.is_empty() {
        return Err(Error::of(Kind::Missing));
    }
    let lanes = found.iter().filter(|row| row.get::<_, Option<i16>>("lane").is_some());
    let read = |row| {
        let (lane, lines) = (rows::lane(row), rows::count(row, "lines"));
        Ok(FileLane { lane, target: rows::target(row)?, lines })
    };
    lanes.map(read).collect()
}

pub(super) async fn chunk_sizes(
    store: &PostgresBackend,
    scope: &Scope,
    file: FileId,
) -> Result<Vec<u64>> {
    let params = [(&file.0 as _, Type::UUID), (&scope.owner() as _, Type::TEXT)];
    let found = store.db.rows(sql!("inspect/chunk_sizes"), &params).await?;
    if found.is_empty() {
        return Err(Error::of(Kind::Missing));
    }
    let sizes = found.iter().filter_map(|row| row.get::<_, Option<i64>>("bytes"));
    Ok(sizes.map(i64::cast_unsigned).collect())
}

pub(super) async fn read_chunk(
    store: &PostgresBackend,
    scope: &Scope,
    file: FileId,
    no: u32,
) -> Result<Bytes> {
    let number = i32::try_from(no).unwrap_or(i32::MAX);
    let params =
        [(&file.0 as _, Type::UUID), (&scope.owner() as _, Type::TEXT), (&number as _, Type::INT4)];
    let found = store.db.rows(sql!("inspect/chunk"), &params).await?;
    let row = found.first().ok_or_else(|| Error::of(Kind::Missing))?;
    let corrupt = |because: &str| Error::of(Kind::Corrupt).because(because);
    let spans = read_spans(row.get("spans")).ok_or_else(|| corrupt("its spans cannot be read"))?;
    let params = [
        (&file.0 as _, Type::UUID),
        (&spans.0 as _, Type::INT2_ARRAY),
        (&spans.1 as _, Type::INT8_ARRAY),
        (&spans.2 as _, Type::INT8_ARRAY),
    ];
    let pieces = store.db.rows(sql!("inspect/chunk_rows"), &params).await?;
    let mut bytes = BytesMut::new();
    pieces.iter().for_each(|piece| bytes.extend_from_slice(piece.get("raw")));
    if bytes.len() as u64 != rows::count(row, "bytes") {
        return Err(corrupt("lines of it are missing"));
    }
    Ok(bytes.freeze())
}

/// `lane:first+count;…` as parallel arrays.
fn read_spans(text: &str) -> Option<(Vec<i16>, Vec<i64>, Vec<i64>)> {
    let (mut lanes, mut firsts, mut counts) = (Vec::new(), Vec::new(), Vec::new());
    for span in text.split(';').filter(|span| !span.is_empty()) {
        let (lane, range) = span.split_once(':')?;
        let (first, count) = range.split_once('+')?;
        lanes.push(lane.parse().ok()?);
        firsts.push(first.parse().ok()?);
        counts.push(count.parse().ok()?);
    }
    Some((lanes, firsts, counts))
}
