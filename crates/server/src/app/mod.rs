//! The application: what every handler is given, and the routes.

mod tasks;

use std::sync::Arc;

use axum::Router;
use axum::http::{Method, StatusCode, Uri};
use axum::middleware;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use windrow_domain::Target;
use windrow_engine::Handle;
use windrow_engine::clock::Clock;
use windrow_engine::execute::Executor;
use windrow_engine::ingest;
use windrow_engine::storage::Storage;
use windrow_store::Store;

use crate::admission::Admission;
use crate::auth::Guard;
use crate::error::Error;
use crate::messages::{self, Messages};
use crate::metrics::{self, Metrics};
use crate::openapi::{complete, outline, page, text};
use crate::options::Options;
use crate::trace::trace;
use crate::{health, openai, rest};

use tasks::Tasks;

/// Which targets there are, and what may be asked of them. Says nothing about where they are.
pub trait Routes: Send + Sync + 'static {
    /// Err says, for people, why lines for this target that ask for this endpoint cannot be run.
    fn check(&self, target: &Target, endpoint: &str) -> Result<(), Unserved>;
}

/// Why lines cannot be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unserved {
    /// Nothing serves the target.
    Target,
    /// What serves the target does not offer the endpoint.
    Endpoint,
}

/// What a server is made of.
pub struct Parts {
    /// Where everything is kept.
    pub store: Arc<dyn Store>,
    /// Where outputs are kept.
    pub storage: Storage,
    /// Which targets there are.
    pub routes: Arc<dyn Routes>,
    /// The engine in this process, if there is one.
    pub engine: Option<Handle>,
    /// What runs lines in this process, for those who drive a job by hand; none without a worker.
    pub executor: Option<Arc<dyn Executor>>,
    /// How a job that is driven by hand is worked on.
    pub work: windrow_engine::Options,
    /// How files are read.
    pub ingest: ingest::Options,
    /// The bounds.
    pub options: Options,
    /// The time.
    pub clock: Clock,
    /// Where numbers are kept; the store and the executor should be counted by it, too.
    pub metrics: Metrics,
}

/// What every handler is given. Cheap to clone.
#[derive(Clone)]
pub struct App(Arc<Inner>);

/// The parts, and what they share while they run.
pub struct Inner {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) storage: Storage,
    pub(crate) routes: Arc<dyn Routes>,
    pub(crate) engine: Option<Handle>,
    pub(crate) executor: Option<Arc<dyn Executor>>,
    pub(crate) work: windrow_engine::Options,
    pub(crate) tasks: Tasks,
    pub(crate) ingest: ingest::Options,
    pub(crate) options: Options,
    pub(crate) clock: Clock,
    pub(crate) metrics: Metrics,
    pub(crate) guard: Guard,
    pub(crate) models: openai::Models,
    pub(crate) admission: Admission,
    pub(crate) messages: Option<Messages>,
}

impl std::ops::Deref for App {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.0
    }
}

impl App {
    /// Puts the parts together, without messages.
    pub fn new(parts: Parts) -> Self {
        Self::build(parts, None)
    }

    /// The same, with messages.
    pub fn with_messages(parts: Parts, messages: Messages) -> Self {
        Self::build(parts, Some(messages))
    }

    fn build(parts: Parts, messages: Option<Messages>) -> Self {
        let Parts { store, storage, routes, engine, executor, work, .. } = parts;
        let Parts { ingest, options, clock, metrics, .. } = parts;
        Self(Arc::new(Inner {
            guard: Guard::new(&options),
            models: openai::Models::default(),
            admission: Admission::new(&options),
            messages,
            store,
            storage,
            routes,
            engine,
            executor,
            work,
            tasks: Tasks::default(),
            ingest,
            options,
            clock,
            metrics,
        }))
    }

    /// Every route, ready to be served.
    pub fn router(&self) -> Router {
        let (router, api) = routes(&self.options).split_for_parts();
        router
            .merge(page::routes(&complete(api)))
            .fallback(nothing_here)
            .method_not_allowed_fallback(wrong_method)
            .layer(middleware::from_fn_with_state(self.clone(), trace))
            .with_state(self.clone())
    }

    /// Says to the engine of this process that there may be work. Others look by themselves.
    pub(crate) fn wake(&self) {
        if let Some(engine) = &self.engine {
            engine.wake();
        }
    }
}

/// The routes that the description has.
fn routes(options: &Options) -> OpenApiRouter<App> {
    OpenApiRouter::with_openapi(outline())
        .nest("/v1", openai::routes(options).merge(messages::routes(options)))
        .nest("/api", rest::routes(options))
        .routes(routes!(health::healthz))
        .routes(routes!(health::readyz))
        .routes(routes!(metrics::metrics))
}

/// The description of the API, as it is served at `/openapi.json`.
pub fn openapi() -> String {
    let (_, api) = routes(&Options::default()).split_for_parts();
    text(&complete(api))
}

async fn nothing_here(uri: Uri) -> Error {
    let path: String = uri.path().chars().take(200).collect();
    Error::new(StatusCode::NOT_FOUND, "not_found", format!("There is nothing at {path}."))
}

async fn wrong_method(method: Method, uri: Uri) -> Error {
    let path: String = uri.path().chars().take(200).collect();
    let message = format!("{method} is not a method of {path}.");
    Error::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message)
}
