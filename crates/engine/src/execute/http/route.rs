//! An upstream, made ready: everything that is the same for all its requests is made once.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use reqwest::Method;
use reqwest::header::{
    CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue,
    TRANSFER_ENCODING, USER_AGENT,
};
use serde_json::Value;
use windrow_domain::upstream::MarkSecret;

use super::config::{Predicate, Price, Upstream, Variant};
use super::error::Error;
use super::key::ApiKey;
use super::path::Base;
use crate::execute::Limits;
use crate::http::client::{self, ClientOptions, HttpClientError};
use crate::http::exchange::ExchangeBounds;
use crate::http::options::Headers;
use crate::http::streams::{PlacedClient, StreamServer};

/// Where the requests of some targets go, and how.
#[derive(Debug)]
pub(super) struct UpstreamRoute {
    pub(super) base: Base,
    pub(super) method: Option<Method>,
    /// What lines may ask for.
    allowed: Upstream,
    pub(super) key: Option<ApiKey>,
    pub(super) bounds: ExchangeBounds,
    pub(super) limits: Limits,
    /// None for what is usual: 404 to a method that only reads.
    pub(super) not_found_statuses: Option<Vec<u16>>,
    pub(super) not_found_when: Vec<Predicate>,
    /// Headers that recipes may set.
    pub(super) recipe_headers: Vec<String>,
    /// What tokens cost, by model.
    pub(super) prices: BTreeMap<String, Price>,
    /// The forms of its requests, at least one; attempts use them in turn.
    forms: Vec<Form>,
    /// At least one. Several where one connection carries many requests, and only so many.
    clients: Vec<PlacedClient>,
    next: AtomicUsize,
}

fn bounds(upstream: &Upstream) -> ExchangeBounds {
    ExchangeBounds {
        first_byte: Duration::from_millis(upstream.first_byte_ms_max),
        idle: Duration::from_millis(upstream.idle_ms_max),
        total: Duration::from_millis(upstream.total_ms_max),
        body_bytes: upstream.body_bytes_max,
    }
}

fn clients(upstream: &Upstream, base: &Base) -> Result<Vec<PlacedClient>, Error> {
    let options = ClientOptions {
        https: base.is_https(),
        version: upstream.http,
        ca_file: upstream.ca_file.as_deref(),
        connect_ms_max: upstream.connect_ms_max,
        requests_max: upstream.concurrency_max,
    };
    let made = client::build(&options).map_err(|error| {
        let upstream = upstream.label().to_owned();
        match error {
            HttpClientError::CaFile { path, source } => Error::CaFile { upstream, path, source },
            HttpClientError::Build(source) => Error::Client { upstream, source },
        }
    })?;
    let (host, port) = base.host_and_port();
    let server = options.shares().then(|| StreamServer {
        host: host.to_owned(),
        port,
        https: options.https,
        ca_file: upstream.ca_file.clone(),
        connect_ms_max: upstream.connect_ms_max,
    });
    Ok(made.into_iter().map(|client| PlacedClient::new(client, server.clone())).collect())
}

/// One form of the requests.
#[derive(Debug)]
pub(super) struct Form {
    pub(super) query: Option<String>,
    pub(super) headers: HeaderMap,
    pub(super) body: Option<Value>,
}

impl UpstreamRoute {
    pub(super) fn new(upstream: &Upstream) -> Result<Self, Error> {
        let label = upstream.label();
        let base = Base::read(&upstream.base_url)
            .map_err(|because| Error::BaseUrl { upstream: label.to_owned(), because })?;
        judge(upstream)?;
        let key = upstream.api_key.as_ref().map(|key| ApiKey::read(key, label)).transpose()?;
        let method = upstream.method.as_deref().map(|name| method(name, label)).transpose()?;
        let only = [Variant::default()];
        let variants = if upstream.variants.is_empty() { &only[..] } else { &upstream.variants };
        let form = |variant: &Variant| Form::new(upstream, key.as_ref(), variant);
        Ok(Self {
            forms: variants.iter().map(form).collect::<Result<_, _>>()?,
            clients: clients(upstream, &base)?,
            base,
            method,
            allowed: Upstream::default()
                .endpoints(upstream.endpoints.clone())
                .paths(upstream.paths.clone())
                .methods(upstream.methods.clone()),
            key,
            bounds: bounds(upstream),
            limits: upstream.limits(),
            not_found_statuses: upstream.not_found_statuses.clone(),
            not_found_when: upstream.not_found_when.clone(),
            recipe_headers: upstream.recipe_headers.clone(),
            prices: upstream.prices.clone(),
            next: AtomicUsize::new(0),
        })
    }

    /// Whether lines may ask for that path.
    pub(super) fn allows_path(&self, path: &str) -> bool {
        self.allowed.allows_path(path)
    }

    /// Whether lines may use that method.
    pub(super) fn allows_method(&self, method: &str) -> bool {
        self.allowed.methods.is_empty() || self.allowed.methods.iter().any(|known| known == method)
    }

    /// Tells its key and headers from others, and shows nothing of them: a keyed hash. Empty when there
    /// are none.
    pub(super) fn key_mark(&self, secret: &MarkSecret) -> String {
        let own = [USER_AGENT, CONTENT_TYPE];
        let mut hasher = blake3::Hasher::new_keyed(&secret.0);
        let mut is_empty = true;
        for form in &self.forms {
            // In the order of their names; a name comes once.
            let mut headers: Vec<_> = form.headers.iter().collect();
            headers.retain(|(name, value)| value.is_sensitive() || !own.contains(name));
            headers.sort_unstable_by_key(|(name, _)| name.as_str());
            hasher.update(&(headers.len() as u64).to_le_bytes());
            for (name, value) in headers {
                is_empty = false;
                for part in [name.as_str().as_bytes(), value.as_bytes()] {
                    hasher.update(&(part.len() as u64).to_le_bytes()).update(part);
                }
            }
        }
        if is_empty { String::new() } else { hasher.finalize().to_hex().to_string() }
    }

    /// The form of that attempt, counted from 1.
    pub(super) fn form(&self, attempt: u32) -> &Form {
        let at = usize::try_from(attempt.saturating_sub(1)).unwrap_or_default();
        &self.forms[at % self.forms.len()]
    }

    /// Whether attempts differ from each other.
    pub(super) fn has_variants(&self) -> bool {
        self.forms.len() > 1
    }

    /// The client for the next request.
    pub(super) fn client(&self) -> &PlacedClient {
        match &self.clients[..] {
            [client] => client,
            clients => &clients[self.next.fetch_add(1, Ordering::Relaxed) % clients.len()],
        }
    }
}

impl Form {
    fn new(upstream: &Upstream, key: Option<&ApiKey>, variant: &Variant) -> Result<Self, Error> {
        let mut headers = HeaderMap::new();
        let agent = concat!("windrow/", env!("CARGO_PKG_VERSION"));
        headers.insert(USER_AGENT, HeaderValue::from_static(agent));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(key) = key {
            headers.extend([key.header(upstream)?]);
        }
        put(&mut headers, &upstream.headers, upstream.label())?;
        put(&mut headers, &variant.headers, upstream.label())?;
        Ok(Self { query: variant.query.clone(), headers, body: variant.body.clone() })
    }
}

fn put(to: &mut HeaderMap, headers: &Headers, upstream: &str) -> Result<(), Error> {
    // The first four belong to the connection, the last to the engine's promises.
    let own = [HOST, CONTENT_LENGTH, TRANSFER_ENCODING, CONNECTION];
    for (name, value) in &headers.0 {
        let bad = |because: &str| Error::value(upstream, "headers", format!("{name} {because}"));
        let known = HeaderName::from_str(name).map_err(|_| bad("is not the name of a header"))?;
        if own.contains(&known) || known == "idempotency-key" {
            return Err(bad("is set by the engine itself"));
        }
        let mut value =
            HeaderValue::from_str(value).map_err(|_| bad("has a value that no header can have"))?;
        // An operator may keep a secret in there.
        value.set_sensitive(true);
        to.insert(known, value);
    }
    Ok(())
}

fn method(name: &str, upstream: &str) -> Result<Method, Error> {
    let known = [Method::POST, Method::GET, Method::PUT, Method::PATCH, Method::DELETE];
    let found = known.into_iter().find(|method| method.as_str() == name);
    found.ok_or_else(|| {
        Error::value(upstream, "method", "must be one of POST, GET, PUT, PATCH, DELETE")
    })
}

fn judge(upstream: &Upstream) -> Result<(), Error> {
    let bad = |name, because: &str| Err(Error::value(upstream.label(), name, because));
    for (name, value) in [
        ("connect_ms_max", upstream.connect_ms_max),
        ("first_byte_ms_max", upstream.first_byte_ms_max),
        ("idle_ms_max", upstream.idle_ms_max),
        ("total_ms_max", upstream.total_ms_max),
        ("body_bytes_max", upstream.body_bytes_max),
        ("concurrency_min", upstream.concurrency_min.into()),
        ("burst", upstream.burst.into()),
        ("breaker_failures_max", upstream.breaker_failures_max.into()),
        ("breaker_open_ms_min", upstream.breaker_open_ms_min),
        ("breaker_probes", upstream.breaker_probes.into()),
        ("attempts_max", upstream.attempts_max.unwrap_or(1).into()),
        ("attempts_not_found_max", upstream.attempts_not_found_max.unwrap_or(1).into()),
        ("backoff_ms_min", upstream.backoff_ms_min.unwrap_or(1)),
        ("backoff_timeout_ms_min", upstream.backoff_timeout_ms_min.unwrap_or(1)),
        ("backoff_unacceptable_ms_min", upstream.backoff_unacceptable_ms_min.unwrap_or(1)),
        ("backoff_not_found_ms_min", upstream.backoff_not_found_ms_min.unwrap_or(1)),
        ("backoff_ms_max", upstream.backoff_ms_max.unwrap_or(1)),
        ("backoff_throttled_ms_max", upstream.backoff_throttled_ms_max.unwrap_or(1)),
    ] {
        if value == 0 {
            return bad(name, "must be at least 1");
        }
    }
    if upstream.concurrency_max < upstream.concurrency_min {
        return bad("concurrency_max", "must not be below concurrency_min");
    }
    if upstream.breaker_open_ms_max < upstream.breaker_open_ms_min {
        return bad("breaker_open_ms_max", "must not be below breaker_open_ms_min");
    }
    if !(upstream.breaker_ratio > 0.0 && upstream.breaker_ratio <= 1.0) {
        return bad("breaker_ratio", "must be above 0 and at most 1");
    }
    if upstream.requests_per_sec_max.is_some_and(|rate| !(rate.is_finite() && rate > 0.0)) {
        return bad("requests_per_sec_max", "must be above 0");
    }
    judge_meaning(upstream)
}

fn judge_meaning(upstream: &Upstream) -> Result<(), Error> {
    let bad = |name, because: &str| Err(Error::value(upstream.label(), name, because));
    if upstream.not_found_statuses.iter().flatten().any(|status| !(400..500).contains(status)) {
        return bad("not_found_statuses", "must be between 400 and 499");
    }
    let is_pointer = |pointer: &str| pointer.is_empty() || pointer.starts_with('/');
    if !upstream.not_found_when.iter().all(|when| is_pointer(&when.pointer)) {
        return bad("not_found_when.pointer", "must begin with `/`");
    }
    let mut queries = upstream.variants.iter().filter_map(|variant| variant.query.as_deref());
    if !queries.all(|query| query.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#')) {
        return bad("variants.query", "must be plain ASCII without blanks and `#`");
    }
    let is_path = |path: &String| path.starts_with('/') && !path.contains('?');
    if !upstream.endpoints.iter().all(is_path) {
        return bad("endpoints", "must be paths that begin with `/`, without a query");
    }
    let is_pattern = |path: &String| is_path(path) && !path.trim_end_matches('*').contains('*');
    if !upstream.paths.iter().all(is_pattern) {
        let because =
            "must be paths that begin with `/`, without a query; `*` may stand at the end";
        return bad("paths", because);
    }
    for name in &upstream.methods {
        method(name, upstream.label()).map_err(|_| {
            let because = "must be some of POST, GET, PUT, PATCH, DELETE";
            Error::value(upstream.label(), "methods", because)
        })?;
    }
    Ok(())
}
