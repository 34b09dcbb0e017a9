//! Commands that messages print do what they say when they are copied: they are run here as they stand.

use windrow_testkit::upstream::{Gate, Reply, Script, Upstream};

use crate::support::{Workdir, ended, exists, ids, ids_of};

/// Refuses every line but the first two.
fn refusing() -> Script {
    Script::new(|seen| {
        let body: serde_json::Value = serde_json::from_slice(&seen.body).unwrap();
        if body["n"].as_u64().unwrap() > 2 { Reply::error(400, "no") } else { Reply::Echo }
    })
}

const KEY: [(&str, &str); 1] = [("MY_KEY", "sk-secret")];

#[tokio::test]
async fn the_command_that_retry_prints_runs_only_the_failed_lines_of_that_batch() {
    let (workdir, upstream) = (Workdir::new(), Upstream::start(refusing()).await.unwrap());
    workdir.requests("my file.jsonl", 6);
    let to = upstream.url();
    let flags =
        ["--data", "d d", "--owner", "bob", "--api-key-env", "MY_KEY", "--header", "X-Team: hay"];
    let run = [&["run", "my file.jsonl", "--to", &to, "--out", "out.jsonl"][..], &flags].concat();
    let output = workdir.windrow_with(&run, &KEY).await;
    assert_eq!(output.code, 5, "{output:?}");
    assert!(!output.out.contains("sk-secret"), "{output:?}");

    upstream.set(Script::echo());
    let before = upstream.counts().requests;
    let retry = [&["retry", "last"][..], &flags].concat();
    let output = workdir.windrow_with(&retry, &KEY).await;
    assert_eq!(output.code, 0, "{output:?}");
    let command = output.command_after("To run them: ");
    let output = workdir.shell(&command, &KEY).await;
    assert_eq!(output.code, 0, "{command}: {output:?}");
    assert_eq!(upstream.counts().requests - before, 4, "only what had failed: {command}");
    let seen = upstream.seen().pop().unwrap();
    assert_eq!((seen.header("x-team"), seen.header("authorization")), ("hay", "Bearer sk-secret"));
    assert_eq!(ids(&workdir.read("out.jsonl")), ids_of(1..=6));
    assert!(!exists(workdir.path("home")), "nothing went to the usual database");
}

#[tokio::test]
async fn a_retry_that_works_writes_the_outputs_anew_where_the_run_wrote_them() {
    let (workdir, upstream) = (Workdir::new(), Upstream::start(refusing()).await.unwrap());
    workdir.requests("a.jsonl", 5);
    let args = ["run", "a.jsonl", "--to", &upstream.url(), "--data", "d"];
    let output = workdir.windrow(&args).await;
    assert_eq!(output.code, 5, "{output:?}");
    assert_eq!(ids(&workdir.read("a.errors.jsonl")), ids_of(3..=5));
    upstream.set(Script::echo());
    let command = output.command_after("To retry the 3 failed lines: ");
    let output = workdir.shell(&command, &[]).await;
    assert_eq!(output.code, 0, "{command}: {output:?}");
    assert!(output.out.contains("a.results.jsonl"), "{output:?}");
    assert_eq!(ids(&workdir.read("a.results.jsonl")), ids_of(1..=5));
    assert!(!exists(workdir.path("a.errors.jsonl")), "the old errors are gone");
    // What has no file beside it is told how to get one.
    let made = workdir.windrow(&["ingest", "a.jsonl", "--batch", "--data", "d", "--json"]).await;
    let batch = made.json()["batch"]["id"].as_str().unwrap().to_owned();
    let args = ["retry", &batch, "--work", "--to", &upstream.url(), "--data", "d"];
    let output = workdir.windrow(&args).await;
    assert_eq!(output.code, 0, "{output:?}");
    let command = output.command_after("To write the results: ").replace("FILE", "r.jsonl");
    assert_eq!(workdir.shell(&command, &[]).await.code, 0, "{command}");
    assert_eq!(ids(&workdir.read("r.jsonl")).len(), 5);
}

#[tokio::test]
async fn a_pause_says_how_to_continue_and_a_delete_how_to_go_on() {
    let workdir = Workdir::new();
    workdir.requests("a.jsonl", 3);
    let data = ["--data", "elsewhere", "--owner", "bob"];
    assert_eq!(
        workdir.windrow(&[&["ingest", "a.jsonl", "--batch"][..], &data].concat()).await.code,
        0
    );
    let output = workdir.windrow(&[&["pause", "last"][..], &data].concat()).await;
    let resume = output.command_after("To continue: ");
    let output = workdir.shell(&resume, &[]).await;
    assert!(output.out.contains("is in_progress"), "{resume}: {output:?}");

    let output = workdir.windrow(&[&["delete", "last", "--yes"][..], &data].concat()).await;
    let cancel = output.command_after("cancel it: ");
    let cancel = cancel.split(';').next().unwrap();
    assert_eq!(workdir.shell(cancel, &[]).await.code, 0, "{cancel}");
    let status = workdir.windrow(&[&["status", "last", "--json"][..], &data].concat()).await.json();
    assert!(status["batch"]["cancelling_at"].is_string(), "{status}");
}

/// Whatever closed a batch: when every line completed, nothing failed.
#[tokio::test]
async fn a_cancelled_run_whose_lines_all_completed_succeeds() {
    let gate = Gate::default();
    let script = Script::always(Reply::Echo.held(&gate));
    let (workdir, upstream) = (Workdir::new(), Upstream::start(script).await.unwrap());
    workdir.requests("a.jsonl", 2);
    let child = workdir.spawn(&["run", "a.jsonl", "--to", &upstream.url()]);
    upstream.saw(2).await;
    let output = workdir.windrow(&["cancel", "last"]).await;
    assert_eq!(output.code, 0, "{output:?}");
    let results = output.command_after("For what it has finished: ");
    assert!(output.out.contains("To run what never ran, once it is closed: "), "{output:?}");
    gate.open();
    let output = ended(child).await;
    assert!(output.out.contains("is cancelled"), "{output:?}");
    assert_eq!(output.code, 0, "{output:?}");
    assert_eq!(ids(&workdir.shell(&results, &[]).await.out), ids_of(1..=2));
    assert_eq!(workdir.windrow(&["watch", "last"]).await.code, 0);
}

#[tokio::test]
async fn a_batch_that_nobody_works_on_says_so_and_how_to_run_it() {
    let script = Script::always(Reply::Echo.after(std::time::Duration::from_millis(20)));
    let (workdir, upstream) = (Workdir::new(), Upstream::start(script).await.unwrap());
    workdir.requests("a.jsonl", 300);
    let args = ["run", "a.jsonl", "--to", &upstream.url(), "--data", "d", "--concurrency", "2"];
    let child = workdir.spawn(&args);
    upstream.saw(5).await;
    crate::support::signal(&child, "INT").await;
    assert_eq!(ended(child).await.code, 10);
    let output = workdir.windrow(&["status", "last", "--data", "d"]).await;
    assert!(output.out.contains("nobody works on it"), "{output:?}");
    let status = workdir.windrow(&["status", "last", "--data", "d", "--json"]).await.json();
    assert_eq!(status["is_worked_on"], false);
    upstream.set(Script::echo());
    let command = output.command_after("to run it: ");
    let output = workdir.shell(&command, &[]).await;
    assert_eq!(output.code, 0, "{command}: {output:?}");
    assert_eq!(ids(&workdir.read("a.results.jsonl")).len(), 300);
    assert!(upstream.keys().values().all(|times| *times == 1), "no line was paid for twice");
}

#[tokio::test]
async fn the_same_file_under_a_slightly_different_url_is_not_paid_for_twice() {
    let (workdir, upstream) = (Workdir::new(), Upstream::start(Script::echo()).await.unwrap());
    workdir.requests("a.jsonl", 3);
    let to = upstream.url();
    assert_eq!(workdir.windrow(&["run", "a.jsonl", "--to", &to]).await.code, 0);
    let slightly = to.replace("127.0.0.1", "localhost");
    let output = workdir.windrow(&["run", "a.jsonl", "--to", &slightly]).await;
    assert_eq!(output.code, 1, "{output:?}");
    assert!(output.err.contains("would send every line again"), "{output:?}");
    assert_eq!(upstream.counts().requests, 3);
    let there = output.command_after("to go on there: ");
    assert_eq!(workdir.shell(&there, &[]).await.code, 0, "{there}");
    assert_eq!(upstream.counts().requests, 3);
    let fresh = output.command_after("To send every line again: ");
    assert_eq!(workdir.shell(&fresh, &[]).await.code, 0, "{fresh}");
    assert_eq!(upstream.counts().requests, 6);
    // Another server is another run.
    let other = Upstream::start(Script::echo()).await.unwrap();
    assert_eq!(workdir.windrow(&["run", "a.jsonl", "--to", &other.url()]).await.code, 0);
    assert_eq!(other.counts().requests, 3);
}
