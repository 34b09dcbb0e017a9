//! Outputs whose bytes are not where they were put: the database has them still.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use windrow_e2e::Server;
use windrow_e2e::raw::{Request, Response};
use windrow_e2e::server::WITHIN;
use windrow_fault::wait;

use crate::good_form;

/// Runs the good file to its end.
async fn completed(server: &Server, key: &str) -> Value {
    let to = server.address();
    let file = Request::upload(key, good_form()).send(to).await.json();
    let body = json!({
        "input_file_id": file["id"], "endpoint": "/v1/chat/completions", "completion_window": "24h",
    });
    let made = Request::new("POST", "/v1/batches", key).json(body.to_string()).send(to).await;
    let path = format!("/v1/batches/{}", made.json()["id"].as_str().unwrap());
    let look = || async {
        let batch = Request::new("GET", &path, key).send(to).await.json();
        (batch["status"] == "completed").then_some(batch)
    };
    wait::until(WITHIN, look, || async { "it does not end".to_owned() }).await
}

/// Removes every file below a folder; gives how many there were.
fn empty(folder: &Path) -> usize {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let remove = |path: std::path::PathBuf| match path.is_dir() {
        true => empty(&path),
        false => {
            fs::remove_file(path).unwrap();
            1
        }
    };
    entries.map(remove).sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_part_of_an_output_that_is_gone_is_answered_with_the_whole() {
    let server = Server::start().await;
    let (key, to) = (server.key("ann").await, server.address());
    let batch = completed(&server, &key).await;
    let path = format!("/v1/files/{}/content", batch["output_file_id"].as_str().unwrap());
    let ask = async |range: Option<&str>| -> Response {
        let request = Request::new("GET", &path, &key);
        match range {
            Some(range) => request.header("range", range).send(to).await,
            None => request.send(to).await,
        }
    };
    let whole = ask(None).await;
    let part = ask(Some("bytes=1-9")).await;
    assert_eq!((part.status, &part.body[..]), (206, &whole.body[1..10]));

    assert!(empty(&server.fixture().outputs()) > 0, "the outputs are somewhere else");
    for range in [None, Some("bytes=1-9"), Some("bytes=-5"), Some("bytes=3-")] {
        let response = ask(range).await;
        assert_eq!(response.status, 200, "{range:?}: {}", response.head);
        assert!(!response.head.contains("content-range"), "{range:?}: {}", response.head);
        let text = String::from_utf8_lossy(&response.body).into_owned();
        let line = text.lines().find(|line| line.starts_with('{')).unwrap_or_default();
        let (line, kept): (Value, Value) =
            (serde_json::from_str(line).unwrap(), serde_json::from_slice(&whole.body).unwrap());
        assert_eq!(line, kept, "{range:?}: {text}");
    }
    // What lies beyond the end is known without the bytes.
    ask(Some("bytes=1000000-")).await.refused(416);
    server.check();
}
