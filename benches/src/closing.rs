//! Closing: from a batch's last result to `completed`, with its outputs on a disk.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tokio::sync::broadcast::Receiver;
use tokio::task::JoinSet;
use windrow_domain::BatchId;
use windrow_domain::batch::State;
use windrow_engine::execute::{Attempt, Outcome};
use windrow_engine::storage::Storage;
use windrow_engine::{Engine, EngineEvent};
use windrow_store::inspect::FinishedQuery;
use windrow_store::{Scope, Store};

use crate::backend::Backend;
use crate::figures::Size;
use crate::load;
use crate::report::Figure;

const LINES: u64 = 1000;
const BAR_MS: f64 = 100.0;
const CLOSED_SECS_MAX: u64 = 60;

/// One batch after the other through an engine, each closed before the next begins.
pub(crate) async fn closing(backend: &dyn Backend, size: Size) -> Result<Figure> {
    let store = backend.store();
    let file = load::file(&*store, LINES).await?;
    let folder = tempfile::tempdir()?;
    let storage = Storage::local(folder.path())?;
    let response = load::response();
    let executor = move |_: Attempt| std::future::ready(Outcome::completed(response.clone()));
    let engine =
        Engine::builder(Arc::clone(&store)).executor(executor).storage(storage.clone()).build();
    let handle = engine.handle();
    let mut events = handle.subscribe();
    let mut running = JoinSet::new();
    running.spawn(engine.run());
    let mut times = Vec::new();
    for _ in 0..size.closed {
        let batch = load::batch(&*store, file).await?;
        handle.wake();
        let within = Duration::from_secs(CLOSED_SECS_MAX);
        let closed = tokio::time::timeout(within, closed(&mut events, batch)).await;
        closed.context("the batch was not closed in time")??;
        times.push(time(&*store, &storage, batch).await?);
    }
    handle.stop();
    running.join_next().await.context("an engine runs")???;
    let name = "closing a batch, p99 / 100 ms";
    let of = format!("batches of {LINES} lines");
    Ok(Figure::times(name, backend.name(), &mut times, BAR_MS, (LINES, &of)))
}

async fn closed(events: &mut Receiver<EngineEvent>, batch: BatchId) -> Result<()> {
    loop {
        match events.recv().await? {
            EngineEvent::Closed { batch: closed } if closed.id == batch => return Ok(()),
            EngineEvent::OutputFailed { error, .. } => {
                bail!("the outputs were not written: {error}")
            }
            EngineEvent::Closed { .. } => {}
        }
    }
}

/// Milliseconds between the last result and the closing, both by the database's clock.
async fn time(store: &dyn Store, storage: &Storage, id: BatchId) -> Result<f64> {
    let batch = store.batch(&Scope::All, id).await?;
    ensure!(batch.state == State::Completed, "the batch is {:?}", batch.state);
    let (mut last, mut found, mut after) = (None, 0, None);
    loop {
        let query = FinishedQuery { batch: Some(id), after, limit: 500, ..Default::default() };
        let page = store.finished(&Scope::All, query).await?;
        found += page.rows.len() as u64;
        last = last.max(page.rows.iter().map(|line| line.finished_at).max());
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    ensure!(found == LINES, "{found} results");
    let written = storage.list(&format!("batches/{id}"), 10).await?;
    ensure!(written.len() == 1, "one output, not {written:?}");
    let (closed, last) = batch.closed_at.zip(last).context("a closed batch has its times")?;
    Ok(closed.duration_since(last).as_secs_f64() * 1e3)
}
