//! A TCP proxy that misbehaves on command: the network between a client and its server.
//!
//! Holds throughout: a mode set takes effect at once, also for bytes that are held back by the mode
//! before it. Connections are cut when the proxy is dropped.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::sleep;

const BUFFER_BYTES: usize = 16 * 1024;

/// Which way bytes travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Toward {
    /// Replies.
    Client,
    /// Requests.
    Server,
}

/// How the network behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Everything passes.
    Pass,
    /// Every piece is late by this much.
    Delay(Duration),
    /// Bytes wait until the mode changes; then they pass.
    Stall,
    /// The connection closes once this many bytes went one way since the mode was set. Toward the
    /// client and zero bytes, it is a lost reply: the server did the work, nobody heard of it.
    Cut {
        /// The direction that is counted.
        toward: Toward,
        /// Bytes that still pass.
        after: u64,
    },
    /// Connections, old and new, are reset: the server is down.
    Reset,
    /// Bytes vanish, and nobody is told: a cable pulled. A connection that lost bytes so is cut
    /// when the mode changes, since no later byte would make sense to either side.
    BlackHole,
}

/// The mode and, for `Cut`, what is left of its allowance over all connections.
#[derive(Clone, Debug)]
struct Rule {
    mode: Mode,
    allowance: Arc<AtomicU64>,
}

impl Rule {
    fn new(mode: Mode) -> Self {
        let bytes = if let Mode::Cut { after, .. } = mode { after } else { 0 };
        Self { mode, allowance: Arc::new(AtomicU64::new(bytes)) }
    }
}

/// A proxy on a free port of 127.0.0.1.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    rule: watch::Sender<Rule>,
    acceptor: JoinHandle<()>,
}

impl Proxy {
    /// Listens, and passes everything on to `upstream` until told otherwise.
    pub async fn start(upstream: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let (rule, watcher) = watch::channel(Rule::new(Mode::Pass));
        let acceptor = tokio::spawn(accept(listener, upstream, watcher));
        Ok(Self { address, rule, acceptor })
    }

    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address of a server with the proxy's in place of its host and port:
    /// `postgres://me@127.0.0.1:5432/x` becomes `postgres://me@127.0.0.1:61234/x`.
    ///
    /// # Panics
    /// When `url` has no `://`.
    pub fn url(&self, url: &str) -> String {
        let (scheme, rest) = url.split_once("://").expect("a server's address has a scheme");
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let account = authority.rsplit_once('@').map(|(account, _)| format!("{account}@"));
        format!("{scheme}://{}{}/{path}", account.unwrap_or_default(), self.address)
    }

    /// Changes how the network behaves, for connections old and new.
    pub fn set(&self, mode: Mode) {
        self.rule.send_replace(Rule::new(mode));
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.acceptor.abort();
    }
}

async fn accept(listener: TcpListener, upstream: SocketAddr, rule: watch::Receiver<Rule>) {
    let mut connections = JoinSet::new();
    loop {
        let Ok((client, _)) = listener.accept().await else {
            return;
        };
        while connections.try_join_next().is_some() {}
        connections.spawn(connection(client, upstream, rule.clone()));
    }
}

/// A connection goes down in both directions, quietly or with a reset.
struct Down {
    reset: bool,
}

/// An i/o error means that one side is gone: so is the connection.
impl From<io::Error> for Down {
    fn from(_: io::Error) -> Self {
        Down { reset: false }
    }
}

/// The proxy itself is gone.
impl From<watch::error::RecvError> for Down {
    fn from(_: watch::error::RecvError) -> Self {
        Down { reset: false }
    }
}

async fn connection(mut client: TcpStream, upstream: SocketAddr, rule: watch::Receiver<Rule>) {
    if rule.borrow().mode == Mode::Reset {
        return reset(&client);
    }
    // A server that is not there looks the same from the client's side as one that went away.
    let Ok(mut server) = TcpStream::connect(upstream).await else {
        return reset(&client);
    };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (client_read, client_write) = client.split();
    let (server_read, server_write) = server.split();
    let ended = tokio::try_join!(
        carry(client_read, server_write, Toward::Server, rule.clone()),
        carry(server_read, client_write, Toward::Client, rule),
    );
    if let Err(Down { reset: true }) = ended {
        reset(&client);
        reset(&server);
    }
}

/// Carries one direction until its source has said all it had to; the other may go on.
async fn carry(
    mut read: ReadHalf<'_>,
    mut write: WriteHalf<'_>,
    toward: Toward,
    mut rule: watch::Receiver<Rule>,
) -> Result<(), Down> {
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut lost = false;
    loop {
        let mode = rule.borrow_and_update().mode;
        if mode == Mode::Reset || (lost && mode != Mode::BlackHole) {
            return Err(Down { reset: mode == Mode::Reset });
        }
        let count = tokio::select! {
            count = read.read(&mut buffer) => count?,
            changed = rule.changed() => {
                changed?;
                continue;
            }
        };
        if count == 0 {
            return Ok(write.shutdown().await?);
        }
        match deliver(&buffer[..count], &mut write, toward, &mut rule).await? {
            Delivery::Passed => {}
            Delivery::Lost => lost = true,
        }
    }
}

enum Delivery {
    Passed,
    Lost,
}

/// Sends one piece on as the mode says, starting over when the mode changes while it waits.
async fn deliver(
    piece: &[u8],
    write: &mut WriteHalf<'_>,
    toward: Toward,
    rule: &mut watch::Receiver<Rule>,
) -> Result<Delivery, Down> {
    loop {
        let now = rule.borrow_and_update().clone();
        match now.mode {
            Mode::Pass => {}
            Mode::Delay(by) => {
                tokio::select! {
                    () = sleep(by) => {}
                    changed = rule.changed() => {
                        changed?;
                        continue;
                    }
                }
            }
            Mode::Stall => {
                rule.changed().await?;
                continue;
            }
            Mode::Cut { toward: counted, .. } if counted == toward => {
                spend(piece, write, &now.allowance).await?;
                return Ok(Delivery::Passed);
            }
            Mode::Cut { .. } => {}
            Mode::Reset => return Err(Down { reset: true }),
            Mode::BlackHole => return Ok(Delivery::Lost),
        }
        write.write_all(piece).await?;
        return Ok(Delivery::Passed);
    }
}

/// Sends what the allowance covers; the connection is cut where it ends.
async fn spend(piece: &[u8], write: &mut WriteHalf<'_>, allowance: &AtomicU64) -> Result<(), Down> {
    let wanted = piece.len() as u64;
    let take = |left: u64| Some(left.saturating_sub(wanted));
    let left = allowance.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take);
    let left = left.unwrap_or_else(|left| left);
    if left >= wanted {
        return Ok(write.write_all(piece).await?);
    }
    let allowed = usize::try_from(left).unwrap_or(piece.len());
    write.write_all(&piece[..allowed]).await?;
    Err(Down { reset: false })
}

/// Closing a socket that must not linger sends a reset instead of a farewell.
fn reset(stream: &TcpStream) {
    let _ = stream.set_zero_linger();
}
