//! The application: its parts, the state that every handler gets, and the routes.
//!
//! Holds throughout: cloning is cheap, and all clones share one state.

mod tasks;

use std::sync::Arc;

use axum::Router;
use axum::http::{HeaderValue, Method, Uri, header};
use axum::middleware;
use axum::response::{IntoResponse as _, Response};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use windrow_domain::{BatchId, Target};
use windrow_engine::Handle;
use windrow_engine::clock::Clock;
use windrow_engine::execute::Executor;
use windrow_engine::ingest;
use windrow_engine::storage::Storage;
use windrow_store::batch::{Batch, LaneUpstreams};
use windrow_store::{Scope, Store};

use crate::admission::Admission;
use crate::auth::Guard;
use crate::error::{Code, Error, Result};
use crate::freshness_cache::FreshnessCache;
use crate::messages::{self, Messages};
use crate::metrics::{self, Metrics};
use crate::openapi::{complete, outline, page, text};
use crate::options::Options;
use crate::query_check::{KnownParams, check_query};
use crate::trace::trace;
use crate::{health, openai, rest};

use tasks::Tasks;

/// Which targets there are, and which endpoints each serves. Says nothing about their addresses.
pub trait Routes: Send + Sync + 'static {
    /// Whether lines for this target that request this endpoint can be run.
    fn check(&self, target: &Target, endpoint: &str) -> Result<(), Unserved>;

    /// Whether lines of the target may request different paths in one job; each is checked then.
    fn mixes_paths(&self, _target: &Target) -> bool {
        false
    }

    /// Whether lines of some target may use other methods than POST in a job; each is checked then.
    fn allows_methods(&self) -> bool {
        true
    }

    /// Whether lines of the target may use that method in a job.
    fn allows_method(&self, _target: &Target, _method: &str) -> bool {
        true
    }

    /// The upstreams of a new batch's lanes, by their targets. By default they are the program's own
    /// executor.
    fn upstreams(&self, _endpoint: &str) -> LaneUpstreams {
        LaneUpstreams::default()
    }
}

/// Why lines cannot be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unserved {
    /// No upstream serves the target.
    Target,
    /// The target does not serve the endpoint.
    Endpoint,
}

/// What an [`App`] is made of.
pub struct Parts {
    /// The database.
    pub store: Arc<dyn Store>,
    /// The storage of output files.
    pub storage: Storage,
    /// The targets and their endpoints.
    pub routes: Arc<dyn Routes>,
    /// The engine in this process, if there is one.
    pub engine: Option<Handle>,
    /// What runs lines in this process when a job is kicked off; none without a worker.
    pub executor: Option<Arc<dyn Executor>>,
    /// The engine options of a kickoff.
    pub work: windrow_engine::Options,
    /// The options of an upload's ingest.
    pub ingest: ingest::Options,
    /// The limits of the server.
    pub options: Options,
    /// The clock.
    pub clock: Clock,
    /// The metrics; store and executor should be wrapped by the same ones.
    pub metrics: Metrics,
}

/// The application that a server serves, and the state of its handlers. Cheap to clone.
#[derive(Clone)]
pub struct App {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) storage: Storage,
    pub(crate) routes: Arc<dyn Routes>,
    pub(crate) engine: Option<Handle>,
    pub(crate) executor: Option<Arc<dyn Executor>>,
    pub(crate) work: Arc<windrow_engine::Options>,
    pub(crate) ingest: Arc<ingest::Options>,
    pub(crate) options: Arc<Options>,
    pub(crate) clock: Clock,
    pub(crate) metrics: Metrics,
    pub(crate) guard: Arc<Guard>,
    pub(crate) admission: Arc<Admission>,
    pub(crate) tasks: Arc<Tasks>,
    pub(crate) models: Arc<openai::Models>,
    /// Jobs as their listeners saw them last.
    pub(crate) job_status: Arc<FreshnessCache<BatchId, Batch>>,
    messages: Option<Arc<Messages>>,
}

impl App {
    /// An application without the messages API.
    pub fn new(parts: Parts) -> Self {
        Self::build(parts, None)
    }

    /// An application with the messages API.
    pub fn with_messages(parts: Parts, messages: Messages) -> Self {
        Self::build(parts, Some(messages))
    }

    fn build(parts: Parts, messages: Option<Messages>) -> Self {
        let Parts { store, storage, routes, engine, executor, work, .. } = parts;
        let Parts { ingest, options, clock, metrics, .. } = parts;
        Self {
            guard: Arc::new(Guard::new(&options)),
            admission: Arc::new(Admission::new(&options)),
            tasks: Arc::default(),
            models: Arc::default(),
            job_status: Arc::default(),
            messages: messages.map(Arc::new),
            store,
            storage,
            routes,
            engine,
            executor,
            work: Arc::new(work),
            ingest: Arc::new(ingest),
            options: Arc::new(options),
            clock,
            metrics,
        }
    }

    /// All routes, ready to be served by axum.
    pub fn router(&self) -> Router {
        let (router, api) = routes(&self.options).split_for_parts();
        let known = (self.clone(), Arc::new(KnownParams::of(&api)));
        router
            .layer(middleware::from_fn_with_state(known, check_query))
            .merge(page::routes(&complete(api)))
            .fallback(nothing_here)
            .method_not_allowed_fallback(wrong_method)
            .layer(middleware::from_fn_with_state(self.clone(), trace))
            .with_state(self.clone())
    }

    /// A batch with its counts: from the engine's cache when this process closed it a moment ago.
    pub(crate) async fn status(
        &self,
        scope: &Scope,
        batch: BatchId,
    ) -> windrow_store::Result<Batch> {
        match &self.engine {
            Some(engine) => engine.status(scope, batch).await,
            None => self.store.batch(scope, batch).await,
        }
    }

    /// A closed batch changes: what this process remembers of it is not true any more.
    pub(crate) fn forget_status(&self, batch: BatchId) {
        self.engine.iter().for_each(|engine| engine.forget_status(batch));
    }

    /// The messages of this server, if it was started with them.
    pub(crate) fn messages(&self) -> Result<&Messages> {
        self.messages.as_deref().ok_or_else(|| {
            let message = "This server was started without messages.";
            Error::new(Code::FeatureOff, message)
        })
    }

    /// Tells the engine of this process that there may be work; engines elsewhere poll.
    pub(crate) fn wake(&self) {
        if let Some(engine) = &self.engine {
            engine.wake();
        }
    }
}

/// The routes that the OpenAPI description lists.
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

pub(crate) async fn nothing_here(uri: Uri) -> Error {
    let path: String = uri.path().chars().take(200).collect();
    Error::new(Code::NotFound, format!("No route matches {path}."))
}

async fn wrong_method(method: Method, uri: Uri) -> Response {
    let path: String = uri.path().chars().take(200).collect();
    let message = format!("{path} does not support {method}.");
    let mut response = Error::new(Code::MethodNotAllowed, message).into_response();
    // Events and snapshots of a stream are one route, since the stream's name may have slashes.
    if let Some(methods) = messages::methods_of_stream(uri.path()) {
        response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(methods));
    }
    response
}
