//! Kickoff, pause, resume, cancel, reprocess.

use serde_json::json;

use crate::harness::{Harness, Setup, line};

#[tokio::test]
async fn a_kickoff_drives_a_slice_and_leaves_the_rest() {
    let harness = Harness::with(Setup { answers: 5, ..Setup::default() }).await;
    let id = harness.plain_job(&harness.ann, 20).await;
    let kick = format!("/api/jobs/{id}/kickoff?durationMs=700");
    let kicked = harness.post(&harness.ann, &kick).await.ok(200);
    assert_eq!((&kicked["finished"], &kicked["remaining"]), (&json!(5), &json!(15)), "{kicked}");
    assert!(kicked["released"].as_u64().unwrap() > 0 && kicked["closed"] == false, "{kicked}");
    assert!((700..20_000).contains(&kicked["tookMs"].as_u64().unwrap()), "{kicked}");
    let job = harness.get(&harness.ann, &format!("/api/jobs/{id}")).await.ok(200);
    assert_eq!((&job["counts"]["processing"], &job["queueState"]), (&json!(0), &json!("RUNNING")));

    harness.gate.add_permits(100);
    let kicked = harness.finish(&harness.ann, &id).await;
    assert_eq!(kicked["finished"], 15, "{kicked}");
    // It ends when the job does, and one that is closed has nothing to drive.
    assert!(kicked["tookMs"].as_u64().unwrap() < 20_000, "{kicked}");
    let kicked = harness.post(&harness.ann, &kick).await.ok(200);
    assert_eq!((&kicked["finished"], &kicked["closed"]), (&json!(0), &json!(true)));
}

#[tokio::test]
async fn kickoffs_are_bounded_in_time_and_number_and_need_a_worker() {
    let harness = Harness::with(Setup { answers: 0, ..Setup::default() }).await;
    let id = harness.plain_job(&harness.ann, 1).await;
    let kick = |ms: &str| format!("/api/jobs/{id}/kickoff?durationMs={ms}");
    for bad in ["0", "60001"] {
        harness.post(&harness.ann, &kick(bad)).await.refused(400, "invalid_value");
    }
    harness.post(&harness.ann, &kick("soon")).await.refused(400, "invalid_query");
    let path = kick("1500");
    let (a, b, c, d, e) = tokio::join!(
        harness.post(&harness.ann, &path),
        harness.post(&harness.ann, &path),
        harness.post(&harness.ann, &path),
        harness.post(&harness.ann, &path),
        harness.post(&harness.ann, &path)
    );
    let mut statuses = [a.status, b.status, c.status, d.status, e.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 200, 200, 200, 429]);

    let harness = Harness::with(Setup { has_executor: false, ..Setup::default() }).await;
    let id = harness.plain_job(&harness.ann, 1).await;
    harness.post(&harness.ann, &format!("/api/jobs/{id}/kickoff")).await.refused(400, "no_worker");
}

#[tokio::test]
async fn a_job_is_paused_resumed_and_cancelled() {
    let harness = Harness::with(Setup { answers: 2, ..Setup::default() }).await;
    let id = harness.plain_job(&harness.ann, 6).await;
    let attempt =
        async |what: &str| harness.post(&harness.ann, &format!("/api/jobs/{id}/{what}")).await;
    let paused = attempt("pause").await.ok(200);
    assert_eq!((&paused["status"], &paused["queueState"]), (&json!("paused"), &json!("PAUSED")));
    assert_eq!(attempt("pause").await.status, 200);
    let kicked = attempt("kickoff?durationMs=60000").await.ok(200);
    assert_eq!((&kicked["finished"], &kicked["remaining"]), (&json!(0), &json!(6)));
    assert_eq!(attempt("resume").await.ok(200)["status"], "in_progress");
    attempt("kickoff?durationMs=500").await.ok(200);
    assert_eq!(attempt("cancel").await.ok(200)["status"], "cancelling");
    harness.post(&harness.ann, &format!("/api/jobs/{id}/kickoff?durationMs=20000")).await.ok(200);
    let job = harness.get(&harness.ann, &format!("/api/jobs/{id}")).await.ok(200);
    assert_eq!((&job["status"], &job["queueState"]), (&json!("cancelled"), &json!("DONE")));
    let counts = &job["counts"];
    assert_eq!(
        (&counts["done"], &counts["pending"], &counts["cancelled"]),
        (&json!(2), &json!(0), &json!(4))
    );
    let acts: Vec<_> = job["acts"].as_array().unwrap().iter().map(|act| &act["action"]).collect();
    let expected = ["create", "pause", "pause", "resume", "kickoff", "cancel", "kickoff"];
    assert_eq!(acts, expected);
    for what in ["pause", "resume", "reprocess"] {
        attempt(what).await.refused(400, "refused");
    }
    let message = attempt("resume").await.refused(400, "refused");
    assert!(message.contains(&format!("POST /api/jobs/{id}/continue")), "{message}");
}

#[tokio::test]
async fn failed_items_or_named_ones_run_again() {
    let harness = Harness::new().await;
    let lines = [json!({}), json!({ "do": "fail" }), json!({ "do": "missing" }), json!({})];
    let lines: String = (1..).zip(lines).map(|(no, more)| line(no, more)).collect();
    let job = harness.job(&harness.ann, "", lines).await;
    let id = job["jobId"].as_str().unwrap();
    harness.finish(&harness.ann, id).await;
    let path = format!("/api/jobs/{id}/reprocess");
    // A request that is wrong is left alone, and the answer says so; whoever wants it all the same forces it.
    let moved = harness.post(&harness.ann, &path).await.ok(200);
    let left = json!({ "permanent": 1, "tooOften": 0, "running": 0 });
    assert_eq!(moved, json!({ "moved": 1, "generation": 1, "more": false, "leftAlone": left }));
    let forced = json!({ "force": true, "statuses": ["ERROR"], "resetAttempts": false });
    let moved = harness.post_json(&harness.ann, &path, &forced).await.ok(200);
    let left = json!({ "permanent": 0, "tooOften": 0, "running": 0 });
    assert_eq!(moved, json!({ "moved": 1, "generation": 2, "more": false, "leftAlone": left }));
    harness.finish(&harness.ann, id).await;
    let failed =
        harness.get(&harness.ann, &format!("/api/jobs/{id}/items/2/attempts")).await.ok(200);
    assert_eq!(
        (&failed["data"][0]["class"], &failed["data"][0]["putBack"]),
        (&json!("permanent"), &json!(true))
    );
    let items = json!({ "scope": "items", "itemIds": ["1", "4", "99"] });
    let moved = harness.post_json(&harness.ann, &path, &items).await.ok(200);
    assert_eq!((&moved["moved"], &moved["generation"]), (&json!(2), &json!(3)));
    harness.finish(&harness.ann, id).await;
    let done = json!({ "scope": "job", "statuses": ["DONE"] });
    assert_eq!(harness.post_json(&harness.ann, &path, &done).await.ok(200)["moved"], 2);
    let attempts =
        harness.get(&harness.ann, &format!("/api/jobs/{id}/items/1/attempts")).await.ok(200);
    let classes: Vec<_> =
        attempts["data"].as_array().unwrap().iter().map(|a| &a["class"]).collect();
    assert_eq!(classes, ["reprocessed", "reprocessed"]);
    for bad in [
        json!({ "scope": "items" }),
        json!({ "scope": "items", "itemIds": [] }),
        json!({ "scope": "items", "itemIds": ["x"] }),
        json!({ "scope": "items", "itemIds": ["1"], "statuses": ["DONE"] }),
        json!({ "itemIds": ["1"] }),
        json!({ "statuses": ["PENDING"] }),
        json!({ "statuses": [] }),
        json!({ "statuses": ["lost"] }),
    ] {
        harness.post_json(&harness.ann, &path, &bad).await.refused(400, "invalid_value");
    }
    for bad in [json!({ "scope": "all" }), json!({ "ids": [] }), json!([1])] {
        harness.post_json(&harness.ann, &path, &bad).await.refused(400, "invalid_json");
    }
}

#[tokio::test]
async fn an_output_is_not_final_while_its_job_runs_again() {
    let harness = Harness::new().await;
    let id = harness.plain_job(&harness.ann, 3).await;
    harness.finish(&harness.ann, &id).await;
    let batch = harness.get(&harness.ann, &format!("/v1/batches/{id}")).await.ok(200);
    let path = format!("/v1/files/{}", batch["output_file_id"].as_str().unwrap());
    let read = async || {
        let content = format!("{path}/content");
        let answer = harness.ask(&harness.ann, reqwest::Method::GET, &content, &[], "").await;
        let incomplete = answer.headers().contains_key("x-incomplete");
        (answer.text().await.unwrap().lines().count(), incomplete)
    };
    assert_eq!(read().await, (3, false));
    let items = json!({ "scope": "items", "itemIds": ["2"] });
    let reprocess = format!("/api/jobs/{id}/reprocess");
    harness.post_json(&harness.ann, &reprocess, &items).await.ok(200);
    assert_eq!(read().await, (3, true), "the earlier result stands in for the one that runs again");
    assert_eq!(harness.get(&harness.ann, &path).await.ok(200)["status"], "uploaded");
    harness.finish(&harness.ann, &id).await;
    assert_eq!(read().await, (3, false));
    assert_eq!(harness.get(&harness.ann, &path).await.ok(200)["status"], "processed");
}

/// The shortest window of the API is a minute, so the store is asked for a shorter one.
#[tokio::test]
async fn a_late_job_goes_on_only_with_a_new_window() {
    let harness = Harness::new().await;
    let id = harness.plain_job(&harness.ann, 3).await;
    let attempt =
        async |what: &str| harness.post(&harness.ann, &format!("/api/jobs/{id}/{what}")).await;
    attempt("pause").await.ok(200);
    harness.end_window(&id).await;
    let message = attempt("resume").await.refused(400, "refused");
    assert!(message.contains(&format!("/api/jobs/{id}/resume?window=24h")), "{message}");
    harness.post(&harness.bob, &format!("/api/jobs/{id}/resume?window=2h")).await.ok(404);
    attempt("resume?window=soon").await.refused(400, "invalid_value");
    let kicked = attempt("kickoff?durationMs=60000").await.ok(200);
    assert_eq!(
        (&kicked["status"], &kicked["finished"], &kicked["remaining"]),
        (&json!("expired"), &json!(0), &json!(3))
    );
    assert_eq!(attempt("resume?window=2h").await.ok(200)["status"], "in_progress");
    let kicked = harness.finish(&harness.ann, &id).await;
    assert_eq!((&kicked["status"], &kicked["finished"]), (&json!("completed"), &json!(3)));
}

#[tokio::test]
async fn an_expired_job_is_resumed_with_a_window_and_nothing_of_it_is_sent_before() {
    let harness = Harness::new().await;
    let id = harness.plain_job(&harness.ann, 3).await;
    let attempt =
        async |what: &str| harness.post(&harness.ann, &format!("/api/jobs/{id}/{what}")).await;
    harness.end_window(&id).await;
    let kicked = attempt("kickoff?durationMs=2000").await.ok(200);
    assert_eq!(
        (&kicked["status"], &kicked["finished"]),
        (&json!("expired"), &json!(0)),
        "{kicked}"
    );
    harness.expire(&id).await;
    attempt("resume").await.refused(400, "refused");
    let resumed = attempt("resume?window=2h").await.ok(200);
    assert_eq!((&resumed["status"], &resumed["generation"]), (&json!("in_progress"), &json!(1)));
    assert_eq!(harness.finish(&harness.ann, &id).await["finished"], 3);
}
