//! What a backend brings to the bench: its store, and the bare database next to it.

use std::sync::Arc;

use anyhow::Result;
use async_trait::async_trait;
use windrow_domain::BatchId;
use windrow_store::Store;

/// One backend under measurement.
#[async_trait]
pub(crate) trait Backend: Send + Sync {
    /// Its name in the table.
    fn name(&self) -> &'static str;

    /// The store.
    fn store(&self) -> Arc<dyn Store>;

    /// Puts the cursor of a one-lane batch back, and forgets its leases, so that the same claim can
    /// be measured a thousand times.
    async fn rewind(&self, batch: BatchId, cursor: u64) -> Result<()>;

    /// Plain inserts of the rows a drain writes, by as many connections, 500 a commit, into a table
    /// with the same primary key and no other index. Rows a second.
    async fn plain_results(&self, rows: u64) -> Result<f64>;

    /// The fastest plain way in for the rows an ingest writes, into a table with the same primary
    /// key: `COPY`, or prepared inserts. Rows a second.
    async fn plain_lines(&self, texts: &[String]) -> Result<f64>;

    /// Throws away what results and templates hold, so that every round meets the same tables.
    async fn empty(&self) -> Result<()>;
}
