//! Messages that are sent, to the outbox and to the inbox.

use std::sync::atomic::Ordering;

use serde_json::{Value, json};

use crate::harness::Harness;

/// Far enough that nothing is tried while a test runs.
const LATER: &str = "2100-01-01T00:00:00Z";

fn rows(page: &Value) -> &Vec<Value> {
    page["data"].as_array().unwrap()
}

#[tokio::test]
async fn one_message_or_many_are_kept_in_their_order() {
    let harness = Harness::new().await;
    let one = json!({ "stream": "orders/1", "kind": "order.placed", "payload": { "b": 1, "a": null },
        "headers": { "trace": "t" }, "not_before": LATER });
    let sent = harness.post_json(&harness.ann, "/v1/messages", &one).await.ok(202);
    assert_eq!(
        (&sent["data"][0]["stream"], &sent["data"][0]["duplicate"]),
        (&json!("orders/1"), &json!(false))
    );
    let made = sent["data"][0]["id"].as_str().unwrap();
    assert!(!made.is_empty());
    let many = json!({ "messages": [
        { "stream": "orders/1", "kind": "order.paid", "id": "p", "payload": null, "not_before": LATER },
        { "stream": "orders/1", "kind": "order.sent", "id": "q", "payload_base64": "AP8=", "not_before": LATER },
        { "stream": "orders/2", "kind": "order.placed", "id": "r", "not_before": LATER },
    ] });
    let sent = harness.post_json(&harness.ann, "/v1/messages", &many).await.ok(202);
    let places: Vec<_> =
        rows(&sent).iter().map(|sent| sent["position"].as_u64().unwrap()).collect();
    assert!(places[0] < places[1], "{sent}");
    let page = harness.get(&harness.ann, "/v1/messages?queue=outbox&stream=orders/1").await.ok(200);
    let kinds: Vec<_> = rows(&page).iter().map(|row| row["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["order.placed", "order.paid", "order.sent"]);
    assert_eq!(page["data"][0]["payload"], json!({ "b": 1, "a": null }));
    assert_eq!(page["data"][0]["headers"], json!({ "trace": "t" }));
    assert_eq!(page["data"][1].get("payload"), Some(&Value::Null));
    assert_eq!(page["data"][2]["payload_base64"], "AP8=");
    let repeat = harness.post_json(&harness.ann, "/v1/messages", &many).await.ok(202);
    assert!(rows(&repeat).iter().all(|sent| sent["duplicate"] == true), "{repeat}");
    let other = json!({ "stream": "orders/1", "kind": "order.paid", "id": "p", "payload": 2 });
    let message = harness
        .post_json(&harness.ann, "/v1/messages", &other)
        .await
        .refused(400, "message_id_reused");
    assert!(message.contains("nothing was sent"), "{message}");
    let twice =
        json!({ "stream": "x", "kind": "k", "id": "p2", "dedupe": false, "not_before": LATER });
    for _ in 0..2 {
        let sent = harness.post_json(&harness.ann, "/v1/messages", &twice).await.ok(202);
        assert_eq!(sent["data"][0]["duplicate"], false);
    }
    harness.stop().await;
}

#[tokio::test]
async fn what_comes_into_the_inbox_twice_is_handled_once() {
    let harness = Harness::new().await;
    let message = json!({ "stream": "in/1", "kind": "paid", "id": "m-1", "payload": [1] });
    let first = harness.post_json(&harness.ann, "/v1/inbox", &message).await.ok(202);
    assert_eq!(first["data"][0]["duplicate"], false);
    let again = harness.post_json(&harness.ann, "/v1/inbox", &message).await.ok(202);
    assert_eq!(again["data"][0]["duplicate"], true);
    assert_eq!(again["data"][0]["position"], first["data"][0]["position"]);
    harness.until(&harness.ann, "/v1/messages?queue=inbox", |page| rows(page).is_empty()).await;
    let late = harness.post_json(&harness.ann, "/v1/inbox", &message).await.ok(202);
    assert_eq!(late["data"][0]["duplicate"], true);
    let next = json!({ "stream": "in/1", "kind": "paid", "id": "m-2" });
    harness.post_json(&harness.ann, "/v1/inbox", &next).await.ok(202);
    harness.until(&harness.ann, "/v1/messages?queue=inbox", |page| rows(page).is_empty()).await;
    assert_eq!(harness.handlers.taken.load(Ordering::SeqCst), 2);
    let nameless = json!({ "stream": "in/1", "kind": "paid" });
    harness.post_json(&harness.ann, "/v1/inbox", &nameless).await.refused(400, "invalid_value");
    harness.stop().await;
}
