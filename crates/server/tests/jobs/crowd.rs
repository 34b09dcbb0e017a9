//! One too many: those who come when every place is taken are told when to come again.

use reqwest::Method;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};

use crate::desk::{Desk, line};

/// Listeners of one owner to events at the same time.
const LISTENERS_MAX: usize = 200;
/// Exports of one owner at the same time.
const EXPORTS_MAX: usize = 32;
/// Longest wait for a place that was given back, in looks.
const LOOKS_MAX: usize = 10_000;

/// A refusal that says when to come again.
async fn told_to_come_again(desk: &Desk, path: &str, code: &str) {
    let refused = desk.ask(&desk.bob, Method::GET, path, &[], "").await;
    assert_eq!(refused.status(), 429);
    let secs = refused.headers()["retry-after"].to_str().unwrap().parse::<u64>().unwrap();
    assert!((1..=60).contains(&secs), "{secs}");
    let error: serde_json::Value = serde_json::from_slice(&refused.bytes().await.unwrap()).unwrap();
    assert_eq!(error["error"]["code"], code, "{error}");
}

/// A place that was given back is taken by the next one.
async fn there_is_a_place_again(desk: &Desk, path: &str) {
    for _ in 0..LOOKS_MAX {
        if desk.ask(&desk.bob, Method::GET, path, &[], "").await.status() == 200 {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("nobody gives a place back");
}

#[tokio::test]
async fn a_listener_too_many_is_told_to_come_again() {
    let desk = Desk::new().await;
    let id = desk.plain_job(&desk.bob, 1).await;
    let path = format!("/api/jobs/{id}/events");
    let mut listeners = Vec::new();
    for _ in 0..LISTENERS_MAX {
        let listener = desk.ask(&desk.bob, Method::GET, &path, &[], "").await;
        assert_eq!(listener.status(), 200);
        listeners.push(listener);
    }
    told_to_come_again(&desk, &path, "listeners_exceeded").await;
    // A job that is not there is that, however many listen.
    let other = "/api/jobs/00000000-0000-7000-8000-000000000000/events";
    desk.get(&desk.bob, other).await.refused(404, "not_found");
    listeners.pop();
    there_is_a_place_again(&desk, &path).await;
    drop(listeners);
    desk.stop().await;
}

/// Asks for an export, and takes so little of it that it cannot end.
async fn slow_export(desk: &Desk, path: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    // What the system would hold for a reader that is late is kept small.
    socket.set_recv_buffer_size(4096).unwrap();
    let mut stream = socket.connect(desk.address().parse().unwrap()).await.unwrap();
    let head = format!("GET {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}", desk.bob);
    stream.write_all(format!("{head}\r\n\r\n").as_bytes()).await.unwrap();
    let mut status = [0; 12];
    stream.read_exact(&mut status).await.unwrap();
    assert_eq!(&status, b"HTTP/1.1 200");
    stream
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_export_too_many_is_told_to_come_again() {
    let desk = Desk::new().await;
    let answer = json!("x".repeat(1 << 20)).to_string();
    let lines = (1..=8).map(|no| line(no, json!({ "answer": answer }))).collect();
    let job = desk.job(&desk.bob, "", lines).await;
    let id = job["jobId"].as_str().unwrap();
    desk.finish(&desk.bob, id).await;
    let path = format!("/api/jobs/{id}/export");
    let mut exports = Vec::new();
    for _ in 0..EXPORTS_MAX {
        exports.push(slow_export(&desk, &format!("{path}?columns=line,response")).await);
    }
    told_to_come_again(&desk, &path, "exports_exceeded").await;
    exports.pop();
    there_is_a_place_again(&desk, &path).await;
    drop(exports);
    desk.stop().await;
}
