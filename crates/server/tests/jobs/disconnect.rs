//! Callers that go away before they are answered.

use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::harness::{Harness, line};

const ROUNDS: usize = 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_disconnects_leaves_no_file_without_its_job() {
    let harness = Harness::new().await;
    let lines: String = (1..=2_000).map(|no| line(no, json!({}))).collect();
    for _ in 0..ROUNDS {
        let mut wire = TcpStream::connect(harness.address()).await.unwrap();
        let head = format!(
            "POST /api/jobs HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\n\
             content-type: application/jsonl\r\ncontent-length: {}\r\n\r\n",
            harness.ann,
            lines.len()
        );
        wire.write_all(head.as_bytes()).await.unwrap();
        wire.write_all(lines.as_bytes()).await.unwrap();
        wire.shutdown().await.unwrap();
        drop(wire);
    }
    // Whatever was begun comes to its end, one way or the other.
    let (mut files, mut jobs, mut quiet) = (0, 0, 0);
    while quiet < 5 || files != jobs {
        assert!(quiet < 100, "{files} files, {jobs} jobs");
        tokio::task::yield_now().await;
        let listed = harness.get(&harness.ann, "/v1/files").await.ok(200);
        let now = listed["data"].as_array().unwrap().len();
        let listed = harness.get(&harness.ann, "/api/jobs").await.ok(200);
        jobs = listed["data"].as_array().unwrap().len();
        quiet = if now == files { quiet + 1 } else { 0 };
        files = now;
    }
    harness.stop().await;
}
