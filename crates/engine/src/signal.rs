//! Signals that services and tests can await: stop, and wake up.
//!
//! Holds throughout: a signal that was given is never lost; a later call sees it too.

use std::io;
use std::sync::Arc;

use tokio::sync::{Notify, watch};

/// Asks everything that shares it to stop. Given once, it stays given.
#[derive(Clone, Debug)]
pub struct Stop(Arc<watch::Sender<bool>>);

impl Default for Stop {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(false)))
    }
}

impl Stop {
    /// A signal that is not given yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives the signal; all that wait for it go on.
    pub fn give(&self) {
        self.0.send_replace(true);
    }

    /// Whether it was given.
    pub fn is_given(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until it is given.
    pub async fn given(&self) {
        // The sender is `self`, which outlives the wait.
        let _ = self.0.subscribe().wait_for(|given| *given).await;
    }

    /// Waits for the operating system to ask this process to end (SIGTERM or SIGINT).
    pub async fn asked_by_system() -> io::Result<()> {
        use tokio::signal::unix::{SignalKind, signal};
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        Ok(())
    }
}

/// Wakes one service that waits for work; given while it is busy, it is seen at the next wait.
#[derive(Clone, Debug, Default)]
pub struct Wake(Arc<Notify>);

impl Wake {
    /// A signal that is not given yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Wakes the service.
    pub fn give(&self) {
        self.0.notify_one();
    }

    /// Waits until it is given.
    pub async fn given(&self) {
        self.0.notified().await;
    }
}
