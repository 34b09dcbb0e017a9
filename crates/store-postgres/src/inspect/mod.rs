//! Inspecting: reads for pages, lists, exports and doctors.
//!
//! Holds throughout: the owner is part of every question; pages go by key; nothing here takes a lock that
//! a turn would wait for.

mod files;
mod finished;
mod pending;
mod recipes;
mod rows_page;
mod verify;

use async_trait::async_trait;
use bytes::Bytes;
use jiff::Timestamp;
use tokio_postgres::types::Type;
use uuid::Uuid;
use windrow_domain::attempt::Class;
use windrow_domain::{BatchId, FileId};
use windrow_store::Scope;
use windrow_store::audit_log::{AUDIT_ENTRIES_MAX, AuditEntry};
use windrow_store::batch::Batch;
use windrow_store::error::{Error, Kind, Result};
use windrow_store::ingest::{File, LineError};
use windrow_store::inspect::{
    AttemptCounts, BatchRow, BatchRows, BatchesQuery, Binding, Cursor, FileLane, FilesQuery,
    FinishedLine, FinishedQuery, Holder, Inspect, LaneStatus, Page, PastAttempt, PendingLine,
    PendingQuery, RowsQuery, behind,
};
use windrow_store::recipe::{BatchRecipe, JobDefinition};

use crate::db::sql;
use crate::{PostgresBackend, rows};

#[async_trait]
impl Inspect for PostgresBackend {
    async fn file(&self, scope: &Scope, file: FileId) -> Result<File> {
        files::file(self, scope, file).await
    }

    async fn files(&self, scope: &Scope, query: FilesQuery) -> Result<Page<File>> {
        files::files(self, scope, query).await
    }

    async fn file_errors(&self, scope: &Scope, file: FileId) -> Result<Vec<LineError>> {
        files::errors(self, scope, file).await
    }

    async fn file_lanes(&self, scope: &Scope, file: FileId) -> Result<Vec<FileLane>> {
        files::lanes(self, scope, file).await
    }

    async fn chunk_sizes(&self, scope: &Scope, file: FileId) -> Result<Vec<u64>> {
        files::chunk_sizes(self, scope, file).await
    }

    async fn read_chunk(&self, scope: &Scope, file: FileId, no: u32) -> Result<Bytes> {
        files::read_chunk(self, scope, file, no).await
    }

    async fn batch(&self, scope: &Scope, batch: BatchId) -> Result<Batch> {
        let params = [(&batch.0 as _, Type::UUID), (&scope.owner() as _, Type::TEXT)];
        let found = self.db.rows(sql!("inspect/batch"), &params).await?;
        found.first().ok_or_else(|| Error::of(Kind::Missing)).and_then(rows::batch)
    }

    async fn batches(&self, scope: &Scope, query: BatchesQuery) -> Result<Page<Batch>> {
        let limit = i64::from(query.limit);
        let filters = (&query.states, &query.job_type, query.from, query.to);
        let binding = Binding::new("batches", scope, &filters);
        let key = |batch: &Batch| (batch.created_at, batch.id.0);
        let after: Option<TimeKey> = match query.after_id {
            Some(id) => Some(key(&behind(self.batch(scope, id).await)?)),
            None => Cursor::open(&binding, query.after.as_deref())?,
        };
        let states: Option<Vec<&str>> = (!query.states.is_empty())
            .then(|| query.states.iter().map(|state| state.as_str()).collect());
        let params = [
            (&scope.owner() as _, Type::TEXT),
            (&states as _, Type::TEXT_ARRAY),
            (&query.job_type as _, Type::TEXT),
            (&query.from as _, Type::TIMESTAMPTZ),
            (&query.to as _, Type::TIMESTAMPTZ),
            (&after.map(|key| key.0) as _, Type::TIMESTAMPTZ),
            (&after.map(|key| key.1) as _, Type::UUID),
            (&(limit + 1) as _, Type::INT8),
        ];
        let found = self.db.rows(sql!("inspect/batches"), &params).await?;
        let batches = found.iter().map(rows::batch).collect::<Result<Vec<_>>>()?;
        Ok(page(batches, limit, &binding, key))
    }

    async fn lanes(&self, scope: &Scope, batch: BatchId) -> Result<Vec<LaneStatus>> {
        self.batch(scope, batch).await?;
        let params = [(&batch.0 as _, Type::UUID)];
        let found = self.db.rows(sql!("inspect/lanes"), &params).await?;
        let lane = |row: &tokio_postgres::Row| {
            Ok(LaneStatus {
                lane: rows::lane(row),
                upstream: rows::upstream(row)?,
                target: rows::target(row)?,
                phase: rows::read(row, "phase")?,
                counts: rows::counts(row),
            })
        };
        found.iter().map(lane).collect()
    }

    async fn holders(&self, scope: &Scope, batch: BatchId) -> Result<Vec<Holder>> {
        self.batch(scope, batch).await?;
        let params = [(&batch.0 as _, Type::UUID), (&self.db.now() as _, Type::TIMESTAMPTZ)];
        let found = self.db.rows(sql!("inspect/holders"), &params).await?;
        Ok(found.iter().map(rows::holder).collect())
    }

    async fn audit_log(&self, scope: &Scope, batch: BatchId) -> Result<Vec<AuditEntry>> {
        self.batch(scope, batch).await?;
        let params =
            [(&batch.0 as _, Type::UUID), (&i64::from(AUDIT_ENTRIES_MAX) as _, Type::INT8)];
        let found = self.db.rows(sql!("inspect/acts"), &params).await?;
        let act = |row: &tokio_postgres::Row| AuditEntry {
            at: row.get("at"),
            actor: row.get("actor"),
            address: row.get("address"),
            action: row.get("action"),
        };
        Ok(found.iter().rev().map(act).collect())
    }

    async fn recipes(&self, scope: &Scope, batch: BatchId) -> Result<Vec<BatchRecipe>> {
        recipes::list(self, scope, batch).await
    }

    async fn job_definition(&self, batch: BatchId) -> Result<JobDefinition> {
        recipes::definition(self, batch).await
    }

    async fn attempts(&self, scope: &Scope, batch: BatchId, line: u64) -> Result<Vec<PastAttempt>> {
        let file = self.batch(scope, batch).await?.file;
        let line = i64::try_from(line).unwrap_or(i64::MAX);
        let params = [(&batch.0 as _, Type::UUID), (&line as _, Type::INT8)];
        let found = self.db.rows(sql!("inspect/attempts"), &params).await?;
        if found.is_empty() {
            let params =
                [(&file.0 as _, Type::UUID), (&line as _, Type::INT8), (&batch.0 as _, Type::UUID)];
            let answer = self.db.rows(sql!("inspect/has_line"), &params).await?;
            if !answer.first().is_some_and(|row| row.get("has_line")) {
                return Err(Error::of(Kind::Missing).because(format!("it has no line {line}")));
            }
        }
        let attempt = |row: &tokio_postgres::Row| {
            Ok(PastAttempt {
                generation: rows::small(row, "generation"),
                attempt: rows::small(row, "attempt"),
                times: rows::small(row, "times"),
                class: rows::read(row, "class")?,
                put_back: row.get("put_back"),
                error_code: row.get("error_code"),
                error: row.get("error"),
                not_before: row.get("not_before"),
                created_at: row.get("created_at"),
            })
        };
        found.iter().map(attempt).collect()
    }

    async fn attempt_counts(&self, batch: BatchId, lines: &[u64]) -> Result<Vec<AttemptCounts>> {
        if lines.is_empty() {
            return Ok(Vec::new());
        }
        let lines: Vec<_> = lines.iter().filter_map(|line| i64::try_from(*line).ok()).collect();
        let unknown = Class::ALL.into_iter().filter(|class| !class.is_answered());
        let uncounted = Class::ALL.into_iter().filter(|class| !class.is_counted());
        let params = [
            (&batch.0 as _, Type::UUID),
            (&lines as _, Type::INT8_ARRAY),
            (&unknown.map(Class::as_str).collect::<Vec<_>>() as _, Type::TEXT_ARRAY),
            (&uncounted.map(Class::as_str).collect::<Vec<_>>() as _, Type::TEXT_ARRAY),
            (&Class::NotFound.as_str() as _, Type::TEXT),
            (&Class::Unacceptable.as_str() as _, Type::TEXT),
        ];
        let found = self.db.lone(sql!("inspect/tries"), &params).await?;
        let counts = |row: &tokio_postgres::Row| AttemptCounts {
            line: rows::count(row, "line"),
            tried: rows::small(row, "tried"),
            answered: rows::small(row, "answered"),
            uncounted: rows::small(row, "uncounted"),
            missed: rows::small(row, "missed"),
            since_miss: rows::small(row, "since_miss"),
            unaccepted: rows::small(row, "unaccepted"),
        };
        Ok(found.iter().map(counts).collect())
    }

    async fn pending(&self, scope: &Scope, query: PendingQuery) -> Result<Page<PendingLine>> {
        pending::page(self, scope, query).await
    }

    async fn finished(&self, scope: &Scope, query: FinishedQuery) -> Result<Page<FinishedLine>> {
        finished::page(self, scope, query).await
    }

    async fn rows(&self, scope: &Scope, query: RowsQuery) -> Result<Page<BatchRow>> {
        rows_page::page(self, scope, &query).await
    }

    async fn verify(&self, batch: BatchId) -> Result<BatchRows> {
        verify::read(self, batch).await
    }
}

/// The key of lists by time: when, and which.
pub(crate) type TimeKey = (Timestamp, Uuid);

/// Cuts what was read (one more than asked for, if there is more) to a page.
pub(crate) fn page<T, K: serde::Serialize>(
    rows: Vec<T>,
    limit: i64,
    binding: &Binding,
    key: impl Fn(&T) -> K,
) -> Page<T> {
    let limit = usize::try_from(limit).expect("bounded by PAGE_MAX");
    let more = rows.len() > limit;
    cut(rows, limit, more, binding, key)
}

/// Cuts what was read to a page that ends there; `more` says whether it goes on after it.
pub(crate) fn cut<T, K: serde::Serialize>(
    mut rows: Vec<T>,
    limit: usize,
    more: bool,
    binding: &Binding,
    key: impl Fn(&T) -> K,
) -> Page<T> {
    rows.truncate(limit);
    let last = rows.last().filter(|_| more);
    let next = last.map(|row| Cursor::seal(binding, &key(row)));
    Page { rows, next }
}
