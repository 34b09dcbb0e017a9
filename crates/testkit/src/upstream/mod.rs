//! A scripted upstream: an HTTP server that answers, throttles, hangs, lies and dies on command.
//!
//! Holds throughout: it speaks HTTP/1.1 and HTTP/2 (prior knowledge) on one port of this machine; a
//! script set takes effect with the next request; everything it saw is counted before it answers;
//! its connections end with it.
//! Absent on purpose: TLS, which a test of a certificate would need and no test here has.

mod body;
mod script;

use std::collections::HashMap;
use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use parking_lot::{Mutex, RwLock};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::{JoinHandle, JoinSet};

use body::{Content, Shape};
pub use script::{Gate, ReceivedRequest, Reply, Script};

/// Most requests that are kept whole; the rest is only counted.
pub const REQUESTS_KEPT_MAX: usize = 1_000;
/// What is promised, and half of it sent, where a script cuts a body.
const CUT_BODY: &str = r#"{"object":"chat.completion","choices":[]}"#;

/// Streams that a connection may have unless a test says otherwise, as hyper has it.
const STREAMS_MAX: u32 = 200;

/// What it saw so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests that came in whole.
    pub requests: u64,
    /// Those that have no whole answer yet and whose client still waits.
    pub in_flight: u64,
    /// The most there ever were.
    pub in_flight_max: u64,
    /// Connections that were accepted.
    pub connections: u64,
}

/// An HTTP server, usually on a free port of 127.0.0.1.
#[derive(Debug)]
pub struct Upstream {
    address: SocketAddr,
    state: Arc<UpstreamState>,
    acceptor: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug)]
struct UpstreamState {
    script: RwLock<Script>,
    requests: AtomicU64,
    in_flight: AtomicU64,
    in_flight_max: AtomicU64,
    connections: AtomicU64,
    /// Streams that one HTTP/2 connection may have at once.
    streams_max: AtomicU32,
    /// Off for load tests, where a million keys would be kept.
    remembers: AtomicBool,
    keys: Mutex<HashMap<String, u64>>,
    kept: Mutex<Vec<ReceivedRequest>>,
    /// Given with every request.
    came: Notify,
}

impl Upstream {
    /// Listens, and does what the script says.
    pub async fn start(script: Script) -> io::Result<Self> {
        Self::start_at((Ipv4Addr::LOCALHOST, 0).into(), script).await
    }

    /// The same at an address that something stored names.
    pub async fn start_at(address: SocketAddr, script: Script) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let state = Arc::new(UpstreamState {
            script: RwLock::new(script),
            requests: AtomicU64::new(0),
            in_flight: AtomicU64::new(0),
            in_flight_max: AtomicU64::new(0),
            connections: AtomicU64::new(0),
            streams_max: AtomicU32::new(STREAMS_MAX),
            remembers: AtomicBool::new(true),
            keys: Mutex::default(),
            kept: Mutex::default(),
            came: Notify::new(),
        });
        let acceptor = Mutex::new(Some(tokio::spawn(accept(listener, state.clone()))));
        Ok(Self { address, state, acceptor })
    }

    /// Connections of HTTP/2 that come from now on may have so many streams at once.
    pub fn set_streams_max(&self, streams_max: u32) {
        self.state.streams_max.store(streams_max, Ordering::SeqCst);
    }

    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The same as a base URL, without a path.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Changes what it does, from the next request on.
    pub fn set(&self, script: Script) {
        *self.state.script.write() = script;
    }

    /// Stops keeping keys and requests, for load tests; counts go on.
    pub fn forget(&self) {
        self.state.remembers.store(false, Ordering::SeqCst);
        self.state.keys.lock().clear();
        self.state.kept.lock().clear();
    }

    /// What it saw so far.
    pub fn counts(&self) -> Counts {
        let load = |count: &AtomicU64| count.load(Ordering::SeqCst);
        Counts {
            requests: load(&self.state.requests),
            in_flight: load(&self.state.in_flight),
            in_flight_max: load(&self.state.in_flight_max),
            connections: load(&self.state.connections),
        }
    }

    /// How often it saw each `Idempotency-Key`.
    pub fn keys(&self) -> HashMap<String, u64> {
        self.state.keys.lock().clone()
    }

    /// The first [`REQUESTS_KEPT_MAX`] requests.
    pub fn seen(&self) -> Vec<ReceivedRequest> {
        self.state.kept.lock().clone()
    }

    /// Waits until it saw that many requests.
    pub async fn saw(&self, requests: u64) {
        loop {
            let came = self.state.came.notified();
            tokio::pin!(came);
            // Registered before the look, or a request between the two would not wake us.
            came.as_mut().enable();
            if self.state.requests.load(Ordering::SeqCst) >= requests {
                return;
            }
            came.await;
        }
    }

    /// Closes the port and all connections: whoever connects is refused.
    pub async fn stop(&self) {
        let acceptor = self.acceptor.lock().take();
        if let Some(acceptor) = acceptor {
            acceptor.abort();
            // It was cancelled just now, which is all there is to know about it.
            let _ = acceptor.await;
        }
    }

    /// Listens again on the same port.
    pub async fn start_again(&self) -> io::Result<()> {
        self.stop().await;
        let listener = TcpListener::bind(self.address).await?;
        *self.acceptor.lock() = Some(tokio::spawn(accept(listener, self.state.clone())));
        Ok(())
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        if let Some(acceptor) = self.acceptor.lock().take() {
            acceptor.abort();
        }
    }
}

async fn accept(listener: TcpListener, state: Arc<UpstreamState>) {
    // Dropped with this task, and every connection with it.
    let mut connections = JoinSet::new();
    loop {
        let Ok((client, _)) = listener.accept().await else {
            return;
        };
        while connections.try_join_next().is_some() {}
        state.connections.fetch_add(1, Ordering::SeqCst);
        connections.spawn(connection(client, state.clone()));
    }
}

async fn connection(client: TcpStream, state: Arc<UpstreamState>) {
    let _ = client.set_nodelay(true);
    let reset = Arc::new(Notify::new());
    // hyper takes the socket; a second handle to it can still tell it not to linger.
    let Ok((client, twin)) = twins(client) else {
        return;
    };
    let (resets, streams_max) = (reset.clone(), state.streams_max.load(Ordering::SeqCst));
    let service = service_fn(move |request| answer(request, state.clone(), resets.clone()));
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http2().max_concurrent_streams(streams_max);
    tokio::select! {
        // The client went away, or the script closed: both are what the test wanted.
        _ = builder.serve_connection(TokioIo::new(client), service) => {}
        () = reset.notified() => {
            let _ = rustix::net::sockopt::set_socket_linger(&twin, Some(Duration::ZERO));
        }
    }
}

fn twins(client: TcpStream) -> io::Result<(TcpStream, std::net::TcpStream)> {
    let client = client.into_std()?;
    let twin = client.try_clone()?;
    Ok((TcpStream::from_std(client)?, twin))
}

/// One request in flight; dropped when it has its answer, or nobody waits for it any more.
#[derive(Debug)]
struct InFlight(Arc<UpstreamState>);

impl InFlight {
    fn enter(state: Arc<UpstreamState>) -> (Self, u64) {
        let now = state.in_flight.fetch_add(1, Ordering::SeqCst) + 1;
        state.in_flight_max.fetch_max(now, Ordering::SeqCst);
        (Self(state), now)
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::SeqCst);
    }
}

async fn answer(
    request: Request<Incoming>,
    state: Arc<UpstreamState>,
    reset: Arc<Notify>,
) -> Result<Response<Content>, Infallible> {
    let (guard, in_flight) = InFlight::enter(state.clone());
    let (head, body) = request.into_parts();
    let Ok(body) = body.collect().await else {
        return Ok(plain(StatusCode::BAD_REQUEST, Bytes::new()));
    };
    let seen = ReceivedRequest {
        number: state.requests.fetch_add(1, Ordering::SeqCst) + 1,
        at: Instant::now(),
        in_flight,
        method: head.method,
        path: head.uri.path_and_query().map_or_else(String::new, ToString::to_string),
        headers: head.headers,
        body: body.to_bytes(),
    };
    state.remember(&seen);
    state.came.notify_waiters();
    let mut act = state.script.read().clone().choose(&seen);
    let act = loop {
        act = match act {
            Reply::Delay(delay, next) => {
                tokio::time::sleep(delay).await;
                *next
            }
            Reply::Held(gate, next) => {
                gate.opened().await;
                *next
            }
            act => break act,
        };
    };
    let mut response = perform(act, seen.body, &reset).await;
    response.body_mut().keep(guard);
    Ok(response)
}

async fn perform(act: Reply, body: Bytes, reset: &Notify) -> Response<Content> {
    match act {
        Reply::Answer { status, headers, body } => {
            let status = StatusCode::from_u16(status).expect("a script answers with a status");
            let mut response = Response::new(Shape::Whole(Some(body)).into());
            *response.status_mut() = status;
            for (name, value) in headers {
                let value = HeaderValue::from_str(&value).expect("a script's headers are valid");
                response.headers_mut().append(name, value);
            }
            response
        }
        Reply::Echo => plain(StatusCode::OK, body),
        Reply::Hang => std::future::pending().await,
        Reply::Reset => {
            reset.notify_one();
            std::future::pending().await
        }
        Reply::CloseMidBody => promised(Shape::Cut { piece: Some(half()), flushed: false }),
        Reply::HangMidBody => promised(Shape::Stuck(Some(half()))),
        Reply::BigBody { bytes, told } => json(Shape::Big { len: bytes.max(2), sent: 0, told }),
        Reply::InvalidJson => json(Shape::Whole(Some(Bytes::from_static(b"{\"choices\":[")))),
        Reply::Drip { bytes, pieces, every } => json(Shape::drip(bytes, pieces, every)),
        Reply::Delay(..) | Reply::Held(..) => unreachable!("it is waited for before the act"),
    }
}

fn plain(status: StatusCode, body: Bytes) -> Response<Content> {
    let mut response = json(Shape::Whole(Some(body)));
    *response.status_mut() = status;
    response
}

fn json(shape: Shape) -> Response<Content> {
    let mut response = Response::new(Content::from(shape));
    let kind = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

/// Says a length that its content does not keep.
fn promised(shape: Shape) -> Response<Content> {
    let mut response = json(shape);
    response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(CUT_BODY.len()));
    response
}

fn half() -> Bytes {
    Bytes::from_static(&CUT_BODY.as_bytes()[..CUT_BODY.len() / 2])
}

impl UpstreamState {
    fn remember(&self, seen: &ReceivedRequest) {
        if !self.remembers.load(Ordering::SeqCst) {
            return;
        }
        let mut keys = self.keys.lock();
        match keys.get_mut(seen.key()) {
            Some(count) => *count += 1,
            None => drop(keys.insert(seen.key().to_owned(), 1)),
        }
        drop(keys);
        let mut kept = self.kept.lock();
        if kept.len() < REQUESTS_KEPT_MAX {
            kept.push(seen.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// Everything the upstream says to one request, until it closes.
    async fn ask(upstream: &Upstream, body: &str) -> io::Result<String> {
        let mut stream = TcpStream::connect(upstream.address()).await?;
        let length = body.len();
        let head = "POST /x?y HTTP/1.1\r\nhost: x\r\nidempotency-key: k\r\nconnection: close\r\n";
        let request = format!("{head}content-length: {length}\r\n\r\n{body}");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok(answer)
    }

    #[tokio::test]
    async fn an_upstream_follows_its_script_and_counts_what_it_saw() {
        let script = Script::sequence([Reply::throttle("7"), Reply::CloseMidBody, Reply::Echo]);
        let upstream = Upstream::start(script.burst(4, 4, Reply::Reset)).await.unwrap();
        let throttled = ask(&upstream, "{}").await.unwrap();
        assert!(throttled.starts_with("HTTP/1.1 429") && throttled.contains("retry-after: 7"));
        let cut = ask(&upstream, "{}").await.unwrap();
        assert!(
            cut.contains("content-length: 41") && cut.ends_with(r#"{"object":"chat.comp"#),
            "{cut}"
        );
        assert!(ask(&upstream, "{\"a\":1}").await.unwrap().ends_with("{\"a\":1}"));
        let reset = ask(&upstream, "{}").await.unwrap_err();
        assert_eq!(reset.kind(), io::ErrorKind::ConnectionReset);
        let counts = upstream.counts();
        assert_eq!((counts.requests, counts.connections, counts.in_flight_max), (4, 4, 1));
        assert_eq!(upstream.keys(), HashMap::from([("k".to_owned(), 4)]));
        assert_eq!((upstream.seen().len(), upstream.seen()[0].path.as_str()), (4, "/x?y"));
    }

    #[tokio::test]
    async fn a_stopped_upstream_refuses_and_comes_back_on_its_port() {
        let upstream = Upstream::start(Script::echo()).await.unwrap();
        ask(&upstream, "{}").await.unwrap();
        upstream.stop().await;
        let refused = ask(&upstream, "{}").await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        upstream.start_again().await.unwrap();
        ask(&upstream, "{}").await.unwrap();
        upstream.saw(2).await;
    }
}
