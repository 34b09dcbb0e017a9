//! The server inside of a program of one's own: its HTTP API, with an executor and keys of the program's.
//!
//! `windrow serve` is such a program. Run this one with `cargo run -p windrow --example embedded_server`.

use std::sync::Arc;

use anyhow::Result;
use tokio::net::TcpListener;
use windrow::domain::{Role, Target};
use windrow::engine::{clock::Clock, signal::Stop, storage::Storage};
use windrow::prelude::*;
use windrow::sqlite::{Options, SqliteStore};
use windrow::store::Keys as _;
use windrow_server::api_key::{ApiKey, KeySpec};
use windrow_server::{App, Messages, Metrics, Parts, Routes, Unserved};

/// Every model is served.
struct AnyTarget;

impl Routes for AnyTarget {
    fn check(&self, _: &Target, _: &str) -> Result<(), Unserved> {
        Ok(())
    }
}

const JOB: &str = r#"{"custom_id":"a","method":"POST","url":"/v1/x","body":{"model":"m"}}"#;

#[tokio::main]
pub(crate) async fn main() -> Result<()> {
    let store = SqliteStore::open(Options::default()).await?; // in memory
    let executor: Arc<dyn Executor> = Arc::new(async |_: Attempt| Outcome::completed("{}"));
    let storage = Storage::memory();
    let builder = Engine::builder(store.clone()).executor(executor.clone());
    let engine = builder.storage(storage.clone()).start();

    let parts = Parts {
        store: Arc::new(store.clone()),
        storage,
        routes: Arc::new(AnyTarget),
        engine: Some(engine.handle()),
        executor: Some(executor),
        work: windrow::engine::Options::default(),
        ingest: IngestOptions::default(),
        options: windrow_server::Options::default(),
        clock: Clock::machine(),
        metrics: Metrics::new(Clock::machine()),
    };
    let app = App::with_messages(parts, Messages::new(Client::new(store.clone())));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/api/jobs", listener.local_addr()?);
    let stop = Stop::new();
    let server = async { anyhow::Ok(app.serve(listener, None, stop.clone()).await?) };

    let (id, key) = ApiKey::generate()?;
    let (owner, name) = (Owner::new("ann")?, "example".to_owned());
    let spec = KeySpec { owner, role: Role::Member, name, expires_at: None };
    store.add_key(key.to_new_key(id, spec)).await?;

    let caller = async {
        let http = reqwest::Client::new();
        let post = http.post(&url).header("content-type", "application/jsonl").body(JOB);
        let job = post.bearer_auth(key.reveal()).send().await?.error_for_status()?.text().await?;
        let job: serde_json::Value = serde_json::from_str(&job)?;
        // Drives the job to its end and waits for it.
        let kickoff = format!("{url}/{}/kickoff", job["jobId"].as_str().unwrap_or_default());
        let kicked = http.post(kickoff).bearer_auth(key.reveal()).send().await?;
        let kicked = kicked.error_for_status()?.text().await?;
        stop.give();
        anyhow::Ok(kicked)
    };
    let ((), kicked) = tokio::try_join!(server, caller)?;
    println!("{kicked}");
    assert!(kicked.contains(r#""closed":true,"remaining":0"#));
    engine.stop().await?;
    Ok(())
}
