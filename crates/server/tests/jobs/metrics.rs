//! The numbers that a dashboard asks for by name: each one moves with what it says that it shows.

use std::time::Duration;

use serde_json::json;
use windrow_engine::clock::Clock;

use crate::harness::{Harness, Setup, line};

/// The value of a metric in the text of a scrape; `name` is the whole series.
fn value(text: &str, name: &str) -> Option<f64> {
    let found = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    found.map(|value| value.parse().unwrap())
}

#[tokio::test]
async fn every_rate_and_depth_moves() {
    // Enough for the first job: the one that is not found is asked for twice, and so is the throttled one.
    let harness = Harness::with(Setup { works: true, answers: 7, ..Setup::default() }).await;
    let kinds = ["fail", "missing", "throttle once", "answer", "answer"];
    let lines = kinds.iter().zip(1..).map(|(kind, no)| line(no, json!({ "do": kind })));
    let job = harness.job(&harness.ann, "", lines.collect()).await;
    let path = format!("/api/jobs/{}", job["jobId"].as_str().unwrap());
    for _ in 0..600 {
        if harness.get(&harness.ann, &path).await.ok(200)["queueState"] == "DONE" {
            break;
        }
        Clock::machine().sleep(Duration::from_millis(50)).await;
    }
    harness.plain_job(&harness.bob, 3).await;

    let mut text = String::new();
    for _ in 0..600 {
        text = harness.get(&harness.ann, "/metrics").await.text();
        // The worker notes how its targets do now and then.
        if text.contains("windrow_item_ms_ewma{") {
            break;
        }
        Clock::machine().sleep(Duration::from_millis(50)).await;
    }
    let at = |name: &str| value(&text, name).unwrap_or_else(|| panic!("{name}: {text}"));
    assert!(at("windrow_ingest_ms") > 0.0);
    assert!(at("windrow_items_sec") > 0.0);
    assert!((0.19..0.21).contains(&at("windrow_error_rate")), "one of five: {text}");
    assert!((0.19..0.21).contains(&at("windrow_not_found_rate")), "one of five: {text}");
    assert!(at("windrow_db_latency_ewma{verb=\"add_lines\"}") > 0.0);
    assert!(at("windrow_db_latency_ewma{verb=\"turn_claim\"}") > 0.0);
    assert!((0.1..0.2).contains(&at("windrow_api_throttle_rate{upstream=\"\"}")), "{text}");
    assert!(at("windrow_item_ms_ewma{target=\"small\"}") >= 0.0);
    assert!(at("windrow_pool_wait_ms") >= 0.0);
    assert_eq!(at("windrow_queue_depth"), 3.0);
    assert_eq!(at("windrow_pending_count{owner=\"bob\"}"), 3.0);
    assert_eq!(value(&text, "windrow_pending_count{owner=\"ann\"}"), None, "nothing of hers waits");
    harness.stop().await;
}
