//! The rows of a job's grid.

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::harness::{Harness, Setup, ids, line};

#[tokio::test]
async fn items_have_what_a_grid_shows() {
    let harness = Harness::with(Setup { answers: 5, ..Setup::default() }).await;
    let lines = [json!({}), json!({ "do": "fail" }), json!({ "do": "missing" }), json!({})];
    let lines: String = (1..).zip(lines).map(|(no, more)| line(no, more)).collect();
    let job = harness.job(&harness.ann, "", lines).await;
    let id = job["jobId"].as_str().unwrap();
    let path = format!("/api/jobs/{id}/items?");
    let waiting = harness.get(&harness.ann, &path).await.ok(200)["data"][1].clone();
    assert_eq!((&waiting["itemId"], &waiting["status"]), (&json!("2"), &json!("PENDING")));
    let summary = json!({ "custom_id": "c-2", "url": "/v1/x", "model": "small" });
    assert_eq!((&waiting["inputSummary"], &waiting["customId"]), (&summary, &json!("c-2")));
    assert_eq!((&waiting["lockedBy"], &waiting["result"]), (&Value::Null, &Value::Null));

    harness.finish(&harness.ann, id).await;
    let items = harness.get(&harness.ann, &path).await.ok(200);
    assert_eq!(items["nextCursor"], Value::Null);
    let items = items["data"].as_array().unwrap();
    let statuses: Vec<_> = items.iter().map(|item| item["status"].as_str().unwrap()).collect();
    assert_eq!(statuses, ["DONE", "ERROR", "NOT_FOUND", "DONE"]);
    assert_eq!((&items[0]["result"], &items[0]["attempts"]), (&json!({ "line": 1 }), &json!(1)));
    assert_eq!(
        (&items[1]["errorCode"], &items[1]["error"]),
        (&json!("http_400"), &json!("It says so."))
    );
    assert_eq!((&items[2]["attempts"], &items[2]["customId"]), (&json!(2), &json!("c-3")));

    let some = harness.get(&harness.ann, &format!("{path}statuses=error,NOT_FOUND")).await.ok(200);
    assert_eq!(ids(some["data"].as_array().unwrap()), [2, 3]);
    let attempts =
        harness.get(&harness.ann, &format!("/api/jobs/{id}/items/3/attempts")).await.ok(200);
    assert_eq!(attempts["data"].as_array().unwrap().len(), 2, "{attempts}");
    let (first, last) = (&attempts["data"][0], &attempts["data"][1]);
    assert_eq!((&first["attempt"], &first["class"]), (&json!(1), &json!("not_found")));
    assert_eq!((&first["status"], &first["counted"]), (&Value::Null, &json!(true)));
    assert_eq!((&last["attempt"], &last["class"]), (&json!(2), &Value::Null));
    assert_eq!((&last["status"], &last["errorCode"]), (&json!("NOT_FOUND"), &json!("http_404")));
    assert_eq!((&attempts["uncounted"], &attempts["next"]), (&json!(0), &Value::Null));
    for none in ["x", "0", "5", "9999"] {
        let none = format!("/api/jobs/{id}/items/{none}/attempts");
        harness.get(&harness.ann, &none).await.refused(404, "not_found");
    }
    let others = format!("/api/jobs/{id}/items/1/attempts");
    harness.get(&harness.bob, &others).await.refused(404, "not_found");
    for bad in ["statuses=LOST", "pageSize=0", "after=x.y", "after=f.bm9uc2Vuc2U"] {
        harness.get(&harness.ann, &format!("{path}{bad}")).await.refused(400, "invalid_value");
    }
    harness.get(&harness.ann, &format!("{path}sort=name")).await.refused(400, "invalid_query");
}

#[tokio::test]
async fn pages_of_a_job_at_rest_hold_every_item_once_in_either_order() {
    let harness = Harness::with(Setup { answers: 40, ..Setup::default() }).await;
    let id = harness.plain_job(&harness.ann, 100).await;
    harness.post(&harness.ann, &format!("/api/jobs/{id}/kickoff?durationMs=700")).await.ok(200);
    harness.post(&harness.ann, &format!("/api/jobs/{id}/pause")).await.ok(200);
    let job = harness.get(&harness.ann, &format!("/api/jobs/{id}")).await.ok(200);
    assert_eq!((&job["counts"]["done"], &job["counts"]["pending"]), (&json!(40), &json!(60)));
    let all: Vec<u64> = (1..=100).collect();
    for (sort, first) in [("line", "DONE"), ("updatedAt", "PENDING")] {
        for size in [7, 40, 60, 1000] {
            let path = format!("/api/jobs/{id}/items?sort={sort}&pageSize={size}");
            let items = harness.walk(&harness.ann, &path, || {}).await;
            assert_eq!(ids(&items), all, "{sort} {size}");
            assert_eq!(items[0]["status"], first);
        }
    }
    let path = format!("/api/jobs/{id}/items?statuses=DONE,PROCESSING&pageSize=9");
    assert_eq!(harness.walk(&harness.ann, &path, || {}).await.len(), 40);
}

#[tokio::test]
async fn a_walk_over_a_running_job_loses_no_item_and_repeats_none_that_did_not_move() {
    let harness = Harness::with(Setup { answers: 0, works: true, ..Setup::default() }).await;
    let id = harness.plain_job(&harness.ann, 300).await;
    let gate = harness.gate.clone();
    let path = format!("/api/jobs/{id}/items?sort=updatedAt&pageSize=7");
    let items = harness.walk(&harness.ann, &path, || gate.add_permits(5)).await;
    let mut seen = HashSet::new();
    for item in &items {
        let once = seen.insert((item["itemId"].to_string(), item["status"].to_string()));
        assert!(once, "{item} was there before");
    }
    let mut all = ids(&items);
    all.dedup();
    assert_eq!(all, (1..=300).collect::<Vec<u64>>());
    harness.gate.add_permits(10_000);
    harness.stop().await;
}

/// As `windrow attempts` does.
#[tokio::test]
async fn attempts_say_how_many_did_not_count_and_why_the_next_one_waits() {
    let harness = Harness::new().await;
    let lines = line(1, json!({ "do": "throttle" })) + &line(2, json!({}));
    let job = harness.job(&harness.ann, "", lines).await;
    let id = job["jobId"].as_str().unwrap();
    let attempts = async |item: u64| {
        let path = format!("/api/jobs/{id}/items/{item}/attempts");
        harness.get(&harness.ann, &path).await.ok(200)
    };
    let waiting = attempts(1).await;
    assert_eq!(
        (&waiting["data"], &waiting["next"]),
        (&json!([]), &json!("It waits for its turn."))
    );
    let kick = format!("/api/jobs/{id}/kickoff?durationMs=1000");
    harness.post(&harness.ann, &kick).await.ok(200);
    let throttled = attempts(1).await;
    let first = &throttled["data"][0];
    assert_eq!((&first["class"], &first["counted"]), (&json!("throttled"), &json!(false)));
    assert!(throttled["uncounted"].as_u64().unwrap() > 0, "{throttled}");
    // Its host holds the pace; the wait of the line itself is short and may be over.
    assert!(throttled["next"].is_string(), "{throttled}");
    let done = attempts(2).await;
    assert_eq!((&done["data"][0]["status"], &done["next"]), (&json!("DONE"), &Value::Null));
    harness.post(&harness.ann, &format!("/api/jobs/{id}/pause")).await.ok(200);
    let paused = attempts(1).await["next"].as_str().unwrap().to_owned();
    assert!(paused.contains("is paused"), "{paused}");
}
