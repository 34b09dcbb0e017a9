//! The HTTP executor: a line becomes one request to its upstream, the answer becomes a verdict.
//!
//! Holds throughout: a line never chooses the host, a header or the key; every try is bounded in
//! time and in bytes; redirects are not followed and no proxy is taken from the environment.
//! Absent on purpose: retries and pacing. One call is one try; the worker decides about the next.

mod classify;
mod config;
mod error;
mod key;
mod path;
mod request;
mod route;
mod variant;

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use windrow_domain::Target;

pub use config::{Config, Headers, Http, KeySource, Predicate, Upstream, Variant};
pub use error::Error;

use super::{Attempt, Executor, Limits, Outcome};
use crate::clock::Clock;
use crate::http::exchange::exchange;
use request::{RequestLine, refusal};
use route::Route;

/// Runs lines by HTTP.
#[derive(Debug)]
pub struct HttpExecutor {
    routes: HashMap<Target, Arc<Route>>,
    default: Option<Arc<Route>>,
    clock: Clock,
}

impl HttpExecutor {
    /// Makes clients and reads keys. Nothing is sent yet.
    pub fn new(config: Config) -> Result<Self, Error> {
        let mut routes = HashMap::new();
        for upstream in config.upstreams {
            let route = Arc::new(Route::new(&upstream)?);
            if upstream.targets.is_empty() {
                let because = "must name at least one target";
                return Err(Error::value(upstream.label(), "targets", because));
            }
            for target in upstream.targets {
                if routes.insert(target.clone(), route.clone()).is_some() {
                    return Err(Error::TargetTwice(target));
                }
            }
        }
        let default = config.default.map(|upstream| Route::new(&upstream)).transpose()?;
        Ok(Self { routes, default: default.map(Arc::new), clock: Clock::machine() })
    }

    /// Reads the time from that clock: a `Retry-After` may be a time of day.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    fn route(&self, target: &Target) -> Option<&Route> {
        self.routes.get(target).or(self.default.as_ref()).map(|route| &**route)
    }

    async fn try_line(&self, attempt: &Attempt, line: &RequestLine<'_>) -> Outcome {
        let unsent = |failure| Outcome { reached: false, ..Outcome::failed(failure) };
        let Some(route) = self.route(&attempt.target) else {
            let message = format!("No upstream serves the target {}.", attempt.target);
            return unsent(refusal("no_upstream", message));
        };
        match request::build(route, attempt, line) {
            Ok(request) => {
                let result = exchange(route.client(), request, &route.bounds).await;
                classify::judge(route, self.clock.now(), result)
            }
            Err(failure) => unsent(failure),
        }
    }
}

#[async_trait]
impl Executor for HttpExecutor {
    async fn execute(&self, attempt: Attempt) -> Outcome {
        let mut line = match RequestLine::read(&attempt.raw) {
            Ok(line) => line,
            Err(failure) => return Outcome { reached: false, ..Outcome::failed(failure) },
        };
        let custom_id = line.custom_id.take();
        Outcome { custom_id, ..self.try_line(&attempt, &line).await }
    }

    fn serves(&self, target: &Target) -> bool {
        self.route(target).is_some()
    }

    fn limits(&self, target: &Target) -> Limits {
        self.route(target).map(|route| route.limits.clone()).unwrap_or_default()
    }

    fn host(&self, target: &Target) -> String {
        match self.route(target) {
            Some(route) => route.base.origin().to_owned(),
            None => target.as_str().to_owned(),
        }
    }
}
