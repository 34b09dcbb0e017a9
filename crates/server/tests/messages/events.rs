//! Events: appended, read, followed.

use bytes::Bytes;
use reqwest::Method;
use serde_json::{Value, json};

use windrow_domain::{Owner, Stream};
use windrow_engine::messages::Options;
use windrow_store::event::Snapshot;
use windrow_store::message::MessageRetention;

use crate::harness::Harness;

/// Reads an answer of server-sent events, one by one.
struct SseReader {
    response: reqwest::Response,
    text: String,
}

impl SseReader {
    async fn new(harness: &Harness, key: &str, path: &str, headers: &[(&str, &str)]) -> Self {
        let response = harness.ask(key, Method::GET, path, headers, "").await;
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self { response, text: String::new() }
    }

    /// The next event: its id, and its data; none at the end.
    async fn next(&mut self) -> Option<(String, Value)> {
        loop {
            if let Some((block, rest)) = self.text.split_once("\n\n") {
                let (block, rest) = (block.to_owned(), rest.to_owned());
                self.text = rest;
                let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name));
                let (Some(id), Some(data)) = (field("id:"), field("data:")) else { continue };
                let data = serde_json::from_str(data).unwrap();
                return Some((id.trim().to_owned(), data));
            }
            let piece = self.response.chunk().await.unwrap()?;
            self.text.push_str(std::str::from_utf8(&piece).unwrap());
        }
    }
}

fn events(kinds: &[&str]) -> Vec<Value> {
    kinds.iter().map(|kind| json!({ "kind": kind, "id": kind, "payload": { "k": kind } })).collect()
}

fn versions(page: &Value) -> Vec<u64> {
    page["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| event["version"].as_u64().unwrap())
        .collect()
}

#[tokio::test]
async fn events_are_appended_at_the_version_that_was_expected() {
    let harness = Harness::new().await;
    let path = "/v1/streams/orders%2F1/events";
    let first = json!({ "expected": 0, "events": events(&["placed", "paid"]) });
    let appended = harness.post_json(&harness.ann, path, &first).await.ok(201);
    assert_eq!(appended, json!({ "stream": "orders/1", "first": 1, "last": 2 }));
    // The same names at the same version are a repeat.
    assert_eq!(harness.post_json(&harness.ann, path, &first).await.ok(201), appended);
    let late = json!({ "expected": 0, "events": events(&["cancelled"]) });
    let refused = harness.post_json(&harness.ann, path, &late).await;
    let message = refused.refused(400, "version_conflict");
    assert!(message.contains("at version 2") && message.contains("not at 0"), "{message}");
    assert_eq!(refused.header("windrow-expected-version"), "0");
    assert_eq!(refused.header("windrow-actual-version"), "2");
    let any =
        json!({ "expected": "any", "events": [{ "kind": "sent", "payload_base64": "AP8=" }] });
    assert_eq!(harness.post_json(&harness.ann, path, &any).await.ok(201)["last"], 3);
    let any = json!({ "events": [{ "kind": "seen" }] });
    assert_eq!(
        harness.post_json(&harness.ann, "/v1/streams/orders/1/events", &any).await.ok(201)["last"],
        4
    );
    let all = harness.get(&harness.ann, "/v1/streams/orders/1/events").await.ok(200);
    assert_eq!((versions(&all), &all["next_from"]), (vec![1, 2, 3, 4], &json!(5)));
    assert_eq!(all["data"][0]["payload"], json!({ "k": "placed" }));
    assert_eq!(all["data"][2]["payload_base64"], "AP8=");
    let some = harness.get(&harness.ann, &format!("{path}?from=2&limit=2")).await.ok(200);
    assert_eq!((versions(&some), &some["next_from"]), (vec![2, 3], &json!(4)));
    let none = harness.get(&harness.ann, "/v1/streams/nothing/events?from=7").await.ok(200);
    assert_eq!((versions(&none), &none["next_from"]), (vec![], &json!(7)));
    harness.stop().await;
}

#[tokio::test]
async fn of_two_writers_one_wins_and_the_other_gets_a_conflict() {
    let harness = Harness::new().await;
    let path = "/v1/streams/s/events";
    let post = |kind: &str| json!({ "expected": 0, "events": events(&[kind]) });
    let (one, two) = (post("one"), post("two"));
    let (one, two) = tokio::join!(
        harness.post_json(&harness.ann, path, &one),
        harness.post_json(&harness.ann, path, &two)
    );
    let mut statuses = [one.status, two.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 400]);
    harness.stop().await;
}

#[tokio::test]
async fn a_follower_gets_every_event_once_and_resumes_where_it_was() {
    let harness = Harness::new().await;
    let path = "/v1/streams/counter/a/events";
    let follow = format!("{path}?follow");
    let mut reader = SseReader::new(&harness, &harness.ann, &follow, &[]).await;
    harness.post_json(&harness.ann, path, &json!({ "events": events(&["one"]) })).await.ok(201);
    let (id, event) = reader.next().await.unwrap();
    assert_eq!((&*id, &event["version"], &event["kind"]), ("1", &json!(1), &json!("one")));
    // What a handler appends is heard of, too, and lines within a payload break nothing.
    harness.call("counter/a/add", "r-1", "{}").await.ok(200);
    assert_eq!(reader.next().await.unwrap().1["kind"], "added");
    let body = "{\"events\": [{\"kind\": \"a\\nb\", \"payload\": {\r\n \"x\":\n 1}}]}";
    let json = [("content-type", "application/json")];
    harness.send(&harness.ann, Method::POST, path, &json, body).await.ok(201);
    let (id, event) = reader.next().await.unwrap();
    assert_eq!(
        (&*id, &event["kind"], &event["payload"]),
        ("3", &json!("a\nb"), &json!({ "x": 1 }))
    );
    drop(reader);
    let mut again =
        SseReader::new(&harness, &harness.ann, &follow, &[("last-event-id", "1")]).await;
    assert_eq!(again.next().await.unwrap().0, "2");
    assert_eq!(again.next().await.unwrap().0, "3");
    let mut from =
        SseReader::new(&harness, &harness.ann, &format!("{follow}=true&from=3"), &[]).await;
    assert_eq!(from.next().await.unwrap().0, "3");
    let ((), one, two) = tokio::join!(harness.stop(), again.next(), from.next());
    assert!(one.is_none() && two.is_none(), "a server that stops lets them go");
}

#[tokio::test]
async fn a_follower_is_disconnected_when_its_key_is_revoked() {
    let harness = Harness::new().await;
    let mut reader =
        SseReader::new(&harness, &harness.ann, "/v1/streams/s/events?follow", &[]).await;
    let keys = harness.get(&harness.admin, "/api/keys?owner=ann").await.ok(200);
    let path = format!("/api/keys/{}", keys["data"][0]["id"].as_str().unwrap());
    harness.send(&harness.admin, Method::DELETE, &path, &[], "").await.ok(200);
    assert!(reader.next().await.is_none());
    harness.stop().await;
}

#[tokio::test]
async fn the_feed_gives_everything_once() {
    let harness = Harness::new().await;
    for no in 0..50 {
        let path = format!("/v1/streams/s{}/events", no % 5);
        harness.post_json(&harness.ann, &path, &json!({ "events": events(&["e"]) })).await.ok(201);
    }
    harness
        .post_json(&harness.bob, "/v1/streams/b/events", &json!({ "events": events(&["b"]) }))
        .await
        .ok(201);
    let (mut seen, mut after) = (Vec::new(), String::new());
    loop {
        let page =
            harness.get(&harness.ann, &format!("/v1/events?limit=20&after={after}")).await.ok(200);
        let rows = page["data"].as_array().unwrap().clone();
        page["next_cursor"].as_str().unwrap().clone_into(&mut after);
        if rows.is_empty() {
            break;
        }
        seen.extend(rows);
    }
    assert_eq!(seen.len(), 50);
    for stream in 0..5 {
        let name = format!("s{stream}");
        let of: Vec<_> = seen.iter().filter(|event| event["stream"] == *name).collect();
        assert!(of.iter().zip(1..=10_u64).all(|(event, version)| event["version"] == version));
    }
    // The last cursor leads on.
    harness
        .post_json(&harness.ann, "/v1/streams/s9/events", &json!({ "events": events(&["e"]) }))
        .await
        .ok(201);
    let next = harness.get(&harness.ann, &format!("/v1/events?after={after}")).await.ok(200);
    assert_eq!(next["data"][0]["stream"], "s9");
    let all = harness.get(&harness.admin, "/v1/events?owner=all&limit=1000").await.ok(200);
    assert_eq!(all["data"].as_array().unwrap().len(), 52);
    harness.stop().await;
}

/// Makes version `at` of ann's stream `s` the first that its snapshot does not stand for, and prunes.
async fn prune(harness: &Harness, at: u64) {
    let (owner, stream) = (Owner::new("ann").unwrap(), Stream::new("s").unwrap());
    let snapshot = Snapshot { owner, stream, version: at - 1, state: Bytes::from_static(b"{}") };
    harness.message_store.put_snapshot(snapshot).await.unwrap();
    let retention = MessageRetention { event_ms: Some(0), ..Options::default().retention };
    assert!(harness.message_store.prune_messages(retention, 1000).await.unwrap().events > 0);
}

#[tokio::test]
async fn a_request_for_pruned_events_gets_the_first_version_that_is_kept() {
    let harness = Harness::new().await;
    let path = "/v1/streams/s/events";
    let posts = json!({ "events": events(&["1", "2", "3", "4"]) });
    harness.post_json(&harness.ann, path, &posts).await.ok(201);
    prune(&harness, 3).await;
    for query in ["", "?from=2", "?follow", "?follow&from=2"] {
        let answer = harness.get(&harness.ann, &format!("{path}{query}")).await;
        let message = answer.refused(410, "events_pruned");
        assert!(message.contains("version 3") && message.contains("snapshot is at 2"), "{message}");
        assert_eq!(answer.header("windrow-first-version"), "3");
        assert_eq!(answer.header("windrow-snapshot-version"), "2");
    }
    let rest = harness.get(&harness.ann, &format!("{path}?from=3")).await.ok(200);
    assert_eq!(versions(&rest), [3, 4]);
    let mut reader =
        SseReader::new(&harness, &harness.ann, &format!("{path}?follow&from=3"), &[]).await;
    assert_eq!(reader.next().await.unwrap().0, "3");
    harness
        .post_json(&harness.ann, path, &json!({ "expected": 4, "events": events(&["5"]) }))
        .await
        .ok(201);
    assert_eq!(reader.next().await.unwrap().0, "4");
    assert_eq!(reader.next().await.unwrap().0, "5");
    let feed = harness.get(&harness.ann, "/v1/events").await.ok(200);
    assert_eq!(versions(&feed), [3, 4, 5]);
    harness.stop().await;
}
