//! A runner that runs, and the handle by which other parts of the program watch and stop it.
//!
//! Holds throughout: stopping is asked for once and waited for by any number; dropped, a runner ends like a
//! process that was killed.

use std::sync::Arc;

use tokio::task::JoinSet;
use windrow_domain::InstanceId;

use crate::signal::Stop;

use super::client::Client;
use super::gauges::{Counters, Gauges};
use super::notifier::Notifier;
use super::runner::RunnerDeps;

/// A runner that was started. Dropped, it ends like a process that was killed.
pub struct Running {
    handle: Handle,
    tasks: JoinSet<()>,
}

/// Watches and stops a runner. Cheap to clone, and may outlive it.
#[derive(Clone)]
pub struct Handle {
    client: Client,
    stop: Stop,
    notifier: Arc<Notifier>,
    counters: Arc<Counters>,
}

impl Running {
    pub(super) fn new(
        deps: Arc<RunnerDeps>,
        client: Client,
        stop: Stop,
        tasks: JoinSet<()>,
    ) -> Self {
        let (notifier, counters) = (deps.notifier.clone(), deps.counters.clone());
        Self { handle: Handle { client, stop, notifier, counters }, tasks }
    }

    /// A handle, for other parts of the program.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// A client whose messages and calls this runner sees at once.
    pub fn client(&self) -> Client {
        self.handle.client()
    }

    /// As [`Handle::instance`].
    pub fn instance(&self) -> InstanceId {
        self.handle.instance()
    }

    /// As [`Handle::gauges`].
    pub fn gauges(&self) -> Gauges {
        self.handle.gauges()
    }

    /// Stops: nothing new begins, what runs ends and is committed, partitions are given back. Returns
    /// when all of that is done, or when the grace has passed.
    pub async fn stop(mut self) {
        self.handle.stop();
        self.wait().await;
    }

    /// Waits until it has ended: after [`Handle::stop`], or when it broke off.
    pub async fn wait(&mut self) {
        while self.tasks.join_next().await.is_some() {}
    }
}

impl Handle {
    /// Asks the runner to stop, and does not wait.
    pub fn stop(&self) {
        self.stop.give();
    }

    /// A client whose messages and calls the runner sees at once.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// The id of this instance; another one after it was taken for dead and joined again.
    pub fn instance(&self) -> InstanceId {
        self.notifier.instance()
    }

    /// Its numbers. Cheap: it asks no database.
    pub fn gauges(&self) -> Gauges {
        self.counters.read()
    }
}
