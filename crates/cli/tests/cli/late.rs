//! Batches past their window: they go on with a new one, and only then. What was cancelled is retried.

use std::time::Duration;

use windrow_testkit::upstream::{Reply, Script, Upstream};

use crate::support::{Workdir, ended, ids, ids_of, signal};

const LINES: u64 = 12;

async fn slow() -> Upstream {
    let script = Script::always(Reply::Echo.after(Duration::from_millis(200)));
    Upstream::start(script).await.unwrap()
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "nothing else than time ends a window")]
async fn a_paused_batch_past_its_window_is_resumed_with_a_new_one() {
    let (workdir, upstream) = (Workdir::new(), slow().await);
    workdir.requests("a.jsonl", LINES);
    let to = upstream.url();
    let run = ["run", "a.jsonl", "--to", &to, "--concurrency", "1"];
    let child = workdir.spawn(&[&run[..], &["--window", "2s"]].concat());
    upstream.saw(2).await;
    assert_eq!(workdir.windrow(&["pause", "last"]).await.code, 0);
    signal(&child, "KILL").await;
    ended(child).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let refused = workdir.windrow(&["resume", "last"]).await;
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.err.contains("is past its window, which ended at 20"), "{refused:?}");
    let sent = upstream.counts().requests;
    let resumed = workdir.shell(&refused.command_after("with --window:"), &[]).await;
    assert_eq!(resumed.code, 0, "{resumed:?}");
    assert!(resumed.out.contains("is in_progress") && resumed.out.contains(" until 20"));
    assert_eq!(upstream.counts().requests, sent, "nobody works on it yet");
    upstream.set(Script::echo());
    let output = workdir.windrow(&run).await;
    assert_eq!(output.code, 0, "{output:?}");
    assert_eq!(ids(&workdir.read("a.results.jsonl")), ids_of(1..=LINES));
}

#[tokio::test]
async fn an_expired_batch_is_resumed_with_a_new_window() {
    let (workdir, upstream) = (Workdir::new(), slow().await);
    workdir.requests("a.jsonl", LINES);
    let to = upstream.url();
    let run = ["run", "a.jsonl", "--to", &to, "--concurrency", "1"];
    let expired = workdir.windrow(&[&run[..], &["--window", "1s"]].concat()).await;
    assert_eq!(expired.code, 5, "{expired:?}");
    let refused = workdir.windrow(&["resume", "last"]).await;
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.err.contains("--window 24h"), "{refused:?}");
    let resumed = workdir.windrow(&["resume", "last", "--window", "2h", "--json"]).await.json();
    assert_eq!(resumed["state"], "in_progress", "{resumed}");
    upstream.set(Script::echo());
    let output = workdir.windrow(&run).await;
    assert_eq!(output.code, 0, "{output:?}");
    assert!(upstream.keys().values().all(|times| *times == 1), "nothing finished is sent again");
}

#[tokio::test]
async fn a_cancelled_batch_is_not_resumed_but_says_how_it_goes_on() {
    let (workdir, upstream) = (Workdir::new(), slow().await);
    workdir.requests("a.jsonl", LINES);
    let to = upstream.url();
    let run = ["run", "a.jsonl", "--to", &to, "--concurrency", "1"];
    let child = workdir.spawn(&run);
    upstream.saw(1).await;
    assert_eq!(workdir.windrow(&["cancel", "last"]).await.code, 0);
    assert_eq!(ended(child).await.code, 5);
    let refused = workdir.windrow(&["resume", "last"]).await;
    assert_eq!(refused.code, 1, "{refused:?}");
    let retried = workdir.shell(&refused.command_after("to run what never ran:"), &[]).await;
    assert_eq!(retried.code, 0, "{retried:?}");
    upstream.set(Script::echo());
    let output = workdir.windrow(&run).await;
    assert_eq!(output.code, 0, "{output:?}");
    assert!(upstream.keys().values().all(|times| *times == 1), "nothing finished is sent again");
}
