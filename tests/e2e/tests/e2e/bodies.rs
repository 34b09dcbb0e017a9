//! Bodies of JSON that are no good: each is refused with a reason, and makes no batch.

use serde_json::json;
use windrow_e2e::Server;
use windrow_e2e::raw::Request;

use crate::good_form;

/// Bodies, and the status each gets.
fn bad_bodies(file: &str) -> Vec<(&'static str, Vec<u8>, u16)> {
    let good = json!({
        "input_file_id": file, "endpoint": "/v1/chat/completions", "completion_window": "24h",
    });
    let with = |name: &str, value: serde_json::Value| {
        let mut body = good.clone();
        body[name] = value;
        body.to_string().into_bytes()
    };
    let without = |name: &str| {
        let mut body = good.clone();
        body.as_object_mut().unwrap().remove(name);
        body.to_string().into_bytes()
    };
    let metadata = |text: &str| {
        let good = good.to_string();
        format!("{},\"metadata\":{text}}}", &good[..good.len() - 1]).into_bytes()
    };
    let deep = |n: usize| "[".repeat(n) + &"]".repeat(n);
    vec![
        ("nothing", Vec::new(), 400),
        ("no JSON", b"hello".to_vec(), 400),
        ("half of it", b"{\"input_file_id\":".to_vec(), 400),
        ("a list", b"[]".to_vec(), 400),
        ("null", b"null".to_vec(), 400),
        ("broken text", b"{\"input_file_id\":\"\xff\"}".to_vec(), 400),
        ("nesting", deep(200_000).into_bytes(), 400),
        ("nesting within", metadata(&deep(200_000)), 400),
        ("nesting of objects", metadata(&r#"{"a":"#.repeat(50_000)), 400),
        ("more than it takes", vec![b' '; 3 << 20], 413),
        ("one long text", with("metadata", json!({ "a": "x".repeat(3 << 20) })), 413),
        ("no file", without("input_file_id"), 400),
        ("no endpoint", without("endpoint"), 400),
        ("no window", without("completion_window"), 400),
        ("a file that is a number", with("input_file_id", json!(7)), 400),
        ("a file of another shape", with("input_file_id", json!("../x")), 404),
        ("a file that is long", with("input_file_id", json!("f".repeat(100_000))), 404),
        ("a file with NUL", with("input_file_id", json!("file-\0")), 404),
        ("an endpoint elsewhere", with("endpoint", json!("http://evil/v1")), 400),
        ("an endpoint that is empty", with("endpoint", json!("")), 400),
        ("an endpoint with NUL", with("endpoint", json!("/v1/\0")), 400),
        ("an endpoint that is long", with("endpoint", json!("/".repeat(100_000))), 400),
        ("a window that is none", with("completion_window", json!("")), 400),
        ("a window without end", with("completion_window", json!("9".repeat(400) + "d")), 400),
        ("a window of a second", with("completion_window", json!("1s")), 400),
        ("metadata that is a text", with("metadata", json!("x")), 400),
        ("metadata of numbers", with("metadata", json!({ "a": 1 })), 400),
        ("metadata with NUL", with("metadata", json!({ "a": "\0" })), 400),
        ("metadata with a long name", with("metadata", json!({ "x".repeat(65): "" })), 400),
        (
            "a life too short",
            with("output_expires_after", json!({"anchor":"created_at","seconds":1})),
            400,
        ),
        (
            "a life before its time",
            with("output_expires_after", json!({"anchor":"created_at","seconds":-1})),
            400,
        ),
        (
            "another anchor",
            with("output_expires_after", json!({"anchor":"now","seconds":3600})),
            400,
        ),
    ]
}

async fn are_refused(server: Server) {
    let (key, to) = (server.key("ann").await, server.address());
    let uploaded = Request::upload(&key, good_form()).send(to).await.json();
    let file = uploaded["id"].as_str().unwrap();
    let create = || Request::new("POST", "/v1/batches", &key);
    for (what, body, status) in bad_bodies(file) {
        println!("{what}");
        create().json(body).send(to).await.refused(status);
    }
    let body = json!({
        "input_file_id": file, "endpoint": "/v1/chat/completions", "completion_window": "24h",
    });
    let body = body.to_string();
    create().body(body.as_str()).send(to).await.refused(415);
    create().header("content-type", "text/plain").body(body.as_str()).send(to).await.refused(415);
    for key in ["", "é", &"k".repeat(300)] {
        create().header("idempotency-key", key).json(body.as_str()).send(to).await.refused(400);
    }
    let list = Request::new("GET", "/v1/batches", &key).send(to).await.json();
    assert_eq!(list["data"], json!([]), "none of them made a batch");
    server.check();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_bodies_make_no_batch() {
    are_refused(Server::start().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_bodies_make_no_batch_on_postgres() {
    are_refused(Server::apart().await).await;
}
