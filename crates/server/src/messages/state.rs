//! What the calls of the messages API share: the client of the message store, the versions of streams
//! and the number of requests that wait for answers.
//!
//! Holds throughout: at most `WAITERS_MAX` requests wait for an answer; further ones get the call as it is.

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

/// Requests that wait for an answer at the same time.
const WAITERS_MAX: usize = 1_000;

/// Reads the gauges of a runner.
type Watch = Box<dyn Fn() -> Gauges + Send + Sync>;

/// The messages API of a server: its client, and what its calls share.
pub struct Messages {
    pub(super) client: Client,
    pub(super) versions: VersionCache,
    waiters: Semaphore,
    watch: Option<Watch>,
}

impl Messages {
    /// With this client: the runner's, when there is one in this process.
    pub fn new(client: Client) -> Self {
        let waiters = Semaphore::new(WAITERS_MAX);
        Self { client, versions: VersionCache::default(), waiters, watch: None }
    }

    /// Adds the gauges of the runner in this process.
    #[must_use]
    pub fn watched(mut self, watch: impl Fn() -> Gauges + Send + Sync + 'static) -> Self {
        self.watch = Some(Box::new(watch));
        self
    }

    pub(super) fn message_store(&self) -> &Arc<dyn MessageStore> {
        self.client.store()
    }

    /// The gauges of the runner in this process, if there is one.
    pub(super) fn runner(&self) -> Option<Gauges> {
        self.watch.as_ref().map(|watch| watch())
    }

    /// The outcome of a call, waited for at most that long; pending at once when too many requests
    /// wait.
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

/// The API's error for an error of the client.
pub(super) fn refused(error: ClientError) -> Error {
    match error {
        ClientError::Store(error) => into_api_error(error),
        ClientError::UnknownObjectType { object_type, known } => {
            let shown: String = object_type.chars().take(80).collect();
            let known = match known.as_slice() {
                [] => "this service has no object types".to_owned(),
                known => format!("known types are {}", list(known)),
            };
            let message = format!("Unknown object type {shown:?}; {known}.");
            Error::new(Code::UnknownObjectType, message).at("type")
        }
    }
}

/// Object types that an error lists.
const TYPES_SHOWN_MAX: usize = 20;

fn list(known: &[String]) -> String {
    let shown: Vec<_> = known.iter().take(TYPES_SHOWN_MAX).map(String::as_str).collect();
    let more = if known.len() > TYPES_SHOWN_MAX { " and others" } else { "" };
    format!("{}{more}", shown.join(", "))
}
