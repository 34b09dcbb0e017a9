//! An admin makes and revokes keys.

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::Harness;

#[tokio::test]
async fn a_key_is_made_used_and_refused_at_once_when_it_is_revoked() {
    let harness = Harness::new().await;
    let body = json!({
        "owner": "carol", "role": "member", "name": "laptop", "expiresAt": "2999-01-01T00:00:00Z",
    });
    let made = harness.post_json(&harness.admin, "/api/keys", &body).await.ok(201);
    let (key, secret) = (&made["key"], made["secret"].as_str().unwrap());
    assert_eq!((&key["owner"], &key["role"]), (&json!("carol"), &json!("member")));
    assert_eq!(
        (&key["expiresAt"], &key["revokedAt"]),
        (&json!("2999-01-01T00:00:00Z"), &Value::Null)
    );
    let id = harness.plain_job(secret, 1).await;
    let job = harness.get(secret, &format!("/api/jobs/{id}")).await.ok(200);
    assert_eq!(job["owner"], "carol");
    harness.get(secret, "/api/keys").await.refused(403, "admin_only");

    let list = harness.get(&harness.admin, "/api/keys?owner=carol").await.ok(200);
    assert_eq!((list["data"].as_array().unwrap().len(), &list["data"][0]["id"]), (1, &key["id"]));
    assert!(!list.to_string().contains(secret));
    let all = harness.walk(&harness.admin, "/api/keys?pageSize=2", || {}).await;
    assert_eq!(all.len(), 4);

    let path = format!("/api/keys/{}", key["id"].as_str().unwrap());
    let revoke = async |who: &str| harness.send(who, Method::DELETE, &path, &[], "").await;
    revoke(&harness.ann).await.refused(403, "admin_only");
    let revoked = revoke(&harness.admin).await.ok(200);
    assert!(revoked["revokedAt"].is_string(), "{revoked}");
    harness.get(secret, "/api/jobs").await.refused(401, "invalid_api_key");
    assert_eq!(revoke(&harness.admin).await.ok(200)["revokedAt"], revoked["revokedAt"]);
}

#[tokio::test]
async fn a_key_that_cannot_be_is_refused() {
    let harness = Harness::new().await;
    let good = json!({ "owner": "carol", "role": "member", "name": "laptop" });
    let with = |field: &str, value: Value| {
        let mut body = good.clone();
        body[field] = value;
        body
    };
    for (field, value) in [
        ("owner", json!("")),
        ("role", json!("god")),
        ("expiresAt", json!("soon")),
        ("expiresAt", json!("")),
        ("expiresAt", json!("2020-01-01T00:00:00Z")),
        ("name", json!("x".repeat(500))),
    ] {
        let body = with(field, value);
        harness.post_json(&harness.admin, "/api/keys", &body).await.refused(400, "invalid_value");
    }
    let unknown = with("colour", json!("red"));
    harness.post_json(&harness.admin, "/api/keys", &unknown).await.refused(400, "invalid_json");
    harness.post_json(&harness.ann, "/api/keys", &good).await.refused(403, "admin_only");
    for id in ["nonsense", "00000000-0000-7000-8000-000000000000"] {
        let path = format!("/api/keys/{id}");
        let answer = harness.send(&harness.admin, Method::DELETE, &path, &[], "").await;
        answer.refused(404, "not_found");
    }
}
