//! The commands that look at batches and steer them.

use crate::kit::Desk;

/// A desk with batches over a file of five lines, and their ids, oldest first.
async fn desk_with(batches: usize) -> (Desk, Vec<String>) {
    let desk = Desk::new();
    desk.requests("a.jsonl", 5);
    let mut ids = Vec::new();
    for _ in 0..batches {
        let said = desk.windrow(&["ingest", "a.jsonl", "--batch", "--json"]).await;
        assert_eq!(said.code, 0, "{said:?}");
        ids.push(said.json()["batch"]["id"].as_str().unwrap().to_owned());
    }
    (desk, ids)
}

#[tokio::test]
async fn batches_are_listed_newest_first_by_state_and_by_page() {
    let (desk, ids) = desk_with(3).await;
    let said = desk.windrow(&["batches"]).await;
    let listed: Vec<_> = said.out.lines().skip(1).collect();
    assert_eq!((said.code, listed.len()), (0, 3), "{said:?}");
    assert!(listed[0].starts_with(&ids[2]), "{said:?}");
    assert!(listed[0].contains("in_progress"), "{said:?}");

    assert_eq!(desk.windrow(&["pause", &ids[1], "--reason", "lunch"]).await.code, 0);
    let said = desk.windrow(&["batches", "--state", "paused", "--json"]).await.json();
    assert_eq!(said["rows"][0]["id"], ids[1].as_str());
    assert_eq!(said["rows"].as_array().unwrap().len(), 1);

    let page = desk.windrow(&["batches", "--limit", "2", "--json"]).await.json();
    let next = page["next"].as_str().unwrap();
    let page = desk.windrow(&["batches", "--limit", "2", "--after", next, "--json"]).await.json();
    assert_eq!(page["rows"][0]["id"], ids[0].as_str());

    let said = desk.windrow(&["batches", "--state", "sleeping"]).await;
    assert_eq!(said.code, 2, "{said:?}");
    assert!(said.err.contains("the states are in_progress, paused"), "{said:?}");
    assert!(desk.windrow(&["batches", "--owner", "ann"]).await.out.contains("No batches."));
}

#[tokio::test]
async fn a_batch_is_paused_resumed_and_cancelled_and_its_status_says_so() {
    let (desk, ids) = desk_with(1).await;
    let said = desk.windrow(&["pause", "last", "--reason", "lunch"]).await;
    assert!(said.out.contains("is paused, 0 of 5 lines done"), "{said:?}");
    let said = desk.windrow(&["status", "last"]).await;
    assert_eq!(said.code, 0);
    for word in [ids[0].as_str(), "paused", "lunch", "a.jsonl", "untouched", "target"] {
        assert!(said.out.contains(word), "{word}: {said:?}");
    }
    assert!(desk.windrow(&["resume", "last"]).await.out.contains("is in_progress"));
    let status = desk.windrow(&["status", "last", "--json"]).await.json();
    assert_eq!(status["batch"]["counts"]["untouched"], 5);
    assert_eq!(status["lanes"][0]["target"], "m");
    assert!(desk.windrow(&["cancel", "last"]).await.out.contains("the rest never runs"));
    let said = desk.windrow(&["resume", "last"]).await;
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.err.contains("cannot be resumed"), "{said:?}");
    assert!(said.err.contains("What to do: the batch's state does not allow it"), "{said:?}");
}

#[tokio::test]
async fn a_batch_is_found_by_the_beginning_of_its_id() {
    let (desk, ids) = desk_with(2).await;
    let whole = desk.windrow(&["status", &ids[0][..35], "--json"]).await;
    assert_eq!(whole.json()["batch"]["id"], ids[0].as_str());
    // Made in the same hour, they begin alike.
    let said = desk.windrow(&["status", &ids[0][..4]]).await;
    assert_eq!(said.code, 2, "{said:?}");
    assert!(said.err.contains(&ids[0]) && said.err.contains(&ids[1]), "{said:?}");
    assert!(said.err.contains("What to do: give more letters"), "{said:?}");
    let said = desk.windrow(&["status", "ffffff"]).await;
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.err.contains("no batch begins with ffffff"), "{said:?}");
    assert_eq!(desk.windrow(&["status", "ab"]).await.code, 2);
}

#[tokio::test]
async fn the_doctor_migrate_and_completions_do_their_work() {
    let (desk, _) = desk_with(2).await;
    let said = desk.windrow(&["doctor", "-v"]).await;
    assert_eq!(said.code, 0, "{said:?}");
    assert!(said.out.contains("2 batches, 10 lines: every line is in exactly one place."));
    assert_eq!(said.out.matches("ok ").count(), 2, "{said:?}");
    assert_eq!(desk.windrow(&["doctor", "--json"]).await.json()["batches"], 2);
    let said = desk.windrow(&["migrate", "--database", "sqlite:new.db"]).await;
    assert_eq!(said.code, 0, "{said:?}");
    assert!(desk.path("new.db").exists());
    for shell in ["bash", "zsh", "fish"] {
        let said = desk.windrow(&["completions", shell]).await;
        assert!(said.code == 0 && said.out.contains("windrow"), "{shell}");
    }
}

#[tokio::test]
async fn failures_say_what_to_do_and_make_nothing() {
    let desk = Desk::new();
    let said = desk.windrow(&["doctor"]).await;
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.err.contains("there is no database at "), "{said:?}");
    assert!(said.err.contains("What to do: give its path with --database"), "{said:?}");
    assert!(!desk.path("home").exists());
    let said = desk.windrow(&["batches", "--database", "mysql://x"]).await;
    assert_eq!(said.code, 2, "{said:?}");
    assert!(said.err.contains("use a path or postgres://"), "{said:?}");
    let said = desk.windrow(&["batches", "--database", "postgres://u:pw@127.0.0.1:1/d"]).await;
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.err.contains("PostgreSQL 127.0.0.1:1/d") && !said.err.contains("pw"), "{said:?}");
    assert!(said.err.contains("What to do: check that the database runs"), "{said:?}");
}

#[tokio::test]
async fn a_good_file_is_taken_in_and_a_bad_one_is_explained() {
    let desk = Desk::new();
    desk.requests("good.jsonl", 1);
    let good = desk.read("good.jsonl");
    desk.write("bad.jsonl", &format!("{good}oops\n{good}"));
    let said = desk.windrow(&["ingest", "good.jsonl"]).await;
    assert_eq!(said.code, 0, "{said:?}");
    assert!(said.out.contains(": 1 requests, "), "{said:?}");
    assert!(desk.path("home/.local/share/windrow/windrow.db").exists(), "the default database");
    let said = desk.windrow(&["ingest", "bad.jsonl"]).await;
    assert_eq!(said.code, 3, "{said:?}");
    assert!(said.out.contains("does not validate: 2 errors"), "{said:?}");
    assert!(said.out.contains("line 2: The line is not valid JSON"), "{said:?}");
    let twice = "line 3: `custom_id` is the same as on line 1. [duplicate_custom_id]";
    assert!(said.out.contains(twice), "{said:?}");
}

#[tokio::test]
async fn the_help_names_commands_and_exit_codes() {
    let desk = Desk::new();
    let said = desk.windrow(&["--help"]).await;
    assert_eq!(said.code, 0);
    let words = [
        "run",
        "demo",
        "work",
        "ingest",
        "batches",
        "status",
        "watch",
        "pause",
        "resume",
        "cancel",
        "retry",
        "results",
        "export",
        "attempts",
        "call ",
        "calls",
        "messages",
        "events",
        "dead-letters",
        "instances",
        "partitions",
        "grants",
        "migrate",
        "doctor",
        "config",
        "completions",
        "Exit codes:",
        "3  the file does not validate",
        "10  stopped before the end",
    ];
    for word in words {
        assert!(said.out.contains(word), "{word}: {}", said.out);
    }
    let said = desk.windrow(&["run", "--help"]).await;
    for word in ["--to <URL>", "--out", "--fresh", "--give-up-after", "--data", "--json"] {
        assert!(said.out.contains(word), "{word}: {}", said.out);
    }
    assert_eq!(desk.windrow(&[]).await.code, 2, "nothing was asked for");
}
