//! What belongs to others does not exist, and admins see who runs what.

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::Harness;

fn count(page: &Value) -> usize {
    page["data"].as_array().unwrap().len()
}

#[tokio::test]
async fn another_owners_calls_messages_and_events_are_not_there() {
    let harness = Harness::new().await;
    harness.call("counter/a/add", "r-1", "{\"n\": 5}").await.ok(200);
    let message =
        json!({ "stream": "s", "kind": "k", "id": "m", "not_before": "2100-01-01T00:00:00Z" });
    harness.post_json(&harness.ann, "/v1/messages", &message).await.ok(202);
    let poison = json!({ "stream": "p", "kind": "poison", "id": "p" });
    harness.post_json(&harness.ann, "/v1/inbox", &poison).await.ok(202);
    let letters = harness.until(&harness.ann, "/v1/dead-letters", |page| count(page) == 1).await;
    let id = letters["data"][0]["id"].as_str().unwrap();

    harness.get(&harness.bob, "/v1/calls/r-1").await.refused(404, "not_found");
    for path in ["/v1/calls", "/v1/messages", "/v1/dead-letters", "/v1/events"] {
        assert_eq!(count(&harness.get(&harness.bob, path).await.ok(200)), 0, "{path}");
        assert_ne!(count(&harness.get(&harness.ann, path).await.ok(200)), 0, "{path}");
        let all = format!("{path}?owner=all");
        harness.get(&harness.bob, &all).await.refused(403, "admin_only");
        assert_ne!(count(&harness.get(&harness.admin, &all).await.ok(200)), 0, "{path}");
        assert_eq!(count(&harness.get(&harness.admin, path).await.ok(200)), 0, "{path}");
    }
    let events = harness.get(&harness.bob, "/v1/streams/counter/a/events").await.ok(200);
    assert_eq!(count(&events), 0);
    for act in ["replay", "discard"] {
        let path = format!("/v1/dead-letters/{id}/{act}");
        harness.post_json(&harness.bob, &path, &json!({})).await.refused(404, "not_found");
    }
    // The same names are other things with another owner.
    let key = [("idempotency-key", "r-1")];
    let path = "/v1/objects/counter/a/add";
    let bobs = harness.send(&harness.bob, Method::POST, path, &key, "{\"n\": 1}").await;
    assert_eq!(bobs.ok(200), json!({ "value": 1 }));
    harness.stop().await;
}

#[tokio::test]
async fn an_admin_acts_for_an_owner_and_sees_who_runs_what() {
    let harness = Harness::new().await;
    let headers = [("idempotency-key", "r-1"), ("windrow-owner", "ann")];
    let path = "/v1/objects/counter/a/add";
    harness.send(&harness.admin, Method::POST, path, &headers, "{}").await.ok(200);
    assert_eq!(harness.get(&harness.ann, "/v1/calls/r-1").await.ok(200)["owner"], "ann");
    harness.get(&harness.admin, "/v1/calls/r-1").await.refused(404, "not_found");
    let message =
        harness.send(&harness.admin, Method::GET, "/v1/calls/r-1", &headers[1..], "").await;
    assert_eq!(message.ok(200)["object_type"], "counter");
    let refused = harness.send(&harness.bob, Method::POST, path, &headers, "{}").await;
    refused.refused(403, "admin_only");

    let instances = harness.get(&harness.admin, "/v1/instances").await.ok(200);
    assert_eq!((count(&instances), &instances["data"][0]["service"]), (1, &json!("test")));
    let is_owned = |page: &Value| {
        page["data"].as_array().unwrap().iter().all(|of| of["live"] == true && of["epoch"] == 1)
    };
    let partitions = harness.until(&harness.admin, "/v1/partitions", is_owned).await;
    assert_eq!(count(&partitions), 16);
    for path in ["/v1/instances", "/v1/partitions"] {
        harness.get(&harness.ann, path).await.refused(403, "admin_only");
    }
    harness.stop().await;
}
