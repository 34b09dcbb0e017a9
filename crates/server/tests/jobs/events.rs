//! Progress as it happens.

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Harness, Setup};

/// The events of a stream that ends, as name and data.
async fn read(mut response: reqwest::Response) -> Vec<(String, Value)> {
    let mut text = Vec::new();
    while let Some(piece) = response.chunk().await.unwrap() {
        text.extend_from_slice(&piece);
    }
    let text = String::from_utf8(text).unwrap();
    let field = |block: &str, name: &str| {
        let line = block.lines().find_map(|line| line.strip_prefix(name));
        line.map(|value| value.trim().to_owned())
    };
    let events = text.split("\n\n").filter_map(|block| {
        let (name, data) = (field(block, "event:")?, field(block, "data:")?);
        Some((name, serde_json::from_str(&data).unwrap()))
    });
    events.collect()
}

#[tokio::test]
async fn listeners_hear_of_progress_and_of_the_end_and_then_the_stream_ends() {
    let harness = Harness::with(Setup { answers: 0, works: true, ..Setup::default() }).await;
    let id = harness.plain_job(&harness.ann, 20).await;
    let path = format!("/api/jobs/{id}/events");
    let one = harness.ask(&harness.ann, Method::GET, &path, &[], "").await;
    let two = harness.ask(&harness.admin, Method::GET, &path, &[], "").await;
    assert_eq!(one.headers()["content-type"], "text/event-stream");
    harness.gate.add_permits(1000);
    let (one, two) = tokio::join!(read(one), read(two));
    for events in [one, two] {
        let (last, before) = events.split_last().unwrap();
        assert_eq!((&*last.0, &last.1["status"]), ("closed", &json!("completed")));
        assert_eq!((&last.1["jobId"], &last.1["counts"]["done"]), (&json!(id), &json!(20)));
        assert!(before.iter().all(|(name, _)| name == "progress"), "{before:?}");
        assert_ne!(before[0].1["counts"]["done"], 20);
        assert!(before.windows(2).all(|pair| pair[0] != pair[1]), "{before:?}");
    }
    let closed = read(harness.ask(&harness.ann, Method::GET, &path, &[], "").await).await;
    let names: Vec<_> = closed.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["progress", "closed"]);
    harness.stop().await;
}

#[tokio::test]
async fn a_server_that_stops_lets_its_listeners_go() {
    let harness = Harness::new().await;
    let id = harness.plain_job(&harness.ann, 1).await;
    let stream =
        harness.ask(&harness.ann, Method::GET, &format!("/api/jobs/{id}/events"), &[], "").await;
    let (events, ()) = tokio::join!(read(stream), harness.stop());
    assert!(events.iter().all(|(name, _)| name == "progress"), "{events:?}");
}
