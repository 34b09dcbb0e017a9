//! One exchange, bounded: how long it may take in each of its parts, and how much may come.
//!
//! Holds throughout: a body is read no further than its limit, whatever its length was said to be,
//! and is kept in memory of its own size, not in the buffers of the connection.

use std::time::Duration;

use bytes::Bytes;
use reqwest::header::HeaderMap;
use reqwest::{Client, Request, Response, StatusCode};
use tokio::time::{Instant, timeout};

use super::config::Upstream;

/// Memory taken for a body on the word of its header alone.
const BODY_BYTES_AHEAD: u64 = 64 * 1024;

/// How long, and how much.
#[derive(Clone, Debug)]
pub(crate) struct Bounds {
    pub(crate) first_byte: Duration,
    pub(crate) idle: Duration,
    pub(crate) total: Duration,
    pub(crate) body_bytes: u64,
}

impl Bounds {
    pub(crate) fn new(upstream: &Upstream) -> Self {
        Self {
            first_byte: Duration::from_millis(upstream.first_byte_ms_max),
            idle: Duration::from_millis(upstream.idle_ms_max),
            total: Duration::from_millis(upstream.total_ms_max),
            body_bytes: upstream.body_bytes_max,
        }
    }
}

/// Why there is no answer, or no whole one.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// There was no connection, or it ended before the head came.
    Send(reqwest::Error),
    /// No head in time.
    FirstByte,
    /// The body fell silent.
    Idle,
    /// It took too long altogether.
    Total,
    /// The connection ended within the body.
    Cut(reqwest::Error),
    /// More body than there may be.
    TooLarge,
}

/// The head of an answer, and its body as far as it came.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Result<Bytes, Trouble>,
}

/// Sends a request and reads its answer.
pub(crate) async fn exchange(
    client: &Client,
    request: Request,
    bounds: &Bounds,
) -> Result<Answer, Trouble> {
    let started = Instant::now();
    let head = timeout(bounds.first_byte.min(bounds.total), client.execute(request)).await;
    let mut response = match head {
        Ok(Ok(response)) => response,
        Ok(Err(error)) => return Err(Trouble::Send(error)),
        Err(_) if bounds.first_byte <= bounds.total => return Err(Trouble::FirstByte),
        Err(_) => return Err(Trouble::Total),
    };
    let status = response.status();
    let headers = std::mem::take(response.headers_mut());
    let body = read(response, started, bounds).await;
    Ok(Answer { status, headers, body })
}

async fn read(mut response: Response, started: Instant, bounds: &Bounds) -> Result<Bytes, Trouble> {
    let told = response.content_length().unwrap_or(0);
    if told > bounds.body_bytes {
        return Err(Trouble::TooLarge);
    }
    let ahead = usize::try_from(told.min(BODY_BYTES_AHEAD)).unwrap_or(0);
    let mut body = Vec::with_capacity(ahead);
    loop {
        let left = bounds.total.saturating_sub(started.elapsed());
        if left.is_zero() {
            return Err(Trouble::Total);
        }
        let piece = match timeout(bounds.idle.min(left), response.chunk()).await {
            Ok(Ok(Some(piece))) => piece,
            Ok(Ok(None)) => break,
            Ok(Err(error)) => return Err(Trouble::Cut(error)),
            Err(_) if bounds.idle <= left => return Err(Trouble::Idle),
            Err(_) => return Err(Trouble::Total),
        };
        if (body.len() + piece.len()) as u64 > bounds.body_bytes {
            return Err(Trouble::TooLarge);
        }
        body.extend_from_slice(&piece);
    }
    body.shrink_to_fit();
    Ok(body.into())
}
