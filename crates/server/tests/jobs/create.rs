//! A file comes in and becomes a job.

use reqwest::Method;
use serde_json::json;

use crate::harness::{Harness, line};

const JSONL: (&str, &str) = ("content-type", "application/x-ndjson; charset=utf-8");

#[tokio::test]
async fn a_body_of_lines_becomes_a_job_that_is_run_to_its_end() {
    let harness = Harness::new().await;
    let lines: String = (1..=3).map(|no| line(no, json!({}))).collect();
    let job = harness
        .job(&harness.ann, "?name=in.jsonl&jobType=images&priority=7&window=2h", lines)
        .await;
    assert_eq!((&job["status"], &job["queueState"]), (&json!("in_progress"), &json!("QUEUED")));
    assert_eq!((&job["owner"], &job["jobType"]), (&json!("ann"), &json!("images")));
    assert_eq!((&job["endpoint"], &job["priority"]), (&json!("/v1/x"), &json!(7)));
    assert_eq!(job["sourceAddress"], "127.0.0.1");
    let id = job["jobId"].as_str().unwrap();
    let file = job["fileId"].as_str().unwrap();
    let file = harness.get(&harness.ann, &format!("/v1/files/{file}")).await.ok(200);
    assert_eq!(file["filename"], "in.jsonl");

    let kicked = harness.finish(&harness.ann, id).await;
    assert_eq!((&kicked["finished"], &kicked["released"]), (&json!(3), &json!(0)));
    let job = harness.get(&harness.ann, &format!("/api/jobs/{id}")).await.ok(200);
    assert_eq!((&job["status"], &job["queueState"]), (&json!("completed"), &json!("DONE")));
    let counts = json!({
        "total": 3, "pending": 0, "processing": 0, "done": 3, "error": 0, "notFound": 0,
        "skipped": 0, "cancelled": 0,
    });
    assert_eq!((&job["counts"], &job["lanes"][0]["counts"]), (&counts, &counts));
    assert_eq!(job["lanes"][0]["target"], "small");
    assert!(job["finishedAt"].is_string() && job["summary"]["counts"].is_object(), "{job}");
    let acts: Vec<_> = job["acts"].as_array().unwrap().iter().map(|act| &act["action"]).collect();
    assert_eq!(acts, ["create", "kickoff"]);
    assert_eq!(job["acts"][0]["address"], "127.0.0.1");
}

#[tokio::test]
async fn a_form_with_a_file_becomes_a_job() {
    let harness = Harness::new().await;
    let form = format!(
        "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.jsonl\"\r\n\r\n{}\r\n--b--\r\n",
        line(1, json!({}))
    );
    let headers = [("content-type", "multipart/form-data; boundary=b"), ("idempotency-key", "f")];
    let job =
        harness.send(&harness.ann, Method::POST, "/api/jobs", &headers, form.clone()).await.ok(201);
    assert_eq!(job["counts"]["total"], 1);
    let again = harness.send(&harness.ann, Method::POST, "/api/jobs", &headers, form).await.ok(200);
    assert_eq!(again["jobId"], job["jobId"]);
}

#[tokio::test]
async fn a_repeat_with_the_same_key_gives_the_first_job_and_keeps_no_second_file() {
    let harness = Harness::new().await;
    let (key, lines) = (("idempotency-key", "k-1"), line(1, json!({})));
    let send = async |path: &str, who: &str, lines: String| {
        harness.send(who, Method::POST, path, &[JSONL, key], lines).await
    };
    let (one, two) = tokio::join!(
        send("/api/jobs", &harness.ann, lines.clone()),
        send("/api/jobs", &harness.ann, lines.clone())
    );
    assert_eq!(one.json()["jobId"], two.json()["jobId"], "{} {}", one.text(), two.text());
    assert_eq!(one.status + two.status, 201 + 200);
    let third = send("/api/jobs", &harness.ann, lines.clone()).await.ok(200);
    assert_eq!(third["jobId"], one.json()["jobId"]);
    let files = harness.get(&harness.ann, "/v1/files").await.ok(200);
    assert_eq!(files["data"].as_array().unwrap().len(), 1, "{files}");

    let other = send("/api/jobs?priority=1", &harness.ann, lines.clone()).await;
    other.refused(400, "idempotency_key_reused");
    let other = send("/api/jobs", &harness.ann, line(22, json!({}))).await;
    other.refused(400, "idempotency_key_reused");
    let bobs = send("/api/jobs", &harness.bob, lines).await.ok(201);
    assert_ne!(bobs["jobId"], third["jobId"]);
}

/// A new window is no different job, and is shown as it was asked for.
#[tokio::test]
async fn a_repeat_of_a_job_that_went_on_gives_it_and_its_window_is_what_was_asked_for() {
    let harness = Harness::new().await;
    let key = ("idempotency-key", "k-2");
    let send = async |window: &str| {
        let (path, lines) = (format!("/api/jobs?window={window}"), line(1, json!({})));
        harness.send(&harness.ann, Method::POST, &path, &[JSONL, key], lines).await
    };
    let job = send("1h").await.ok(201);
    let id = job["jobId"].as_str().unwrap();
    send("2h").await.refused(400, "idempotency_key_reused");
    harness.post(&harness.ann, &format!("/api/jobs/{id}/pause")).await.ok(200);
    harness.end_window(id).await;
    harness.post(&harness.ann, &format!("/api/jobs/{id}/resume?window=90m")).await.ok(200);
    assert_eq!(send("1h").await.ok(200)["jobId"], job["jobId"]);
    let batch = harness.get(&harness.ann, &format!("/v1/batches/{id}")).await.ok(200);
    assert_eq!(batch["completion_window"], "90m");
    // Run again, it has another window of the same length.
    harness.finish(&harness.ann, id).await;
    let again = json!({ "statuses": ["DONE"] });
    harness.post_json(&harness.ann, &format!("/api/jobs/{id}/reprocess"), &again).await.ok(200);
    assert_eq!(send("1h").await.ok(200)["jobId"], job["jobId"]);
    let batch = harness.get(&harness.ann, &format!("/v1/batches/{id}")).await.ok(200);
    assert_eq!(batch["completion_window"], "90m");
}

#[tokio::test]
async fn a_file_that_does_not_validate_is_a_failed_job_with_the_errors_by_line() {
    let harness = Harness::new().await;
    let job = harness.job(&harness.ann, "", format!("{}oops\n", line(1, json!({})))).await;
    assert_eq!((&job["status"], &job["queueState"]), (&json!("failed"), &json!("FAILED")));
    assert_eq!(job["errors"][0]["line"], 2, "{job}");
    let job = harness.job(&harness.ann, "", line(1, json!({ "model": "unknown" }))).await;
    assert_eq!(
        (&job["status"], &job["errors"][0]["code"]),
        (&json!("failed"), &json!("model_not_found"))
    );
}

#[tokio::test]
async fn what_is_wrong_is_refused_and_leaves_nothing() {
    let harness = Harness::new().await;
    let mixed = line(1, json!({})) + &line(2, json!({})).replace("/v1/x", "/v1/y");
    let send = async |query: &str, content_type: &str| {
        let (path, headers) = (format!("/api/jobs{query}"), [("content-type", content_type)]);
        harness.send(&harness.ann, Method::POST, &path, &headers, mixed.clone()).await
    };
    send("", "application/jsonl").await.refused(400, "invalid_value");
    send("", "application/json").await.refused(415, "unsupported_media_type");
    send("", "multipart/form-data").await.refused(415, "unsupported_media_type");
    send("", "multipart/form-data; boundary=b").await.refused(400, "invalid_form");
    send("?window=soon", "text/plain").await.refused(400, "invalid_value");
    send("?priority=101", "text/plain").await.refused(400, "invalid_value");
    send("?priority=high", "text/plain").await.refused(400, "invalid_query");
    send("?endpoint=x", "text/plain").await.refused(400, "invalid_value");
    send(&format!("?jobType={}", "x".repeat(65)), "text/plain").await.refused(400, "invalid_value");
    let files = harness.get(&harness.ann, "/v1/files").await.ok(200);
    let jobs = harness.get(&harness.ann, "/api/jobs").await.ok(200);
    assert_eq!((&files["data"], &jobs["data"]), (&json!([]), &json!([])));

    let job = harness.job(&harness.ann, "?endpoint=/v1/x", mixed.clone()).await;
    assert_eq!((&job["status"], &job["errors"][0]["line"]), (&json!("failed"), &json!(2)));
}
