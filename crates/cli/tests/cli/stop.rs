//! Runs that are stopped, given up or started twice: nothing is lost, nothing is doubled.

use std::time::Duration;

use windrow_testkit::upstream::{Reply, Script, Upstream};

use crate::support::{Workdir, ended, ids, ids_of, signal};

fn slow() -> Script {
    Script::always(Reply::Echo.after(Duration::from_millis(20)))
}

#[tokio::test]
async fn a_run_that_is_interrupted_gives_back_what_it_held_and_goes_on_later() {
    let (workdir, upstream) = (Workdir::new(), Upstream::start(slow()).await.unwrap());
    workdir.requests("a.jsonl", 400);
    let args = ["run", "a.jsonl", "--to", &upstream.url(), "--concurrency", "4"];
    let child = workdir.spawn(&args);
    upstream.saw(30).await;
    signal(&child, "INT").await;
    let output = ended(child).await;
    assert_eq!(output.code, 10, "{output:?}");
    assert!(output.out.contains("run the same command again to resume"), "{output:?}");
    let before = upstream.counts().requests;
    assert!(before < 400, "{before}");

    upstream.set(Script::echo());
    let output = workdir.windrow(&args).await;
    assert_eq!(output.code, 0, "{output:?}");
    assert!(output.err.contains("lines done already"), "{output:?}");
    assert_eq!(ids(&workdir.read("a.results.jsonl")), ids_of(1..=400));
    assert!(upstream.keys().values().all(|times| *times == 1), "no line was paid for twice");
}

#[tokio::test]
async fn two_of_the_same_command_share_one_batch() {
    let (workdir, upstream) = (Workdir::new(), Upstream::start(slow()).await.unwrap());
    workdir.requests("a.jsonl", 300);
    let to = upstream.url();
    let both = [
        ["run", "a.jsonl", "--to", &to, "--out", "one.jsonl"],
        ["run", "a.jsonl", "--to", &to, "--out", "two.jsonl"],
    ];
    let children = both.map(|args| workdir.spawn(&args));
    for child in children {
        let output = ended(child).await;
        assert_eq!(output.code, 0, "{output:?}");
    }
    assert_eq!(ids(&workdir.read("one.jsonl")), ids_of(1..=300));
    assert_eq!(workdir.read("one.jsonl"), workdir.read("two.jsonl"));
    assert!(upstream.keys().values().all(|times| *times == 1), "each line was sent once");
    let listed = workdir.windrow(&["batches", "--json"]).await.json();
    assert_eq!(listed["rows"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_dead_upstream_is_given_up_and_the_rest_runs_when_it_is_back() {
    let (workdir, upstream) = (Workdir::new(), Upstream::start(slow()).await.unwrap());
    workdir.requests("a.jsonl", 200);
    let args = ["run", "a.jsonl", "--to", &upstream.url(), "--give-up-after", "1"];
    let child = workdir.spawn(&args);
    upstream.saw(20).await;
    upstream.stop().await;
    let output = ended(child).await;
    assert_eq!(output.code, 6, "{output:?}");
    assert!(output.err.contains("was unreachable for 1 s"), "{output:?}");
    assert!(output.err.contains("run the same command again to resume"), "{output:?}");

    upstream.set(Script::echo());
    upstream.start_again().await.unwrap();
    let output = workdir.windrow(&args).await;
    assert_eq!(output.code, 0, "{output:?}");
    assert_eq!(ids(&workdir.read("a.results.jsonl")), ids_of(1..=200));
}
