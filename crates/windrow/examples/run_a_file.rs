//! A file of requests is run against an HTTP API, and the results are written to a folder.
//!
//! The API is a small one on this machine that answers 503 once: that line is tried again, and every line
//! has one result. Run it with `cargo run -p windrow --example run_a_file`.

use anyhow::{Context as _, Result};
use windrow::engine::execute::http::{Config, HttpExecutor};
use windrow::engine::storage::Storage;
use windrow::prelude::*;
use windrow::sqlite::{Options, SqliteStore};
use windrow_testkit::upstream::{Reply, Script, Upstream};

const REQUESTS: &str = r#"
{"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": {"model": "m", "n": 1}}
{"custom_id": "b", "method": "POST", "url": "/v1/chat/completions", "body": {"model": "m", "n": 2}}
{"custom_id": "c", "method": "POST", "url": "/v1/chat/completions", "body": {"model": "m", "n": 3}}
"#;

#[tokio::main]
pub(crate) async fn main() -> Result<()> {
    let busy_once = Script::sequence([Reply::error(503, "busy"), Reply::Echo]);
    let api = Upstream::start(busy_once).await?;
    let folder = tempfile::tempdir()?;
    let store = SqliteStore::open(Options::file(folder.path().join("windrow.db"))).await?;
    let storage = Storage::local(folder.path().join("outputs"))?;
    let owner = Owner::new("ann")?;

    let file = NewFile::new(owner.clone(), "requests.jsonl");
    let file = ingest(&store, REQUESTS.as_bytes(), file, IngestOptions::default()).await?.file;
    let batch = NewBatch::over(file.id, owner.clone(), "/v1/chat/completions");
    let batch = store.create_batch(batch).await?.id;

    Engine::builder(store.clone())
        .executor(HttpExecutor::new(Config::to(api.url()))?)
        .storage(storage.clone())
        .only(batch)
        .until(Until::Closed(batch))
        .run()
        .await?;

    let batch = store.batch(&Scope::Owner(owner), batch).await?;
    assert_eq!((batch.counts.completed, batch.counts.failed), (3, 0));
    assert_eq!(api.counts().requests, 4, "three lines, and one of them again");

    let outputs = storage.list("batches", 10).await?;
    let output = outputs.first().context("no output was written")?;
    let results = std::fs::read_to_string(folder.path().join("outputs").join(&output.name))?;
    println!("{results}");
    assert_eq!(results.lines().count(), 3);
    Ok(())
}
