//! `windrow demo`: shows the whole engine at work.
//!
//! It generates a file, loads it, creates a batch over it, and runs that with the real engine and HTTP
//! client against a built-in upstream that fails like one on the internet. Then it checks every line
//! against the rows, and every result against the outputs.

mod echo;
mod input;
mod report;

use std::time::Duration;

use anyhow::{Context as _, bail};
use windrow::domain::FileId;
use windrow::engine::Options;
use windrow::engine::execute::http::{Config as HttpConfig, HttpExecutor, Upstream};
use windrow::engine::ingest::ingest;
use windrow::engine::storage::Storage;
use windrow::store::Store;
use windrow::store::batch::{Batch, NewBatch};
use windrow::store::ingest::NewFile;

use crate::batch_run::{BatchRun, StopReason};
use crate::clock::Stopwatch;
use crate::config::Origin;
use crate::context::Context;
use crate::database::Database;
use crate::exit_code::Exit;
use crate::progress::{Screen, Style};
use crate::{ranges, text};
use echo::Echo;

/// How long to wait for a response: the upstream sometimes sends none.
const FIRST_BYTE_MS_MAX: u64 = 700;
/// Concurrency never falls below this: the upstream fails, but is not slow.
const CONCURRENCY_MIN: u32 = 16;
/// Short delays between attempts keep the demo short.
const BACKOFF_MS_MIN: u64 = 50;

/// Generate a file and run it against a built-in upstream that sometimes fails, rate-limits and hangs.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Number of lines to generate
    #[arg(long, default_value_t = 3_000, value_parser = ranges::whole(1_u64, 10_000_000))]
    lines: u64,
    /// Maximum number of concurrent requests
    #[arg(long, default_value_t = 64, value_parser = ranges::whole(1_u32, 1_000))]
    concurrency: u32,
}

pub(crate) async fn run(context: &Context, args: Args) -> anyhow::Result<Exit> {
    let folder = tempfile::tempdir().context("could not create a temporary folder")?;
    let database = match context.config.origin("database") {
        Origin::Default => Database::File(folder.path().join("demo.db")),
        Origin::File { .. } | Origin::Environment(_) | Origin::Flag => {
            context.config.database.clone()
        }
    };
    let mut screen = Screen::new(Style::of(context.json, false));
    let echo = Echo::start().await.context("could not listen on 127.0.0.1")?;
    if !context.json {
        let lines = text::count(args.lines);
        text::print_line(&format!(
            "Windrow demo: {lines} requests to {}, a built-in upstream that sometimes fails.\n",
            echo.url()
        ))?;
    }
    let store = database.open().await?;
    let storage = Storage::local(folder.path().join("outputs"))?;

    let started = Stopwatch::start();
    let batch = batch(context, &*store, args.lines).await?;
    let taken_in = started.elapsed();
    let batch_run = BatchRun {
        store: store.clone(),
        storage: storage.clone(),
        executor: executor(&echo, args.concurrency)?,
        options: options(context, &database),
        service: "windrow demo",
        batch,
        give_up_after: Duration::from_secs(60),
        takes_refusals: false,
    };
    let id = batch_run.batch.id;
    let outcome = batch_run.run(&mut screen).await?;
    if outcome.stop_reason != StopReason::Closed {
        bail!("the demo was stopped before its end");
    }
    let batch = store.batch(&context.scope(), id).await?;
    let report = report::DemoReport {
        faults: echo.faults(),
        taken_in,
        outcome,
        outputs: report::Outputs::read(&storage, &batch).await?,
        contradiction: store.verify(id).await?.check().err(),
        batch,
    };
    context.print_result(&report.value(), || report.text())?;
    Ok(if report.is_sound() { Exit::Success } else { Exit::Contradiction })
}

/// Makes the file and a batch over it.
async fn batch(context: &Context, store: &dyn Store, lines: u64) -> anyhow::Result<Batch> {
    let owner = context.config.owner.clone();
    let file = NewFile {
        id: FileId::new(),
        owner: owner.clone(),
        name: "demo.jsonl".to_owned(),
        purpose: "batch".to_owned(),
        expires_at: None,
    };
    let options = context.config.bounds.ingest.clone();
    let done = ingest(store, input::Lines::new(lines), file, options).await?;
    if let Some(error) = done.errors.first() {
        bail!("the generated file is not valid: {}", error.message);
    }
    let batch = NewBatch {
        job_type: Some("demo".to_owned()),
        ..NewBatch::over(done.file.id, owner, input::ENDPOINT)
    };
    Ok(store.create_batch(batch).await?)
}

fn executor(echo: &Echo, concurrency: u32) -> anyhow::Result<HttpExecutor> {
    let mut upstream = Upstream::new(echo.url());
    upstream.concurrency_max = concurrency;
    upstream.concurrency_min = concurrency.min(CONCURRENCY_MIN);
    upstream.concurrency_start = concurrency.min(2 * CONCURRENCY_MIN);
    upstream.first_byte_ms_max = FIRST_BYTE_MS_MAX;
    // Its lines are POSTs, to which a 404 means something else where nothing is said.
    upstream.not_found_statuses = Some(vec![404]);
    Ok(HttpExecutor::new(HttpConfig { upstreams: Vec::new(), default: Some(upstream) })?)
}

fn options(context: &Context, database: &Database) -> Options {
    let mut options = context.config.bounds.engine.clone();
    // The demo's own database, unless one was named.
    options.live_folder = database.live_folder(&context.config.data);
    let retry = &mut options.retry;
    for wait in [
        &mut retry.backoff_ms_min,
        &mut retry.backoff_timeout_ms_min,
        &mut retry.backoff_not_found_ms_min,
    ] {
        *wait = BACKOFF_MS_MIN;
    }
    options
}
