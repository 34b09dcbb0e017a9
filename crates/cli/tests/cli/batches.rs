//! The commands that look at batches and steer them.

use crate::support::Workdir;

/// A desk with batches over a file of five lines, and their ids, oldest first.
async fn workdir_with(batches: usize) -> (Workdir, Vec<String>) {
    let workdir = Workdir::new();
    workdir.requests("a.jsonl", 5);
    let mut ids = Vec::new();
    for _ in 0..batches {
        let output = workdir.windrow(&["ingest", "a.jsonl", "--batch", "--json"]).await;
        assert_eq!(output.code, 0, "{output:?}");
        ids.push(output.json()["batch"]["id"].as_str().unwrap().to_owned());
    }
    (workdir, ids)
}

#[tokio::test]
async fn batches_are_listed_newest_first_by_state_and_by_page() {
    let (workdir, ids) = workdir_with(3).await;
    let output = workdir.windrow(&["batches"]).await;
    let listed: Vec<_> = output.out.lines().skip(1).collect();
    assert_eq!((output.code, listed.len()), (0, 3), "{output:?}");
    assert!(listed[0].starts_with(&ids[2]), "{output:?}");
    assert!(listed[0].contains("in_progress"), "{output:?}");

    assert_eq!(workdir.windrow(&["pause", &ids[1], "--reason", "lunch"]).await.code, 0);
    let output = workdir.windrow(&["batches", "--state", "paused", "--json"]).await.json();
    assert_eq!(output["rows"][0]["id"], ids[1].as_str());
    assert_eq!(output["rows"].as_array().unwrap().len(), 1);

    let page = workdir.windrow(&["batches", "--limit", "2", "--json"]).await.json();
    let next = page["next"].as_str().unwrap();
    let page =
        workdir.windrow(&["batches", "--limit", "2", "--after", next, "--json"]).await.json();
    assert_eq!(page["rows"][0]["id"], ids[0].as_str());

    let output = workdir.windrow(&["batches", "--state", "sleeping"]).await;
    assert_eq!(output.code, 2, "{output:?}");
    assert!(output.err.contains("the states are in_progress, paused"), "{output:?}");
    assert!(workdir.windrow(&["batches", "--owner", "ann"]).await.out.contains("No batches."));
}

#[tokio::test]
async fn a_batch_is_paused_resumed_and_cancelled_and_its_status_says_so() {
    let (workdir, ids) = workdir_with(1).await;
    let output = workdir.windrow(&["pause", "last", "--reason", "lunch"]).await;
    assert!(output.out.contains("is paused, 0 of 5 lines done"), "{output:?}");
    let output = workdir.windrow(&["status", "last"]).await;
    assert_eq!(output.code, 0);
    for word in [ids[0].as_str(), "paused", "lunch", "a.jsonl", "untouched", "target"] {
        assert!(output.out.contains(word), "{word}: {output:?}");
    }
    assert!(workdir.windrow(&["resume", "last"]).await.out.contains("is in_progress"));
    let status = workdir.windrow(&["status", "last", "--json"]).await.json();
    assert_eq!(status["batch"]["counts"]["untouched"], 5);
    assert_eq!(status["lanes"][0]["target"], "m");
    assert!(workdir.windrow(&["cancel", "last"]).await.out.contains("the rest never runs"));
    let output = workdir.windrow(&["resume", "last"]).await;
    assert_eq!(output.code, 1, "{output:?}");
    assert!(output.err.contains("cannot be resumed"), "{output:?}");
    assert!(
        output.err.contains("What to do: the state of the batch does not allow it"),
        "{output:?}"
    );
}

#[tokio::test]
async fn a_batch_is_found_by_the_beginning_of_its_id() {
    let (workdir, ids) = workdir_with(2).await;
    let whole = workdir.windrow(&["status", &ids[0][..35], "--json"]).await;
    assert_eq!(whole.json()["batch"]["id"], ids[0].as_str());
    // Made in the same hour, they begin alike.
    let output = workdir.windrow(&["status", &ids[0][..4]]).await;
    assert_eq!(output.code, 2, "{output:?}");
    assert!(output.err.contains(&ids[0]) && output.err.contains(&ids[1]), "{output:?}");
    assert!(output.err.contains("What to do: give more characters"), "{output:?}");
    let output = workdir.windrow(&["status", "ffffff"]).await;
    assert_eq!(output.code, 1, "{output:?}");
    assert!(output.err.contains("no batch id starts with ffffff"), "{output:?}");
    assert_eq!(workdir.windrow(&["status", "ab"]).await.code, 2);
}

#[tokio::test]
async fn the_doctor_migrate_and_completions_do_their_work() {
    let (workdir, _) = workdir_with(2).await;
    let output = workdir.windrow(&["doctor", "-v"]).await;
    assert_eq!(output.code, 0, "{output:?}");
    assert!(output.out.contains("2 batches, 10 lines: every line is in exactly one place."));
    assert_eq!(output.out.matches("ok ").count(), 2, "{output:?}");
    assert_eq!(workdir.windrow(&["doctor", "--json"]).await.json()["batches"], 2);
    let output = workdir.windrow(&["migrate", "--database", "sqlite:new.db"]).await;
    assert_eq!(output.code, 0, "{output:?}");
    assert!(workdir.path("new.db").exists());
    for shell in ["bash", "zsh", "fish"] {
        let output = workdir.windrow(&["completions", shell]).await;
        assert!(output.code == 0 && output.out.contains("windrow"), "{shell}");
    }
}

#[tokio::test]
async fn failures_say_what_to_do_and_make_nothing() {
    let workdir = Workdir::new();
    let output = workdir.windrow(&["doctor"]).await;
    assert_eq!(output.code, 1, "{output:?}");
    assert!(output.err.contains("there is no database at "), "{output:?}");
    assert!(output.err.contains("What to do: give its path with --database"), "{output:?}");
    assert!(!workdir.path("home").exists());
    let output = workdir.windrow(&["batches", "--database", "mysql://x"]).await;
    assert_eq!(output.code, 2, "{output:?}");
    assert!(output.err.contains("use a path or postgres://"), "{output:?}");
    let output = workdir.windrow(&["batches", "--database", "postgres://u:pw@127.0.0.1:1/d"]).await;
    assert_eq!(output.code, 1, "{output:?}");
    assert!(
        output.err.contains("PostgreSQL 127.0.0.1:1/d") && !output.err.contains("pw"),
        "{output:?}"
    );
    assert!(output.err.contains("What to do: check that the database is running"), "{output:?}");
}

#[tokio::test]
async fn a_good_file_is_taken_in_and_a_bad_one_is_explained() {
    let workdir = Workdir::new();
    workdir.requests("good.jsonl", 1);
    let good = workdir.read("good.jsonl");
    workdir.write("bad.jsonl", &format!("{good}oops\n{good}"));
    let output = workdir.windrow(&["ingest", "good.jsonl"]).await;
    assert_eq!(output.code, 0, "{output:?}");
    assert!(output.out.contains(": 1 request, "), "{output:?}");
    assert!(workdir.path("home/.local/share/windrow/windrow.db").exists(), "the default database");
    let output = workdir.windrow(&["ingest", "bad.jsonl"]).await;
    assert_eq!(output.code, 3, "{output:?}");
    assert!(output.out.contains("does not validate: 2 errors"), "{output:?}");
    assert!(output.out.contains("line 2: The line is not valid JSON"), "{output:?}");
    let twice = "line 3: `custom_id` is the same as on line 1. [duplicate_custom_id]";
    assert!(output.out.contains(twice), "{output:?}");
}

#[tokio::test]
async fn the_help_names_commands_and_exit_codes() {
    let workdir = Workdir::new();
    let output = workdir.windrow(&["--help"]).await;
    assert_eq!(output.code, 0);
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
        "files",
        "delete",
        "migrate",
        "doctor",
        "config",
        "completions",
        "Exit codes:",
        "3  the input file is not valid",
        "10  stopped before the end",
    ];
    for word in words {
        assert!(output.out.contains(word), "{word}: {}", output.out);
    }
    let output = workdir.windrow(&["run", "--help"]).await;
    for word in ["--to <URL>", "--out", "--fresh", "--give-up-after", "--data", "--json"] {
        assert!(output.out.contains(word), "{word}: {}", output.out);
    }
    assert_eq!(workdir.windrow(&[]).await.code, 2, "nothing was asked for");
}
