//! A batch that was moved is retried where it went, and a retry elsewhere moves it before anything runs.

use std::time::Duration;

use windrow::engine::clock::Clock;
use windrow_testkit::upstream::{Reply, Script, Upstream};

use crate::support::{Workdir, ended, ids, ids_of, signal};

fn table(name: &str, url: &str) -> String {
    format!("[upstreams.{name}]\nbase_url = \"{url}\"\ntargets = [\"m\"]\n")
}

#[tokio::test]
async fn hints_and_retries_of_a_moved_batch_go_where_it_was_moved_to() {
    let failing = Script::always(Reply::error(400, "no"));
    let (workdir, old) = (Workdir::new(), Upstream::start(failing).await.unwrap());
    let new = Upstream::start(Script::echo()).await.unwrap();
    workdir.requests("a.jsonl", 3);
    assert_eq!(workdir.windrow(&["run", "a.jsonl", "--to", &old.url()]).await.code, 5);
    workdir.write("windrow.toml", &table("big", &new.url()));
    let output = workdir.windrow(&["batches", "move", "last", "--upstream", "big"]).await;
    assert_eq!(output.code, 0, "{output:?}");

    old.set(Script::echo());
    let output = workdir.windrow(&["retry", "last"]).await;
    let command = output.command_after("To run them: ");
    assert!(!command.contains(&old.url()), "{command}");
    let status = workdir.windrow(&["status", "last"]).await;
    let command = status.command_after("to run it: ");
    assert!(!command.contains(&old.url()) && command.contains("windrow work"), "{command}");

    let output = workdir.windrow(&["retry", "last", "--work"]).await;
    assert_eq!(output.code, 0, "{output:?}");
    assert_eq!((old.counts().requests, new.counts().requests), (3, 3), "{output:?}");
    assert_eq!(ids(&workdir.read("a.results.jsonl")), ids_of(1..=3));
}

/// A name that only another machine's configuration has is not guessed.
#[tokio::test]
async fn a_retry_of_a_batch_whose_upstream_is_not_configured_here_says_so() {
    let failing = Script::always(Reply::error(400, "no"));
    let (workdir, old) = (Workdir::new(), Upstream::start(failing).await.unwrap());
    workdir.requests("a.jsonl", 3);
    assert_eq!(workdir.windrow(&["run", "a.jsonl", "--to", &old.url()]).await.code, 5);
    workdir.write("windrow.toml", &table("big", "http://127.0.0.1:1"));
    let output = workdir.windrow(&["batches", "move", "last", "--upstream", "big"]).await;
    assert_eq!(output.code, 0, "{output:?}");
    std::fs::remove_file(workdir.path("windrow.toml")).unwrap();
    let output = workdir.windrow(&["retry", "last", "--work"]).await;
    assert_eq!(output.code, 2, "{output:?}");
    assert!(output.err.contains("goes to big"), "{output:?}");
    assert_eq!(old.counts().requests, 3);
    let status = workdir.windrow(&["status", "last", "--json"]).await.json();
    assert_eq!(status["batch"]["counts"]["failed"], 3, "nothing was put back: {status}");
}

#[tokio::test]
async fn a_retry_elsewhere_moves_the_batch_before_anything_may_run() {
    let failing = Script::always(Reply::error(400, "no"));
    let (workdir, old) = (Workdir::new(), Upstream::start(failing).await.unwrap());
    let new = Upstream::start(Script::echo()).await.unwrap();
    workdir.requests("a.jsonl", 300);
    let args = ["run", "a.jsonl", "--to", &old.url()];
    assert_eq!(workdir.windrow(&args).await.code, 5);
    let sent = old.counts().requests;
    old.set(Script::echo());
    let worker = workdir.spawn(&["work", "--to", &old.url(), "--set", "poll_ms=10"]);
    loop {
        let listed = workdir.windrow(&["upstreams", "--json"]).await.json();
        if listed["rows"][0]["served_by"].as_array().is_some_and(|by| !by.is_empty()) {
            break;
        }
    }
    let output = workdir.windrow(&["retry", "last", "--work", "--to", &new.url()]).await;
    assert_eq!(output.code, 0, "{output:?}");
    signal(&worker, "INT").await;
    ended(worker).await;
    assert_eq!((old.counts().requests - sent, new.counts().requests), (0, 300));
}

/// Sixty slow lines, the second of which fails, cancelled soon.
#[tokio::test]
async fn a_cancelled_batch_says_what_a_retry_runs_and_takes_no_choice_of_lines() {
    let script = Script::new(|seen| match seen.number {
        2 => Reply::error(400, "no"),
        _ => Reply::Echo.after(Duration::from_millis(100)),
    });
    let (workdir, upstream) = (Workdir::new(), Upstream::start(script).await.unwrap());
    workdir.requests("a.jsonl", 60);
    let args = ["run", "a.jsonl", "--to", &upstream.url(), "--concurrency", "1"];
    let child = workdir.spawn(&args);
    upstream.saw(3).await;
    assert_eq!(workdir.windrow(&["cancel", "last"]).await.code, 0);
    let output = ended(child).await;
    let sent = upstream.counts().requests;
    assert!(!output.out.contains("To retry"), "{output:?}");
    let what = format!("To run the {} lines that never ran (not the failed line): ", 60 - sent);
    let command = output.command_after(&what);

    for choice in [["--lines", "2"], ["--status", "failed"]] {
        let output = workdir.windrow(&["retry", "last", choice[0], choice[1], "--work"]).await;
        assert_eq!(output.code, 2, "{output:?}");
        assert!(output.err.contains("is cancelled: what is left of it"), "{output:?}");
        assert_eq!(upstream.counts().requests, sent);
    }
    upstream.set(Script::echo());
    let output = workdir.shell(&command, &[]).await;
    assert_eq!(upstream.counts().requests, 60, "{command}: {output:?}");
    assert_eq!(ids(&workdir.read("a.errors.jsonl")), ids_of([2]));
    // Now that it is completed, the failed line is retried.
    let output = workdir.windrow(&["retry", "last", "--lines", "2", "--work"]).await;
    assert_eq!((output.code, upstream.counts().requests), (0, 61), "{output:?}");
}

/// A line that is refused by itself is not a wrong key: others of the batch completed with it.
#[tokio::test]
async fn retried_lines_that_are_refused_again_close_their_batch() {
    let script = Script::new(|seen| {
        let body: serde_json::Value = serde_json::from_slice(&seen.body).unwrap();
        if body["n"] == 2 { Reply::error(401, "not yours") } else { Reply::Echo }
    });
    let (workdir, upstream) = (Workdir::new(), Upstream::start(script).await.unwrap());
    workdir.requests("a.jsonl", 3);
    let args = ["run", "a.jsonl", "--to", &upstream.url(), "--concurrency", "1"];
    assert_eq!(workdir.windrow(&args).await.code, 5);
    let output = workdir.windrow(&["retry", "last", "--work"]).await;
    assert_eq!(output.code, 5, "{output:?}");
    assert!(output.out.contains("is completed"), "{output:?}");
    assert_eq!(upstream.counts().requests, 4);
}

/// No line completed, but one failed by itself: the key works, and the refusal is the line's own.
#[tokio::test]
async fn a_retried_line_is_refused_by_itself_where_others_failed_by_themselves() {
    let script = Script::new(|seen| {
        let body: serde_json::Value = serde_json::from_slice(&seen.body).unwrap();
        let status = if body["n"] == 2 { 401 } else { 400 };
        Reply::error(status, "not so")
    });
    let (workdir, upstream) = (Workdir::new(), Upstream::start(script).await.unwrap());
    workdir.requests("a.jsonl", 3);
    let args = ["run", "a.jsonl", "--to", &upstream.url(), "--concurrency", "1"];
    assert_eq!(workdir.windrow(&args).await.code, 5);
    for choice in [&["--lines", "2"][..], &[]] {
        let retry = [&["retry", "last", "--work"][..], choice].concat();
        let output = workdir.windrow(&retry).await;
        assert_eq!(output.code, 5, "{output:?}");
        assert!(output.out.contains("is completed"), "{output:?}");
    }
    assert_eq!(upstream.counts().requests, 3 + 1 + 3);
}

/// Nothing but refusals: lines that were named have theirs as their result, and the batch closes. A retry of all
/// that failed stops, as a run does.
#[tokio::test]
async fn named_lines_that_are_refused_close_their_batch() {
    let refuse = |status| Script::always(Reply::error(status, "not yours"));
    let (workdir, upstream) = (Workdir::new(), Upstream::start(refuse(403)).await.unwrap());
    workdir.requests("a.jsonl", 3);
    assert_eq!(workdir.windrow(&["run", "a.jsonl", "--to", &upstream.url()]).await.code, 5);
    upstream.set(refuse(401));
    let output = workdir.windrow(&["retry", "last", "--lines", "2-3", "--work"]).await;
    assert_eq!(output.code, 5, "{output:?}");
    assert!(output.out.contains("is completed"), "{output:?}");
    assert_eq!(upstream.counts().requests, 5);
    let output = workdir.windrow(&["retry", "last", "--work"]).await;
    assert_eq!(output.code, 9, "{output:?}");
    assert!(output.err.contains("no line was used up"), "{output:?}");
}

/// Without `--to`, the run is the table's: a worker with the same configuration goes on with it.
#[tokio::test]
async fn a_run_without_to_belongs_to_its_table_and_a_worker_goes_on_with_it() {
    let slow = Script::always(Reply::Echo.after(Duration::from_millis(50)));
    let (workdir, upstream) = (Workdir::new(), Upstream::start(slow).await.unwrap());
    workdir.requests("a.jsonl", 40);
    workdir.write("windrow.toml", &table("big", &upstream.url()));
    let run = workdir.spawn(&["run", "a.jsonl", "--concurrency", "1"]);
    upstream.saw(3).await;
    signal(&run, "INT").await;
    assert_eq!(ended(run).await.code, 10);
    let status = workdir.windrow(&["status", "last", "--json"]).await.json();
    assert_eq!(status["batch"]["upstreams"], serde_json::json!(["big"]));
    let output = workdir.windrow(&["status", "last"]).await;
    assert!(!output.command_after("to run it: ").contains("--to"), "{output:?}");

    let worker = workdir.spawn(&["work"]);
    let watched = workdir.windrow(&["watch", "last"]).await;
    assert_eq!(watched.code, 0, "{watched:?}");
    signal(&worker, "INT").await;
    ended(worker).await;
    assert_eq!(upstream.counts().requests, 40);
    // The same command finds it finished, with and without the URL.
    for args in [&["run", "a.jsonl"][..], &["run", "a.jsonl", "--to", &upstream.url()]] {
        let output = workdir.windrow(args).await;
        assert_eq!((output.code, upstream.counts().requests), (0, 40), "{output:?}");
    }
}

/// A worker of another upstream does not work on it, and a run whose batch was taken away says so.
#[tokio::test]
async fn who_works_on_a_batch_is_who_serves_its_upstream() {
    let slow = Script::always(Reply::Echo.after(Duration::from_millis(50)));
    let (workdir, old) = (Workdir::new(), Upstream::start(slow.clone()).await.unwrap());
    let new = Upstream::start(slow).await.unwrap();
    workdir.requests("a.jsonl", 200);
    let run = workdir.spawn(&["run", "a.jsonl", "--to", &old.url(), "--concurrency", "1"]);
    old.saw(3).await;
    let moved = workdir.windrow(&["batches", "move", "last", "--to", &new.url()]).await;
    assert_eq!(moved.code, 0, "{moved:?}");
    // The look of every second, after which what was leased is back, and the progress after it.
    Clock::machine().sleep(Duration::from_secs(3)).await;
    let listed = workdir.windrow(&["batches"]).await;
    let row = listed.out.lines().find(|row| row.contains("in_progress")).unwrap().to_owned();
    assert!(row.split_whitespace().any(|word| word == "no"), "{listed:?}");
    let status = workdir.windrow(&["status", "last"]).await;
    let command = status.command_after("to run it: ");
    let new_url = new.url();
    assert!(
        command.contains("work --to") && command.contains(new_url.trim_end_matches('/')),
        "{command}"
    );
    signal(&run, "INT").await;
    let output = ended(run).await;
    assert_eq!(output.code, 10, "{output:?}");
    assert!(output.err.contains("it was moved to http"), "{output:?}");
    assert_eq!(new.counts().requests, 0);
}
