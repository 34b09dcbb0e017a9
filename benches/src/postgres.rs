//! PostgreSQL under measurement.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Instant;

use anyhow::{Context, Result};
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::pin_mut;
use tokio_postgres::binary_copy::BinaryCopyInWriter;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, NoTls};
use uuid::Uuid;
use windrow_domain::BatchId;
use windrow_store::Store;
use windrow_store_postgres::{Options, PostgresStore};

use crate::backend::Backend;
use crate::load::{CONNECTIONS, TRANCHE, response};

const PLAIN_INSERT: &str = "INSERT INTO plain_results
    (batch_id, line, seq, created_at, lane, status, attempts, generation, http_status, custom_id, error_code, error,
     response, shaped, normalised)
    SELECT $1, line, seq, now(), 0, status, attempts, 0, http, custom, code, err, response, shaped, normalised
      FROM unnest($2::bigint[], $3::bigint[], $4::smallint[], $5::int[], $6::smallint[], $7::text[], $8::text[],
                  $9::text[], $10::bytea[], $11::text[], $12::text[])
           u(line, seq, status, attempts, http, custom, code, err, response, shaped, normalised)";

pub(crate) struct PostgresBackend {
    url: String,
    store: Arc<PostgresStore>,
    side: Client,
}

impl PostgresBackend {
    pub(crate) async fn open(url: &str) -> Result<Self> {
        let options = Options::new(url).pool_max(CONNECTIONS + 1);
        let store = PostgresStore::connect(options).await?;
        store.migrate().await?;
        Ok(Self { url: url.to_owned(), store: Arc::new(store), side: client(url).await? })
    }

    /// The store, for messages.
    pub(crate) fn plane(&self) -> Arc<PostgresStore> {
        Arc::clone(&self.store)
    }

    /// Where it is.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Another session that can hold a snapshot open.
    pub(crate) async fn session(&self) -> Result<Client> {
        client(&self.url).await
    }
}

/// A session of its own.
pub(crate) async fn client(url: &str) -> Result<Client> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.context("connecting")?;
    tokio::spawn(connection);
    Ok(client)
}

#[async_trait]
impl Backend for PostgresBackend {
    fn name(&self) -> &'static str {
        "postgres"
    }

    fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.store) as _
    }

    async fn rewind(&self, batch: BatchId, cursor: u64) -> Result<()> {
        let statement = format!(
            "BEGIN; DELETE FROM windrow.leases WHERE batch_id = '{batch}'; \
             UPDATE windrow.lane_states SET cursor = {cursor}, leased = 0 WHERE batch_id = '{batch}'; COMMIT"
        );
        Ok(self.side.batch_execute(&statement).await?)
    }

    async fn plain_results(&self, rows: u64) -> Result<f64> {
        self.side
            .batch_execute(
                "DROP TABLE IF EXISTS plain_results; CREATE TABLE plain_results \
                 (LIKE windrow.results INCLUDING STORAGE, PRIMARY KEY (batch_id, line))",
            )
            .await?;
        let mut clients = Vec::new();
        for _ in 0..CONNECTIONS {
            clients.push(client(&self.url).await?);
        }
        let (next, batch) = (Arc::new(AtomicI64::new(0)), Uuid::now_v7());
        let started = Instant::now();
        let mut writers = tokio::task::JoinSet::new();
        for client in clients {
            let next = Arc::clone(&next);
            writers.spawn(async move { insert_plainly(&client, batch, &next, rows).await });
        }
        while let Some(writer) = writers.join_next().await {
            writer??;
        }
        #[expect(clippy::cast_precision_loss, reason = "counts of a bench")]
        Ok(rows as f64 / started.elapsed().as_secs_f64())
    }

    async fn plain_lines(&self, texts: &[String]) -> Result<f64> {
        self.side
            .batch_execute(
                "DROP TABLE IF EXISTS plain_lines; CREATE TABLE plain_lines \
                 (LIKE windrow.templates INCLUDING STORAGE, PRIMARY KEY (file_id, lane, seq))",
            )
            .await?;
        let started = Instant::now();
        let sink =
            self.side.copy_in::<_, Bytes>("COPY plain_lines FROM STDIN (FORMAT binary)").await?;
        let types = [Type::UUID, Type::INT2, Type::INT8, Type::INT8, Type::BYTEA];
        let writer = BinaryCopyInWriter::new(sink, &types);
        pin_mut!(writer);
        let file = Uuid::now_v7();
        for (seq, text) in (0_i64..).zip(texts) {
            writer.as_mut().write(&[&file, &0_i16, &seq, &(seq + 1), &text.as_bytes()]).await?;
        }
        writer.finish().await?;
        #[expect(clippy::cast_precision_loss, reason = "counts of a bench")]
        Ok(texts.len() as f64 / started.elapsed().as_secs_f64())
    }

    async fn empty(&self) -> Result<()> {
        let statement = "TRUNCATE windrow.results, windrow.templates, windrow.leases, windrow.lane_states, \
             windrow.batch_lanes, windrow.batches, windrow.files, windrow.file_lanes, windrow.file_chunks; CHECKPOINT";
        Ok(self.side.batch_execute(statement).await?)
    }
}

async fn insert_plainly(client: &Client, batch: Uuid, next: &AtomicI64, rows: u64) -> Result<()> {
    let statement = client.prepare(PLAIN_INSERT).await?;
    let response = response();
    let n = TRANCHE as usize;
    let (statuses, attempts, https) = (vec![0_i16; n], vec![1_i32; n], vec![Some(200_i16); n]);
    let nothing: Vec<Option<&str>> = vec![None; n];
    let responses: Vec<&[u8]> = vec![&response[..]; n];
    loop {
        let first = next.fetch_add(i64::from(TRANCHE), Ordering::Relaxed);
        if first.cast_unsigned() >= rows {
            return Ok(());
        }
        let lines: Vec<i64> = (first + 1..=first + i64::from(TRANCHE)).collect();
        let customs: Vec<_> = lines.iter().map(|line| format!("request-{line:09}")).collect();
        client
            .execute(
                &statement,
                &[
                    &batch, &lines, &lines, &statuses, &attempts, &https, &customs, &nothing,
                    &nothing, &responses, &nothing, &nothing,
                ],
            )
            .await?;
    }
}
