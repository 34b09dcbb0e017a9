//! Membership: this process is an instance, says that it is alive, joins again under a new id when
//! others took it for dead, and buries others that are.
//!
//! Holds throughout: an id that was tombstoned is never used again, so nothing that was leased under
//! it can be recorded; only instances that run batches are buried here, since runners of messages have
//! bounds of their own.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::json;
use windrow_domain::InstanceId;
use windrow_store::error::chain;
use windrow_store::member::{Member, NewMember, ServedUpstreams};
use windrow_store::partition::Serving;
use windrow_store::{Kind, Store};

use crate::clock::Clock;
use crate::liveness::Liveness;
use crate::signal::{Stop, Wake};
use crate::storage::Storage;
use crate::upstream_check::UpstreamCheck;

/// The instance that this process is right now.
#[derive(Clone)]
pub(crate) struct Membership {
    store: Arc<dyn Store>,
    service: String,
    /// Where this process keeps outputs, as its member says.
    storage: Option<String>,
    /// Which upstreams it serves; none for a process that runs no lines.
    upstreams: Option<UpstreamCheck>,
    current: Arc<Mutex<InstanceId>>,
    liveness: Arc<Liveness>,
    /// Given after each change of the id.
    pub(crate) rejoined: Wake,
}

impl Membership {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        service: String,
        storage: Option<&Storage>,
        live_folder: Option<PathBuf>,
        upstreams: Option<UpstreamCheck>,
    ) -> Self {
        let current = Arc::new(Mutex::new(InstanceId::new()));
        let storage = storage.map(|storage| storage.mark(&host()));
        let liveness = Arc::new(Liveness::new(live_folder));
        Self { store, service, storage, upstreams, current, liveness, rejoined: Wake::new() }
    }

    /// The id of this process among the instances.
    pub(crate) fn instance(&self) -> InstanceId {
        *self.current.lock()
    }

    /// What it says of itself: the upstreams that it serves, and where it keeps outputs.
    fn metadata(&self) -> String {
        let mut said = serde_json::Map::new();
        if let Some(upstreams) = &self.upstreams {
            let served = ServedUpstreams { upstreams: upstreams.served() };
            said.extend(json!(served).as_object().cloned().unwrap_or_default());
        }
        if let Some(storage) = &self.storage {
            said.insert(STORAGE.to_owned(), json!(storage));
        }
        serde_json::Value::Object(said).to_string()
    }

    /// Joins under the current id, and says which upstreams are served here.
    pub(crate) async fn join(&self) -> windrow_store::Result<()> {
        let instance = self.instance();
        let member = NewMember {
            instance,
            service: self.service.clone(),
            host: host(),
            pid: std::process::id(),
            metadata: self.metadata(),
            // Held before anybody can ask for it.
            lock: self.liveness.hold(instance),
        };
        self.store.register(member).await
    }

    /// Warns when another live process keeps its outputs elsewhere: whoever closes a batch writes to its
    /// own storage, and the others do not find them there.
    pub(crate) async fn compare_storages(&self) -> windrow_store::Result<()> {
        let Some(own) = &self.storage else { return Ok(()) };
        let members = self.store.members().await?;
        let live = members.iter().filter(|member| member.tombstoned_at.is_none());
        let others = live.filter_map(|member| Some((member, storage_of(&member.metadata)?)));
        if let Some((member, other)) = others.into_iter().find(|(_, other)| other != own) {
            let (host, pid) = (&member.host, member.pid);
            tracing::warn!(
                own,
                other,
                host,
                pid,
                "another process keeps outputs elsewhere; give all processes of a database one storage"
            );
        }
        Ok(())
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

    /// Buries instances of this machine that died, by the locks that they do not hold any more. Gives how
    /// many.
    pub(crate) async fn bury_dead(&self, members: &[Member]) -> windrow_store::Result<usize> {
        let others: Vec<&Member> = self.others(members).collect();
        Ok(self.liveness.bury_dead(&*self.store, &others).await?.len())
    }

    /// Whether another process of this machine seems to have died since the members were last read. Asks
    /// the kernel, not the store.
    pub(crate) fn sees_dead(&self) -> bool {
        self.liveness.sees_dead()
    }

    /// Whether that instance is proven to live on this machine.
    pub(crate) fn is_alive(&self, members: &[Member], instance: InstanceId) -> bool {
        let member = members.iter().find(|member| member.instance == instance);
        member.is_some_and(|member| self.liveness.is_alive(member))
    }

    /// Whether a death on this machine can be seen without the store.
    pub(crate) fn watches(&self) -> bool {
        self.liveness.proves()
    }

    /// The other instances that run batches and have not left.
    pub(crate) fn others<'a>(&self, members: &'a [Member]) -> impl Iterator<Item = &'a Member> {
        let me = self.instance();
        members.iter().filter(move |member| {
            let is_other = member.instance != me && member.tombstoned_at.is_none();
            is_other && Serving::of(&member.metadata).is_none()
        })
    }

    /// Removes the locks that dead instances left on this machine.
    pub(crate) fn remove_leftovers(&self, members: &[Member]) {
        self.liveness.remove_leftovers(members);
    }

    /// Leaves: what is still held goes back. Gives how many lines.
    pub(crate) async fn leave(&self) -> windrow_store::Result<u64> {
        let left = self.store.tombstone(self.instance()).await?;
        self.liveness.release();
        Ok(left)
    }
}

/// The name of the storage in a member's metadata.
const STORAGE: &str = "storage";

/// Where a member says that it keeps outputs.
pub fn storage_of(metadata: &str) -> Option<String> {
    let metadata: serde_json::Value = serde_json::from_str(metadata).ok()?;
    metadata.get(STORAGE)?.as_str().map(str::to_owned)
}

/// The machine's name, for people.
pub(crate) fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    match name.trim() {
        "" => "unknown".to_owned(),
        name => name.to_owned(),
    }
}
