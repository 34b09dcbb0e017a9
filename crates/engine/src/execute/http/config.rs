//! What an operator says about upstreams. Its names are those of the configuration file.
//!
//! Holds throughout: a name that is not known is an error, never ignored; secrets come from the
//! environment or a file, and what could be one is not shown by `Debug`.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use serde::Deserialize;
use serde_json::Value;
use windrow_domain::Target;

use crate::execute::Limits;

/// Which upstream serves which target.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Each serves the targets it names.
    pub upstreams: Vec<Upstream>,
    /// Serves every other target; none when those are not to be claimed.
    pub default: Option<Upstream>,
}

impl Config {
    /// Everything goes to one base URL.
    pub fn to(base_url: impl Into<String>) -> Self {
        Self { upstreams: Vec::new(), default: Some(Upstream::new(base_url)) }
    }
}

/// One HTTP API, and how to treat it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Upstream {
    /// What messages call it; its base URL when empty.
    pub name: String,
    /// The targets it serves; the default upstream needs none.
    pub targets: Vec<Target>,
    /// Scheme, host, port and a path that every request begins with.
    pub base_url: String,
    /// The method of every request; none for the line's own.
    pub method: Option<String>,
    /// Headers of every request.
    pub headers: Headers,
    /// Where its key is.
    pub api_key: Option<KeySource>,
    /// The header that carries the key.
    pub api_key_header: String,
    /// What stands before the key in that header; empty for nothing.
    pub api_key_scheme: String,
    /// Certificates to trust besides the system's, as PEM.
    pub ca_file: Option<PathBuf>,
    /// Longest wait for a connection, TLS included.
    pub connect_ms_max: u64,
    /// Longest wait from the start of a try to the head of its answer.
    pub first_byte_ms_max: u64,
    /// Longest silence within a body.
    pub idle_ms_max: u64,
    /// Longest time of one try.
    pub total_ms_max: u64,
    /// Longest body of an answer, decompressed.
    pub body_bytes_max: u64,
    /// The version of HTTP.
    pub http: Http,
    /// Fewest requests in flight, whatever went wrong.
    pub concurrency_min: u32,
    /// Most requests in flight.
    pub concurrency_max: u32,
    /// Requests in flight to start with, held between the two.
    pub concurrency_start: u32,
    /// Most requests per second; none for as many as there are.
    pub requests_per_sec_max: Option<f64>,
    /// Most requests at once, where there is a rate.
    pub burst: u32,
    /// Failures in a row that open the breaker.
    pub breaker_failures_max: u32,
    /// The share of failures among the last ones that opens it.
    pub breaker_ratio: f64,
    /// How many of the last ones count.
    pub breaker_window: u32,
    /// How long it stays open at first.
    pub breaker_open_ms_min: u64,
    /// Longest time it stays open.
    pub breaker_open_ms_max: u64,
    /// Most probes at once.
    pub breaker_probes: u32,
    /// Statuses that mean that there is no such thing.
    pub not_found_statuses: Vec<u16>,
    /// Bodies of a 2xx that mean the same: one of these must hold.
    pub not_found_when: Vec<Predicate>,
    /// Forms of the request, tried in turn; the first try sends the first one.
    pub variants: Vec<Variant>,
    /// Paths that lines may ask for; all when empty.
    pub endpoints: Vec<String>,
}

impl Upstream {
    /// An upstream with the usual bounds.
    pub fn new(base_url: impl Into<String>) -> Self {
        Self { base_url: base_url.into(), ..Self::default() }
    }

    /// What messages call it.
    pub(super) fn label(&self) -> &str {
        if self.name.is_empty() { &self.base_url } else { &self.name }
    }

    /// Its bounds, as the controllers know them.
    pub(super) fn limits(&self) -> Limits {
        let mut limits = Limits::default();
        limits.concurrency.min = self.concurrency_min;
        limits.concurrency.max = self.concurrency_max;
        limits.concurrency.start =
            self.concurrency_start.clamp(self.concurrency_min, self.concurrency_max);
        limits.pace.per_sec_max = self.requests_per_sec_max;
        limits.pace.burst = self.burst;
        limits.breaker.failures_max = self.breaker_failures_max;
        limits.breaker.ratio = self.breaker_ratio;
        limits.breaker.window = self.breaker_window;
        limits.breaker.open_ms_min = self.breaker_open_ms_min;
        limits.breaker.open_ms_max = self.breaker_open_ms_max;
        limits.breaker.probes = self.breaker_probes;
        limits
    }
}

impl Default for Upstream {
    fn default() -> Self {
        let Limits { concurrency, breaker, pace } = Limits::default();
        Self {
            name: String::new(),
            targets: Vec::new(),
            base_url: String::new(),
            method: None,
            headers: Headers::default(),
            api_key: None,
            api_key_header: "Authorization".to_owned(),
            api_key_scheme: "Bearer".to_owned(),
            ca_file: None,
            connect_ms_max: 10_000,
            first_byte_ms_max: 600_000,
            idle_ms_max: 60_000,
            total_ms_max: 900_000,
            body_bytes_max: 16 << 20,
            http: Http::default(),
            concurrency_min: concurrency.min,
            concurrency_max: concurrency.max,
            concurrency_start: concurrency.start,
            requests_per_sec_max: pace.per_sec_max,
            burst: pace.burst,
            breaker_failures_max: breaker.failures_max,
            breaker_ratio: breaker.ratio,
            breaker_window: breaker.window,
            breaker_open_ms_min: breaker.open_ms_min,
            breaker_open_ms_max: breaker.open_ms_max,
            breaker_probes: breaker.probes,
            not_found_statuses: vec![404],
            not_found_when: Vec::new(),
            variants: Vec::new(),
            endpoints: Vec::new(),
        }
    }
}

/// Headers by name. Their values may be secrets, so they are never shown.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Headers(pub BTreeMap<String, String>);

impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// Where an API key is: `{ env = "NAME" }` or `{ file = "PATH" }`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeySource {
    /// In a variable of the environment.
    Env(String),
    /// In a file, alone.
    File(PathBuf),
}

/// The version of HTTP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Http {
    /// HTTP/1.1 over plain connections; over TLS what the upstream prefers.
    #[default]
    Auto,
    /// HTTP/1.1.
    Http1,
    /// HTTP/2, without asking first where there is no TLS.
    Http2,
}

/// Something that may hold of a JSON body.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Predicate {
    /// Where to look: a JSON pointer (RFC 6901), `/choices/0/finish_reason`.
    pub pointer: String,
    /// What must be there.
    pub equals: Value,
}

/// One form of a request.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Variant {
    /// Added to the line's query.
    pub query: Option<String>,
    /// Added to the upstream's headers, or in their place.
    pub headers: Headers,
    /// Merged into the line's body (RFC 7396): `{ "temperature": 0, "seed": null }`.
    pub body: Option<Value>,
}
