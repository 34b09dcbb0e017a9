//! What the calls of the jobs API share while the server runs, each with its bound.

use std::collections::HashMap;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tracing::Instrument as _;
use windrow_domain::BatchId;
use windrow_engine::signal::Stop;
use windrow_store::Scope;
use windrow_store::batch::Batch;

use crate::app::App;
use crate::error::{Error, Result};

/// Jobs whose last look is kept; those that are old go when there are more.
const LOOKS_MAX: usize = 400;
/// How old a look at a job may be when another listener asks.
const LOOK_MS_MAX: u64 = 400;

/// What is under way.
#[derive(Default)]
pub(crate) struct Tasks {
    /// What goes on when the one who asked goes: what was begun is better finished than lost.
    tasks: Mutex<JoinSet<()>>,
    looks: Mutex<HashMap<BatchId, (u64, Batch)>>,
    stopping: Stop,
}

impl Tasks {
    /// Runs something to its end, also when the one who asked is gone before.
    pub(crate) async fn run_detached<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        let (tell, told) = oneshot::channel();
        {
            let mut tasks = lock(&self.tasks);
            while tasks.try_join_next().is_some() {}
            // Nobody may be waiting.
            tasks.spawn(async move { drop(tell.send(work.await)) }.in_current_span());
        }
        told.await.map_err(|_| Error::internal("a task ended without an answer"))?
    }

    /// The server stops: listeners are let go, and slices end early.
    pub(crate) fn stop(&self) {
        self.stopping.give();
    }

    /// Waits for what goes on though nobody waits for its answer.
    pub(crate) async fn join(&self) {
        loop {
            let mut tasks = std::mem::take(&mut *lock(&self.tasks));
            if tasks.is_empty() {
                return;
            }
            // One that panicked has said so.
            while tasks.join_next().await.is_some() {}
        }
    }

    pub(crate) async fn stopping(&self) {
        self.stopping.given().await;
    }

    /// A job as it was a moment ago, asked for once for all who listen to it.
    pub(crate) async fn look(&self, app: &App, id: BatchId) -> windrow_store::Result<Batch> {
        let is_fresh = |at: u64, now: u64| now.saturating_sub(at) < LOOK_MS_MAX;
        let now = app.clock.millis();
        if let Some((at, batch)) = lock(&self.looks).get(&id)
            && is_fresh(*at, now)
        {
            return Ok(batch.clone());
        }
        let batch = app.store.batch(&Scope::All, id).await?;
        let mut looks = lock(&self.looks);
        if looks.len() >= LOOKS_MAX {
            looks.retain(|_, (at, _)| is_fresh(*at, now));
        }
        looks.insert(id, (now, batch.clone()));
        Ok(batch)
    }
}

/// A panic while it was held left at worst an entry too many.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}
