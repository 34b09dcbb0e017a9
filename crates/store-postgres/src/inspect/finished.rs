//! Finished lines, by batch and line.

use bytes::Bytes;
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;
use windrow_domain::BatchId;
use windrow_domain::attempt::Status;
use windrow_store::Scope;
use windrow_store::error::{Error, Kind, Result};
use windrow_store::inspect::{Binding, Cursor, FinishedLine, FinishedQuery, Page};
use windrow_store::record::Finished;

use crate::db::sql;
use crate::{PostgresStore, rows};

const VERB: &str = "list finished lines";
/// Batches looked at before the next look, when a page goes through several.
const BATCHES_AT_ONCE: i64 = 64;

/// The key of a page: the batch and the line it ended at.
type Key = (Uuid, i64);

pub(super) async fn page(
    store: &PostgresStore,
    scope: &Scope,
    query: FinishedQuery,
) -> Result<Page<FinishedLine>> {
    let limit = super::page_limit(VERB, query.limit)?;
    let filters =
        (query.batch, &query.statuses, &query.job_type, query.from, query.to, query.bodies);
    let binding = Binding::new("finished", scope, &filters);
    let after: Option<Key> = Cursor::open(&binding, query.after.as_deref())?;
    let mut lines = Vec::new();
    let mut from = after.map(|key| key.0);
    'batches: loop {
        let batches = batch_ids(store, scope, &query, from).await?;
        for batch in &batches {
            let start = after.filter(|key| key.0 == *batch).map_or(-1, |key| key.1);
            let wanted = limit + 1 - i64::try_from(lines.len()).expect("bounded by PAGE_MAX");
            lines.extend(of_batch(store, &query, *batch, start, wanted).await?);
            if lines.len() as u64 > limit.cast_unsigned() {
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
    Ok(super::page(lines, limit, &binding, |line| (line.batch.0, line.result.line.cast_signed())))
}

async fn batch_ids(
    store: &PostgresStore,
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
    let found = store.db.rows(VERB, &"batches", sql!("inspect/batch_ids"), &params).await?;
    Ok(found.iter().map(|row| row.get("id")).collect())
}

async fn of_batch(
    store: &PostgresStore,
    query: &FinishedQuery,
    batch: Uuid,
    after: i64,
    limit: i64,
) -> Result<Vec<FinishedLine>> {
    let statuses: Option<Vec<i16>> = (!query.statuses.is_empty())
        .then(|| query.statuses.iter().map(|status| status.code()).collect());
    let sql = match query.statuses.is_empty() || query.statuses.contains(&Status::Completed) {
        true => sql!("inspect/finished"),
        false => sql!("inspect/unsuccessful"),
    };
    let params = [
        (&batch as _, Type::UUID),
        (&after as _, Type::INT8),
        (&statuses as _, Type::INT2_ARRAY),
        (&query.from as _, Type::TIMESTAMPTZ),
        (&query.to as _, Type::TIMESTAMPTZ),
        (&limit as _, Type::INT8),
        (&query.bodies as _, Type::BOOL),
    ];
    let found = store.db.rows(VERB, &batch, sql, &params).await?;
    found.iter().map(line).collect()
}

fn line(row: &Row) -> Result<FinishedLine> {
    let status = Status::from_code(row.get("status"))
        .ok_or_else(|| Error::new(Kind::Corrupt, VERB, "status"))?;
    let response: Option<&[u8]> = row.get("response");
    let http: Option<i16> = row.get("http_status");
    Ok(FinishedLine {
        batch: BatchId(row.get("batch_id")),
        lane: rows::lane(row),
        finished_at: row.get("created_at"),
        generation: rows::small(row, "generation"),
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
            error_code: row.get("error_code"),
            error: row.get("error"),
        },
    })
}
