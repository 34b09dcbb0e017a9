//! Callers that stall, or are cut off: they hold nothing for ever, and leave nothing that is seen.

use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use windrow_e2e::Server;
use windrow_e2e::raw::{BOUNDARY, Request};
use windrow_e2e::server::WITHIN;
use windrow_fault::wait;

use crate::{files, good_form};

/// Where in a good form the file's content begins and ends, and the form before its end.
fn places() -> [(&'static str, usize); 5] {
    let whole = good_form();
    let content = whole.windows(4).position(|four| four == b"r-1\"").unwrap();
    [
        ("before anything", 0),
        ("in the purpose", BOUNDARY.len() + 60),
        ("in the file", content),
        ("behind the file", whole.len() - 6),
        ("before the end", whole.len() - 4),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upload_that_stalls_is_ended_and_never_seen() {
    let server = Server::with(&["body_idle_ms_max=400"]).await;
    let (key, to) = (server.key("ann").await, server.address());
    for (place, end) in places() {
        println!("{place}");
        let mut silent = Request::upload(&key, &good_form()[..end]).promising(1000).begin(to).await;
        assert_eq!(files(&server, &key).await, [""; 0], "{place}: seen while it stalls");
        let mut said = Vec::new();
        let read = tokio::time::timeout(WITHIN, silent.read_to_end(&mut said)).await;
        let said = String::from_utf8_lossy(&said).into_owned();
        assert!(read.is_ok(), "{place}: the server waits for ever");
        assert!(said.starts_with("HTTP/1.1 408"), "{place}: {said}");
        assert!(said.contains("upload_too_slow"), "{place}: {said}");
        assert_eq!(files(&server, &key).await, [""; 0], "{place}: seen afterwards");
    }
    server.check();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_small_body_that_stalls_is_ended() {
    let server = Server::with(&["body_idle_ms_max=400"]).await;
    let (key, to) = (server.key("ann").await, server.address());
    let begun = Request::new("POST", "/v1/batches", &key).json("{\"input_file_id\":").promising(10);
    begun.send(to).await.refused(408);
    server.check();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upload_that_is_cut_off_is_never_seen_and_frees_its_place() {
    let server = Server::with(&["uploads_max=1"]).await;
    let (key, to) = (server.key("ann").await, server.address());
    for (place, end) in places() {
        println!("{place}");
        let begun = Request::upload(&key, &good_form()[..end]).promising(1000).begin(to).await;
        drop(begun);
        assert_eq!(files(&server, &key).await, [""; 0], "{place}");
        // Its place is free as soon as the server knows.
        let again = Request::upload(&key, b"--x".to_vec());
        let look = || async {
            let response = again.send(to).await;
            (response.status != 429).then_some(response)
        };
        let response = wait::until(WITHIN, look, || async { "its place stays taken".to_owned() });
        response.await.refused(400);
        assert_eq!(files(&server, &key).await, [""; 0], "{place}");
    }
    let response = Request::upload(&key, good_form()).send(to).await;
    assert_eq!(response.status, 200, "{response:?}");
    assert_eq!(files(&server, &key).await, ["in.jsonl"]);
    server.check();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upload_too_many_is_told_to_come_again() {
    let server = Server::with(&["uploads_max=1"]).await;
    let (key, to) = (server.key("ann").await, server.address());
    let look = || async {
        // Whichever of the two comes first has the only place; this one keeps it.
        let _held = Request::upload(&key, &good_form()[..200]).promising(1000).begin(to).await;
        let response = Request::upload(&key, b"--x".to_vec()).send(to).await;
        (response.status == 429).then_some(response)
    };
    let response =
        wait::until(Duration::from_secs(10), look, || async { "never".to_owned() }).await;
    assert_eq!(response.refused(429), "uploads_exceeded");
    assert!(response.head.contains("retry-after: "), "{}", response.head);
    server.check();
}
