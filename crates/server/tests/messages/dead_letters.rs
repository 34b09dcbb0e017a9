//! Messages that are given up on, sent again, forgotten.

use std::sync::atomic::Ordering;

use serde_json::{Value, json};

use crate::harness::Harness;

const LETTERS: &str = "/v1/dead-letters?queue=inbox";

async fn poison(harness: &Harness, count: usize) -> Vec<String> {
    for no in 0..count {
        let message =
            json!({ "stream": format!("s/{no}"), "kind": "poison", "id": format!("m-{no}") });
        harness.post_json(&harness.ann, "/v1/inbox", &message).await.ok(202);
    }
    let is_so = |page: &Value| page["data"].as_array().unwrap().len() == count;
    let page = harness.until(&harness.ann, LETTERS, is_so).await;
    let letters = page["data"].as_array().unwrap().iter();
    letters.map(|letter| letter["id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn what_was_given_up_on_is_sent_again_when_asked_for() {
    let harness = Harness::new().await;
    let ids = poison(&harness, 3).await;
    let letter = harness.get(&harness.ann, LETTERS).await.ok(200)["data"][0].clone();
    assert!(letter["error"].as_str().unwrap().contains("it is poison"), "{letter}");
    assert_eq!(
        (&letter["message"]["kind"], &letter["message"]["owner"]),
        (&json!("poison"), &json!("ann"))
    );
    harness.handlers.is_immune.store(true, Ordering::SeqCst);
    let unknown = json!({ "ids": [ids[0], "00000000-0000-7000-8000-000000000000"] });
    harness
        .post_json(&harness.ann, "/v1/dead-letters/replay", &unknown)
        .await
        .refused(404, "not_found");
    let two = json!({ "ids": [ids[0], ids[1], ids[0]] });
    let replayed = harness.post_json(&harness.ann, "/v1/dead-letters/replay", &two).await.ok(200);
    assert_eq!(replayed, json!({ "replayed": 2 }));
    let one = format!("/v1/dead-letters/{}/replay", ids[2]);
    assert_eq!(
        harness.post_json(&harness.ann, &one, &json!({})).await.ok(200),
        json!({ "replayed": 1 })
    );
    harness.post_json(&harness.ann, &one, &json!({})).await.refused(404, "not_found");
    let is_done = |page: &Value| page["data"].as_array().unwrap().is_empty();
    harness.until(&harness.ann, "/v1/messages?queue=inbox", is_done).await;
    assert_eq!(harness.handlers.taken.load(Ordering::SeqCst), 3);
    assert!(is_done(&harness.get(&harness.ann, LETTERS).await.ok(200)));
    harness.stop().await;
}

#[tokio::test]
async fn what_was_given_up_on_is_forgotten_when_asked_for() {
    let harness = Harness::new().await;
    let ids = poison(&harness, 2).await;
    let one = format!("/v1/dead-letters/{}/discard", ids[0]);
    assert_eq!(
        harness.post_json(&harness.ann, &one, &json!({})).await.ok(200),
        json!({ "discarded": 1 })
    );
    harness.post_json(&harness.ann, &one, &json!({})).await.refused(404, "not_found");
    let both = json!({ "ids": ids });
    let discarded =
        harness.post_json(&harness.ann, "/v1/dead-letters/discard", &both).await.ok(200);
    assert_eq!(discarded, json!({ "discarded": 1 }));
    for bad in [json!({ "ids": [] }), json!({ "ids": ["x"] }), json!({ "ids": vec!["x"; 1001] })] {
        for path in ["/v1/dead-letters/replay", "/v1/dead-letters/discard"] {
            harness.post_json(&harness.ann, path, &bad).await.refused(400, "invalid_value");
        }
    }
    harness
        .post_json(&harness.ann, "/v1/dead-letters/x/discard", &json!({}))
        .await
        .refused(404, "not_found");
    harness.stop().await;
}
