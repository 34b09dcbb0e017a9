//! Paths, queries and headers that try something: each names nothing, or is told what is wrong.

use windrow_e2e::Server;
use windrow_e2e::raw::Request;

use crate::{files, good_form};

const NONE: &str = "file-00000000000000000000000000000000";

fn paths() -> Vec<String> {
    let long = "a".repeat(8_000);
    let mut paths: Vec<String> = [
        "/",
        "/v1",
        "/v1/",
        "/v1/nothing",
        "/V1/files",
        "/v1//files",
        "/v1/files/../batches",
        "/v1/files/%2e%2e/batches",
        "/v1/files/%2e%2e%2fbatches",
        "/v1/files/..%2f..%2f..%2fetc%2fpasswd/content",
        "/v1/files/%2fetc%2fpasswd/content",
        "/v1/files/%00",
        "/v1/files/file-%00",
        "/v1/files/%ff%fe",
        "/v1/files/%zz",
        "/v1/files/%",
        "/v1/files/*",
        "/v1/files/{id}",
        "/v1/files/file-00000000000000000000000000000000%00",
        "/v1/files/FILE-00000000000000000000000000000000",
        "/v1/files/file-000000000000000000000000000000000",
        "/v1/files/file-%7B00000000-0000-0000-0000-000000000000%7D",
        "/v1/files/batch_00000000000000000000000000000000",
        "/v1/files/file-'%20OR%201=1%20--/content",
        "/v1/batches/%00",
        "/v1/batches/..%2f..",
        "/v1/batches/file-00000000000000000000000000000000",
        "/v1/batches/%D9%A1%D9%A2%D9%A3",
        "/metrics/../v1/files",
    ]
    .map(str::to_owned)
    .into();
    paths.push(format!("/v1/files/{long}"));
    paths.push(format!("/v1/files/file-{}/content", "0".repeat(8_000)));
    paths.push(format!("/v1/batches/{long}"));
    paths.push(format!("/v1/{}", "a/".repeat(4_000)));
    paths
}

async fn tricks_name_nothing(server: Server) {
    let (key, to) = (server.key("ann").await, server.address());
    let uploaded = Request::upload(&key, good_form()).send(to).await;
    assert_eq!(uploaded.status, 200, "{uploaded:?}");
    for path in paths() {
        println!("{path:.80}");
        let response = Request::new("GET", &path, &key).send(to).await;
        response.refused(404);
    }
    for (method, path, status) in [
        ("PUT", "/v1/files", 405),
        ("DELETE", "/v1/batches", 405),
        ("PATCH", "/v1/batches/batch_00000000000000000000000000000000", 405),
        ("DELETE", "/v1/files/..", 404),
        ("DELETE", "/v1/files/%2e%2e%2f%2e%2e", 404),
        ("POST", "/v1/batches/batch_00000000000000000000000000000000/cancel", 404),
    ] {
        Request::new(method, path, &key).send(to).await.refused(status);
    }
    for query in [
        "limit=0",
        "limit=-1",
        "limit=ten",
        "limit=99999999999999999999",
        "limit=1&limit=2",
        "limit=",
        "limit=10001",
        "order=sideways",
        "after=%00",
        "after=..%2f..",
        "after=file-",
        "purpose=%00",
    ] {
        let response = Request::new("GET", &format!("/v1/files?{query}"), &key).send(to).await;
        let empty =
            response.status == 200 && response.json()["data"].as_array().unwrap().is_empty();
        assert!(empty || [400, 404].contains(&response.status), "{query}: {response:?}");
        if !empty {
            response.refused(response.status);
        }
    }
    let after = format!("/v1/files?after={NONE}");
    Request::new("GET", &after, &key).send(to).await.refused(404);
    assert_eq!(files(&server, &key).await, ["in.jsonl"]);
    server.check();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tricks_in_a_path_name_nothing() {
    tricks_name_nothing(Server::start().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tricks_in_a_path_name_nothing_on_postgres() {
    tricks_name_nothing(Server::apart().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tricks_in_a_header_give_no_right() {
    let server = Server::start().await;
    let (key, to) = (server.key("ann").await, server.address());
    let with = |key: &str| Request::new("GET", "/v1/files", key);
    for wrong in ["", " ", "wr_", "null", &format!("{key}x"), &key[1..], &key.to_uppercase()] {
        with(wrong).send(to).await.refused(401);
    }
    with(&"x".repeat(5_000)).send(to).await.refused(401);
    with("kéy").send(to).await.refused(401);
    let other_scheme = with(&key).replace("Bearer", "Basic");
    other_scheme.send(to).await.refused(401);
    with(&key).replace("authorization", "x-authorization").send(to).await.refused(401);
    for owner in ["bob", "", "*", "..", &"x".repeat(3_000)] {
        with(&key).header("windrow-owner", owner).send(to).await.refused(403);
    }
    // A head that is too large, or none, ends before the API; it must only end.
    let large = with(&key).header("x-large", &"x".repeat(600_000)).try_send(to).await;
    assert!(large.is_none_or(|response| [400, 431].contains(&response.status)));
    let many = (0..300).fold(with(&key), |request, n| request.header(&format!("x-{n}"), "x"));
    assert!(many.try_send(to).await.is_none_or(|response| [400, 431].contains(&response.status)));
    let twice = with(&key).header("content-length", "5").header("transfer-encoding", "chunked");
    let status = twice.try_send(to).await.map_or(400, |response| response.status);
    assert!(status < 500, "{status}");
    assert_eq!(files(&server, &key).await, [""; 0]);
    server.check();
}

/// "There is nothing" without saying where would help nobody who reads the log.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_names_a_path_that_leads_nowhere_without_its_query() {
    let server = Server::start().await;
    let key = server.key("ann").await;
    let path = "/v1/chat/completion?token=hush";
    Request::new("GET", path, &key).send(server.address()).await.refused(404);
    let said = server.said();
    assert!(said.contains("path=\"/v1/chat/completion\""), "{said}");
    assert!(!said.contains("hush"), "{said}");
}
