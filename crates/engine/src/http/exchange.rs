//! One exchange, bounded: how long it may take in each of its parts, and how much may come.
//!
//! Holds throughout: a body is read no further than its limit, whatever its length was said to be,
//! and is kept in memory of its own size, not in the buffers of the connection.

use std::time::Duration;

use bytes::Bytes;
use reqwest::header::HeaderMap;
use reqwest::{Client, Method, Request, Response, StatusCode};
use tokio::time::{Instant, timeout};

/// Memory taken for a body on the word of its header alone.
const BODY_BYTES_AHEAD: u64 = 64 * 1024;

/// How long each part of an exchange may take, and how much may come.
#[derive(Clone, Debug)]
pub(crate) struct ExchangeBounds {
    pub(crate) first_byte: Duration,
    pub(crate) idle: Duration,
    pub(crate) total: Duration,
    pub(crate) body_bytes: u64,
}

/// Why there is no answer, or no whole one.
#[derive(Debug)]
pub(crate) enum ExchangeError {
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
pub(crate) struct HttpAnswer {
    /// The method of the request.
    pub(crate) method: Method,
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Result<Bytes, ExchangeError>,
}

/// Sends a request and reads its answer.
pub(crate) async fn exchange(
    client: &Client,
    request: Request,
    bounds: &ExchangeBounds,
) -> Result<HttpAnswer, ExchangeError> {
    let (started, method) = (Instant::now(), request.method().clone());
    let head = timeout(bounds.first_byte.min(bounds.total), client.execute(request)).await;
    let mut response = match head {
        Ok(Ok(response)) => response,
        Ok(Err(error)) => return Err(ExchangeError::Send(error)),
        Err(_) if bounds.first_byte <= bounds.total => return Err(ExchangeError::FirstByte),
        Err(_) => return Err(ExchangeError::Total),
    };
    let status = response.status();
    let headers = std::mem::take(response.headers_mut());
    let body = read(response, started, bounds).await;
    Ok(HttpAnswer { method, status, headers, body })
}

async fn read(
    mut response: Response,
    started: Instant,
    bounds: &ExchangeBounds,
) -> Result<Bytes, ExchangeError> {
    let told = response.content_length().unwrap_or(0);
    if told > bounds.body_bytes {
        return Err(ExchangeError::TooLarge);
    }
    let ahead = usize::try_from(told.min(BODY_BYTES_AHEAD)).unwrap_or(0);
    let mut body = Vec::with_capacity(ahead);
    loop {
        let left = bounds.total.saturating_sub(started.elapsed());
        if left.is_zero() {
            return Err(ExchangeError::Total);
        }
        let piece = match timeout(bounds.idle.min(left), response.chunk()).await {
            Ok(Ok(Some(piece))) => piece,
            Ok(Ok(None)) => break,
            Ok(Err(error)) => return Err(ExchangeError::Cut(error)),
            Err(_) if bounds.idle <= left => return Err(ExchangeError::Idle),
            Err(_) => return Err(ExchangeError::Total),
        };
        if (body.len() + piece.len()) as u64 > bounds.body_bytes {
            return Err(ExchangeError::TooLarge);
        }
        body.extend_from_slice(&piece);
    }
    body.shrink_to_fit();
    Ok(body.into())
}
