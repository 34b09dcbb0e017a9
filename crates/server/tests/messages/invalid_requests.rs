//! What is wrong is refused with a clear text, and nothing of it is kept.

use std::sync::atomic::Ordering;

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::Harness;

const PAYLOAD_BYTES_MAX: usize = 1024 * 1024;
const JSON: [(&str, &str); 1] = [("content-type", "application/json")];

fn deep(levels: usize) -> String {
    "[".repeat(levels) + &"]".repeat(levels)
}

#[tokio::test]
async fn calls_that_are_wrong_are_refused() {
    let harness = Harness::new().await;
    let post = |path: &'static str, body: String| {
        harness.send(&harness.ann, Method::POST, path, &[], body)
    };
    let message = post("/v1/objects/nothing/1/add", String::new()).await;
    let message = message.refused(404, "unknown_object_type");
    assert!(message.contains("nothing") && message.contains("counter"), "{message}");
    for path in [
        "/v1/objects/counter%2Fx/1/add",
        "/v1/objects/counter/1/a%2Fb",
        "/v1/objects//1/add",
        "/v1/objects/counter//add",
        "/v1/objects/counter/1/",
        "/v1/objects/counter/%00/add",
        "/v1/objects/counter/%ff/add",
    ] {
        let answer = post(path, String::new()).await;
        assert_eq!(answer.status, 400, "{path}: {}", answer.text());
    }
    for path in ["/v1/objects/counter/1", "/v1/objects/counter/1/add/more"] {
        post(path, String::new()).await.refused(404, "not_found");
    }
    let long = format!("/v1/objects/counter/{}/add", "x".repeat(300));
    harness.send(&harness.ann, Method::POST, &long, &[], "").await.refused(400, "invalid_value");
    let large = "x".repeat(PAYLOAD_BYTES_MAX + 1);
    post("/v1/objects/counter/1/echo", large).await.refused(413, "body_too_large");
    for (name, value) in [
        ("idempotency-key", ""),
        ("windrow-crash-policy", "never"),
        ("windrow-expires-in", "0"),
        ("windrow-expires-in", "soon"),
        ("windrow-caller-object", &*"x".repeat(257)),
    ] {
        let path = "/v1/objects/counter/1/echo";
        let answer = harness.send(&harness.ann, Method::POST, path, &[(name, value)], "").await;
        answer.refused(400, "invalid_value");
    }
    post("/v1/objects/counter/1/echo?waitMs=60001", String::new())
        .await
        .refused(400, "invalid_value");
    post("/v1/objects/counter/1/echo?waitMs=x", String::new()).await.refused(400, "invalid_query");
    for args in ["{", "{} {}", &deep(101), "\u{feff}1"] {
        harness.call("counter/1/echo", "r", args).await.refused(400, "invalid_json");
    }
    assert_eq!(harness.handlers.runs.load(Ordering::SeqCst), 0);
    let calls = harness.get(&harness.ann, "/v1/calls").await.ok(200);
    assert_eq!(calls["data"], json!([]), "nothing of all that is kept");
    // The largest that is allowed is.
    let largest = post("/v1/objects/counter/1/echo", "x".repeat(PAYLOAD_BYTES_MAX)).await;
    assert_eq!((largest.status, largest.body.len()), (200, PAYLOAD_BYTES_MAX));
    assert_eq!(harness.call("counter/1/echo", "deep", &deep(100)).await.text(), deep(100));
    harness.stop().await;
}

#[tokio::test]
async fn messages_that_are_wrong_are_refused() {
    let harness = Harness::new().await;
    let good = json!({ "stream": "s", "kind": "k", "id": "1" });
    let with = |name: &str, value: Value| {
        let mut invalid = good.clone();
        invalid[name] = value;
        invalid
    };
    let wrongs = [
        (with("id", json!("")), 400),
        (with("id", json!("x".repeat(257))), 400),
        (with("id", json!("a\u{0}b")), 400),
        (with("stream", json!("")), 400),
        (with("stream", json!("a\nb")), 400),
        (with("kind", json!("")), 400),
        (with("kind", json!(1)), 400),
        (with("headers", json!({ "a": "x".repeat(20_000) })), 400),
        (with("consumers", json!(vec!["x"; 9])), 400),
        (with("consumers", json!([""])), 400),
        (with("not_before", json!("tomorrow")), 400),
        (with("unknown", json!(1)), 400),
        (with("payload_base64", json!("?")), 400),
        (with("payload", json!("x".repeat(PAYLOAD_BYTES_MAX))), 413),
        (json!({ "messages": [] }), 400),
        (json!({ "messages": vec![&good; 1001] }), 400),
        (json!({ "messages": [good, { "stream": "s" }] }), 400),
        (json!([]), 400),
        (json!(null), 400),
    ];
    for path in ["/v1/messages", "/v1/inbox"] {
        for (invalid, status) in &wrongs {
            let answer = harness.post_json(&harness.ann, path, invalid).await;
            let shown: String = invalid.to_string().chars().take(100).collect();
            assert_eq!(answer.status, *status, "{path} {shown}: {}", answer.text());
            assert!(answer.json()["error"]["code"].is_string());
        }
        for body in ["{", "", "\"x", &deep(100_000)] {
            let answer =
                harness.send(&harness.ann, Method::POST, path, &JSON, body.to_owned()).await;
            answer.refused(400, "invalid_json");
        }
        harness
            .send(&harness.ann, Method::POST, path, &[], "{}")
            .await
            .refused(415, "unsupported_media_type");
        let huge = vec![b' '; (4 << 20) + 1];
        harness
            .send(&harness.ann, Method::POST, path, &JSON, huge)
            .await
            .refused(413, "body_too_large");
    }
    let page = harness.get(&harness.ann, "/v1/messages").await.ok(200);
    assert_eq!(page["data"], json!([]), "nothing of all that is kept");
    harness.stop().await;
}

#[tokio::test]
async fn events_that_are_wrong_are_refused() {
    let harness = Harness::new().await;
    let path = "/v1/streams/s/events";
    let good = json!({ "kind": "k" });
    for invalid in [
        json!({ "events": [] }),
        json!({ "events": vec![&good; 1001] }),
        json!({ "expected": -1, "events": [good] }),
        json!({ "expected": "7", "events": [good] }),
        json!({ "expected": u64::MAX, "events": [good] }),
        json!({ "expected": null, "events": [good] }),
        json!({ "events": [{ "kind": "" }] }),
        json!({ "events": [{ "kind": "k", "id": "" }] }),
        json!({}),
    ] {
        let answer = harness.post_json(&harness.ann, path, &invalid).await;
        assert_eq!(answer.status, 400, "{invalid}: {}", answer.text());
    }
    let future = json!({ "expected": 7, "events": [good] });
    let message =
        harness.post_json(&harness.ann, path, &future).await.refused(400, "version_conflict");
    assert!(message.contains('7') && message.contains('0'), "{message}");
    for path in ["/v1/streams//events", "/v1/streams/%0A/events"] {
        harness.get(&harness.ann, path).await.refused(400, "invalid_value");
    }
    harness.get(&harness.ann, "/v1/streams/s").await.refused(404, "not_found");
    harness
        .send(&harness.ann, Method::DELETE, path, &[], "")
        .await
        .refused(405, "method_not_allowed");
    for query in ["limit=0", "limit=1001", "from=9223372036854775808", "follow=perhaps"] {
        harness.get(&harness.ann, &format!("{path}?{query}")).await.refused(400, "invalid_value");
    }
    harness.get(&harness.ann, &format!("{path}?from=-1")).await.refused(400, "invalid_query");
    let id = [("last-event-id", "x")];
    let answer = harness.send(&harness.ann, Method::GET, &format!("{path}?follow"), &id, "").await;
    answer.refused(400, "invalid_value");
    assert_eq!(harness.get(&harness.ann, path).await.ok(200)["data"], json!([]));
    harness.stop().await;
}

#[tokio::test]
async fn lists_that_are_asked_for_wrongly_are_refused() {
    let harness = Harness::new().await;
    for path in ["/v1/calls", "/v1/messages", "/v1/dead-letters", "/v1/events"] {
        harness.get(&harness.ann, &format!("{path}?after=x")).await.refused(400, "invalid_value");
        harness.get(&harness.ann, &format!("{path}?limit=0")).await.refused(400, "invalid_value");
    }
    for query in
        ["state=gone", "object=counter", "object=/x", "instance=x", "stuckMs=9223372036854775808"]
    {
        harness
            .get(&harness.ann, &format!("/v1/calls?{query}"))
            .await
            .refused(400, "invalid_value");
    }
    for query in ["queue=none", "stream=%0A"] {
        for path in ["/v1/messages", "/v1/dead-letters"] {
            harness
                .get(&harness.ann, &format!("{path}?{query}"))
                .await
                .refused(400, "invalid_value");
        }
    }
    let far = "/v1/calls/stats?windowMs=2592000001";
    harness.get(&harness.ann, far).await.refused(400, "invalid_value");
    harness.get(&harness.ann, "/v1/calls/nothing?waitMs=1").await.refused(404, "not_found");
    harness.stop().await;
}
