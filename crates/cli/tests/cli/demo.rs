//! The demo: small, moody, and sound.

use crate::kit::Desk;

#[tokio::test]
async fn the_demo_meets_every_mood_and_each_line_has_one_result() {
    let desk = Desk::new();
    let said = desk.windrow(&["demo", "--lines", "600"]).await;
    assert_eq!(said.code, 0, "{said:?}");
    for word in [
        "failed with a 500",
        "throttled with a 429",
        "gave no answer at all",
        "hung up in the middle",
        "said 404",
        "said 400",
        "has exactly one result",
        "\"custom_id\":\"demo-1\"",
        "windrow run requests.jsonl",
    ] {
        assert!(said.out.contains(word), "{word}: {}", said.out);
    }
    assert!(desk.names().is_empty() && !desk.path("home").exists(), "it leaves nothing behind");
}

#[tokio::test]
async fn a_database_that_the_demo_used_is_sound() {
    let desk = Desk::new();
    let said = desk.windrow(&["demo", "--lines", "100", "--database", "d.db", "--json"]).await;
    assert_eq!(said.code, 0, "{said:?}");
    assert_eq!(said.json()["sound"], true);
    let said = desk.windrow(&["doctor", "--database", "d.db"]).await;
    assert!(said.out.contains("1 batches, 100 lines: every line is in exactly one place."));
}
