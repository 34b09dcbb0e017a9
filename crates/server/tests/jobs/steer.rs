//! Kickoff, pause, resume, cancel, reprocess.

use serde_json::json;

use crate::desk::{Desk, Setup, line};

#[tokio::test]
async fn a_kickoff_drives_a_slice_and_leaves_the_rest() {
    let desk = Desk::with(Setup { answers: 5, ..Setup::default() }).await;
    let id = desk.plain_job(&desk.ann, 20).await;
    let kick = format!("/api/jobs/{id}/kickoff?durationMs=700");
    let kicked = desk.post(&desk.ann, &kick).await.ok(200);
    assert_eq!((&kicked["finished"], &kicked["remaining"]), (&json!(5), &json!(15)), "{kicked}");
    assert!(kicked["released"].as_u64().unwrap() > 0 && kicked["closed"] == false, "{kicked}");
    assert!((700..20_000).contains(&kicked["tookMs"].as_u64().unwrap()), "{kicked}");
    let job = desk.get(&desk.ann, &format!("/api/jobs/{id}")).await.ok(200);
    assert_eq!((&job["counts"]["processing"], &job["queueState"]), (&json!(0), &json!("RUNNING")));

    desk.gate.add_permits(100);
    let kicked = desk.finish(&desk.ann, &id).await;
    assert_eq!(kicked["finished"], 15, "{kicked}");
    // It ends when the job does, and one that is closed has nothing to drive.
    assert!(kicked["tookMs"].as_u64().unwrap() < 20_000, "{kicked}");
    let kicked = desk.post(&desk.ann, &kick).await.ok(200);
    assert_eq!((&kicked["finished"], &kicked["closed"]), (&json!(0), &json!(true)));
}

#[tokio::test]
async fn kickoffs_are_bounded_in_time_and_number_and_need_a_worker() {
    let desk = Desk::with(Setup { answers: 0, ..Setup::default() }).await;
    let id = desk.plain_job(&desk.ann, 1).await;
    let kick = |ms: &str| format!("/api/jobs/{id}/kickoff?durationMs={ms}");
    for bad in ["0", "60001"] {
        desk.post(&desk.ann, &kick(bad)).await.refused(400, "invalid_value");
    }
    desk.post(&desk.ann, &kick("soon")).await.refused(400, "invalid_query");
    let path = kick("1500");
    let (a, b, c, d, e) = tokio::join!(
        desk.post(&desk.ann, &path),
        desk.post(&desk.ann, &path),
        desk.post(&desk.ann, &path),
        desk.post(&desk.ann, &path),
        desk.post(&desk.ann, &path)
    );
    let mut statuses = [a.status, b.status, c.status, d.status, e.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 200, 200, 200, 429]);

    let desk = Desk::with(Setup { has_executor: false, ..Setup::default() }).await;
    let id = desk.plain_job(&desk.ann, 1).await;
    desk.post(&desk.ann, &format!("/api/jobs/{id}/kickoff")).await.refused(400, "no_worker");
}

#[tokio::test]
async fn a_job_is_paused_resumed_and_cancelled() {
    let desk = Desk::with(Setup { answers: 2, ..Setup::default() }).await;
    let id = desk.plain_job(&desk.ann, 6).await;
    let attempt = async |what: &str| desk.post(&desk.ann, &format!("/api/jobs/{id}/{what}")).await;
    let paused = attempt("pause").await.ok(200);
    assert_eq!((&paused["status"], &paused["queueState"]), (&json!("paused"), &json!("PAUSED")));
    assert_eq!(attempt("pause").await.status, 200);
    let kicked = attempt("kickoff?durationMs=60000").await.ok(200);
    assert_eq!((&kicked["finished"], &kicked["remaining"]), (&json!(0), &json!(6)));
    assert_eq!(attempt("resume").await.ok(200)["status"], "in_progress");
    attempt("kickoff?durationMs=500").await.ok(200);
    assert_eq!(attempt("cancel").await.ok(200)["status"], "cancelling");
    desk.post(&desk.ann, &format!("/api/jobs/{id}/kickoff?durationMs=20000")).await.ok(200);
    let job = desk.get(&desk.ann, &format!("/api/jobs/{id}")).await.ok(200);
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
}

#[tokio::test]
async fn failed_items_or_named_ones_run_again() {
    let desk = Desk::new().await;
    let lines = [json!({}), json!({ "do": "fail" }), json!({ "do": "missing" }), json!({})];
    let lines: String = (1..).zip(lines).map(|(no, more)| line(no, more)).collect();
    let job = desk.job(&desk.ann, "", lines).await;
    let id = job["jobId"].as_str().unwrap();
    desk.finish(&desk.ann, id).await;
    let path = format!("/api/jobs/{id}/reprocess");
    let moved = desk.post(&desk.ann, &path).await.ok(200);
    assert_eq!(moved, json!({ "moved": 2, "generation": 1, "more": false }));
    desk.finish(&desk.ann, id).await;
    let items = json!({ "scope": "items", "itemIds": ["1", "4", "99"] });
    let moved = desk.post_json(&desk.ann, &path, &items).await.ok(200);
    assert_eq!((&moved["moved"], &moved["generation"]), (&json!(2), &json!(2)));
    desk.finish(&desk.ann, id).await;
    let done = json!({ "scope": "job", "statuses": ["DONE"] });
    assert_eq!(desk.post_json(&desk.ann, &path, &done).await.ok(200)["moved"], 2);
    let tries = desk.get(&desk.ann, &format!("/api/jobs/{id}/items/1/attempts")).await.ok(200);
    let classes: Vec<_> = tries["data"].as_array().unwrap().iter().map(|a| &a["class"]).collect();
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
        desk.post_json(&desk.ann, &path, &bad).await.refused(400, "invalid_value");
    }
    for bad in [json!({ "scope": "all" }), json!({ "ids": [] }), json!([1])] {
        desk.post_json(&desk.ann, &path, &bad).await.refused(400, "invalid_json");
    }
}

#[tokio::test]
async fn an_output_is_not_final_while_its_job_runs_again() {
    let desk = Desk::new().await;
    let id = desk.plain_job(&desk.ann, 3).await;
    desk.finish(&desk.ann, &id).await;
    let batch = desk.get(&desk.ann, &format!("/v1/batches/{id}")).await.ok(200);
    let path = format!("/v1/files/{}", batch["output_file_id"].as_str().unwrap());
    let read = async || {
        let content = format!("{path}/content");
        let answer = desk.ask(&desk.ann, reqwest::Method::GET, &content, &[], "").await;
        let incomplete = answer.headers().contains_key("x-incomplete");
        (answer.text().await.unwrap().lines().count(), incomplete)
    };
    assert_eq!(read().await, (3, false));
    let items = json!({ "scope": "items", "itemIds": ["2"] });
    let reprocess = format!("/api/jobs/{id}/reprocess");
    desk.post_json(&desk.ann, &reprocess, &items).await.ok(200);
    assert_eq!(read().await, (2, true));
    assert_eq!(desk.get(&desk.ann, &path).await.ok(200)["status"], "uploaded");
    desk.finish(&desk.ann, &id).await;
    assert_eq!(read().await, (3, false));
    assert_eq!(desk.get(&desk.ann, &path).await.ok(200)["status"], "processed");
}
