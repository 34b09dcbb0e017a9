//! Membership: this process is an instance, says that it is alive, and joins again under a new id
//! when others took it for dead.
//!
//! Holds throughout: an id that was tombstoned is never used again, so nothing that was leased under
//! it can be recorded.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use windrow_domain::InstanceId;
use windrow_store::error::chain;
use windrow_store::member::NewMember;
use windrow_store::{Kind, Store};

use crate::clock::Clock;
use crate::signal::{Stop, Wake};

/// The instance that this process is right now.
#[derive(Clone)]
pub(crate) struct Membership {
    store: Arc<dyn Store>,
    service: String,
    current: Arc<Mutex<InstanceId>>,
    /// Given after each change of the id.
    pub(crate) rejoined: Wake,
}

impl Membership {
    pub(crate) fn new(store: Arc<dyn Store>, service: String) -> Self {
        let current = Arc::new(Mutex::new(InstanceId::new()));
        Self { store, service, current, rejoined: Wake::new() }
    }

    /// The id of this process among the instances.
    pub(crate) fn instance(&self) -> InstanceId {
        *self.current.lock()
    }

    /// Joins under the current id.
    pub(crate) async fn join(&self) -> windrow_store::Result<()> {
        let member = NewMember {
            instance: self.instance(),
            service: self.service.clone(),
            host: host(),
            pid: std::process::id(),
            metadata: "{}".to_owned(),
        };
        self.store.register(member).await
    }

    /// Says that we are alive; joins again under a new id when we were taken for dead.
    pub(crate) async fn step(&self) -> windrow_store::Result<()> {
        let Err(error) = self.store.heartbeat(self.instance()).await else { return Ok(()) };
        if !matches!(error.kind, Kind::LeaseLost | Kind::Missing) {
            return Err(error);
        }
        let instance = InstanceId::new();
        *self.current.lock() = instance;
        tracing::warn!(%instance, "this process was taken for dead; it joins again under a new id");
        self.rejoined.give();
        self.join().await
    }

    /// Beats until it is stopped.
    pub(crate) async fn run(&self, clock: &Clock, every: Duration, stop: &Stop) {
        loop {
            tokio::select! {
                () = clock.sleep(every) => {}
                () = stop.given() => return,
            }
            if let Err(error) = self.step().await {
                tracing::warn!(error = %chain(&error), "no heartbeat");
            }
        }
    }

    /// Leaves: what is still held goes back. Gives how many lines.
    pub(crate) async fn leave(&self) -> windrow_store::Result<u64> {
        self.store.tombstone(self.instance()).await
    }
}

/// The machine's name, for people.
pub(crate) fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    match name.trim() {
        "" => "unknown".to_owned(),
        name => name.to_owned(),
    }
}
