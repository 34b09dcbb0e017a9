//! Snapshots of streams: kept, read, and what is left of a stream when the events behind one are pruned.

use reqwest::Method;
use serde_json::{Value, json};
use windrow_engine::messages::Options;
use windrow_store::message::MessageRetention;

use crate::harness::{Harness, RunnerMode};
use crate::support::ApiResponse;

const PATH: &str = "/v1/streams/wallet/7/snapshot";
const EVENTS: &str = "/v1/streams/wallet/7/events";

async fn put(harness: &Harness, key: &str, path: &str, body: &Value) -> ApiResponse {
    let json = [("content-type", "application/json")];
    harness.send(key, Method::PUT, path, &json, body.to_string()).await
}

/// Appends that many events to ann's stream.
async fn append(harness: &Harness, events: usize) {
    let events = vec![json!({ "kind": "money.deposited", "payload": { "cents": 5 } }); events];
    harness.post_json(&harness.ann, EVENTS, &json!({ "events": events })).await.ok(201);
}

#[tokio::test]
async fn a_snapshot_is_kept_and_an_older_one_never_replaces_it() {
    let harness = Harness::new().await;
    harness.get(&harness.ann, PATH).await.refused(404, "not_found");
    append(&harness, 3).await;
    let two = json!({ "version": 2, "state": { "cents": 10 } });
    let kept = put(&harness, &harness.ann, PATH, &two).await.ok(200);
    assert_eq!(kept, json!({ "stream": "wallet/7", "version": 2, "state": { "cents": 10 } }));
    assert_eq!(
        put(&harness, &harness.ann, PATH, &two).await.ok(200),
        kept,
        "a repeat changes nothing"
    );
    let one = json!({ "version": 1, "state": { "cents": 5 } });
    assert_eq!(
        put(&harness, &harness.ann, PATH, &one).await.ok(200),
        kept,
        "the newest is the answer"
    );
    assert_eq!(harness.get(&harness.ann, PATH).await.ok(200), kept);
    assert_eq!(harness.get(&harness.ann, "/v1/streams/wallet%2F7/snapshot").await.ok(200), kept);
    let bytes = json!({ "version": 3, "state_base64": "AP8=" });
    assert_eq!(put(&harness, &harness.ann, PATH, &bytes).await.ok(200)["state_base64"], "AP8=");
    harness.stop().await;
}

#[tokio::test]
async fn what_is_wrong_with_a_snapshot_is_named() {
    let harness = Harness::new().await;
    append(&harness, 1).await;
    for version in [0_u64, 2, u64::MAX] {
        let answer =
            put(&harness, &harness.ann, PATH, &json!({ "version": version, "state": 1 })).await;
        answer.refused(400, "invalid_value");
        assert_eq!(answer.json()["error"]["param"], "version");
    }
    let both = json!({ "version": 1, "state": 1, "state_base64": "AP8=" });
    let told = put(&harness, &harness.ann, PATH, &both).await.refused(400, "invalid_value");
    assert!(told.contains("`state_base64`") && !told.contains("payload"), "{told}");
    for body in [json!({ "state": 1 }), json!({ "version": 1, "at": 2 }), json!([])] {
        put(&harness, &harness.ann, PATH, &body).await.refused(400, "invalid_json");
    }
    let text = harness.send(&harness.ann, Method::PUT, PATH, &[], "{}").await;
    text.refused(415, "unsupported_media_type");
    let large = json!({ "version": 1, "state": "x".repeat(1 << 20) });
    put(&harness, &harness.ann, PATH, &large).await.refused(413, "payload_too_large");
    put(&harness, &harness.ann, EVENTS, &json!({})).await.refused(405, "method_not_allowed");
    let posted = harness.post_json(&harness.ann, PATH, &json!({})).await;
    posted.refused(405, "method_not_allowed");
    assert_eq!(posted.header("allow"), "GET,HEAD,PUT");
    put(&harness, &harness.ann, "/v1/streams/wallet/7", &json!({})).await.refused(404, "not_found");
    harness.get(&harness.ann, PATH).await.refused(404, "not_found");
    harness.stop().await;
}

#[tokio::test]
async fn a_snapshot_belongs_to_the_owner_of_its_stream() {
    let harness = Harness::new().await;
    append(&harness, 1).await;
    let body = json!({ "version": 1, "state": "ann's" });
    put(&harness, &harness.ann, PATH, &body).await.ok(200);
    harness.get(&harness.bob, PATH).await.refused(404, "not_found");
    put(&harness, &harness.bob, PATH, &json!({ "version": 1, "state": "bob's" }))
        .await
        .refused(400, "invalid_value");
    assert_eq!(harness.get(&harness.ann, PATH).await.ok(200)["state"], "ann's");
    let headers = [("windrow-owner", "ann")];
    let acted = harness.send(&harness.admin, Method::GET, PATH, &headers, "").await.ok(200);
    assert_eq!(acted["state"], "ann's");
    harness.stop().await;
    let off = Harness::with(RunnerMode::Off).await;
    off.get(&off.ann, PATH).await.refused(404, "feature_off");
    off.stop().await;
}

#[tokio::test]
async fn a_stream_is_read_from_its_snapshot_on_when_the_events_behind_it_are_pruned() {
    let harness = Harness::new().await;
    append(&harness, 5).await;
    let retention = MessageRetention { event_ms: Some(0), ..Options::default().retention };
    let pruned = harness.message_store.prune_messages(retention, 1000).await.unwrap();
    assert_eq!(pruned.events, 0, "without a snapshot nothing goes");
    put(&harness, &harness.ann, PATH, &json!({ "version": 3, "state": { "cents": 15 } }))
        .await
        .ok(200);
    let pruned = harness.message_store.prune_messages(retention, 1000).await.unwrap();
    assert_eq!(pruned.events, 3);
    harness.get(&harness.ann, EVENTS).await.refused(410, "events_pruned");
    let snapshot = harness.get(&harness.ann, PATH).await.ok(200);
    let from = snapshot["version"].as_u64().unwrap() + 1;
    let rest = harness.get(&harness.ann, &format!("{EVENTS}?from={from}")).await.ok(200);
    let versions: Vec<_> = rest["data"].as_array().unwrap().iter().map(|e| &e["version"]).collect();
    assert_eq!(
        (versions, &snapshot["state"]),
        (vec![&json!(4), &json!(5)], &json!({ "cents": 15 }))
    );
    append(&harness, 1).await;
    assert_eq!(
        harness.get(&harness.ann, &format!("{EVENTS}?from=6")).await.ok(200)["next_from"],
        7
    );
    harness.stop().await;
}
