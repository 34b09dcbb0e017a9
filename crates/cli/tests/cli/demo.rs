//! The demo: small, moody, and sound.

use crate::support::Workdir;

#[tokio::test]
async fn the_demo_meets_every_mood_and_each_line_has_one_result() {
    let workdir = Workdir::new();
    let output = workdir.windrow(&["demo", "--lines", "600"]).await;
    assert_eq!(output.code, 0, "{output:?}");
    for word in [
        "500 server error",
        "429 with Retry-After",
        "no response",
        "connection closed within the response",
        "404 not found",
        "400 bad request",
        "has exactly one result",
        "\"custom_id\":\"demo-1\"",
        "windrow run requests.jsonl",
    ] {
        assert!(output.out.contains(word), "{word}: {}", output.out);
    }
    assert!(
        workdir.names().is_empty() && !workdir.path("home").exists(),
        "it leaves nothing behind"
    );
}

/// What it says of each fault is what became of its lines.
#[tokio::test]
async fn what_the_demo_says_of_not_found_is_so() {
    let workdir = Workdir::new();
    let output = workdir.windrow(&["demo", "--lines", "1000", "--json"]).await;
    let value = output.json();
    let (asked, lines) = (&value["upstream"]["not_found"], &value["batch"]["counts"]["not_found"]);
    assert_eq!((asked.as_u64(), lines.as_u64()), (Some(10), Some(5)), "retried once: {value}");
    assert_eq!(value["batch"]["counts"]["failed"], 3, "only bad requests: {value}");
}

#[tokio::test]
async fn a_database_that_the_demo_used_is_sound() {
    let workdir = Workdir::new();
    let output = workdir.windrow(&["demo", "--lines", "100", "--database", "d.db", "--json"]).await;
    assert_eq!(output.code, 0, "{output:?}");
    assert_eq!(output.json()["sound"], true);
    let output = workdir.windrow(&["doctor", "--database", "d.db"]).await;
    assert!(output.out.contains("1 batch, 100 lines: every line is in exactly one place."));
}
