//! Places on a connection of HTTP/2: how many requests it may carry at the same time is the server's word, and those
//! beyond it wait here.
//!
//! Holds throughout: a request that waits here is not on its connection, so a gate that closes takes it back. A
//! connection itself cannot: what it was given beyond the server's bound it sends later, whatever happened meanwhile.
//! Absent on purpose: the bound of a server that changes it later. Then a request with a body is still held back by
//! it (`sent_body.rs`).

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use h2::{Ping, client};
use reqwest::Client;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{OnceCell, Semaphore, SemaphorePermit};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

use super::tls;

/// The name of HTTP/2 in a TLS handshake.
const H2: &str = "h2";

/// A server that may speak HTTP/2, to be asked for its bound.
#[derive(Clone, Debug)]
pub(crate) struct StreamServer {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) https: bool,
    pub(crate) ca_file: Option<PathBuf>,
    pub(crate) connect_ms_max: u64,
}

impl StreamServer {
    /// How many requests one connection may carry; none when it does not speak HTTP/2, has no bound or does not answer.
    /// Makes a connection of its own, asks for nothing, and closes it.
    async fn streams_max(&self) -> Option<u32> {
        let longest = Duration::from_millis(self.connect_ms_max);
        timeout(longest, self.ask()).await.ok().flatten()
    }

    async fn ask(&self) -> Option<u32> {
        let stream = TcpStream::connect((self.host.as_str(), self.port)).await.ok()?;
        if !self.https {
            return settings(stream).await;
        }
        let trusted = self.ca_file.as_deref().map(tls::read).transpose().ok()?.unwrap_or_default();
        let config = tls::config(trusted, &[H2, "http/1.1"]).ok()?;
        let name = ServerName::try_from(self.host.clone()).ok()?;
        let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.ok()?;
        if stream.get_ref().1.alpn_protocol() != Some(H2.as_bytes()) {
            return None;
        }
        settings(stream).await
    }
}

/// What the server's settings say. They come before its answer to a ping.
async fn settings(stream: impl AsyncRead + AsyncWrite + Unpin) -> Option<u32> {
    let (requests, mut connection) = client::handshake(stream).await.ok()?;
    let mut pings = connection.ping_pong()?;
    tokio::select! {
        _ = connection => return None,
        pong = pings.ping(Ping::opaque()) => pong.ok()?,
    };
    u32::try_from(requests.current_max_send_streams()).ok()
}

/// A client, and the places on its connection.
#[derive(Debug)]
pub(crate) struct PlacedClient {
    pub(crate) client: Client,
    /// None where every request has a connection of its own.
    server: Option<StreamServer>,
    places: OnceCell<Option<Semaphore>>,
}

impl PlacedClient {
    /// A client whose requests share a connection when there is a server to ask.
    pub(crate) fn new(client: Client, server: Option<StreamServer>) -> Self {
        Self { client, server, places: OnceCell::new() }
    }

    /// Whether its requests may share a connection.
    pub(crate) fn shares(&self) -> bool {
        self.server.is_some()
    }

    /// Waits for a place; none where there is no bound. A request `without_body` asks the server for its bound first,
    /// since nothing else would hold it back; others obey it once it is known.
    pub(crate) async fn place(&self, without_body: bool) -> Option<SemaphorePermit<'_>> {
        let server = self.server.as_ref()?;
        let places = match self.places.get() {
            None if !without_body => return None,
            None => {
                let ask = || async { server.streams_max().await.map(semaphore) };
                self.places.get_or_init(ask).await
            }
            Some(known) => known,
        };
        // Nobody closes it.
        places.as_ref()?.acquire().await.ok()
    }
}

fn semaphore(streams_max: u32) -> Semaphore {
    // A server that allows none for now allows some later: one asks.
    let places = usize::try_from(streams_max.max(1)).unwrap_or(usize::MAX);
    Semaphore::new(places.min(Semaphore::MAX_PERMITS))
}
