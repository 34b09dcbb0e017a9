//! Serving: accepts connections, limits them, and stops gracefully.
//!
//! Holds throughout: there are at most `connections_max` connections; a request head arrives in time or
//! the connection is closed, and a response that the client does not read is given up; on a stop, requests
//! in flight may finish within the grace time, and so may work whose client has disconnected.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::ConnectInfo;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tower::{Service as _, ServiceExt as _};
use windrow_domain::millis;
use windrow_engine::clock::Clock;
use windrow_engine::signal::Stop;

use crate::app::App;
use crate::io_timeout::TimeoutStream;
use crate::tls::Tls;

/// The pause after an accept that failed, as when there are no file handles left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How often the last use of keys is stored.
const USE_EVERY: Duration = Duration::from_secs(30);

/// How long a kickoff may take to release what it did not finish.
const RELEASE_TIME: Duration = Duration::from_secs(2);

impl App {
    /// Serves requests until `stop` is given; with a certificate over TLS only.
    pub async fn serve(
        self,
        listener: TcpListener,
        tls: Option<Tls>,
        stop: Stop,
    ) -> std::io::Result<()> {
        let (graceful, mut tasks) = (GracefulShutdown::new(), JoinSet::new());
        let (noter, noter_stop) = (self.clone(), stop.clone());
        let mut noting = JoinSet::new();
        noting.spawn(async move { noter.note_uses(&noter_stop).await });
        let gate = Gate {
            connections: Arc::new(Semaphore::new(self.options.connections_max)),
            listener,
            clock: self.clock.clone(),
            stop,
        };
        let (server, router) = (self.server(), self.router());
        let head = self.options.head_timeout;
        while let Some((permit, stream, address)) = gate.next().await {
            let connection = Connection {
                server: server.clone(),
                service: service(&router, address),
                watcher: graceful.watcher(),
                clock: self.clock.clone(),
                head,
            };
            let tls = tls.clone();
            tasks.spawn(async move {
                match tls {
                    None => connection.serve(stream).await,
                    Some(tls) => match timeout(head, tls.accept(stream)).await {
                        Ok(Ok(stream)) => connection.serve(stream).await,
                        Ok(Err(error)) => tracing::debug!(%error, "TLS handshake failed"),
                        Err(_) => tracing::debug!("TLS handshake timed out"),
                    },
                }
                drop(permit);
            });
            while tasks.try_join_next().is_some() {}
        }
        drop(gate);
        self.tasks.stop();
        let until_ms = self.clock.millis().saturating_add(self.tasks_ms_max());
        tokio::select! {
            () = graceful.shutdown() => {}
            () = self.clock.sleep(self.options.grace) => {
                tracing::warn!("requests were still in flight at the end of the grace time");
            }
        }
        tokio::select! {
            () = self.tasks.join() => {}
            () = self.clock.sleep_until(until_ms) => {
                tracing::warn!("detached work was still running at the end of the grace time");
            }
        }
        noting.join_all().await;
        Ok(())
    }

    /// Longest wait for detached work: a kickoff that is told to stop has the grace time of an
    /// engine, and a moment to release its lines.
    fn tasks_ms_max(&self) -> u64 {
        millis(self.options.grace.max(self.work.grace + RELEASE_TIME))
    }

    fn server(&self) -> auto::Builder<TokioExecutor> {
        let mut server = auto::Builder::new(TokioExecutor::new());
        let head = self.options.head_timeout;
        server.http1().timer(TokioTimer::new()).header_read_timeout(head);
        server.http2().timer(TokioTimer::new()).keep_alive_interval(Some(head));
        server
    }

    /// Stores every now and then which keys were used.
    async fn note_uses(&self, stop: &Stop) {
        loop {
            let over = tokio::select! {
                () = self.clock.sleep(USE_EVERY) => false,
                () = stop.given() => true,
            };
            let used = self.guard.take_used();
            if !used.is_empty()
                && let Err(error) = self.store.touch_keys(&used).await
            {
                tracing::warn!(error = %windrow_store::error::chain(&error), "could not store the last use of keys");
            }
            if over {
                return;
            }
        }
    }
}

type HyperService = TowerToHyperService<
    tower::util::BoxCloneService<
        hyper::Request<Incoming>,
        axum::response::Response,
        std::convert::Infallible,
    >,
>;

/// The routes, with the address of the client.
fn service(router: &axum::Router, address: SocketAddr) -> HyperService {
    let router = router.clone();
    let service = tower::service_fn(move |mut request: hyper::Request<Incoming>| {
        request.extensions_mut().insert(ConnectInfo(address));
        let mut router = router.clone();
        async move { router.call(request.map(axum::body::Body::new)).await }
    });
    TowerToHyperService::new(service.boxed_clone())
}

/// Accepts connections, up to the limit.
struct Gate {
    connections: Arc<Semaphore>,
    listener: TcpListener,
    clock: Clock,
    stop: Stop,
}

impl Gate {
    /// The next connection; none once `stop` is given.
    async fn next(&self) -> Option<(OwnedSemaphorePermit, TcpStream, SocketAddr)> {
        loop {
            let permit = tokio::select! {
                permit = self.connections.clone().acquire_owned() => permit.ok()?,
                () = self.stop.given() => return None,
            };
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                () = self.stop.given() => return None,
            };
            match accepted {
                Ok((stream, address)) => {
                    // Small responses are sent at once.
                    let _ = stream.set_nodelay(true);
                    return Some((permit, stream, address));
                }
                Err(error) => {
                    tracing::warn!(%error, "could not accept a connection");
                    self.clock.sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

/// One accepted connection, and what its requests are served with.
struct Connection {
    server: auto::Builder<TokioExecutor>,
    service: HyperService,
    watcher: Watcher,
    clock: Clock,
    head: Duration,
}

impl Connection {
    async fn serve(self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
        let Self { server, service, watcher, clock, head } = self;
        let io = TokioIo::new(TimeoutStream::new(stream, clock, head));
        let connection = server.serve_connection_with_upgrades(io, service);
        // A client that disconnects is not an error.
        if let Err(error) = watcher.watch(connection.into_owned()).await {
            tracing::debug!(error = %error, "connection ended early");
        }
    }
}
