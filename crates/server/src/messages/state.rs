//! What the calls of this API share: the database's messages, and who waits for answers.
//!
//! Holds throughout: so many wait for answers and no more; further ones are answered at once with what
//! is known.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use windrow_engine::messages::{CallOutcome, Client, ClientError, Gauges};
use windrow_store::MessageStore;
use windrow_store::call::CallKey;

use super::params::into_api_error;
use super::version_cache::VersionCache;
use crate::app::App;
use crate::error::{Code, Error};

/// Callers that wait for an answer at the same time.
const WAITERS_MAX: usize = 1_000;

/// Numbers of a runner.
type Watch = Box<dyn Fn() -> Gauges + Send + Sync>;

/// The messages of a server.
pub struct Messages {
    pub(super) client: Client,
    pub(super) versions: VersionCache,
    waiters: Semaphore,
    watch: Option<Watch>,
}

impl Messages {
    /// By this client: the runner's, when there is one in this process.
    pub fn new(client: Client) -> Self {
        let waiters = Semaphore::new(WAITERS_MAX);
        Self { client, versions: VersionCache::default(), waiters, watch: None }
    }

    /// With the numbers of the runner in this process.
    #[must_use]
    pub fn watched(mut self, watch: impl Fn() -> Gauges + Send + Sync + 'static) -> Self {
        self.watch = Some(Box::new(watch));
        self
    }

    pub(super) fn message_store(&self) -> &Arc<dyn MessageStore> {
        self.client.store()
    }

    /// The numbers of the runner in this process, if there is one.
    pub(super) fn runner(&self) -> Option<Gauges> {
        self.watch.as_ref().map(|watch| watch())
    }

    /// What a call says when it has its answer, or after that time; none when nobody can wait here.
    pub(super) async fn wait(
        &self,
        app: &App,
        key: &CallKey,
        longest: Duration,
    ) -> windrow_store::Result<CallOutcome> {
        let Ok(_place) = self.waiters.try_acquire() else { return Ok(CallOutcome::Pending) };
        tokio::select! {
            outcome = self.client.wait(key, longest) => outcome,
            () = app.tasks.stopping() => Ok(CallOutcome::Pending),
        }
    }
}

/// What a client says, for callers.
pub(super) fn refused(error: ClientError) -> Error {
    match error {
        ClientError::Store(error) => into_api_error(error),
        ClientError::UnknownObjectType { object_type, known } => {
            let shown: String = object_type.chars().take(80).collect();
            let known = match known.as_slice() {
                [] => "it has none".to_owned(),
                known => format!("there are {}", list(known)),
            };
            let message =
                format!("The service here has no objects of the type {shown:?}; {known}.");
            Error::new(Code::UnknownObjectType, message).at("type")
        }
    }
}

/// Types that a refusal lists.
const TYPES_SHOWN_MAX: usize = 20;

fn list(known: &[String]) -> String {
    let shown: Vec<_> = known.iter().take(TYPES_SHOWN_MAX).map(String::as_str).collect();
    let more = if known.len() > TYPES_SHOWN_MAX { " and others" } else { "" };
    format!("{}{more}", shown.join(", "))
}
