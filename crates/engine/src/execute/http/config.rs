//! What an operator says about upstreams. Its names are those of the configuration file.
//!
//! Holds throughout: a name that is not known is an error, never ignored; secrets come from the
//! environment or a file, and what could be one is not shown by `Debug`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;
use serde_json::Value;
use windrow_domain::Target;
use windrow_domain::control::{breaker, concurrency, pace};
use windrow_domain::retry::Overrides;

use crate::execute::Limits;
use crate::http::options::{Headers, Http};

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

windrow_domain::options! {
    /// One HTTP API, and how to treat it.
    #[derive(Clone, Debug, PartialEq, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    pub struct Upstream {
        /// What messages call it; its base URL when empty.
        name: String = String::new(),
        /// The targets it serves; the default upstream needs none.
        targets: Vec<Target> = Vec::new(),
        /// Scheme, host, port and a path that every request begins with.
        base_url: String = String::new(),
        /// The method of every request; none for the line's own.
        method: Option<String> = None,
        /// Headers of every request.
        headers: Headers = Headers::default(),
        /// Where its key is.
        api_key: Option<KeySource> = None,
        /// The header that carries the key.
        api_key_header: String = "Authorization".to_owned(),
        /// What stands before the key in that header; empty for nothing.
        api_key_scheme: String = "Bearer".to_owned(),
        /// Certificates to trust besides the system's, as PEM.
        ca_file: Option<PathBuf> = None,
        /// Longest wait for a connection, TLS included.
        connect_ms_max: u64 = 10_000,
        /// Longest wait from the start of an attempt to the head of its answer.
        first_byte_ms_max: u64 = 600_000,
        /// Longest silence within a body.
        idle_ms_max: u64 = 60_000,
        /// Longest time of one attempt.
        total_ms_max: u64 = 900_000,
        /// Longest body of an answer, decompressed.
        body_bytes_max: u64 = 16 << 20,
        /// The version of HTTP.
        http: Http = Http::default(),
        /// Fewest requests in flight, whatever went wrong.
        concurrency_min: u32 = concurrency::Bounds::default().min,
        /// Most requests in flight, over all its targets.
        concurrency_max: u32 = concurrency::Bounds::default().max,
        /// Requests in flight to start with, held between the two.
        concurrency_start: u32 = concurrency::Bounds::default().start,
        /// Most requests per second; none for as many as there are.
        requests_per_sec_max: Option<f64> = pace::Bounds::default().per_sec_max,
        /// Most requests at once, where there is a rate.
        burst: u32 = pace::Bounds::default().burst,
        /// Most attempts of a line; none for the engine's.
        attempts_max: Option<u32> = None,
        /// Most attempts of a line that it says it does not have; none for the engine's.
        attempts_not_found_max: Option<u32> = None,
        /// Longest wait before the second attempt; none for the engine's.
        backoff_ms_min: Option<u64> = None,
        /// The same after a timeout or a failed connection; none for the engine's.
        backoff_timeout_ms_min: Option<u64> = None,
        /// The same after an answer that is not acceptable; none for the engine's.
        backoff_unacceptable_ms_min: Option<u64> = None,
        /// The wait before the second attempt of a line that it says it does not have; none for the engine's.
        backoff_not_found_ms_min: Option<u64> = None,
        /// Longest wait between attempts, also for a `Retry-After`; none for the engine's.
        backoff_ms_max: Option<u64> = None,
        /// Longest wait of a line that was throttled; none for the engine's.
        backoff_throttled_ms_max: Option<u64> = None,
        /// Failures in a row that open the breaker.
        breaker_failures_max: u32 = breaker::Bounds::default().failures_max,
        /// The share of failures among the last ones that opens it.
        breaker_ratio: f64 = breaker::Bounds::default().ratio,
        /// How many of the last ones count.
        breaker_window: u32 = breaker::Bounds::default().window,
        /// How long it stays open at first.
        breaker_open_ms_min: u64 = breaker::Bounds::default().open_ms_min,
        /// Longest time it stays open.
        breaker_open_ms_max: u64 = breaker::Bounds::default().open_ms_max,
        /// Most probes at once.
        breaker_probes: u32 = breaker::Bounds::default().probes,
        /// Statuses that mean that there is no such thing; none for 404 to GET and HEAD, and to no other
        /// method: a 404 to a POST says that there is no such model or path.
        not_found_statuses: Option<Vec<u16>> = None,
        /// Bodies of a 2xx that mean the same: one of these must hold.
        not_found_when: Vec<Predicate> = Vec::new(),
        /// Forms of the request, tried in turn; the first attempt sends the first one.
        variants: Vec<Variant> = Vec::new(),
        /// Paths that lines may ask for; all when empty.
        endpoints: Vec<String> = Vec::new(),
        /// Further paths that lines may ask for, each line another one; with `*` at its end all that
        /// begin so: `/items/*`.
        paths: Vec<String> = Vec::new(),
        /// Methods that lines may use; all when empty. A server allows only POST then.
        methods: Vec<String> = Vec::new(),
        /// Headers that recipes may set.
        recipe_headers: Vec<String> = Vec::new(),
        /// What tokens cost, by model.
        prices: BTreeMap<String, Price> = BTreeMap::new(),
    }
}

impl Upstream {
    /// An upstream with the usual bounds.
    pub fn new(base_url: impl Into<String>) -> Self {
        Self { base_url: base_url.into(), ..Self::default() }
    }

    /// Whether lines may ask for that path.
    pub fn allows_path(&self, path: &str) -> bool {
        let all = self.endpoints.is_empty() && self.paths.is_empty();
        let begins = |pattern: &String| match pattern.strip_suffix('*') {
            Some(start) => path.starts_with(start),
            None => path == pattern,
        };
        all || self.endpoints.iter().any(|known| known == path) || self.paths.iter().any(begins)
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
        limits.retry = Overrides {
            attempts_max: self.attempts_max,
            attempts_not_found_max: self.attempts_not_found_max,
            backoff_ms_min: self.backoff_ms_min,
            backoff_timeout_ms_min: self.backoff_timeout_ms_min,
            backoff_unacceptable_ms_min: self.backoff_unacceptable_ms_min,
            backoff_not_found_ms_min: self.backoff_not_found_ms_min,
            backoff_ms_max: self.backoff_ms_max,
            backoff_throttled_ms_max: self.backoff_throttled_ms_max,
        };
        limits
    }
}

/// What a million tokens cost, in whatever currency the operator counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// Tokens that are sent.
    pub input: f64,
    /// Tokens that come back.
    pub output: f64,
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
