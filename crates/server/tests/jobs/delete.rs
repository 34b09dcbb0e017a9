//! Deleting jobs: only closed ones, only one's own, and everything of them is gone afterwards.

use reqwest::Method;
use serde_json::json;

use crate::harness::{Harness, Setup};
use crate::support::ApiResponse;

async fn delete(harness: &Harness, key: &str, id: &str) -> ApiResponse {
    harness.send(key, Method::DELETE, &format!("/api/jobs/{id}"), &[], "").await
}

#[tokio::test]
async fn a_closed_job_is_deleted_with_its_results_and_a_repeat_finds_nothing() {
    let harness = Harness::new().await;
    let (id, other) =
        (harness.plain_job(&harness.ann, 3).await, harness.plain_job(&harness.ann, 1).await);
    harness.finish(&harness.ann, &id).await;
    let batch = format!("/v1/batches/batch_{}", id.replace('-', ""));
    let files = harness.get(&harness.ann, &batch).await.ok(200);
    let (input, output) = (&files["input_file_id"], &files["output_file_id"]);
    let file = |id: &serde_json::Value| format!("/v1/files/{}", id.as_str().unwrap());
    harness.get(&harness.ann, &file(output)).await.ok(200);

    let deleted = delete(&harness, &harness.ann, &id).await.ok(200);
    assert_eq!(deleted, json!({ "jobId": id, "deleted": true }));
    for rest in ["", "/items", "/items/1/attempts", "/events", "/export?format=csv"] {
        let path = format!("/api/jobs/{id}{rest}");
        harness.get(&harness.ann, &path).await.refused(404, "not_found");
    }
    assert_eq!(harness.get(&harness.ann, &batch).await.status, 404);
    assert_eq!(harness.get(&harness.ann, &file(output)).await.status, 404, "its outputs are gone");
    harness.get(&harness.ann, &file(input)).await.ok(200);
    for _ in 0..2 {
        delete(&harness, &harness.ann, &id).await.refused(404, "not_found");
    }
    let left = harness.get(&harness.ann, "/api/jobs").await.ok(200);
    assert_eq!(
        (left["data"].as_array().unwrap().len(), &left["data"][0]["jobId"]),
        (1, &json!(other))
    );
    harness.stop().await;
}

#[tokio::test]
async fn a_job_that_runs_is_deleted_only_once_it_was_cancelled() {
    let harness = Harness::with(Setup { answers: 0, works: true, ..Setup::default() }).await;
    let id = harness.plain_job(&harness.ann, 5).await;
    let told = delete(&harness, &harness.ann, &id).await.refused(400, "job_not_closed");
    assert!(told.contains(&format!("POST /api/jobs/{id}/cancel")), "{told}");
    let path = format!("/api/jobs/{id}");
    assert_eq!(
        harness.get(&harness.ann, &path).await.ok(200)["counts"]["total"],
        5,
        "nothing is lost"
    );
    harness.post(&harness.ann, &format!("{path}/pause")).await.ok(200);
    delete(&harness, &harness.ann, &id).await.refused(400, "job_not_closed");
    harness.post(&harness.ann, &format!("{path}/cancel")).await.ok(200);
    harness.gate.add_permits(1000);
    // Until a worker has closed it, it is refused as before; then it goes, once.
    loop {
        let answer = delete(&harness, &harness.ann, &id).await;
        if answer.status == 200 {
            break;
        }
        answer.refused(400, "job_not_closed");
    }
    delete(&harness, &harness.ann, &id).await.refused(404, "not_found");
    harness.get(&harness.ann, &path).await.refused(404, "not_found");
    harness.stop().await;
}

#[tokio::test]
async fn a_job_of_another_owner_is_not_there_to_be_deleted_and_an_admin_may_delete_it() {
    let harness = Harness::new().await;
    let id = harness.plain_job(&harness.ann, 1).await;
    delete(&harness, &harness.bob, &id).await.refused(404, "not_found");
    harness.finish(&harness.ann, &id).await;
    for id in [id.as_str(), "nonsense", "00000000-0000-7000-8000-000000000000"] {
        delete(&harness, &harness.bob, id).await.refused(404, "not_found");
    }
    delete(&harness, "wr_no_such_key", &id).await.refused(401, "invalid_api_key");
    harness.get(&harness.ann, &format!("/api/jobs/{id}")).await.ok(200);
    delete(&harness, &harness.admin, &id).await.ok(200);
    delete(&harness, &harness.ann, &id).await.refused(404, "not_found");
    harness.stop().await;
}
