//! What the calls of the jobs API share while the server runs, each with its bound.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::http::StatusCode;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::task::JoinSet;
use tracing::Instrument as _;
use windrow_domain::BatchId;
use windrow_engine::signal::Stop;
use windrow_store::Scope;
use windrow_store::batch::Batch;

use crate::app::App;
use crate::error::{Error, Result};

/// Slices of work that are driven at the same time.
const KICKOFFS_MAX: usize = 4;
/// Listeners to events at the same time.
const EVENTS_MAX: usize = 200;
/// Exports at the same time.
const EXPORTS_MAX: usize = 32;
/// How old a look at a job may be when another listener asks.
const LOOK_MS_MAX: u64 = 400;

/// Bounds, and what is under way.
pub(crate) struct Shared {
    kickoffs: Arc<Semaphore>,
    events: Arc<Semaphore>,
    exports: Arc<Semaphore>,
    /// What goes on when the one who asked goes: what was begun is better finished than lost.
    tasks: Mutex<JoinSet<()>>,
    looks: Mutex<HashMap<BatchId, (u64, Batch)>>,
    stopping: Stop,
}

impl Default for Shared {
    fn default() -> Self {
        Self {
            kickoffs: Arc::new(Semaphore::new(KICKOFFS_MAX)),
            events: Arc::new(Semaphore::new(EVENTS_MAX)),
            exports: Arc::new(Semaphore::new(EXPORTS_MAX)),
            tasks: Mutex::default(),
            looks: Mutex::default(),
            stopping: Stop::new(),
        }
    }
}

impl Shared {
    pub(super) fn kickoff_permit(&self) -> Result<OwnedSemaphorePermit> {
        permit(&self.kickoffs, "kickoffs_exceeded", "As many jobs are driven as may be at a time")
    }

    pub(super) fn events_permit(&self) -> Result<OwnedSemaphorePermit> {
        permit(&self.events, "listeners_exceeded", "As many listen to events as may at a time")
    }

    pub(super) fn export_permit(&self) -> Result<OwnedSemaphorePermit> {
        permit(&self.exports, "exports_exceeded", "As many exports run as may at a time")
    }

    /// Runs something to its end, also when the one who asked is gone before.
    pub(crate) async fn to_the_end<T: Send + 'static>(
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

    pub(super) async fn stopping(&self) {
        self.stopping.given().await;
    }

    /// A job as it was a moment ago, asked for once for all who listen to it.
    pub(super) async fn look(&self, app: &App, id: BatchId) -> windrow_store::Result<Batch> {
        let is_fresh = |at: u64, now: u64| now.saturating_sub(at) < LOOK_MS_MAX;
        let now = app.clock.millis();
        if let Some((at, batch)) = lock(&self.looks).get(&id)
            && is_fresh(*at, now)
        {
            return Ok(batch.clone());
        }
        let batch = app.store.batch(&Scope::All, id).await?;
        let mut looks = lock(&self.looks);
        if looks.len() >= EVENTS_MAX {
            looks.retain(|_, (at, _)| is_fresh(*at, now));
        }
        looks.insert(id, (now, batch.clone()));
        Ok(batch)
    }
}

fn permit(of: &Arc<Semaphore>, code: &'static str, what: &str) -> Result<OwnedSemaphorePermit> {
    of.clone().try_acquire_owned().map_err(|_| {
        let message = format!("{what}; come again in a moment.");
        Error::new(StatusCode::TOO_MANY_REQUESTS, code, message).after_secs(2)
    })
}

/// A panic while it was held left at worst an entry too many.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
