//! Limits: a request over a concurrency limit gets a 429 with `Retry-After`.

use reqwest::Method;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};

use crate::harness::{Harness, line};

/// Listeners of one owner to events at the same time.
const LISTENERS_MAX: usize = 200;
/// Exports of one owner at the same time.
const EXPORTS_MAX: usize = 32;
/// Longest wait for a returned permit, in requests.
const LOOKS_MAX: usize = 10_000;

/// A 429 with `Retry-After`.
async fn assert_too_many(harness: &Harness, path: &str, code: &str) {
    let refused = harness.ask(&harness.bob, Method::GET, path, &[], "").await;
    assert_eq!(refused.status(), 429);
    let secs = refused.headers()["retry-after"].to_str().unwrap().parse::<u64>().unwrap();
    assert!((1..=60).contains(&secs), "{secs}");
    let error: serde_json::Value = serde_json::from_slice(&refused.bytes().await.unwrap()).unwrap();
    assert_eq!(error["error"]["code"], code, "{error}");
}

/// A permit that was returned is taken by the next request.
async fn wait_for_permit(harness: &Harness, path: &str) {
    for _ in 0..LOOKS_MAX {
        if harness.ask(&harness.bob, Method::GET, path, &[], "").await.status() == 200 {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("no permit is returned");
}

#[tokio::test]
async fn an_event_stream_too_many_gets_a_429() {
    let harness = Harness::new().await;
    let id = harness.plain_job(&harness.bob, 1).await;
    let path = format!("/api/jobs/{id}/events");
    let mut listeners = Vec::new();
    for _ in 0..LISTENERS_MAX {
        let listener = harness.ask(&harness.bob, Method::GET, &path, &[], "").await;
        assert_eq!(listener.status(), 200);
        listeners.push(listener);
    }
    assert_too_many(&harness, &path, "listeners_exceeded").await;
    // A job that is not there is that, however many listen.
    let other = "/api/jobs/00000000-0000-7000-8000-000000000000/events";
    harness.get(&harness.bob, other).await.refused(404, "not_found");
    listeners.pop();
    wait_for_permit(&harness, &path).await;
    drop(listeners);
    harness.stop().await;
}

/// Asks for an export, and takes so little of it that it cannot end.
async fn slow_export(harness: &Harness, path: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    // What the system would hold for a reader that is late is kept small.
    socket.set_recv_buffer_size(4096).unwrap();
    let mut stream = socket.connect(harness.address().parse().unwrap()).await.unwrap();
    let head = format!("GET {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}", harness.bob);
    stream.write_all(format!("{head}\r\n\r\n").as_bytes()).await.unwrap();
    let mut status = [0; 12];
    stream.read_exact(&mut status).await.unwrap();
    assert_eq!(&status, b"HTTP/1.1 200");
    stream
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_export_too_many_gets_a_429() {
    let harness = Harness::new().await;
    let answer = json!("x".repeat(1 << 20)).to_string();
    let lines = (1..=8).map(|no| line(no, json!({ "answer": answer }))).collect();
    let job = harness.job(&harness.bob, "", lines).await;
    let id = job["jobId"].as_str().unwrap();
    harness.finish(&harness.bob, id).await;
    let path = format!("/api/jobs/{id}/export");
    let mut exports = Vec::new();
    for _ in 0..EXPORTS_MAX {
        exports.push(slow_export(&harness, &format!("{path}?columns=line,response")).await);
    }
    assert_too_many(&harness, &path, "exports_exceeded").await;
    exports.pop();
    wait_for_permit(&harness, &path).await;
    drop(exports);
    harness.stop().await;
}
