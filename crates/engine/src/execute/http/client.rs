//! The HTTP clients of an upstream: pooled connections, no redirects, no proxy from the environment.

use std::fs;
use std::time::Duration;

use reqwest::{Certificate, Client, redirect, retry};

use super::config::{Http, Upstream};
use super::error::Error;

/// Requests that one HTTP/2 connection carries; servers allow about that many, and a client keeps
/// one connection only.
const STREAMS_MAX: u32 = 100;
/// Most clients of one upstream.
const CLIENTS_MAX: u32 = 16;
/// Notices peers that went away without a word while nothing is sent.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// The clients of an upstream; requests take turns among them.
pub(crate) fn build(upstream: &Upstream, https: bool) -> Result<Vec<Client>, Error> {
    let shares = match upstream.http {
        Http::Http1 => false,
        Http::Http2 => true,
        Http::Auto => https,
    };
    let streams = if shares { upstream.concurrency_max } else { 1 };
    let roots = roots(upstream)?;
    let count = streams.div_ceil(STREAMS_MAX).clamp(1, CLIENTS_MAX);
    let client = |_| one(upstream, https, shares, &roots);
    (0..count).map(client).collect()
}

fn one(
    upstream: &Upstream,
    https: bool,
    shares: bool,
    roots: &[Certificate],
) -> Result<Client, Error> {
    let mut builder = Client::builder()
        .redirect(redirect::Policy::none())
        .referer(false)
        .no_proxy()
        .tcp_nodelay(true)
        .tcp_keepalive(KEEPALIVE)
        .connect_timeout(Duration::from_millis(upstream.connect_ms_max))
        .pool_max_idle_per_host(usize::try_from(upstream.concurrency_max).unwrap_or(usize::MAX));
    builder = match upstream.http {
        Http::Auto => builder,
        Http::Http1 => builder.http1_only(),
        Http::Http2 => builder.http2_prior_knowledge(),
    };
    if !shares {
        // Only HTTP/2 has refusals that say that nothing was done; without them a copy of every
        // request would be kept for nothing.
        builder = builder.retry(retry::never().max_retries_per_request(0));
    }
    builder = match (https, roots) {
        // A machine without certificates can still speak plain HTTP.
        (false, _) => builder.tls_certs_only([]),
        (true, roots) => builder.tls_certs_merge(roots.iter().cloned()),
    };
    let upstream = upstream.label().to_owned();
    builder.build().map_err(|source| Error::Client { upstream, source })
}

fn roots(upstream: &Upstream) -> Result<Vec<Certificate>, Error> {
    let Some(path) = &upstream.ca_file else {
        return Ok(Vec::new());
    };
    let error = |source| {
        let upstream = upstream.label().to_owned();
        Error::CaFile { upstream, path: path.clone(), source }
    };
    let pem = fs::read(path).map_err(|source| error(source.into()))?;
    let found = Certificate::from_pem_bundle(&pem).map_err(|source| error(source.into()))?;
    if found.is_empty() {
        return Err(error("it holds no certificate".into()));
    }
    Ok(found)
}
