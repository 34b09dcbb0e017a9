//! What a browser and a scraper find without a key: the way to the description, and metrics in the format
//! that was asked for.

use reqwest::Method;

use crate::harness::Harness;

#[tokio::test]
async fn a_browser_is_led_to_the_description_and_a_program_is_not() {
    let harness = Harness::new().await;
    let html = [("accept", "text/html,application/xhtml+xml")];
    for path in ["/", "/docs/", "/docs"] {
        let page = harness.send(&harness.ann, Method::GET, path, &html, "").await;
        assert_eq!(page.status, 200, "{path}");
        let text = page.text();
        assert!(
            text.contains("<title>Windrow") && text.contains("Authorization: Bearer"),
            "{path}"
        );
    }
    let json = harness.send(&harness.ann, Method::GET, "/", &[("accept", "*/*")], "").await;
    assert_eq!(json.status, 404);
}

#[tokio::test]
async fn metrics_are_open_metrics_only_for_who_asks() {
    let harness = Harness::new().await;
    let plain = harness.get(&harness.ann, "/metrics").await;
    assert!(plain.header("content-type").starts_with("text/plain"));
    let text = plain.text();
    for wanted in [
        "# TYPE windrow_pool_acquires_total counter\n",
        "windrow_pool_acquire_wait_seconds_total ",
        "windrow_build_info{version=\"",
        "# TYPE process_cpu_seconds_total counter\n",
        "process_resident_memory_bytes ",
        "windrow_pool_wait_micros ",
    ] {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
    assert!(!text.contains("# EOF") && !text.contains("# UNIT"), "{text}");
    let accept = [("accept", "application/openmetrics-text;version=1.0.0,text/plain;q=0.5")];
    let open = harness.send(&harness.ann, Method::GET, "/metrics", &accept, "").await;
    assert!(open.header("content-type").starts_with("application/openmetrics-text"));
    assert!(open.text().ends_with("# EOF\n"));
}

/// A misspelt filter would otherwise list everything.
#[tokio::test]
async fn an_unknown_query_parameter_is_refused_with_the_one_that_was_meant() {
    let harness = Harness::new().await;
    let id = harness.plain_job(&harness.ann, 1).await;
    for (path, name, words) in [
        ("/api/jobs?pagesize=1".to_owned(), "pagesize", "did you mean `pageSize`?"),
        ("/api/jobs?statuses=paused&status=paused".to_owned(), "status", "`statuses`?"),
        (format!("/api/jobs/{id}/items?color=red"), "color", "this call has `statuses`, `sort`"),
        (format!("/api/jobs/{id}?verbose=1"), "verbose", "this call has none."),
        ("/api/pending?jobid=x".to_owned(), "jobid", "did you mean `jobId`?"),
    ] {
        let refused = harness.get(&harness.ann, &path).await;
        let message = refused.refused(400, "invalid_query");
        assert!(message.contains(&format!("`{name}`")) && message.contains(words), "{message}");
        assert_eq!(refused.json()["error"]["param"], name);
        // Who has no key learns nothing of it.
        harness.get("no-key", &path).await.refused(401, "invalid_api_key");
    }
    let paused = harness.post(&harness.ann, &format!("/api/jobs/{id}/pause?force=1")).await;
    paused.refused(400, "invalid_query");
    let job = harness.get(&harness.ann, &format!("/api/jobs/{id}")).await.ok(200);
    assert_eq!(job["status"], "in_progress", "a refused call does nothing");
    // Official clients may send more than the contract has.
    harness.get(&harness.ann, "/v1/batches?limit=1&something=else").await.ok(200);
}
