//! Calls: once under a name, answered now or later.

use std::sync::atomic::Ordering;

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Harness, RunnerMode};

#[tokio::test]
async fn a_repeat_gets_the_first_answer_and_nothing_happens_twice() {
    let harness = Harness::new().await;
    let first = harness.call("counter/a/add", "r-1", "{\"n\": 5}").await;
    assert_eq!(first.ok(200), json!({ "value": 5 }));
    assert_eq!(first.header("content-type"), "application/json");
    assert_eq!(first.header("windrow-request-id"), "r-1");
    assert_eq!(first.header("windrow-retry-count"), "0");
    let again = harness.call("counter/a/add", "r-1", "{\"n\": 5}").await;
    assert_eq!(again.ok(200), json!({ "value": 5 }));
    assert_eq!(again.header("windrow-retry-count"), "1");
    assert_eq!(harness.handlers.runs.load(Ordering::SeqCst), 1);
    assert_eq!(
        harness.call("counter/a/add", "r-2", "{\"n\": 2}").await.ok(200),
        json!({ "value": 7 })
    );
    let call = harness.get(&harness.ann, "/v1/calls/r-1").await.ok(200);
    assert_eq!((&call["state"], &call["reply"]), (&json!("completed"), &json!({ "value": 5 })));
    assert_eq!((&call["object_type"], &call["object_id"]), (&json!("counter"), &json!("a")));
    assert_eq!((&call["owner"], &call["retry_count"]), (&json!("ann"), &json!(1)));
    harness.stop().await;
}

#[tokio::test]
async fn a_name_that_was_used_for_another_call_is_refused() {
    let harness = Harness::new().await;
    harness.call("counter/a/add", "r-1", "{\"n\": 5}").await.ok(200);
    for (path, args) in [
        ("counter/a/add", "{\"n\":5}"),
        ("counter/b/add", "{\"n\": 5}"),
        ("counter/a/echo", "{\"n\": 5}"),
    ] {
        let message = harness.call(path, "r-1", args).await.refused(400, "idempotency_key_reused");
        assert!(message.contains("r-1"), "{message}");
    }
    assert_eq!(harness.handlers.runs.load(Ordering::SeqCst), 1);
    harness.stop().await;
}

#[tokio::test]
async fn a_name_is_made_for_a_call_that_has_none_and_arguments_may_be_anything() {
    let harness = Harness::new().await;
    let path = "/v1/objects/counter/a%2Fb/echo";
    let answer = harness.send(&harness.ann, Method::POST, path, &[], vec![1_u8, 0, 200]).await;
    assert_eq!((answer.status, &*answer.body), (200, &[1_u8, 0, 200][..]));
    assert_eq!(answer.header("content-type"), "application/octet-stream");
    let id = answer.header("windrow-request-id").to_owned();
    let call = harness.get(&harness.ann, &format!("/v1/calls/{id}")).await.ok(200);
    assert_eq!((&call["object_id"], &call["reply_base64"]), (&json!("a/b"), &json!("AQDI")));
    assert_eq!(call.get("reply"), None);
    let empty = harness.send(&harness.ann, Method::POST, path, &[], "").await;
    assert_eq!((empty.status, empty.body.len()), (200, 0));
    harness.stop().await;
}

#[tokio::test]
async fn a_call_that_takes_long_is_asked_for_where_its_answer_will_be() {
    let harness = Harness::new().await;
    let headers = [("idempotency-key", "slow/1 %"), ("prefer", "wait=0")];
    let path = "/v1/objects/counter/a/slow";
    let answer = harness.send(&harness.ann, Method::POST, path, &headers, "").await;
    let pending = answer.ok(202);
    assert_eq!(pending["request_id"], "slow/1 %");
    assert!(["pending", "processing"].contains(&pending["state"].as_str().unwrap()), "{pending}");
    let place = answer.header("location").to_owned();
    assert_eq!(place, "/v1/calls/slow%2F1%20%25");
    let brief = harness.get(&harness.ann, &format!("{place}?waitMs=50")).await.ok(200);
    assert_eq!((brief.get("reply"), &brief["error"]), (None, &Value::Null));
    let wait = format!("{place}?waitMs=30000");
    let (answered, ()) = tokio::join!(harness.get(&harness.ann, &wait), async {
        harness.gate.add_permits(1);
    });
    let answered = answered.ok(200);
    assert_eq!((&answered["state"], &answered["reply"]), (&json!("completed"), &json!("at last")));
    let repeat = harness.send(&harness.ann, Method::POST, path, &headers, "").await;
    assert_eq!(repeat.ok(200), "at last");
    harness.stop().await;
}

#[tokio::test]
async fn a_call_named_like_another_route_is_found_where_it_says() {
    let harness = Harness::new().await;
    let headers = [("idempotency-key", "stats"), ("prefer", "respond-async")];
    let path = "/v1/objects/counter/a/slow";
    let answer = harness.send(&harness.ann, Method::POST, path, &headers, "").await;
    answer.ok(202);
    let call = harness.get(&harness.ann, answer.header("location")).await.ok(200);
    assert_eq!(call["request_id"], "stats");
    harness.gate.add_permits(1);
    harness.stop().await;
}

#[tokio::test]
async fn a_wait_lasts_until_the_answer_is_there() {
    let harness = Harness::new().await;
    let path = "/v1/objects/counter/a/slow?waitMs=60000";
    let (answer, ()) =
        tokio::join!(harness.send(&harness.ann, Method::POST, path, &[], ""), async {
            harness.until(&harness.ann, "/v1/calls", |calls| calls["data"][0].is_object()).await;
            harness.gate.add_permits(1);
        });
    assert_eq!(answer.ok(200), "at last");
    harness.stop().await;
}

#[tokio::test]
async fn a_call_that_failed_stays_so_and_says_why() {
    let harness = Harness::new().await;
    for retry in ["0", "1"] {
        let answer = harness.call("counter/a/steal", "r-1", "{}").await;
        let message = answer.refused(422, "call_failed");
        assert!(message.contains("a counter cannot steal"), "{message}");
        assert_eq!(answer.header("windrow-request-id"), "r-1");
        assert_eq!(answer.header("windrow-retry-count"), retry);
    }
    let call = harness.get(&harness.ann, "/v1/calls/r-1").await.ok(200);
    assert_eq!(call["state"], "failed");
    assert!(call["error"].as_str().unwrap().contains("steal"), "{call}");
    harness.stop().await;
}

#[tokio::test]
async fn callers_policies_and_ends_are_kept() {
    let harness = Harness::new().await;
    let headers = [
        ("idempotency-key", "r-1"),
        ("windrow-crash-policy", "fail"),
        ("windrow-caller-object", "cart/7"),
        ("windrow-expires-in", "3600"),
    ];
    let path = "/v1/objects/counter/a/who";
    let answer = harness.send(&harness.ann, Method::POST, path, &headers, "").await;
    assert_eq!((answer.status, answer.text()), (200, "cart/7".to_owned()));
    let call = harness.get(&harness.ann, "/v1/calls/r-1").await.ok(200);
    assert_eq!((&call["crash_policy"], &call["caller_object"]), (&json!("fail"), &json!("cart/7")));
    assert!(call["caller_client"].as_str().unwrap().starts_with("key:"), "{call}");
    assert!(call["expires_at"].is_string(), "{call}");
    harness.stop().await;
}

#[tokio::test]
async fn calls_are_listed_by_object_and_state_and_counted() {
    let harness = Harness::new().await;
    for no in 0..40 {
        harness.call(&format!("counter/{}/add", no % 2), &format!("r-{no}"), "{}").await.ok(200);
    }
    harness.call("counter/0/steal", "bad", "{}").await.refused(422, "call_failed");
    let count = |page: &Value| page["data"].as_array().unwrap().len();
    let all = harness.get(&harness.ann, "/v1/calls?limit=1000").await.ok(200);
    assert_eq!((count(&all), &all["next_cursor"]), (41, &Value::Null));
    assert_eq!(all["data"][0].get("reply"), None, "a list has no replies");
    let of = harness.get(&harness.ann, "/v1/calls?object=counter/0&state=completed").await.ok(200);
    assert_eq!(count(&of), 20);
    let failed = harness.get(&harness.ann, "/v1/calls?state=failed,expired").await.ok(200);
    assert_eq!((count(&failed), &failed["data"][0]["request_id"]), (1, &json!("bad")));
    let stuck = harness.get(&harness.ann, "/v1/calls?stuckMs=0&state=processing").await.ok(200);
    assert_eq!(count(&stuck), 0);
    let (mut seen, mut after) = (Vec::new(), String::new());
    loop {
        let page =
            harness.get(&harness.ann, &format!("/v1/calls?limit=30&after={after}")).await.ok(200);
        let rows = page["data"].as_array().unwrap();
        seen.extend(rows.iter().map(|call| call["request_id"].as_str().unwrap().to_owned()));
        match page["next_cursor"].as_str() {
            Some(next) => next.clone_into(&mut after),
            None => break,
        }
    }
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), 41);
    let stats = harness.get(&harness.ann, "/v1/calls/stats").await.ok(200);
    let completed = stats["by_state"].as_array().unwrap().iter();
    let completed: Vec<_> = completed.filter(|of| of["state"] == "completed").collect();
    assert_eq!(completed[0]["calls"], 40, "{stats}");
    assert!(stats["p99_ms"].as_f64().unwrap() >= stats["p50_ms"].as_f64().unwrap(), "{stats}");
    assert!(stats["failure_rate"].as_f64().unwrap() > 0.0, "{stats}");
    assert_eq!(stats["rows"], 41);
    harness.stop().await;
}

#[tokio::test]
async fn a_call_is_cancelled_by_its_owner_and_its_handler_is_refused() {
    let harness = Harness::new().await;
    let path = "/v1/objects/counter/a/slow?waitMs=60000";
    let headers = [("idempotency-key", "r 1")];
    let cancel = async {
        harness.until(&harness.ann, "/v1/calls", |calls| calls["data"][0].is_object()).await;
        let path = "/v1/calls/r%201/cancel";
        let reason = json!({ "reason": "a typo" });
        harness.post_json(&harness.bob, path, &reason).await.refused(404, "not_found");
        let call = harness.post_json(&harness.ann, path, &reason).await.ok(200);
        assert_eq!(
            (&call["state"], &call["error"]),
            (&json!("failed"), &json!("cancelled: a typo"))
        );
        let again = harness.send(&harness.ann, Method::POST, path, &[], "").await.ok(200);
        assert_eq!(again, call);
    };
    let (answer, ()) =
        tokio::join!(harness.send(&harness.ann, Method::POST, path, &headers, ""), cancel);
    let message = answer.refused(422, "call_failed");
    assert_eq!(message, "cancelled: a typo", "whoever waits is told");
    // The handler goes on, and what it returns is refused; the object's next call runs.
    harness.gate.add_permits(1);
    assert_eq!(harness.call("counter/a/add", "r-2", "{}").await.ok(200), json!({ "value": 1 }));
    let call = harness.get(&harness.ann, "/v1/calls/r%201").await.ok(200);
    assert_eq!(call["error"], "cancelled: a typo");
    let path = "/v1/calls/r-2/cancel";
    harness.send(&harness.ann, Method::POST, path, &[], "").await.refused(400, "call_answered");
    let long = json!({ "reason": "x".repeat(501) });
    harness.post_json(&harness.ann, path, &long).await.refused(400, "invalid_value");
    harness.stop().await;
}

#[tokio::test]
async fn many_calls_are_submitted_at_once_and_repeats_are_shown_as_they_are() {
    let harness = Harness::new().await;
    harness.call("counter/a/add", "r-0", "{\"n\": 5}").await.ok(200);
    let call = |id: &str, n: u32| {
        json!({ "request_id": id, "object_type": "counter", "object_id": "a", "method": "add",
            "args": { "n": n }, "expires_in_secs": 3600 })
    };
    let first = json!({ "object_type": "counter", "object_id": "a", "method": "add", "args_base64": "eyJuIjogNX0=",
        "request_id": "r-0" });
    let body = json!({ "calls": [first, call("r-1", 1), call("r-2", 2)] });
    let submitted = harness.post_json(&harness.ann, "/v1/calls", &body).await.ok(202);
    let data = submitted["data"].as_array().unwrap();
    let ids: Vec<_> = data.iter().map(|call| call["request_id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["r-0", "r-1", "r-2"]);
    assert_eq!((&data[0]["state"], &data[0]["retry_count"]), (&json!("completed"), &json!(1)));
    assert!(data[1]["expires_at"].is_string());
    let last = harness.get(&harness.ann, "/v1/calls/r-2?waitMs=30000").await.ok(200);
    assert_eq!(last["reply"], json!({ "value": 8 }), "in their order");
    let body = json!({ "calls": [call("r-3", 1), call("r-2", 9)] });
    let refused = harness.post_json(&harness.ann, "/v1/calls", &body).await;
    refused.refused(400, "idempotency_key_reused");
    harness.get(&harness.ann, "/v1/calls/r-3").await.refused(404, "not_found");
    let unknown = json!({ "calls": [{ "object_type": "x", "object_id": "a", "method": "add" }] });
    let refused = harness.post_json(&harness.ann, "/v1/calls", &unknown).await;
    refused.refused(404, "unknown_object_type");
    for bad in [
        json!({ "calls": [] }),
        json!({ "calls": [{ "object_type": "counter", "object_id": "", "method": "add" }] }),
    ] {
        harness.post_json(&harness.ann, "/v1/calls", &bad).await.refused(400, "invalid_value");
    }
    let retries = harness.get(&harness.ann, "/v1/calls/retries?above=0").await.ok(200);
    let told = &retries["data"][0];
    assert_eq!((&told["object_id"], &told["retries_max"]), (&json!("a"), &json!(1)), "{retries}");
    let retries = harness.get(&harness.ann, "/v1/calls/retries").await.ok(200);
    assert_eq!(retries["data"], json!([]));
    harness.stop().await;
}

#[tokio::test]
async fn metrics_of_messages_are_exported() {
    let harness = Harness::new().await;
    harness.call("counter/a/add", "r-1", "{}").await.ok(200);
    let text = harness.get(&harness.ann, "/metrics").await.text();
    for line in [
        "windrow_messages_backlog{queue=\"outbox\"} 0",
        "windrow_dead_letters{queue=\"inbox\"} 0",
        "windrow_calls{state=\"completed\"} 1",
        "windrow_calls_pending_age_seconds 0",
        "windrow_call_answer_seconds{quantile=\"0.99\"}",
        "windrow_calls_failure_rate 0",
        "windrow_calls_retries_mean{object_type=\"counter\",method=\"add\"} 0",
        "windrow_calls_rows{table=\"calls\"} 1",
        "windrow_partitions{state=\"owned\"} 16",
        "windrow_runner{what=\"done\"} 1",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
    harness.stop().await;
}

#[tokio::test]
async fn before_messages_are_set_up_errors_say_what_to_do() {
    let harness = Harness::with(RunnerMode::Never).await;
    let message =
        harness.call("counter/a/add", "r-1", "{}").await.refused(503, "messages_not_set_up");
    assert!(message.contains("windrow serve"), "{message}");
    let message = json!({ "stream": "s", "kind": "k", "id": "1" });
    for path in ["/v1/messages", "/v1/inbox"] {
        harness.post_json(&harness.ann, path, &message).await.refused(503, "messages_not_set_up");
    }
    for path in ["/v1/calls", "/v1/messages", "/v1/dead-letters"] {
        assert_eq!(harness.get(&harness.ann, path).await.ok(200)["data"], json!([]), "{path}");
    }
    assert!(harness.get(&harness.ann, "/metrics").await.text().contains("windrow_pending_items"));
    harness.stop().await;
    let harness = Harness::with(RunnerMode::Off).await;
    harness.call("counter/a/add", "r-1", "{}").await.refused(404, "feature_off");
    harness.get(&harness.ann, "/v1/dead-letters").await.refused(404, "feature_off");
    harness.get(&harness.ann, "/v1/streams/s/events?follow").await.refused(404, "feature_off");
    assert!(harness.get(&harness.ann, "/metrics").await.text().contains("windrow_pending_items"));
    harness.stop().await;
}

#[tokio::test]
async fn a_call_that_waits_says_why_and_since_when() {
    let harness = Harness::new().await;
    let headers = [("idempotency-key", "r-1"), ("prefer", "respond-async")];
    let path = "/v1/objects/counter/a/away";
    harness.send(&harness.ann, Method::POST, path, &headers, "{}").await.ok(202);
    let failed = |call: &Value| call["waiting"]["reason"].is_string();
    let call = harness.until(&harness.ann, "/v1/calls/r-1", failed).await;
    assert_eq!(call["waiting"]["reason"], "its database is down", "{call}");
    assert_eq!(call["waiting"]["since"], call["created_at"]);
    assert!(call["waiting"]["not_before"].is_string(), "{call}");
    harness.call("counter/b/add", "r-2", "{}").await.ok(200);
    assert_eq!(harness.get(&harness.ann, "/v1/calls/r-2").await.ok(200).get("waiting"), None);
    harness.stop().await;
}
