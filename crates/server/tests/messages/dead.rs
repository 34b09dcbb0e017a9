//! Messages that are given up on, sent again, forgotten.

use std::sync::atomic::Ordering;

use serde_json::{Value, json};

use crate::desk::Desk;

const LETTERS: &str = "/v1/dead-letters?queue=inbox";

async fn poison(desk: &Desk, count: usize) -> Vec<String> {
    for no in 0..count {
        let message =
            json!({ "stream": format!("s/{no}"), "kind": "poison", "id": format!("m-{no}") });
        desk.post_json(&desk.ann, "/v1/inbox", &message).await.ok(202);
    }
    let is_so = |page: &Value| page["data"].as_array().unwrap().len() == count;
    let page = desk.until(&desk.ann, LETTERS, is_so).await;
    let letters = page["data"].as_array().unwrap().iter();
    letters.map(|letter| letter["id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn what_was_given_up_on_is_sent_again_when_asked_for() {
    let desk = Desk::new().await;
    let ids = poison(&desk, 3).await;
    let letter = desk.get(&desk.ann, LETTERS).await.ok(200)["data"][0].clone();
    assert!(letter["error"].as_str().unwrap().contains("it is poison"), "{letter}");
    assert_eq!(
        (&letter["message"]["kind"], &letter["message"]["owner"]),
        (&json!("poison"), &json!("ann"))
    );
    desk.hands.is_immune.store(true, Ordering::SeqCst);
    let unknown = json!({ "ids": [ids[0], "00000000-0000-7000-8000-000000000000"] });
    desk.post_json(&desk.ann, "/v1/dead-letters/replay", &unknown).await.refused(404, "not_found");
    let two = json!({ "ids": [ids[0], ids[1], ids[0]] });
    let replayed = desk.post_json(&desk.ann, "/v1/dead-letters/replay", &two).await.ok(200);
    assert_eq!(replayed, json!({ "replayed": 2 }));
    let one = format!("/v1/dead-letters/{}/replay", ids[2]);
    assert_eq!(desk.post_json(&desk.ann, &one, &json!({})).await.ok(200), json!({ "replayed": 1 }));
    desk.post_json(&desk.ann, &one, &json!({})).await.refused(404, "not_found");
    let is_done = |page: &Value| page["data"].as_array().unwrap().is_empty();
    desk.until(&desk.ann, "/v1/messages?queue=inbox", is_done).await;
    assert_eq!(desk.hands.taken.load(Ordering::SeqCst), 3);
    assert!(is_done(&desk.get(&desk.ann, LETTERS).await.ok(200)));
    desk.stop().await;
}

#[tokio::test]
async fn what_was_given_up_on_is_forgotten_when_asked_for() {
    let desk = Desk::new().await;
    let ids = poison(&desk, 2).await;
    let one = format!("/v1/dead-letters/{}/discard", ids[0]);
    assert_eq!(
        desk.post_json(&desk.ann, &one, &json!({})).await.ok(200),
        json!({ "discarded": 1 })
    );
    desk.post_json(&desk.ann, &one, &json!({})).await.refused(404, "not_found");
    let both = json!({ "ids": ids });
    let discarded = desk.post_json(&desk.ann, "/v1/dead-letters/discard", &both).await.ok(200);
    assert_eq!(discarded, json!({ "discarded": 1 }));
    for bad in [json!({ "ids": [] }), json!({ "ids": ["x"] }), json!({ "ids": vec!["x"; 1001] })] {
        for path in ["/v1/dead-letters/replay", "/v1/dead-letters/discard"] {
            desk.post_json(&desk.ann, path, &bad).await.refused(400, "invalid_value");
        }
    }
    desk.post_json(&desk.ann, "/v1/dead-letters/x/discard", &json!({}))
        .await
        .refused(404, "not_found");
    desk.stop().await;
}
