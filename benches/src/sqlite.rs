//! SQLite under measurement.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Result;
use async_trait::async_trait;
use rusqlite::{Connection, params};
use tempfile::TempDir;
use uuid::Uuid;
use windrow_domain::BatchId;
use windrow_store::Store;
use windrow_store_sqlite::{Options, SqliteStore};

use crate::backend::Backend;
use crate::load::{TRANCHE, response};

const PLAIN_RESULT: &str = "INSERT INTO plain_results (batch_id, line, lane, seq, status, attempts, generation, \
    created_at, http_status, custom_id, response) VALUES (?1, ?2, 0, ?3, 0, 1, 0, ?4, 200, ?5, ?6)";
const PLAIN_LINE: &str =
    "INSERT INTO plain_lines (file_id, lane, seq, line, raw) VALUES (?1, 0, ?2, ?3, ?4)";

pub(crate) struct SqliteBackend {
    folder: TempDir,
    store: Arc<SqliteStore>,
}

impl SqliteBackend {
    pub(crate) async fn open() -> Result<Self> {
        let folder = TempDir::new()?;
        let store = SqliteStore::open(Options::file(folder.path().join("bench.db"))).await?;
        Ok(Self { folder, store: Arc::new(store) })
    }

    /// A plain database of its own with the same durability as the store's.
    fn plain(&self, name: &str, table: &str) -> Result<(Connection, PathBuf)> {
        let path = self.folder.path().join(format!("{name}-{}.db", Uuid::now_v7()));
        let source = Connection::open(self.folder.path().join("bench.db"))?;
        let text: String =
            source.query_row("SELECT sql FROM sqlite_schema WHERE name = ?1", [table], |row| {
                row.get(0)
            })?;
        let plain = Connection::open(&path)?;
        plain.pragma_update(None, "journal_mode", "WAL")?;
        plain.pragma_update(None, "synchronous", "FULL")?;
        plain.pragma_update(None, "cache_size", -16_384)?;
        plain.execute_batch(&text.replacen(table, &format!("plain_{name}"), 1))?;
        Ok((plain, path))
    }
}

#[async_trait]
impl Backend for SqliteBackend {
    fn name(&self) -> &'static str {
        "sqlite"
    }

    fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.store) as _
    }

    async fn rewind(&self, batch: BatchId, cursor: u64) -> Result<()> {
        let side = Connection::open(self.folder.path().join("bench.db"))?;
        side.busy_timeout(std::time::Duration::from_secs(5))?;
        let id = batch.0.into_bytes();
        side.execute("DELETE FROM leases WHERE batch_id = ?1", params![id])?;
        side.execute(
            "UPDATE batch_lanes SET cursor = ?2, leased = 0 WHERE batch_id = ?1",
            params![id, cursor.cast_signed()],
        )?;
        Ok(())
    }

    async fn plain_results(&self, rows: u64) -> Result<f64> {
        let (mut plain, path) = self.plain("results", "results")?;
        let (batch, response) = (Uuid::now_v7().into_bytes(), response());
        let started = Instant::now();
        let mut line = 0_i64;
        while line.cast_unsigned() < rows {
            let tx = plain.transaction()?;
            let mut insert = tx.prepare_cached(PLAIN_RESULT)?;
            for _ in 0..TRANCHE {
                line += 1;
                let custom = format!("request-{line:09}");
                insert.execute(params![batch, line, line - 1, line, custom, &response[..]])?;
            }
            drop(insert);
            tx.commit()?;
        }
        let elapsed = started.elapsed();
        drop(plain);
        std::fs::remove_file(path)?;
        #[expect(clippy::cast_precision_loss, reason = "counts of a bench")]
        Ok(rows as f64 / elapsed.as_secs_f64())
    }

    async fn plain_lines(&self, texts: &[String]) -> Result<f64> {
        let (mut plain, path) = self.plain("lines", "templates")?;
        let file = Uuid::now_v7().into_bytes();
        let started = Instant::now();
        let mut seq = 0_i64;
        for chunk in texts.chunks(16_384) {
            let tx = plain.transaction()?;
            let mut insert = tx.prepare_cached(PLAIN_LINE)?;
            for text in chunk {
                insert.execute(params![file, seq, seq + 1, text.as_bytes()])?;
                seq += 1;
            }
            drop(insert);
            tx.commit()?;
        }
        let elapsed = started.elapsed();
        drop(plain);
        std::fs::remove_file(path)?;
        #[expect(clippy::cast_precision_loss, reason = "counts of a bench")]
        Ok(texts.len() as f64 / elapsed.as_secs_f64())
    }

    async fn empty(&self) -> Result<()> {
        let side = Connection::open(self.folder.path().join("bench.db"))?;
        side.busy_timeout(std::time::Duration::from_secs(30))?;
        side.execute_batch(
            "DELETE FROM results; DELETE FROM templates; DELETE FROM leases; DELETE FROM batch_lanes; \
             DELETE FROM batches; DELETE FROM files; DELETE FROM file_lanes; DELETE FROM file_chunks;",
        )?;
        Ok(())
    }
}
