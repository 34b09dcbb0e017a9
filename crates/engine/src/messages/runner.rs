//! A runner: built with its handlers, started, stopped.
//!
//! Holds throughout: all its tasks end with it. Stopped, it gives back its partitions; dropped, it ends
//! like a process that was killed, and other instances take over when it has been silent for a while.

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use windrow_domain::partition::PARTITIONS_MAX;
use windrow_store::partition::Setup;
use windrow_store::{IntoStore, MessageStore, Result};

use crate::clock::Clock;
use crate::deliver::{Patterns, Publisher, Route, Routes};
use crate::jitter::Jitter;
use crate::signal::Stop;

use super::client::Client;
use super::event_loop::EventLoop;
use super::gauges::Counters;
use super::handler::erased::DynObject;
use super::handler::registry::{ConsumerKind, ConsumerRoute, Registry};
use super::handler::typed::TypedObject;
use super::handler::{
    Consumer, Object, Transactional, TransactionalConsumer, Typed, TypedTransactional,
};
use super::http::Remote;
use super::membership::PartitionMembership;
use super::notifier::Notifier;
use super::options::Options;
use super::running::Running;
use super::{listener, maintenance};

/// What the parts of a runner share.
pub(super) struct RunnerDeps {
    pub(super) store: Arc<dyn MessageStore>,
    pub(super) registry: Registry,
    pub(super) options: Options,
    pub(super) clock: Clock,
    pub(super) jitter: Jitter,
    pub(super) notifier: Arc<Notifier>,
    pub(super) counters: Arc<Counters>,
    pub(super) service: String,
}

/// Builds a runner: its handlers, publishers and bounds.
pub struct Builder {
    store: Arc<dyn MessageStore>,
    service: String,
    registry: Registry,
    options: Options,
    clock: Clock,
    seed: Option<u64>,
}

impl Builder {
    /// Sets the bounds.
    #[must_use]
    pub fn options(mut self, options: Options) -> Self {
        self.options = options;
        self
    }

    /// With objects of a type. The last one of a type counts.
    #[must_use]
    pub fn object<T: Object>(self, object: T) -> Self {
        self.dyn_object(T::TYPE.to_owned(), Arc::new(object))
    }

    /// With typed objects. The last one of a type counts.
    #[must_use]
    pub fn typed<T: Typed>(self, typed: T) -> Self {
        self.object(TypedObject(typed))
    }

    /// With objects of a type that are called over HTTP. The last one of a type counts.
    #[must_use]
    pub fn remote_object(self, object_type: impl Into<String>, remote: Remote) -> Self {
        self.dyn_object(object_type.into(), Arc::new(remote))
    }

    fn dyn_object(mut self, object_type: String, object: Arc<dyn DynObject>) -> Self {
        self.registry.transactional.remove(&object_type);
        self.registry.objects.insert(object_type, object);
        self
    }

    /// With objects of a type whose calls have transactions of their own. The last one of a type counts.
    #[must_use]
    pub fn object_tx<T: Transactional>(mut self, object: T) -> Self {
        self.registry.objects.remove(T::TYPE);
        self.registry.transactional.insert(T::TYPE.to_owned(), Arc::new(object));
        self
    }

    /// With typed objects whose calls have transactions of their own. The last one of a type
    /// counts.
    #[must_use]
    pub fn typed_tx<T: TypedTransactional>(self, typed: T) -> Self {
        self.object_tx(TypedObject(typed))
    }

    /// With a consumer of messages: those of the inbox that the patterns match, unless an earlier one
    /// takes them; and those of any queue that wait for it by name.
    #[must_use]
    pub fn consumer(
        self,
        name: impl Into<String>,
        patterns: Patterns,
        consumer: impl Consumer,
    ) -> Self {
        self.consumer_route(name.into(), patterns, ConsumerKind::Plain(Arc::new(consumer)))
    }

    /// With a consumer whose messages are handled in transactions of their own.
    #[must_use]
    pub fn consumer_tx(
        self,
        name: impl Into<String>,
        patterns: Patterns,
        consumer: impl TransactionalConsumer,
    ) -> Self {
        self.consumer_route(name.into(), patterns, ConsumerKind::Transactional(Arc::new(consumer)))
    }

    fn consumer_route(mut self, name: String, patterns: Patterns, consumer: ConsumerKind) -> Self {
        self.registry.consumers.push(ConsumerRoute { name, patterns, consumer });
        self
    }

    /// With a publisher for those messages of the outbox that the patterns match.
    #[must_use]
    pub fn publisher(mut self, patterns: Patterns, publisher: impl Publisher + 'static) -> Self {
        self.registry.routes.push(Route::new(patterns, Arc::new(publisher)));
        self
    }

    /// With these publishers for messages of the outbox, in the place of all others.
    #[must_use]
    pub fn routes(mut self, routes: Routes) -> Self {
        self.registry.routes = routes;
        self
    }

    /// Uses that clock instead of the machine's.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// With that seed for its jitter.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Sets the database up, joins the other instances and starts. `Conflict` when the database is set up for another
    /// service or another number of partitions.
    pub async fn start(self) -> Result<Running> {
        let Self { store, service, registry, options, clock, seed } = self;
        let jitter = Jitter::new(seed);
        let checked = options.check().and_then(|()| registry.check());
        checked.map_err(|error| error.named("start runner", ""))?;
        let setup = Setup {
            service: service.clone(),
            partitions: options.partitions,
            object_types: registry.object_types(),
            lifecycle: options.lifecycle,
        };
        store.set_up(setup).await?;
        let notifier = Arc::new(Notifier::new(options.waiters_max));
        let counters = Arc::default();
        let client = Client::with(store.clone(), clock.clone(), notifier.clone(), None);
        let deps =
            RunnerDeps { store, registry, options, clock, jitter, notifier, counters, service };
        let deps = Arc::new(deps);
        let (commands, received) = mpsc::channel(COMMANDS_MAX);
        let (drained, given_back) = mpsc::channel(PARTITIONS_MAX.into());
        let mut membership = PartitionMembership::new(deps.clone(), commands, given_back);
        membership.join().await?;
        let event_loop = EventLoop::new(deps.clone(), received, drained);
        let stop = Stop::new();
        let mut tasks = JoinSet::new();
        tasks.spawn(run(deps.clone(), event_loop, membership, stop.clone()));
        Ok(Running::new(deps, client, stop, tasks))
    }
}

/// Most commands that wait for the loop.
const COMMANDS_MAX: usize = 16;

/// Runs all parts, and ends them in order: the loop, then the membership, which gives back.
async fn run(
    deps: Arc<RunnerDeps>,
    event_loop: EventLoop,
    membership: PartitionMembership,
    stop: Stop,
) {
    let (leave, mut parts) = (Stop::new(), JoinSet::new());
    let own = (stop.clone(), leave.clone());
    parts.spawn(async move {
        event_loop.run(&own.0).await;
        own.1.give();
    });
    let own = (stop.clone(), leave.clone());
    parts.spawn(async move { membership.run(&own.0, &own.1).await });
    let (listening, stopped) = (deps.clone(), stop.clone());
    parts.spawn(async move { listener::run(listening, &stopped).await });
    let stopped = stop.clone();
    parts.spawn(async move { maintenance::run(deps, &stopped).await });
    while let Some(ended) = parts.join_next().await {
        if let Err(error) = ended {
            // One part without the others would look alive and do nothing.
            tracing::error!(%error, "a part of the runner broke off; it ends");
            stop.give();
            leave.give();
        }
    }
}

/// Runs the messages of a database, together with the other runners of its service.
///
/// ```no_run
/// use std::sync::Arc;
/// use windrow_engine::async_trait;
/// use windrow_engine::deliver::Patterns;
/// use windrow_engine::messages::{Consumer, Context, Effects, HandlerError, Runner};
/// # use windrow_store::MessageStore;
///
/// struct Greeter;
///
/// #[async_trait]
/// impl Consumer for Greeter {
///     async fn consume(&self, context: Context, _: bytes::Bytes) -> Result<Effects, HandlerError> {
///         Ok(Effects::none().send(context.message("greeted", "hello")))
///     }
/// }
///
/// # async fn run(store: Arc<dyn MessageStore>) -> windrow_store::Result<()> {
/// let runner = Runner::builder(store, "shop").consumer("greeter", Patterns::default(), Greeter);
/// let running = runner.start().await?;
/// let handle = running.handle(); // cheap to clone; `handle.stop()` does not wait
/// // …
/// running.stop().await;
/// # Ok(())
/// # }
/// ```
pub struct Runner;

impl Runner {
    /// A runner of that service's messages over a store, by value or in an `Arc`.
    pub fn builder(store: impl IntoStore<dyn MessageStore>, service: impl Into<String>) -> Builder {
        Builder {
            store: store.into_store(),
            service: service.into(),
            registry: Registry::default(),
            options: Options::default(),
            clock: Clock::machine(),
            seed: None,
        }
    }
}
