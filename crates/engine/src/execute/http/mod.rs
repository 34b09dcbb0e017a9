//! The HTTP executor: a line becomes one request to its upstream, the answer becomes a verdict.
//!
//! Holds throughout: a line never chooses the host, a header or the key; every attempt is bounded
//! in time and in bytes; redirects are not followed and no proxy is taken from the environment.
//! Absent on purpose: retries and pacing. One call is one attempt; the worker decides about the
//! next.

mod classify;
mod config;
mod error;
mod key;
mod path;
mod request;
mod route;
mod row;
mod send;
mod variant;

use std::collections::HashMap;

use async_trait::async_trait;
use reqwest::Url;
use windrow_domain::attempt::Failure;
use windrow_domain::ids::BadName;
use windrow_domain::upstream::MarkSecret;
use windrow_domain::{Route, Target, UpstreamId};
use windrow_store::upstream::Upstream as Registration;

pub use crate::http::options::{Headers, Http};
pub use crate::http::tls::{TlsRefusal, handshake, speaks_tls};
pub use config::{Config, KeySource, Predicate, Price, Upstream, Variant};
pub use error::Error;

use super::{Attempt, Executor, Limits, Outcome};
use crate::clock::Clock;
use request::{RequestLine, refusal};
use route::UpstreamRoute;
use send::send;

/// The upstream of a base URL: its canonical text. See [`UpstreamId`].
pub fn upstream_of(base_url: &Url) -> Result<UpstreamId, BadName> {
    let (host, port) = (base_url.host_str().unwrap_or(""), base_url.port_or_known_default());
    UpstreamId::of_url(base_url.scheme(), host, port.unwrap_or(0), base_url.path())
}

/// Runs lines by HTTP: a lane goes to the upstream that it names, and to no other.
#[derive(Debug)]
pub struct HttpExecutor {
    routes: HashMap<UpstreamId, UpstreamRoute>,
    /// Where lines of these targets go when their batch names no upstream.
    targets: HashMap<Target, UpstreamId>,
    /// Where all others of those go; none when they are not to be claimed.
    default: Option<UpstreamId>,
    /// Batches that name no upstream are this program's own.
    serves_own: bool,
    clock: Clock,
}

impl HttpExecutor {
    /// Makes clients and reads keys. Nothing is sent yet.
    ///
    /// Batches of this program that name no upstream go by their targets: to the upstream that names
    /// them, or else to the default. See [`Self::named_only`].
    pub fn new(config: Config) -> Result<Self, Error> {
        let (mut routes, mut targets) = (HashMap::new(), HashMap::new());
        let mut with_paths = Vec::new();
        for upstream in config.upstreams {
            let id = add(&mut routes, &upstream)?;
            if !upstream.paths.is_empty() {
                with_paths.push(id.clone());
            } else if upstream.targets.is_empty() {
                let because = "must name at least one target, unless `paths` says what lines without \
                               a model may ask for";
                return Err(Error::value(upstream.label(), "targets", because));
            }
            for target in upstream.targets {
                if targets.insert(target.clone(), id.clone()).is_some() {
                    return Err(Error::TargetTwice(target));
                }
            }
        }
        let default = config.default.map(|upstream| add(&mut routes, &upstream)).transpose()?;
        // Lines without a model go to the one upstream that says which paths may be asked for.
        if let (None, [only]) = (&default, &with_paths[..]) {
            targets.entry(Target::no_model()).or_insert_with(|| only.clone());
        }
        Ok(Self { routes, targets, default, serves_own: true, clock: Clock::machine() })
    }

    /// Leaves batches that name no upstream alone: they are those of another program's own executor.
    #[must_use]
    pub fn named_only(mut self) -> Self {
        self.serves_own = false;
        self
    }

    /// Reads the time from that clock: a `Retry-After` may be a time of day.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    fn route(&self, upstream: &UpstreamId, target: &Target) -> Option<&UpstreamRoute> {
        match upstream.is_own() {
            true if self.serves_own => self.routes.get(self.by_target(target)?),
            true => None,
            false => self.routes.get(upstream),
        }
    }

    /// The upstream of a target whose batch names none.
    fn by_target(&self, target: &Target) -> Option<&UpstreamId> {
        self.targets.get(target).or(self.default.as_ref())
    }

    async fn try_line(&self, attempt: &Attempt, line: &RequestLine<'_>) -> Outcome {
        let unsent = |failure| Outcome { reached: false, ..Outcome::failed(failure) };
        let Some(route) = self.route(&attempt.upstream, &attempt.target) else {
            return unsent(no_route(attempt));
        };
        match request::build(route, attempt, line) {
            Ok(_) if !attempt.gate.is_open() => Outcome::withdrawn(),
            Ok((head, body)) => {
                match send(route.client(), &route.bounds, &attempt.gate, head, body).await {
                    Some(result) => classify::judge(route, self.clock.now(), result),
                    None => Outcome::withdrawn(),
                }
            }
            Err(failure) => unsent(failure),
        }
    }
}

#[async_trait]
impl Executor for HttpExecutor {
    async fn execute(&self, attempt: Attempt) -> Outcome {
        if let Some(task) = &attempt.row {
            return self.try_row(&attempt, task).await;
        }
        let mut line = match RequestLine::read(&attempt.raw) {
            Ok(line) => line,
            Err(failure) => return Outcome { reached: false, ..Outcome::failed(failure) },
        };
        let custom_id = line.custom_id.take();
        Outcome { custom_id, ..self.try_line(&attempt, &line).await }
    }

    fn upstreams(&self) -> Vec<UpstreamId> {
        let own = self.serves_own.then(UpstreamId::own);
        let mut upstreams: Vec<_> = self.routes.keys().cloned().chain(own).collect();
        upstreams.sort_unstable();
        upstreams
    }

    fn serves(&self, route: &Route) -> bool {
        self.route(&route.upstream, &route.target).is_some()
    }

    fn binds(&self, target: &Target) -> Option<UpstreamId> {
        self.by_target(target).cloned()
    }

    fn registrations(&self, secret: &MarkSecret) -> Vec<Registration> {
        let routes = self.routes.iter().map(|(id, route)| Registration {
            upstream: id.clone(),
            base_url: route.base.canonical().to_owned(),
            key_mark: route.key_mark(secret),
        });
        let mut registrations: Vec<_> = routes.collect();
        registrations.sort_unstable_by(|a, b| a.upstream.cmp(&b.upstream));
        registrations
    }

    fn limits(&self, route: &Route) -> Limits {
        let found = self.route(&route.upstream, &route.target);
        found.map(|route| route.limits.clone()).unwrap_or_default()
    }

    fn host(&self, route: &Route) -> String {
        match self.route(&route.upstream, &route.target) {
            Some(found) => found.base.origin().to_owned(),
            None => route.target.as_str().to_owned(),
        }
    }
}

/// Nothing is sent: the line's upstream is not one of these.
fn no_route(attempt: &Attempt) -> Failure {
    let message = match attempt.upstream.is_own() {
        true => format!("No upstream serves the target {}.", attempt.target),
        false => format!("The upstream {} is not served here.", attempt.upstream),
    };
    refusal("no_upstream", message)
}

/// Makes an upstream ready. Its identity is its name, or else its canonical URL.
fn add(
    routes: &mut HashMap<UpstreamId, UpstreamRoute>,
    upstream: &Upstream,
) -> Result<UpstreamId, Error> {
    let route = UpstreamRoute::new(upstream)?;
    let text = if upstream.name.is_empty() { route.base.canonical() } else { &upstream.name };
    let bad = |because: &str| Error::value(upstream.label(), "name", because);
    let id = UpstreamId::new(text).map_err(|_| bad("is too long, or holds a control character"))?;
    if id.is_unknown() {
        return Err(bad("must not be `?`"));
    }
    match routes.insert(id.clone(), route) {
        None => Ok(id),
        Some(_) => Err(bad("is the same as another upstream's; give each a name of its own")),
    }
}
