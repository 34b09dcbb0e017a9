//! The fault proxy does what each of its modes says.

#![cfg(feature = "net")]
#![expect(clippy::unwrap_used, reason = "a test")]

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use windrow_testkit::proxy::{Mode, Proxy, Toward};

const QUIET: Duration = Duration::from_millis(200);

/// A server that sends back what it gets, and a proxy in front of it.
async fn echo() -> (Proxy, JoinSet<()>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address: SocketAddr = listener.local_addr().unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            connections.spawn(async move {
                let (mut read, mut write) = stream.split();
                let _ = tokio::io::copy(&mut read, &mut write).await;
            });
        }
    });
    (Proxy::start(address).await.unwrap(), tasks)
}

async fn ask(stream: &mut TcpStream, text: &str) -> std::io::Result<String> {
    stream.write_all(text.as_bytes()).await?;
    let mut reply = vec![0; text.len()];
    stream.read_exact(&mut reply).await?;
    Ok(String::from_utf8(reply).unwrap())
}

#[tokio::test]
async fn pass_then_delay() {
    let (proxy, _server) = echo().await;
    let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
    assert_eq!(ask(&mut stream, "hay").await.unwrap(), "hay");
    proxy.set(Mode::Delay(QUIET));
    let start = Instant::now();
    assert_eq!(ask(&mut stream, "straw").await.unwrap(), "straw");
    assert!(start.elapsed() >= 2 * QUIET, "late both ways");
}

#[tokio::test]
async fn stalled_bytes_pass_later() {
    let (proxy, _server) = echo().await;
    let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
    proxy.set(Mode::Stall);
    let mut asking = Box::pin(ask(&mut stream, "hay"));
    assert!(timeout(QUIET, &mut asking).await.is_err());
    proxy.set(Mode::Pass);
    assert_eq!(asking.await.unwrap(), "hay");
}

#[tokio::test]
async fn a_cut_lets_its_allowance_pass() {
    let (proxy, _server) = echo().await;
    let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
    proxy.set(Mode::Cut { toward: Toward::Client, after: 5 });
    stream.write_all(b"hay and straw").await.unwrap();
    let mut got = Vec::new();
    let _ = stream.read_to_end(&mut got).await;
    assert_eq!(got, b"hay a");
    proxy.set(Mode::Pass);
    let mut again = TcpStream::connect(proxy.address()).await.unwrap();
    assert_eq!(ask(&mut again, "hay").await.unwrap(), "hay");
}

#[tokio::test]
async fn reset_ends_connections_old_and_new_until_it_passes_again() {
    let (proxy, _server) = echo().await;
    let mut old = TcpStream::connect(proxy.address()).await.unwrap();
    assert_eq!(ask(&mut old, "hay").await.unwrap(), "hay");
    proxy.set(Mode::Reset);
    let error = old.read_u8().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    if let Ok(mut new) = TcpStream::connect(proxy.address()).await {
        assert!(ask(&mut new, "hay").await.is_err());
    }
    proxy.set(Mode::Pass);
    let mut later = TcpStream::connect(proxy.address()).await.unwrap();
    assert_eq!(ask(&mut later, "hay").await.unwrap(), "hay");
}

#[tokio::test]
async fn a_black_hole_swallows_and_the_connection_does_not_come_back() {
    let (proxy, _server) = echo().await;
    let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
    proxy.set(Mode::BlackHole);
    assert!(timeout(QUIET, ask(&mut stream, "hay")).await.is_err());
    proxy.set(Mode::Pass);
    assert!(stream.read_u8().await.is_err());
}

#[tokio::test]
async fn a_url_points_at_the_proxy() {
    let (proxy, _server) = echo().await;
    let port = proxy.address().port();
    let url = proxy.url("postgres://me:pw@10.0.0.1:5432/hay?x=1");
    assert_eq!(url, format!("postgres://me:pw@127.0.0.1:{port}/hay?x=1"));
}
