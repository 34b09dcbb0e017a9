//! The tasks of the server that outlive the request that began them, and the signal to stop.
//!
//! Holds throughout: work that was begun is finished although its client disconnects; the server
//! waits for all of it before it ends.

use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tracing::Instrument as _;
use windrow_engine::signal::Stop;

use crate::error::{Error, Result};

/// Detached work, and whether the server is stopping.
#[derive(Default)]
pub(crate) struct Tasks {
    running: Mutex<JoinSet<()>>,
    stopping: Stop,
}

impl Tasks {
    /// Runs something to its end, also when the client that waits for it disconnects.
    pub(crate) async fn run_detached<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        let (sender, result) = oneshot::channel();
        {
            let mut running = self.running.lock();
            while running.try_join_next().is_some() {}
            // The receiver is gone when the client is.
            running.spawn(async move { drop(sender.send(work.await)) }.in_current_span());
        }
        result.await.map_err(|_| Error::internal("a task ended without a result"))?
    }

    /// Tells event streams and kickoffs that the server is stopping.
    pub(crate) fn stop(&self) {
        self.stopping.give();
    }

    /// Resolves when the server is stopping.
    pub(crate) async fn stopping(&self) {
        self.stopping.given().await;
    }

    /// Waits for the detached work.
    pub(crate) async fn join(&self) {
        loop {
            let mut running = std::mem::take(&mut *self.running.lock());
            if running.is_empty() {
                return;
            }
            // A task that panicked has logged it.
            while running.join_next().await.is_some() {}
        }
    }
}
