//! The one place that makes HTTP clients: pooled connections, TLS with a certificate file of one's own,
//! timeouts.
//!
//! Holds throughout: redirects are not followed and no proxy is taken from the environment.

use std::error::Error as StdError;
use std::path::{Path, PathBuf};
use std::time::Duration;

use reqwest::{Client, redirect, retry};
use tokio_rustls::rustls::ClientConfig;

use super::connect_gate::GateLayer;
use super::options::Http;
use super::tls::{self, BadCaFile};

/// Requests that one HTTP/2 connection carries; servers allow about that many, and a client keeps
/// one connection only.
const STREAMS_MAX: u32 = 100;
/// Most clients of one upstream.
const CLIENTS_MAX: u32 = 16;
/// Notices peers that went away without a word while nothing is sent.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// What a client needs to know of the server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClientOptions<'a> {
    /// Whether it speaks TLS.
    pub(crate) https: bool,
    pub(crate) version: Http,
    /// Certificates to trust besides the system's, as PEM.
    pub(crate) ca_file: Option<&'a Path>,
    /// Longest wait for a connection, TLS included.
    pub(crate) connect_ms_max: u64,
    /// Most requests at the same time, and most idle connections.
    pub(crate) requests_max: u32,
}

/// Why there is no client.
#[derive(Debug)]
pub(crate) enum HttpClientError {
    /// The file of certificates cannot be used.
    CaFile { path: PathBuf, source: Box<dyn StdError + Send + Sync> },
    /// The client could not be made.
    Build(reqwest::Error),
}

impl ClientOptions<'_> {
    /// Whether requests may share a connection, as HTTP/2 has it.
    pub(crate) fn shares(&self) -> bool {
        match self.version {
            Http::Http1 => false,
            Http::Http2 => true,
            Http::Auto => self.https,
        }
    }
}

/// The clients of one server; requests take turns among them. There is at least one.
pub(crate) fn build(options: &ClientOptions<'_>) -> Result<Vec<Client>, HttpClientError> {
    let shares = options.shares();
    let streams = if shares { options.requests_max } else { 1 };
    // A file that cannot be used is told also where no TLS is spoken yet.
    let trust = options.ca_file.map(|path| trust(path, options.version)).transpose()?;
    let count = streams.div_ceil(STREAMS_MAX).clamp(1, CLIENTS_MAX);
    let client = |_| one(options, shares, trust.as_ref()).map_err(HttpClientError::Build);
    (0..count).map(client).collect()
}

fn one(
    options: &ClientOptions<'_>,
    shares: bool,
    trust: Option<&ClientConfig>,
) -> reqwest::Result<Client> {
    let mut builder = Client::builder()
        .redirect(redirect::Policy::none())
        .referer(false)
        .no_proxy()
        .tcp_nodelay(true)
        .tcp_keepalive(KEEPALIVE)
        .connector_layer(GateLayer)
        .connect_timeout(Duration::from_millis(options.connect_ms_max))
        .pool_max_idle_per_host(usize::try_from(options.requests_max).unwrap_or(usize::MAX));
    builder = match options.version {
        Http::Auto => builder,
        Http::Http1 => builder.http1_only(),
        Http::Http2 => builder.http2_prior_knowledge(),
    };
    if !shares {
        // Only HTTP/2 has refusals that say that nothing was done; without them a copy of every
        // request would be kept for nothing.
        builder = builder.retry(retry::never().max_retries_per_request(0));
    }
    builder = match (options.https, trust) {
        // A machine without certificates can still speak plain HTTP.
        (false, _) => builder.tls_certs_only([]),
        (true, Some(trust)) => builder.tls_backend_preconfigured(trust.clone()),
        (true, None) => builder,
    };
    builder.build()
}

/// What a client trusts that has a file of certificates.
fn trust(path: &Path, version: Http) -> Result<ClientConfig, HttpClientError> {
    let bad = |BadCaFile { path, source }| HttpClientError::CaFile { path, source };
    let protocols: &[&str] = match version {
        Http::Auto => &["h2", "http/1.1"],
        Http::Http1 => &["http/1.1"],
        Http::Http2 => &["h2"],
    };
    let trusted = tls::read(path).map_err(bad)?;
    tls::config(trusted, protocols)
        .map_err(|source| bad(BadCaFile { path: path.to_owned(), source: source.into() }))
}
