//! Inspecting: reads for pages, lists, exports and doctors, each in one snapshot.
//!
//! Holds throughout: the owner is part of every question; pages go by key. The list pages compose
//! their text, from the fixed conditions in these files and never from a caller's words.

mod batches;
pub(crate) mod calls;
mod files;
mod finished;
mod pending;
mod recipes;
mod rows;
mod verify;

use async_trait::async_trait;
use bytes::Bytes;
use rusqlite::ToSql;
use windrow_domain::{BatchId, FileId};
use windrow_store::audit_log::AuditEntry;
use windrow_store::batch::Batch;
use windrow_store::ingest::{File, LineError};
use windrow_store::inspect::{
    AttemptCounts, BatchRow, BatchRows, BatchesQuery, Binding, Cursor, FileLane, FilesQuery,
    FinishedLine, FinishedQuery, Holder, Inspect, LaneStatus, Page, PastAttempt, PendingLine,
    PendingQuery, RowsQuery,
};
use windrow_store::recipe::{BatchRecipe, JobDefinition};
use windrow_store::{Result, Scope};

use crate::{SqliteBackend, batch};

#[async_trait]
impl Inspect for SqliteBackend {
    async fn file(&self, scope: &Scope, file: FileId) -> Result<File> {
        let scope = scope.clone();
        self.read(move |tx| files::one(tx, &scope, file)).await
    }

    async fn files(&self, scope: &Scope, query: FilesQuery) -> Result<Page<File>> {
        let scope = scope.clone();
        self.read(move |tx| files::page(tx, &scope, &query)).await
    }

    async fn file_errors(&self, scope: &Scope, file: FileId) -> Result<Vec<LineError>> {
        let scope = scope.clone();
        self.read(move |tx| files::errors(tx, &scope, file)).await
    }

    async fn file_lanes(&self, scope: &Scope, file: FileId) -> Result<Vec<FileLane>> {
        let scope = scope.clone();
        self.read(move |tx| files::lanes(tx, &scope, file)).await
    }

    async fn chunk_sizes(&self, scope: &Scope, file: FileId) -> Result<Vec<u64>> {
        let scope = scope.clone();
        self.read(move |tx| files::chunk_sizes(tx, &scope, file)).await
    }

    async fn read_chunk(&self, scope: &Scope, file: FileId, no: u32) -> Result<Bytes> {
        let scope = scope.clone();
        self.read(move |tx| files::chunk(tx, &scope, file, no)).await
    }

    async fn batch(&self, scope: &Scope, id: BatchId) -> Result<Batch> {
        let scope = scope.clone();
        self.read(move |tx| batch::find(tx, &scope, id)).await
    }

    async fn batches(&self, scope: &Scope, query: BatchesQuery) -> Result<Page<Batch>> {
        let scope = scope.clone();
        self.read(move |tx| batches::page(tx, &scope, &query)).await
    }

    async fn lanes(&self, scope: &Scope, id: BatchId) -> Result<Vec<LaneStatus>> {
        let scope = scope.clone();
        self.read(move |tx| batches::lanes(tx, &scope, id)).await
    }

    async fn holders(&self, scope: &Scope, id: BatchId) -> Result<Vec<Holder>> {
        let scope = scope.clone();
        self.read(move |tx| batches::holders(tx, &scope, id)).await
    }

    async fn audit_log(&self, scope: &Scope, id: BatchId) -> Result<Vec<AuditEntry>> {
        let scope = scope.clone();
        self.read(move |tx| batches::audit_log(tx, &scope, id)).await
    }

    async fn recipes(&self, scope: &Scope, id: BatchId) -> Result<Vec<BatchRecipe>> {
        let scope = scope.clone();
        self.read(move |tx| recipes::list(tx, &scope, id)).await
    }

    async fn job_definition(&self, id: BatchId) -> Result<JobDefinition> {
        self.read(move |tx| recipes::definition(tx, id)).await
    }

    async fn attempts(&self, scope: &Scope, id: BatchId, line: u64) -> Result<Vec<PastAttempt>> {
        let scope = scope.clone();
        self.read(move |tx| batches::attempts(tx, &scope, id, line)).await
    }

    async fn attempt_counts(&self, id: BatchId, lines: &[u64]) -> Result<Vec<AttemptCounts>> {
        if lines.is_empty() {
            return Ok(Vec::new());
        }
        let lines = lines.to_vec();
        self.read(move |tx| batches::attempt_counts(tx, id, &lines)).await
    }

    async fn pending(&self, scope: &Scope, query: PendingQuery) -> Result<Page<PendingLine>> {
        let scope = scope.clone();
        self.read(move |tx| pending::page(tx, &scope, &query)).await
    }

    async fn finished(&self, scope: &Scope, query: FinishedQuery) -> Result<Page<FinishedLine>> {
        let scope = scope.clone();
        self.read(move |tx| finished::page(tx, &scope, &query)).await
    }

    async fn rows(&self, scope: &Scope, query: RowsQuery) -> Result<Page<BatchRow>> {
        let scope = scope.clone();
        self.read(move |tx| rows::page(tx, &scope, &query)).await
    }

    async fn verify(&self, batch: BatchId) -> Result<BatchRows> {
        self.read(move |tx| verify::read(tx, batch)).await
    }
}

/// Cuts a page that was read one row longer than it can be, and says where it ended.
pub(crate) fn page<T, K: serde::Serialize>(
    mut rows: Vec<T>,
    limit: u32,
    binding: &Binding,
    key: impl Fn(&T) -> K,
) -> Page<T> {
    let more = rows.len() > limit as usize;
    rows.truncate(limit as usize);
    let next = rows.last().filter(|_| more).map(|last| Cursor::seal(binding, &key(last)));
    Page { rows, next }
}

/// Conditions of a list page and the values they bind, in order.
#[derive(Default)]
struct Where {
    text: String,
    values: Vec<Box<dyn ToSql>>,
}

impl Where {
    /// Adds a condition with one `?` for each value.
    fn and(&mut self, condition: &'static str, values: Vec<Box<dyn ToSql>>) {
        self.text.push_str(" AND ");
        self.text.push_str(condition);
        self.values.extend(values);
    }

    fn maybe<T: ToSql + 'static>(&mut self, condition: &'static str, value: Option<T>) {
        if let Some(value) = value {
            self.and(condition, vec![Box::new(value)]);
        }
    }

    /// Adds `column IN (…)`, unless there is nothing to choose from.
    fn any<T: ToSql + 'static>(&mut self, column: &'static str, values: Vec<T>) {
        if values.is_empty() {
            return;
        }
        let marks = vec!["?"; values.len()].join(", ");
        self.text.push_str(&format!(" AND {column} IN ({marks})"));
        self.values.extend(values.into_iter().map(|value| Box::new(value) as Box<dyn ToSql>));
    }
}
