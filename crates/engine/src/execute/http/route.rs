//! An upstream, made ready: everything that is the same for all its requests is made once.

use std::collections::HashSet;
use std::str::FromStr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use reqwest::header::{
    CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue,
    TRANSFER_ENCODING, USER_AGENT,
};
use reqwest::{Client, Method};
use serde_json::Value;

use super::config::{Headers, Predicate, Upstream, Variant};
use super::error::Error;
use super::key::Key;
use super::path::Base;
use crate::execute::Limits;
use crate::http::client::{self, ClientError, ClientOptions};
use crate::http::exchange::ExchangeBounds;

/// Where the requests of some targets go, and how.
#[derive(Debug)]
pub(super) struct Route {
    pub(super) base: Base,
    pub(super) method: Option<Method>,
    pub(super) endpoints: HashSet<String>,
    pub(super) key: Option<Key>,
    pub(super) bounds: ExchangeBounds,
    pub(super) limits: Limits,
    pub(super) not_found_statuses: Vec<u16>,
    pub(super) not_found_when: Vec<Predicate>,
    /// At least one.
    forms: Vec<Form>,
    /// At least one. Several where one connection carries many requests, and only so many.
    clients: Vec<Client>,
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

fn clients(upstream: &Upstream, https: bool) -> Result<Vec<Client>, Error> {
    let options = ClientOptions {
        https,
        version: upstream.http,
        ca_file: upstream.ca_file.as_deref(),
        connect_ms_max: upstream.connect_ms_max,
        requests_max: upstream.concurrency_max,
    };
    client::build(&options).map_err(|error| {
        let upstream = upstream.label().to_owned();
        match error {
            ClientError::CaFile { path, source } => Error::CaFile { upstream, path, source },
            ClientError::Build(source) => Error::Client { upstream, source },
        }
    })
}

/// One form of the requests.
#[derive(Debug)]
pub(super) struct Form {
    pub(super) query: Option<String>,
    pub(super) headers: HeaderMap,
    pub(super) body: Option<Value>,
}

impl Route {
    pub(super) fn new(upstream: &Upstream) -> Result<Self, Error> {
        let label = upstream.label();
        let base = Base::read(&upstream.base_url)
            .map_err(|because| Error::BaseUrl { upstream: label.to_owned(), because })?;
        judge(upstream)?;
        let key = upstream.api_key.as_ref().map(|key| Key::read(key, label)).transpose()?;
        let method = upstream.method.as_deref().map(|name| method(name, label)).transpose()?;
        let only = [Variant::default()];
        let variants = if upstream.variants.is_empty() { &only[..] } else { &upstream.variants };
        let form = |variant: &Variant| Form::new(upstream, key.as_ref(), variant);
        Ok(Self {
            forms: variants.iter().map(form).collect::<Result<_, _>>()?,
            clients: clients(upstream, base.is_https())?,
            base,
            method,
            endpoints: upstream.endpoints.iter().cloned().collect(),
            key,
            bounds: bounds(upstream),
            limits: upstream.limits(),
            not_found_statuses: upstream.not_found_statuses.clone(),
            not_found_when: upstream.not_found_when.clone(),
            next: AtomicUsize::new(0),
        })
    }

    /// The form of that try, counted from 1.
    pub(super) fn form(&self, attempt: u32) -> &Form {
        let at = usize::try_from(attempt.saturating_sub(1)).unwrap_or_default();
        &self.forms[at % self.forms.len()]
    }

    /// Whether tries differ from each other.
    pub(super) fn has_variants(&self) -> bool {
        self.forms.len() > 1
    }

    /// The client for the next request.
    pub(super) fn client(&self) -> &Client {
        match &self.clients[..] {
            [client] => client,
            clients => &clients[self.next.fetch_add(1, Ordering::Relaxed) % clients.len()],
        }
    }
}

impl Form {
    fn new(upstream: &Upstream, key: Option<&Key>, variant: &Variant) -> Result<Self, Error> {
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
    if upstream.not_found_statuses.iter().any(|status| !(400..500).contains(status)) {
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
    if !upstream.endpoints.iter().all(|path| path.starts_with('/') && !path.contains('?')) {
        return bad("endpoints", "must be paths that begin with `/`, without a query");
    }
    Ok(())
}
