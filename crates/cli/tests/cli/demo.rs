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

#[tokio::test]
async fn a_database_that_the_demo_used_is_sound() {
    let workdir = Workdir::new();
    let output = workdir.windrow(&["demo", "--lines", "100", "--database", "d.db", "--json"]).await;
    assert_eq!(output.code, 0, "{output:?}");
    assert_eq!(output.json()["sound"], true);
    let output = workdir.windrow(&["doctor", "--database", "d.db"]).await;
    assert!(output.out.contains("1 batch, 100 lines: every line is in exactly one place."));
}
