//! `windrow demo`: the smallest true run of the whole engine.
//!
//! A file is made and taken in, a batch created over it, several workers drain it with a built-in
//! echo (which sometimes is busy, refuses, or has no such thing), the batch is closed, and every
//! line's place is checked against the rows.

mod echo;
mod input;
mod report;
mod worker;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use tokio::task::JoinSet;
use windrow::domain::attempt::Status;
use windrow::prelude::*;
use windrow::store::finalise::Rows;
use windrow::store::inspect::{FinishedQuery, PAGE_MAX};

use crate::clock::Stopwatch;
use crate::database::Database;
use crate::{Ending, Where, text};
use worker::{Tally, Worker};

const LEASE_MS: u64 = 30_000;

/// Makes a file, runs it through the whole engine with a built-in echo, and checks the result.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How many lines to make
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    lines: u64,
    /// How many workers drain them
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64))]
    workers: u16,
    #[command(flatten)]
    place: Where,
}

impl Default for Args {
    fn default() -> Self {
        Self { lines: 10_000, workers: 4, place: Where { database: None } }
    }
}

/// How long each part took.
struct Times {
    ingest: Duration,
    create: Duration,
    drain: Duration,
    close: Duration,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<Ending> {
    let database = args.place.database.unwrap_or(Database::Memory);
    let lines = text::count(args.lines);
    text::say(&format!("Windrow demo: {lines} lines, {} workers, {database}\n", args.workers))?;
    let store = database.open().await?;
    let owner = Owner::new("demo").context("a good name")?;

    let started = Stopwatch::start();
    let reader = input::Lines::new(args.lines);
    let file = new_file(&owner);
    let done = ingest(&*store, reader, file, IngestOptions::default()).await?;
    if let Some(error) = done.errors.first() {
        bail!("the demo's own file does not validate: {}", error.message);
    }
    let ingest = started.elapsed();

    let started = Stopwatch::start();
    let batch = store.create_batch(new_batch(&owner, done.file.id)).await?;
    let create = started.elapsed();

    let started = Stopwatch::start();
    let tally = drain(&store, batch.id, args.workers).await?;
    let drain = started.elapsed();

    let started = Stopwatch::start();
    let batch = close(&*store, batch.id).await?;
    let times = Times { ingest, create, drain, close: started.elapsed() };

    let audit = store.audit(batch.id).await?.check();
    text::say(&report::summary(&done.file, &batch, &times, tally))?;
    text::say(&report::samples(&*store, batch.id).await?)?;
    match audit {
        Ok(()) => {
            text::say("Checked against the rows: every line is in exactly one place.")?;
            Ok(Ending::Good)
        }
        Err(sentence) => {
            text::say(&format!("CONTRADICTION: {sentence}"))?;
            Ok(Ending::Contradiction)
        }
    }
}

fn new_file(owner: &Owner) -> NewFile {
    NewFile {
        id: FileId::new(),
        owner: owner.clone(),
        name: "demo.jsonl".to_owned(),
        purpose: "batch".to_owned(),
        expires_at: None,
    }
}

fn new_batch(owner: &Owner, file: FileId) -> NewBatch {
    NewBatch {
        id: BatchId::new(),
        file,
        owner: owner.clone(),
        endpoint: input::ENDPOINT.to_owned(),
        window_secs: Some(3600),
        priority: 0,
        job_type: Some("demo".to_owned()),
        source_address: None,
        metadata: BTreeMap::new(),
        idempotency_key: None,
    }
}

/// Runs the workers until nothing is left to do.
async fn drain(store: &Arc<dyn Store>, batch: BatchId, workers: u16) -> anyhow::Result<Tally> {
    let mut tasks = JoinSet::new();
    for _ in 0..workers {
        let worker = Worker::new(Arc::clone(store), batch)?;
        tasks.spawn(worker.run());
    }
    let mut tally = Tally::default();
    while let Some(done) = tasks.join_next().await {
        tally += done.context("a worker panicked")??;
    }
    Ok(tally)
}

/// Finalises: reads the results as an export would, and closes with what was read.
async fn close(store: &dyn Store, batch: BatchId) -> anyhow::Result<Batch> {
    let held = store.take_finalisation(batch, InstanceId::new(), LEASE_MS).await?;
    let (mut rows, mut after) = (Rows::default(), None);
    loop {
        let query = FinishedQuery {
            batch: Some(batch),
            after,
            limit: PAGE_MAX,
            ..FinishedQuery::default()
        };
        let page = store.finished(&Scope::All, query).await?;
        for line in &page.rows {
            *match line.result.status {
                Status::Completed => &mut rows.completed,
                Status::Failed => &mut rows.failed,
                Status::NotFound => &mut rows.not_found,
                Status::Skipped => &mut rows.skipped,
            } += 1;
        }
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    let summary = serde_json::json!({ "completed": rows.completed, "failed": rows.failed });
    Ok(store.close_batch(&held, rows, &summary.to_string()).await?)
}
