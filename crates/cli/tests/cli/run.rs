//! `windrow run`: to its results, again, over a changed file, and with everything that can be wrong.

use std::process::Stdio;

use tokio::io::AsyncWriteExt as _;
use windrow_testkit::upstream::{Reply, Script, Upstream};

use crate::support::{Workdir, ended, exists, ids, ids_of};

#[tokio::test]
async fn a_file_runs_to_its_results_and_the_same_command_sends_nothing_again() {
    let (workdir, upstream) = (Workdir::new(), Upstream::start(Script::echo()).await.unwrap());
    workdir.requests("a.jsonl", 120);
    let args = ["run", "a.jsonl", "--to", &upstream.url()];
    let output = workdir.windrow(&args).await;
    assert_eq!(output.code, 0, "{output:?}");
    assert!(output.out.contains("120  completed"), "{output:?}");
    assert!(output.err.contains("Loaded 120 lines"), "{output:?}");
    assert_eq!(ids(&workdir.read("a.results.jsonl")), ids_of(1..=120));
    assert_eq!(workdir.names(), ["a.jsonl", "a.results.jsonl"], "no errors, no other files");
    assert_eq!(upstream.counts().requests, 120);

    let output = workdir.windrow(&args).await;
    assert_eq!(output.code, 0, "{output:?}");
    assert!(output.out.contains("nothing was sent. The results are in place."), "{output:?}");
    std::fs::remove_file(workdir.path("a.results.jsonl")).unwrap();
    // What is finished needs no upstream.
    upstream.stop().await;
    let output = workdir.windrow(&args).await;
    assert_eq!(output.code, 0, "{output:?}");
    assert!(output.out.contains("The results were written again."), "{output:?}");
    assert_eq!(ids(&workdir.read("a.results.jsonl")), ids_of(1..=120));
    assert_eq!(upstream.counts().requests, 120, "nothing was sent again");
}

#[tokio::test]
async fn failed_lines_go_beside_the_results_and_only_they_are_retried() {
    let refuses = |number: u64| number.is_multiple_of(10);
    let script = Script::new(move |seen| {
        let body: serde_json::Value = serde_json::from_slice(&seen.body).unwrap();
        match refuses(body["n"].as_u64().unwrap()) {
            true => Reply::error(400, "I would rather not"),
            false => Reply::Echo,
        }
    });
    let (workdir, upstream) = (Workdir::new(), Upstream::start(script).await.unwrap());
    workdir.requests("a.jsonl", 50);
    let args = ["run", "a.jsonl", "--to", &upstream.url(), "--out", "out.jsonl"];
    let output = workdir.windrow(&args).await;
    assert_eq!(output.code, 5, "{output:?}");
    assert!(output.out.contains("45  completed"), "{output:?}");
    assert!(output.out.contains("5  http_400: "), "{output:?}");
    assert!(output.out.contains("I would rather not"), "{output:?}");
    assert!(output.out.contains("windrow retry "), "{output:?}");
    assert_eq!(ids(&workdir.read("out.errors.jsonl")), ids_of([10, 20, 30, 40, 50]));
    assert_eq!(ids(&workdir.read("out.jsonl")).len(), 45);

    upstream.set(Script::echo());
    let output = workdir.windrow(&["retry", "last"]).await;
    assert_eq!(output.code, 0, "{output:?}");
    assert!(output.out.contains("5 lines will run again"), "{output:?}");
    let output = workdir.windrow(&args).await;
    assert_eq!(output.code, 0, "{output:?}");
    assert_eq!(upstream.counts().requests, 55, "only what had failed was sent again");
    assert_eq!(ids(&workdir.read("out.jsonl")), ids_of(1..=50));
    assert!(!exists(workdir.path("out.errors.jsonl")), "the old errors are gone");
}

#[tokio::test]
async fn a_file_that_changed_is_told_and_fresh_runs_it_anew() {
    let (workdir, upstream) = (Workdir::new(), Upstream::start(Script::echo()).await.unwrap());
    workdir.requests("a.jsonl", 3);
    let args = ["run", "a.jsonl", "--to", &upstream.url()];
    assert_eq!(workdir.windrow(&args).await.code, 0);
    workdir.requests("a.jsonl", 4);
    let output = workdir.windrow(&args).await;
    assert_eq!(output.code, 7, "{output:?}");
    assert!(output.err.contains("changed since its run began"), "{output:?}");
    assert!(output.err.contains("What to do: restore the old content"), "{output:?}");
    assert!(output.err.contains("--fresh"), "{output:?}");
    assert_eq!((upstream.counts().requests, ids(&workdir.read("a.results.jsonl")).len()), (3, 3));

    let fresh = ["run", "a.jsonl", "--to", &upstream.url(), "--fresh"];
    let output = workdir.windrow(&fresh).await;
    assert_eq!(output.code, 0, "{output:?}");
    assert_eq!(ids(&workdir.read("a.results.jsonl")), ids_of(1..=4));
    // From now on, the new content is what the command means.
    assert_eq!(workdir.windrow(&args).await.code, 0);
    assert_eq!(upstream.counts().requests, 7);
}

#[tokio::test]
async fn an_upstream_that_cannot_be_reached_leaves_nothing_behind() {
    let workdir = Workdir::new();
    workdir.requests("a.jsonl", 3);
    // Port 1 refuses at once.
    let output = workdir.windrow(&["run", "a.jsonl", "--to", "http://127.0.0.1:1"]).await;
    assert_eq!(output.code, 6, "{output:?}");
    assert!(output.err.contains("could not reach http://127.0.0.1:1/: connection refused"));
    assert!(output.err.contains("What to do: start the server or correct --to"), "{output:?}");
    assert!(!exists(workdir.path("home")), "nothing was made");
    assert_eq!(workdir.names(), ["a.jsonl"]);
    for bad in ["localhost", "ftp://h/", "http://u:secret@h/"] {
        let output = workdir.windrow(&["run", "a.jsonl", "--to", bad]).await;
        assert_eq!(output.code, 2, "{bad}: {output:?}");
    }
}

#[tokio::test]
async fn a_place_that_cannot_be_written_is_told_before_anything_is_sent() {
    let (workdir, upstream) = (Workdir::new(), Upstream::start(Script::echo()).await.unwrap());
    workdir.requests("a.jsonl", 3);
    for out in ["nowhere/out.jsonl", "."] {
        let output =
            workdir.windrow(&["run", "a.jsonl", "--to", &upstream.url(), "--out", out]).await;
        assert_eq!(output.code, 8, "{output:?}");
        assert!(output.err.contains(&format!("could not write {out}")), "{output:?}");
        assert!(output.err.contains("What to do: name a file"), "{output:?}");
    }
    let output =
        workdir.windrow(&["run", "a.jsonl", "--to", &upstream.url(), "--out", "a.jsonl"]).await;
    assert_eq!(output.code, 2, "{output:?}");
    assert!(output.err.contains("would be overwritten by its own results"), "{output:?}");
    workdir.write("taken", "");
    let storage = ["run", "a.jsonl", "--to", &upstream.url(), "--set", "storage=taken"];
    assert_eq!(workdir.windrow(&storage).await.code, 8);
    assert_eq!(upstream.counts().requests, 0);
}

#[tokio::test]
async fn a_file_that_does_not_validate_is_explained_and_nothing_is_sent() {
    let (workdir, upstream) = (Workdir::new(), Upstream::start(Script::echo()).await.unwrap());
    workdir.requests("a.jsonl", 2);
    let text = workdir.read("a.jsonl");
    workdir.write("a.jsonl", &format!("{text}oops\n"));
    let args = ["run", "a.jsonl", "--to", &upstream.url()];
    let output = workdir.windrow(&args).await;
    assert_eq!(output.code, 3, "{output:?}");
    assert!(output.err.contains("line 3: "), "{output:?}");
    assert!(output.err.contains("What to do: correct these lines"), "{output:?}");
    assert_eq!(upstream.counts().requests, 0);
    workdir.write("a.jsonl", &text);
    assert_eq!(workdir.windrow(&args).await.code, 0, "the corrected file runs");
    let output = workdir.windrow(&["run", "none.jsonl", "--to", &upstream.url()]).await;
    assert_eq!(output.code, 1, "{output:?}");
    assert!(output.err.starts_with("error: could not open none.jsonl\n  because "), "{output:?}");
}

#[tokio::test]
async fn standard_input_runs_to_standard_output() {
    let (workdir, upstream) = (Workdir::new(), Upstream::start(Script::echo()).await.unwrap());
    workdir.requests("a.jsonl", 20);
    let text = workdir.read("a.jsonl");
    let args = ["run", "-", "--to", &upstream.url(), "--data", "d"];
    for _ in 0..2 {
        let mut child = workdir.command(&args, &[]).stdin(Stdio::piped()).spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        input.write_all(text.as_bytes()).await.unwrap();
        drop(input);
        let output = ended(child).await;
        assert_eq!(output.code, 0, "{output:?}");
        assert_eq!(ids(&output.out), ids_of(1..=20));
        assert!(output.err.contains("20  completed"), "{output:?}");
    }
    assert_eq!(upstream.counts().requests, 20, "the same content is the same run");
    let kept = std::fs::read_dir(workdir.path("d")).unwrap();
    let names = kept.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert!(!names.into_iter().any(|name| name.starts_with("stdin-")), "the copy is gone");
}

#[tokio::test]
async fn machines_get_a_summary_and_headers_and_keys_are_sent_and_never_shown() {
    let (workdir, upstream) = (Workdir::new(), Upstream::start(Script::echo()).await.unwrap());
    workdir.requests("a.jsonl", 5);
    let to = upstream.url();
    let args = [
        "run",
        "a.jsonl",
        "--to",
        &to,
        "--json",
        "--api-key-env",
        "MY_KEY",
        "--header",
        "x-a=b",
        "--concurrency",
        "2",
    ];
    let output = workdir.windrow_with(&args, &[("MY_KEY", "sk-very-secret")]).await;
    assert_eq!(output.code, 0, "{output:?}");
    let summary = output.json();
    assert_eq!(summary["counts"]["completed"], 5);
    assert_eq!(summary["state"], "completed");
    assert_eq!(summary["results"], "a.results.jsonl");
    let seen = &upstream.seen()[0];
    assert_eq!(seen.header("authorization"), "Bearer sk-very-secret");
    assert_eq!(seen.header("x-a"), "b");
    assert!(!format!("{output:?}").contains("very-secret"));
    assert!(upstream.counts().in_flight_max <= 2);

    let output = workdir.windrow(&["run", "a.jsonl", "--to", &to, "--api-key-env", "NONE"]).await;
    assert_eq!(output.code, 9, "{output:?}");
    assert!(output.err.contains("NONE") && output.err.contains("is not set"), "{output:?}");
    let error = workdir.windrow(&["run", "a.jsonl", "--to", "http://127.0.0.1:1", "--json"]).await;
    let told: serde_json::Value = serde_json::from_str(error.err.trim()).unwrap();
    assert_eq!(told["error"]["exit_code"], 6, "{error:?}");
}

#[tokio::test]
async fn a_retry_may_run_the_lines_itself_where_they_were_sent_before() {
    let script = Script::always(Reply::error(400, "not today"));
    let (workdir, upstream) = (Workdir::new(), Upstream::start(script).await.unwrap());
    workdir.requests("a.jsonl", 8);
    assert_eq!(workdir.windrow(&["run", "a.jsonl", "--to", &upstream.url()]).await.code, 5);
    let output = workdir.windrow(&["retry", "last", "--lines", "2-3", "--work"]).await;
    assert_eq!(output.code, 5, "{output:?}");
    upstream.set(Script::echo());
    let output = workdir.windrow(&["retry", "last", "--work"]).await;
    assert_eq!(output.code, 0, "{output:?}");
    assert!(output.out.contains("is completed: 8 completed."), "{output:?}");
    assert_eq!(upstream.counts().requests, 8 + 2 + 8);
    let output = workdir.windrow(&["retry", "last", "--work"]).await;
    assert!(output.code == 0 && output.out.contains("no lines to retry"), "{output:?}");
    assert_eq!(ids(&workdir.windrow(&["results", "last"]).await.out), ids_of(1..=8));
}
