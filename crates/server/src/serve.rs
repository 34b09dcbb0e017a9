//! Serving: accepts connections, bounds them, and ends when asked to.
//!
//! Holds throughout: so many connections and no more; a head comes in time or never; when asked to
//! stop, what is in flight may finish within the grace time.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::ConnectInfo;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tower::{Service as _, ServiceExt as _};
use windrow_engine::signal::Stop;

use crate::app::App;

/// The wait after an accept that failed, as when there are no file handles left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How often the last use of keys is noted.
const USE_EVERY: Duration = Duration::from_secs(30);

impl App {
    /// Answers requests until it is asked to stop.
    pub async fn serve(self, listener: TcpListener, stop: Stop) -> std::io::Result<()> {
        let connections = Arc::new(Semaphore::new(self.options.connections_max));
        let (graceful, mut tasks) = (GracefulShutdown::new(), JoinSet::new());
        let (noter, noter_stop) = (self.clone(), stop.clone());
        tasks.spawn(async move { noter.note_uses(&noter_stop).await });
        let server = self.server();
        let router = self.router();
        loop {
            let permit = tokio::select! {
                permit = connections.clone().acquire_owned() => permit,
                () = stop.given() => break,
            };
            let Ok(permit) = permit else { break };
            let (stream, address) = tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok(accepted) => accepted,
                    Err(error) => {
                        tracing::warn!(%error, "a connection was not accepted");
                        self.clock.sleep(ACCEPT_PAUSE).await;
                        continue;
                    }
                },
                () = stop.given() => break,
            };
            // Small answers go out at once.
            let _ = stream.set_nodelay(true);
            let service = service(&router, address);
            let served = serve_connection(&server, &graceful, TokioIo::new(stream), service);
            tasks.spawn(async move {
                served.await;
                drop(permit);
            });
            while tasks.try_join_next().is_some() {}
        }
        drop(listener);
        tokio::select! {
            () = graceful.shutdown() => {}
            () = self.clock.sleep(Duration::from_millis(self.options.grace_ms)) => {
                tracing::warn!("requests were still in flight at the end of the grace time");
            }
        }
        Ok(())
    }

    fn server(&self) -> auto::Builder<TokioExecutor> {
        let mut server = auto::Builder::new(TokioExecutor::new());
        let head = Duration::from_millis(self.options.head_ms_max);
        server.http1().timer(TokioTimer::new()).header_read_timeout(head);
        server.http2().timer(TokioTimer::new()).keep_alive_interval(Some(head));
        server
    }

    /// Notes now and then which keys were used.
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
                tracing::warn!(error = %windrow_engine::causes(&error), "use of keys not noted");
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

/// The routes, with the address of the one who asks.
fn service(router: &axum::Router, address: SocketAddr) -> HyperService {
    let router = router.clone();
    let service = tower::service_fn(move |mut request: hyper::Request<Incoming>| {
        request.extensions_mut().insert(ConnectInfo(address));
        let mut router = router.clone();
        async move { router.call(request.map(axum::body::Body::new)).await }
    });
    TowerToHyperService::new(service.boxed_clone())
}

fn serve_connection<S>(
    server: &auto::Builder<TokioExecutor>,
    graceful: &GracefulShutdown,
    stream: TokioIo<S>,
    service: HyperService,
) -> impl Future<Output = ()> + Send + use<S>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let connection = server.serve_connection_with_upgrades(stream, service).into_owned();
    let connection = graceful.watch(connection);
    async move {
        // A client that went away is none of our business.
        if let Err(error) = connection.await {
            tracing::debug!(error = %error, "a connection ended early");
        }
    }
}
