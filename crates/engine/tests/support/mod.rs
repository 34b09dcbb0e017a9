//! What the engine's tests share: a store in memory, a file in it, a batch over it.

#![allow(dead_code, reason = "each test program uses its part")]

pub(crate) mod watched;
pub(crate) mod world;

use windrow_domain::attempt::{Class, Failure};
use windrow_domain::{BatchId, FileId, Owner};
use windrow_engine::execute::Outcome;
use windrow_engine::ingest::{self, ingest};
use windrow_store::batch::NewBatch;
use windrow_store::ingest::NewFile;
use windrow_store::{Store, Time};
use windrow_store_sqlite::{Options, SqliteStore};

pub(crate) async fn store() -> std::sync::Arc<SqliteStore> {
    store_at(Time::Database).await
}

/// A store whose clock the test moves.
pub(crate) async fn store_at(time: Time) -> std::sync::Arc<SqliteStore> {
    let options = Options::default().time(time);
    std::sync::Arc::new(SqliteStore::open(options).await.unwrap())
}

/// A batch over so many lines, half of them for each of two targets.
pub(crate) async fn batch(store: &dyn Store, lines: u64) -> BatchId {
    batch_within(store, lines, None).await
}

/// The same, with a deadline.
pub(crate) async fn batch_within(
    store: &dyn Store,
    lines: u64,
    window_secs: Option<u64>,
) -> BatchId {
    let text: String = (1..=lines).map(line).collect();
    let owner = Owner::new("ann").unwrap();
    let file = NewFile {
        id: FileId::new(),
        owner: owner.clone(),
        name: "f".to_owned(),
        purpose: "batch".to_owned(),
        expires_at: None,
    };
    let done = ingest(store, text.as_bytes(), file, ingest::Options::default()).await.unwrap();
    let new = NewBatch { window_secs, ..NewBatch::over(done.file.id, owner, "/v1/x") };
    store.create_batch(new).await.unwrap().id
}

fn line(line: u64) -> String {
    let body = format!(r#"{{"model":"m{}"}}"#, line % 2);
    format!("{{\"custom_id\":\"c{line}\",\"method\":\"POST\",\"url\":\"/v1/x\",\"body\":{body}}}\n")
}

pub(crate) fn failed(class: Class) -> Outcome {
    Outcome::failed(Failure::new(class, class.to_string(), "no"))
}
