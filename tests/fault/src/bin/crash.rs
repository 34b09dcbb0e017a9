//! `crash DATABASE FOLDER BATCH [CALL before|after]`: the small run on the embedded engine, ended at
//! that store call. Started again, it goes on; started without a call, it comes to the end and says
//! how many calls that took.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use windrow::domain::BatchId;
use windrow::domain::control::slice;
use windrow::domain::retry::Policy;
use windrow::engine::execute::Attempt;
use windrow::engine::storage::Storage;
use windrow::engine::{Engine, Options, Until};
use windrow::store::layer::LayeredStore;
use windrow::store::{Kind, Scope, Store};
use windrow_fault::crash::{Crashing, Cut, Entry, Journal, LINES, Side, script};
use windrow_fault::{fixture, input};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (database, folder, batch, cut) = match words[..] {
        [database, folder, batch] => (database, folder, batch, None),
        [database, folder, batch, call, side] => (database, folder, batch, Some((call, side))),
        _ => return Err("crash DATABASE FOLDER BATCH [CALL before|after]".into()),
    };
    let cut = match cut {
        Some((call, "before")) => Some(Cut { call: call.parse()?, side: Side::Before }),
        Some((call, "after")) => Some(Cut { call: call.parse()?, side: Side::After }),
        Some((_, side)) => return Err(format!("no side of a call: {side}").into()),
        None => None,
    };
    let folder = Path::new(folder);
    let journal = Arc::new(Journal::open(&folder.join("journal"))?);
    let store = fixture::open(database).await?;
    let calls = Arc::new(AtomicU64::new(0));
    let crashing = Crashing::new(cut, calls.clone(), journal.clone());
    let store = Arc::new(LayeredStore::new(store, crashing));
    run(store, folder, batch.parse()?, journal).await?;
    println!("{}", calls.load(Ordering::SeqCst));
    Ok(())
}

async fn run(
    store: Arc<dyn Store>,
    folder: &Path,
    batch: BatchId,
    journal: Arc<Journal>,
) -> Result<(), Box<dyn Error>> {
    match store.batch(&Scope::All, batch).await {
        Ok(found) if found.state.is_closed() => return Ok(()),
        Ok(_) => {}
        Err(error) if error.kind == Kind::Missing => {
            input::batch(&*store, batch, LINES).await;
        }
        Err(error) => return Err(error.into()),
    }
    let executor = move |call: Attempt| {
        journal.write(&Entry::Tried(call.line, call.key()));
        std::future::ready(script(&call))
    };
    let engine = Engine::builder(store)
        .executor(executor)
        .storage(Storage::local(folder.join("outputs"))?)
        .options(options());
    engine.only(batch).until(Until::Closed(batch)).run().await?;
    Ok(())
}

/// Short, so that what a dead process held is free soon; small claims, so that there are many turns.
fn options() -> Options {
    let slice = slice::Bounds {
        slice_ms: 100,
        claim_max: 6,
        lock_floor_ms: 600,
        ..slice::Bounds::default()
    };
    let retry = Policy { backoff_ms_min: 5, backoff_ms_max: 20, ..Policy::default() };
    Options::default()
        .slice(slice)
        .retry(retry)
        .poll_every(Duration::from_millis(50))
        .heartbeat_every(Duration::from_millis(200))
        .sweep_every_min(Duration::from_millis(50))
        .sweep_every_max(Duration::from_millis(100))
        // A line that is caught in two crashes, or in a slow machine, must not fail for it.
        .crashes_max(1000)
        .finalise_lease(Duration::from_millis(600))
        .grace(Duration::from_secs(2))
}
