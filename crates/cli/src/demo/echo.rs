//! A small HTTP server that echoes requests and fails like a real one: with server errors, rate limits,
//! missing responses, broken connections, 404s and 400s.

use std::collections::HashMap;
use std::convert::Infallible;
use std::future::pending;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use parking_lot::{Mutex, MutexGuard};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::clock;

/// The usual time of a response.
const ANSWER_MS: u64 = 10;

/// How it fails for a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// 500, the first time.
    ServerError,
    /// 429 with a wait, the first time.
    RateLimited,
    /// No answer at all, the first time.
    Timeout,
    /// Half an answer, the first time.
    ConnectionLost,
    /// 404, always.
    NotFound,
    /// 400, always.
    BadRequest,
}

/// How often it failed in which way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FaultCounts {
    pub(crate) requests: u64,
    pub(crate) server_errors: u64,
    pub(crate) rate_limited: u64,
    pub(crate) timed_out: u64,
    pub(crate) connection_lost: u64,
    pub(crate) not_found: u64,
    pub(crate) bad_requests: u64,
}

#[derive(Debug, Default)]
struct ServerState {
    /// How often each line came.
    lines: HashMap<u64, u32>,
    faults: FaultCounts,
}

/// The server; it ends with its owner.
pub(crate) struct Echo {
    address: SocketAddr,
    state: Arc<Mutex<ServerState>>,
    _tasks: JoinSet<()>,
}

impl Echo {
    /// Listens on a free port of this machine.
    pub(crate) async fn start() -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let (address, state) =
            (listener.local_addr()?, Arc::new(Mutex::new(ServerState::default())));
        let (mut tasks, shared) = (JoinSet::new(), Arc::clone(&state));
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                while connections.try_join_next().is_some() {}
                let state = Arc::clone(&shared);
                connections.spawn(async move {
                    let service = service_fn(move |request| answer(request, Arc::clone(&state)));
                    let http = hyper::server::conn::http1::Builder::new();
                    // A client that disconnects is expected.
                    let _ = http.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Ok(Self { address, state, _tasks: tasks })
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn faults(&self) -> FaultCounts {
        lock(&self.state).faults
    }
}

fn lock(state: &Mutex<ServerState>) -> MutexGuard<'_, ServerState> {
    state.lock()
}

/// Of every thousand lines: twelve get a server error, four a rate limit, two no response, four a broken
/// connection, five a 404 and three a 400.
fn fault(line: u64, times: u32) -> Fault {
    let first = times == 1;
    match line % 1000 {
        of if of % 500 == 42 && first => Fault::Timeout,
        of if of % 250 == 99 && first => Fault::ConnectionLost,
        of if of % 250 == 13 && first => Fault::RateLimited,
        of if of % 200 == 66 => Fault::NotFound,
        150 | 450 | 750 => Fault::BadRequest,
        of if of % 80 == 7 && first => Fault::ServerError,
        _ => Fault::None,
    }
}

async fn answer(
    request: Request<Incoming>,
    state: Arc<Mutex<ServerState>>,
) -> Result<Response<EchoBody>, Infallible> {
    let line = line_of(request.headers());
    let asked = request.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let fault = {
        let mut state = lock(&state);
        let times = state.lines.entry(line).or_default();
        *times += 1;
        let fault = fault(line, *times);
        count_fault(&mut state.faults, fault);
        fault
    };
    clock::sleep(Duration::from_millis(ANSWER_MS + line % ANSWER_MS)).await;
    let echo = [b"{\"object\":\"echo\",\"asked\":", &asked[..], b"}"].concat();
    Ok(match fault {
        Fault::None => json(StatusCode::OK, echo),
        Fault::ServerError => error(StatusCode::INTERNAL_SERVER_ERROR, "Temporary server error."),
        Fault::RateLimited => {
            let mut response = error(StatusCode::TOO_MANY_REQUESTS, "Too many requests.");
            // A whole second makes every request wait that long: once is enough to show it.
            let wait = match line {
                13 => (RETRY_AFTER, HeaderValue::from_static("1")),
                _ => {
                    let name = HeaderName::from_static("retry-after-ms");
                    (name, HeaderValue::from_static("100"))
                }
            };
            response.headers_mut().insert(wait.0, wait.1);
            response
        }
        Fault::Timeout => pending().await,
        Fault::ConnectionLost => {
            let half = echo[..echo.len() / 2].to_vec();
            Response::new(EchoBody { bytes: Some(half.into()), size: echo.len() as u64, cut: true })
        }
        Fault::NotFound => error(StatusCode::NOT_FOUND, "No such resource."),
        Fault::BadRequest => error(StatusCode::BAD_REQUEST, "The request is not valid."),
    })
}

fn count_fault(faults: &mut FaultCounts, fault: Fault) {
    faults.requests += 1;
    match fault {
        Fault::None => {}
        Fault::ServerError => faults.server_errors += 1,
        Fault::RateLimited => faults.rate_limited += 1,
        Fault::Timeout => faults.timed_out += 1,
        Fault::ConnectionLost => faults.connection_lost += 1,
        Fault::NotFound => faults.not_found += 1,
        Fault::BadRequest => faults.bad_requests += 1,
    }
}

/// The line's number, from its idempotency key `<batch>:<line>:<n>`.
fn line_of(headers: &HeaderMap) -> u64 {
    let key = headers.get("idempotency-key").and_then(|key| key.to_str().ok());
    key.and_then(|key| key.split(':').nth(1)?.parse().ok()).unwrap_or_default()
}

fn json(status: StatusCode, body: Vec<u8>) -> Response<EchoBody> {
    let size = body.len() as u64;
    let mut response = Response::new(EchoBody { bytes: Some(body.into()), size, cut: false });
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn error(status: StatusCode, message: &str) -> Response<EchoBody> {
    let body = serde_json::json!({ "error": { "message": message } });
    json(status, body.to_string().into_bytes())
}

/// A body that may be shorter than its announced length.
struct EchoBody {
    bytes: Option<Bytes>,
    size: u64,
    cut: bool,
}

impl Body for EchoBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        Poll::Ready(match self.bytes.take() {
            Some(bytes) => Some(Ok(Frame::data(bytes))),
            None if self.cut => Some(Err(io::ErrorKind::ConnectionReset.into())),
            None => None,
        })
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_none() && !self.cut
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.size)
    }
}
