//! The daemon: starts the services of an engine in order, and stops them in order.
//!
//! Holds throughout: producers stop before consumers, so nothing that was finished is lost on
//! the way down: the worker first, then the closer, then the sweeper and the heartbeat; in the end the
//! instance leaves, and whatever it still held goes back.

mod cache;
mod closer;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{broadcast, mpsc};
use tokio::task::JoinSet;
use windrow_domain::BatchId;
use windrow_store::batch::Batch;
use windrow_store::{IntoStore, Scope, Store};

use crate::Options;
use crate::clock::Clock;
use crate::execute::Executor;
use crate::finalise::Finaliser;
use crate::liveness::SilenceWatch;
use crate::member::Membership;
use crate::progress::{Meter, Progress};
use crate::retry::with_retry;
use crate::signal::{Stop, Wake};
use crate::storage::Storage;
use crate::sweep::{Sweeper, find_unclosed};
use crate::upstream_check::UpstreamCheck;
use crate::worker::{Worker, WorkerDeps};
use cache::StatusCache;
use closer::{Closer, QUEUE_MAX};
use windrow_store::error::chain;

/// Events that a slow subscriber may lag behind before it misses some.
const EVENTS_MAX: usize = 256;
/// Batches that ended with what went back at the end, and are closed before it goes.
const UNCLOSED_MAX: u32 = 64;
/// How often an engine that works for one batch asks whether another process closed it.
const CLOSED_MS: u64 = 1_000;

/// Something that subscribers hear of, after its commit.
#[derive(Clone, Debug)]
pub enum EngineEvent {
    /// A batch was closed; its outputs are in place.
    Closed {
        /// The batch as it is now.
        batch: Box<Batch>,
    },
    /// A batch could not be closed; it is tried again.
    OutputFailed {
        /// The batch.
        batch: BatchId,
        /// What went wrong, with its causes, on one line.
        error: String,
    },
}

/// When an engine ends by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// Never: only when it is stopped.
    Stopped,
    /// When this batch is closed, by this process or another.
    Closed(BatchId),
    /// After that much time: a slice of work.
    Elapsed(Duration),
}

/// What an engine did by the time it ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Lines that were leased and went back unfinished.
    pub released: u64,
    /// Batches that it closed.
    pub closed: u64,
}

/// How an engine is put together.
pub struct Builder {
    store: Arc<dyn Store>,
    executor: Option<Arc<dyn Executor>>,
    storage: Option<Storage>,
    options: Options,
    clock: Clock,
    stop: Stop,
    service: String,
    only: Option<BatchId>,
    until: Until,
    seed: Option<u64>,
}

impl Builder {
    /// Runs lines with this. An engine without one only closes and sweeps.
    #[must_use]
    pub fn executor(mut self, executor: impl Executor) -> Self {
        self.executor = Some(Arc::new(executor));
        self
    }

    /// Writes outputs there. Without it none are written: results are in the store, from which they
    /// can be exported at any time.
    #[must_use]
    pub fn storage(mut self, storage: Storage) -> Self {
        self.storage = Some(storage);
        self
    }

    /// Sets the bounds.
    #[must_use]
    pub fn options(mut self, options: Options) -> Self {
        self.options = options;
        self
    }

    /// Uses another clock than the machine's.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Stops when this signal is given.
    #[must_use]
    pub fn stop(mut self, stop: Stop) -> Self {
        self.stop = stop;
        self
    }

    /// What it calls itself among the members.
    #[must_use]
    pub fn service(mut self, service: impl Into<String>) -> Self {
        self.service = service.into();
        self
    }

    /// Works for this batch only.
    #[must_use]
    pub fn only(mut self, batch: BatchId) -> Self {
        self.only = Some(batch);
        self
    }

    /// When it ends by itself.
    #[must_use]
    pub fn until(mut self, until: Until) -> Self {
        self.until = until;
        self
    }

    /// Makes jitter repeatable.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// The engine, ready to run.
    pub fn build(self) -> Engine {
        let meter = Meter::default();
        let handle = Handle {
            store: self.store.clone(),
            clock: self.clock.clone(),
            stop: self.stop.clone(),
            wake: Wake::new(),
            meter,
            events: broadcast::Sender::new(EVENTS_MAX),
            cache: StatusCache::default(),
        };
        Engine { parts: self, handle }
    }

    /// Builds it and starts it in the background; must be called within a Tokio runtime.
    pub fn start(self) -> Running {
        self.build().start()
    }

    /// Builds it and runs it to its end.
    pub async fn run(self) -> windrow_store::Result<Report> {
        self.build().run().await
    }
}

/// An engine that runs in the background. Dropping it ends the engine at once, as a crash would: leases
/// come back when they expire. [`Running::stop`] ends it in order.
#[must_use = "an engine ends when this is dropped"]
pub struct Running {
    handle: Handle,
    task: JoinSet<windrow_store::Result<Report>>,
}

impl Running {
    /// What others may do with it: cheap to clone.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Asks it to stop and waits until it has ended: what is in flight may finish within the grace time.
    pub async fn stop(mut self) -> windrow_store::Result<Report> {
        self.handle.stop();
        self.wait().await
    }

    /// Waits until it ends: when it is stopped by its handle or signal, or has done what it was built for.
    ///
    /// # Panics
    /// When it is called again after it has said how the engine ended.
    pub async fn wait(&mut self) -> windrow_store::Result<Report> {
        let ended = self.task.join_next().await.expect("the end of an engine is told once");
        match ended {
            Ok(report) => report,
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            Err(error) => {
                let error = std::io::Error::other(error);
                let unavailable = windrow_store::Kind::Unavailable;
                Err(windrow_store::Error::new(unavailable, "run", "the engine").because(error))
            }
        }
    }
}

/// What others may do with a running engine. Cheap to clone.
#[derive(Clone)]
pub struct Handle {
    store: Arc<dyn Store>,
    clock: Clock,
    stop: Stop,
    wake: Wake,
    meter: Meter,
    events: broadcast::Sender<EngineEvent>,
    cache: StatusCache,
}

impl Handle {
    /// Asks it to stop: what is in flight may finish within the grace time.
    pub fn stop(&self) {
        self.stop.give();
    }

    /// Says that work may have appeared, so that it looks at once.
    pub fn wake(&self) {
        self.wake.give();
    }

    /// What it does right now.
    pub fn progress(&self) -> Progress {
        self.meter.progress()
    }

    /// Hears of batches that are closed, or cannot be.
    pub fn subscribe(&self) -> broadcast::Receiver<EngineEvent> {
        self.events.subscribe()
    }

    /// A batch with its counts: from a small cache when this engine closed it a moment ago.
    pub async fn status(&self, scope: &Scope, batch: BatchId) -> windrow_store::Result<Batch> {
        match self.cache.get(scope, batch, self.clock.millis()) {
            Some(batch) => Ok(batch),
            None => self.store.batch(scope, batch).await,
        }
    }

    /// Says that a closed batch changes, so that [`Handle::status`] reads it anew.
    pub fn forget_status(&self, batch: BatchId) {
        self.cache.forget(batch);
    }
}

/// A durable worker over a store: claims lines, runs them, records them, closes batches, sweeps.
pub struct Engine {
    parts: Builder,
    handle: Handle,
}

impl Engine {
    /// Begins to put one together over a store, by value or in an `Arc`.
    pub fn builder(store: impl IntoStore<dyn Store>) -> Builder {
        Builder {
            store: store.into_store(),
            executor: None,
            storage: None,
            options: Options::default(),
            clock: Clock::machine(),
            stop: Stop::new(),
            service: "windrow".to_owned(),
            only: None,
            until: Until::Stopped,
            seed: None,
        }
    }

    /// What others may do with it while it runs.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Starts it in the background; must be called within a Tokio runtime.
    pub fn start(self) -> Running {
        let handle = self.handle();
        let mut task = JoinSet::new();
        task.spawn(self.run());
        Running { handle, task }
    }

    /// Runs until it is stopped, or until what it was built for has happened.
    pub async fn run(self) -> windrow_store::Result<Report> {
        let Engine { parts, handle } = self;
        let upstreams = parts.executor.clone().map(|executor| {
            UpstreamCheck::new(parts.store.clone(), executor, handle.meter.clone())
        });
        let membership = Membership::new(
            parts.store.clone(),
            parts.service.clone(),
            parts.storage.as_ref(),
            parts.options.live_folder.clone(),
            upstreams.clone(),
        );
        let trouble = |error: &windrow_store::Error| {
            let sentence = format!("could not join: {}", chain(error));
            tracing::warn!("{sentence}");
            handle.meter.set_store_trouble(Some(sentence));
        };
        let seed = parts.seed.unwrap_or_else(|| membership.instance().0.as_u64_pair().1);
        let mut rng = fastrand::Rng::with_seed(seed);
        let join = || async {
            if let Some(upstreams) = &upstreams {
                upstreams.step().await?;
            }
            membership.join().await
        };
        let joined = with_retry(&parts.clock, &parts.stop, &mut rng, trouble, join).await;
        if parts.stop.is_given() {
            return Ok(Report::default());
        }
        joined?;
        if let Err(error) = membership.compare_storages().await {
            tracing::debug!(error = %chain(&error), "the storages of other processes are not known");
        }
        let (to_closer, queue) = mpsc::channel(QUEUE_MAX);
        let services = Services { parts, handle, membership, upstreams, to_closer };
        services.run(queue, rng).await
    }
}

/// The services of a running engine, and what they share.
struct Services {
    parts: Builder,
    handle: Handle,
    membership: Membership,
    /// None for an engine that runs no lines.
    upstreams: Option<UpstreamCheck>,
    to_closer: mpsc::Sender<BatchId>,
}

impl Services {
    async fn run(
        self,
        queue: mpsc::Receiver<BatchId>,
        mut rng: fastrand::Rng,
    ) -> windrow_store::Result<Report> {
        let (closer_stop, others_stop) = (Stop::new(), Stop::new());
        let finaliser = Arc::new(self.finaliser());
        let closer = Closer::new(
            finaliser.clone(),
            queue,
            self.handle.events.clone(),
            self.handle.cache.clone(),
            self.parts.clock.clone(),
            self.handle.meter.clone(),
        );
        let mut closing = JoinSet::new();
        let stop = closer_stop.clone();
        closing.spawn(async move { closer.run(&stop).await });
        let mut others = JoinSet::new();
        let sweeper = self.sweeper(finaliser, rng.fork());
        // Before the first claim, which otherwise finds what is left and not what a dead process holds.
        match sweeper.take_over().await {
            Ok(swept) if swept.buried == 0 => {}
            Ok(swept) => tracing::info!(?swept, "took over from processes that died"),
            Err(error) => tracing::warn!(error = %chain(&error), "the dead were not looked for"),
        }
        self.start_others(&mut others, sweeper, &others_stop);

        let worked = self.work(rng).await;
        if worked.is_ok() {
            // A batch may have ended with what went back just now.
            let found = find_unclosed(&*self.parts.store, &self.to_closer, UNCLOSED_MAX).await;
            found.inspect_err(|error| tracing::warn!(error = %chain(error), "not swept")).ok();
        }
        closer_stop.give();
        let closed = self.in_grace(closing.join_next()).await.flatten();
        let closed = closed.and_then(Result::ok).unwrap_or(0);
        others_stop.give();
        self.in_grace(others.join_all()).await;
        let left = self.membership.leave().await;
        let left = left.inspect_err(|error| tracing::warn!(error = %chain(error), "not left"));
        let released = worked? + left.unwrap_or(0);
        Ok(Report { released, closed })
    }

    fn finaliser(&self) -> Finaliser {
        let (parts, membership) = (&self.parts, self.membership.clone());
        let (store, storage, clock) =
            (parts.store.clone(), parts.storage.clone(), parts.clock.clone());
        Finaliser::new(store, storage, membership.instance(), clock, &parts.options)
            .following(membership)
    }

    fn sweeper(&self, finaliser: Arc<Finaliser>, rng: fastrand::Rng) -> Sweeper {
        let options = &self.parts.options;
        Sweeper {
            store: self.parts.store.clone(),
            membership: self.membership.clone(),
            clock: self.parts.clock.clone(),
            options: options.clone(),
            finaliser,
            finalizing: self.to_closer.clone(),
            rng,
            silence: SilenceWatch::new(options.sweep_every_max, options.member_stale_after),
            round: 0,
            wake: self.handle.wake.clone(),
        }
    }

    /// The heartbeat, the sweeper, and the task that watches for the end.
    fn start_others(&self, others: &mut JoinSet<()>, sweeper: Sweeper, stop: &Stop) {
        let (clock, membership) = (self.parts.clock.clone(), self.membership.clone());
        let (every, stop) = (self.parts.options.heartbeat_every, stop.clone());
        let beat_stop = stop.clone();
        let (beating, beat_clock) = (membership.clone(), clock.clone());
        others.spawn(async move { beating.run(&beat_clock, every, &beat_stop).await });
        if let Some(upstreams) = self.upstreams.clone() {
            let stop = stop.clone();
            others.spawn(async move { upstreams.run(&membership, &clock, every, &stop).await });
        }
        let sweep_stop = stop.clone();
        others.spawn(async move { sweeper.run(&sweep_stop).await });
        let (watcher, until) = (self.handle.clone(), self.parts.until);
        others.spawn(async move {
            tokio::select! {
                () = watcher.watch(until) => watcher.stop(),
                () = stop.given() => {}
            }
        });
    }

    /// Works, or waits to be stopped when there is nothing to work with.
    async fn work(&self, rng: fastrand::Rng) -> windrow_store::Result<u64> {
        let (Some(executor), Some(upstreams)) =
            (self.parts.executor.clone(), self.upstreams.clone())
        else {
            self.parts.stop.given().await;
            return Ok(0);
        };
        let inline = self.parts.options.finalise_inline;
        let (unread, _) = mpsc::channel(1);
        let deps = WorkerDeps {
            store: self.parts.store.clone(),
            executor,
            upstreams,
            membership: self.membership.clone(),
            clock: self.parts.clock.clone(),
            options: self.parts.options.clone(),
            meter: self.handle.meter.clone(),
            finalizing: if inline { self.to_closer.clone() } else { unread },
            wake: self.handle.wake.clone(),
            stop: self.parts.stop.clone(),
            only: self.parts.only,
        };
        Worker::new(deps, rng).run().await
    }

    /// Waits for a service to end, no longer than the grace time.
    async fn in_grace<T>(&self, ending: impl Future<Output = T>) -> Option<T> {
        let grace = self.parts.options.grace;
        tokio::select! {
            ended = ending => Some(ended),
            () = self.parts.clock.sleep(grace) => None,
        }
    }
}

impl Handle {
    /// Waits for what the engine was built for.
    async fn watch(&self, until: Until) {
        let batch = match until {
            Until::Stopped => return std::future::pending().await,
            Until::Elapsed(time) => return self.clock.sleep(time).await,
            Until::Closed(batch) => batch,
        };
        let mut events = self.subscribe();
        loop {
            let closed = self.store.batch(&Scope::All, batch).await;
            if closed.is_ok_and(|batch| batch.state.is_closed()) {
                return;
            }
            tokio::select! {
                _ = events.recv() => {}
                () = self.clock.sleep(Duration::from_millis(CLOSED_MS)) => {}
            }
        }
    }
}
