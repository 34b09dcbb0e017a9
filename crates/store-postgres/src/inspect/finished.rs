//! Finished lines, by batch and line.

use bytes::Bytes;
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;
use windrow_domain::BatchId;
use windrow_domain::attempt::Status;
use windrow_store::Scope;
use windrow_store::error::Result;
use windrow_store::inspect::{Binding, Cursor, FinishedLine, FinishedQuery, Page};
use windrow_store::record::Finished;

use crate::db::{Sql, sql};
use crate::{PostgresBackend, rows};
/// Batches that one statement reads, when a page goes through several; the next ones take another.
const BATCHES_AT_ONCE: i64 = 64;

/// The key of a page: the batch and the line it ended at.
type Key = (Uuid, i64);

pub(super) async fn page(
    store: &PostgresBackend,
    scope: &Scope,
    query: FinishedQuery,
) -> Result<Page<FinishedLine>> {
    let limit = i64::from(query.limit);
    let filters = (query.batch, &query.statuses, &query.job_type, query.from, query.to);
    let filters = (filters, query.line, &query.custom_id);
    let binding = match &query.error_code {
        Some(code) => Binding::new("finished", scope, &(filters, code)),
        None => Binding::new("finished", scope, &filters),
    };
    let after: Option<Key> = Cursor::open(&binding, query.after.as_deref())?;
    let (mut lines, mut left, mut is_full) = (Vec::new(), query.bytes_max, false);
    let mut from = after.map(|key| key.0);
    'batches: loop {
        let batches = batch_ids(store, scope, &query, from).await?;
        for batch in &batches {
            let start = after.filter(|key| key.0 == *batch).map_or(-1, |key| key.1);
            let wanted = limit + 1 - i64::try_from(lines.len()).expect("bounded by PAGE_MAX");
            let room = Room { rows: wanted, bytes: left, first: lines.is_empty() };
            let part = of_batch(store, &query, *batch, start, &room).await?;
            is_full = part.unread.is_some();
            let bytes = part.lines.iter().map(FinishedLine::body_bytes).sum();
            left = left.map(|left| left.saturating_sub(bytes));
            lines.extend(part.lines);
            if is_full || lines.len() as u64 > limit.cast_unsigned() {
                break 'batches;
            }
        }
        match batches.last() {
            Some(last) if batches.len() as u64 == BATCHES_AT_ONCE.cast_unsigned() => {
                from = Uuid::from_u128(last.as_u128() + 1).into();
            }
            _ => break,
        }
    }
    let limit = usize::try_from(limit).expect("bounded by PAGE_MAX");
    let more = is_full || lines.len() > limit;
    let key = |line: &FinishedLine| (line.batch.0, line.result.line.cast_signed());
    Ok(super::cut(lines, limit, more, &binding, key))
}

/// What a page can still take.
struct Room {
    rows: i64,
    bytes: Option<u64>,
    /// Nothing is in it yet: it takes one row whatever its size.
    first: bool,
}

/// What a batch gave to a page.
struct LinesOfBatch {
    lines: Vec<FinishedLine>,
    /// The next line, when there is no room for its bodies.
    unread: Option<u64>,
}

async fn batch_ids(
    store: &PostgresBackend,
    scope: &Scope,
    query: &FinishedQuery,
    from: Option<Uuid>,
) -> Result<Vec<Uuid>> {
    let params = [
        (&scope.owner() as _, Type::TEXT),
        (&query.batch.map(|batch| batch.0) as _, Type::UUID),
        (&query.job_type as _, Type::TEXT),
        (&from as _, Type::UUID),
        (&BATCHES_AT_ONCE as _, Type::INT8),
    ];
    let found = store.db.rows(sql!("inspect/batch_ids"), &params).await?;
    Ok(found.iter().map(|row| row.get("id")).collect())
}

async fn of_batch(
    store: &PostgresBackend,
    query: &FinishedQuery,
    batch: Uuid,
    after: i64,
    room: &Room,
) -> Result<LinesOfBatch> {
    let sql = if query.error_code.is_some() {
        sql!("inspect/by_code")
    } else if query.statuses.is_empty() || query.statuses.contains(&Status::Completed) {
        sql!("inspect/finished")
    } else {
        sql!("inspect/unsuccessful")
    };
    let current = read(store, sql, query, batch, after, room).await?;
    if !(query.earlier && query.batch.is_some()) {
        return Ok(current);
    }
    let earlier = sql!("inspect/finished_before");
    Ok(current.merge(read(store, earlier, query, batch, after, room).await?, room))
}

async fn read(
    store: &PostgresBackend,
    sql: Sql,
    query: &FinishedQuery,
    batch: Uuid,
    after: i64,
    room: &Room,
) -> Result<LinesOfBatch> {
    let statuses: Option<Vec<i16>> = (!query.statuses.is_empty())
        .then(|| query.statuses.iter().map(|status| status.code()).collect());
    let bytes = room.bytes.map(|bytes| i64::try_from(bytes).unwrap_or(i64::MAX));
    // One line is a range of the key with one place in it.
    let only = query.line.map(|line| i64::try_from(line).unwrap_or(i64::MAX));
    let after = only.map_or(after, |line| after.max(line.saturating_sub(1)));
    let params = [
        (&batch as _, Type::UUID),
        (&after as _, Type::INT8),
        (&statuses as _, Type::INT2_ARRAY),
        (&query.from as _, Type::TIMESTAMPTZ),
        (&query.to as _, Type::TIMESTAMPTZ),
        (&room.rows as _, Type::INT8),
        (&query.bodies as _, Type::BOOL),
        (&bytes as _, Type::INT8),
        (&room.first as _, Type::BOOL),
        (&only as _, Type::INT8),
        (&query.custom_id as _, Type::TEXT),
        (&query.error_code as _, Type::TEXT),
    ];
    let mut found = store.db.rows(sql, &params).await?;
    let fit = found.iter().take_while(|row| row.get("fits")).count();
    let unread = found.get(fit).map(|row| rows::count(row, "line"));
    found.truncate(fit);
    Ok(LinesOfBatch { lines: found.iter().map(line).collect::<Result<_>>()?, unread })
}

impl LinesOfBatch {
    /// These and earlier results of other lines, in order, as far as both were read and fit together.
    fn merge(mut self, other: Self, room: &Room) -> Self {
        let earlier = other.lines.into_iter().map(|line| FinishedLine { earlier: true, ..line });
        self.lines.extend(earlier);
        self.lines.sort_unstable_by_key(|line| line.result.line);
        let mut unread = [self.unread, other.unread].into_iter().flatten().min();
        if let Some(unread) = unread {
            self.lines.retain(|line| line.result.line < unread);
        }
        let (left, mut sum) = (room.bytes.unwrap_or(u64::MAX), 0_u64);
        let fits = self.lines.iter().take_while(|line| {
            sum = sum.saturating_add(line.body_bytes());
            sum <= left
        });
        let fit = fits.count().max(usize::from(room.first));
        if let Some(line) = self.lines.get(fit) {
            unread = Some(line.result.line);
            self.lines.truncate(fit);
        }
        Self { lines: self.lines, unread }
    }
}

/// Reads a result with its batch, lane and line.
pub(super) fn line(row: &Row) -> Result<FinishedLine> {
    let status = Status::from_code(row.get("status"))
        .ok_or_else(|| rows::corrupt("status", "no such status"))?;
    let response: Option<&[u8]> = row.get("response");
    let http: Option<i16> = row.get("http_status");
    Ok(FinishedLine {
        batch: BatchId(row.get("batch_id")),
        lane: rows::lane(row),
        finished_at: row.get("created_at"),
        generation: rows::small(row, "generation"),
        earlier: false,
        result: Finished {
            seq: rows::count(row, "seq"),
            line: rows::count(row, "line"),
            status,
            attempts: rows::small(row, "attempts"),
            custom_id: row.get("custom_id"),
            http_status: http.map(i16::cast_unsigned),
            response: response.map(Bytes::copy_from_slice),
            shaped: row.get("shaped"),
            normalised: row.get("normalised"),
            class: rows::read_opt(row, "class")?,
            error_code: row.get("error_code"),
            error: row.get("error"),
        },
    })
}
