//! Snapshots of streams: kept, read, and relied on when old events are pruned.

use serde_json::json;
use windrow_testkit::upstream::{Script, Upstream};

use crate::support::{CommandOutput, Workdir, ended, signal};

/// How often a command is repeated until it prints what is wanted. Each starts a process.
const REPEATS_MAX: u32 = 500;

async fn append(workdir: &Workdir, events: u64) {
    for _ in 0..events {
        let args = ["events", "append", "wallet/7", "money.deposited", "{\"cents\":5}"];
        assert_eq!(workdir.windrow(&args).await.code, 0);
    }
}

async fn put(workdir: &Workdir, version: &str, state: &str) -> CommandOutput {
    let args = ["events", "snapshot", "wallet/7", "--put", state, "--version", version];
    workdir.windrow(&args).await
}

#[tokio::test]
async fn a_snapshot_is_kept_shown_and_never_replaced_by_an_older_one() {
    let workdir = Workdir::new();
    append(&workdir, 3).await;
    let show = ["events", "snapshot", "wallet/7"];
    let output = workdir.windrow(&show).await;
    assert_eq!(output.code, 1, "{output:?}");
    assert!(output.err.contains("stream wallet/7 has no snapshot"), "{output:?}");
    let output = put(&workdir, "2", "{\"cents\":10}").await;
    assert_eq!(output.out.trim(), "Stream wallet/7 has a snapshot at version 2.", "{output:?}");
    let output = put(&workdir, "1", "{\"cents\":5}").await;
    assert!(output.out.contains("keeps its newer snapshot, at version 2"), "{output:?}");
    let output = workdir.windrow(&show).await;
    assert_eq!(output.out.trim(), "Version 2: {\"cents\":10}", "{output:?}");
    let value = workdir.windrow(&[&show[..], &["--json"]].concat()).await.json();
    assert_eq!(value, json!({ "stream": "wallet/7", "version": 2, "state": { "cents": 10 } }));

    let output = put(&workdir, "4", "{}").await;
    assert_eq!(output.code, 1, "{output:?}");
    assert!(output.err.contains("stream wallet/7 has no version 4"), "{output:?}");
    assert_eq!(workdir.windrow(&[&show[..], &["--put", "{}"]].concat()).await.code, 2);
    assert_eq!(workdir.windrow(&[&show[..], &["--version", "1"]].concat()).await.code, 2);
    let other = workdir.windrow(&[&show[..], &["--owner", "ann"]].concat()).await;
    assert_eq!(other.code, 1, "another owner has none: {other:?}");
}

#[tokio::test]
async fn events_behind_a_snapshot_are_pruned_and_the_stream_is_read_from_the_snapshot_on() {
    let (workdir, upstream) = (Workdir::new(), Upstream::start(Script::echo()).await.unwrap());
    let config = format!(
        "[messages]\npartitions = 4\npoll_ms = 100\nretention_event_secs = 1\nupkeep_ms = 1000\n\
         [objects.wallet]\nurl = \"{}/wallet\"\n",
        upstream.url()
    );
    workdir.write("windrow.toml", &config);
    append(&workdir, 5).await;
    let other = ["events", "append", "other", "kept.whole", "{}"];
    assert_eq!(workdir.windrow(&other).await.code, 0);
    assert_eq!(put(&workdir, "3", "{\"cents\":15}").await.code, 0);

    let worker = workdir.spawn(&["work"]);
    let read = ["events", "read", "wallet/7"];
    let mut output = workdir.windrow(&read).await;
    // Events grow old one by one, so they may be pruned in several rounds.
    for _ in 0..REPEATS_MAX {
        if output.err.contains("before version 4") {
            break;
        }
        output = workdir.windrow(&read).await;
    }
    assert_eq!(output.code, 1, "{output:?}");
    assert!(
        output.err.contains("events of this stream before version 4 were pruned"),
        "{output:?}"
    );
    assert!(output.err.contains("windrow events snapshot wallet/7"), "{output:?}");
    assert!(output.err.contains("--from 4"), "{output:?}");

    let snapshot = workdir.windrow(&["events", "snapshot", "wallet/7", "--json"]).await.json();
    assert_eq!((&snapshot["version"], &snapshot["state"]["cents"]), (&json!(3), &json!(15)));
    let rest = workdir.windrow(&[&read[..], &["--from", "4", "--json"]].concat()).await.json();
    let versions: Vec<_> =
        rest["rows"].as_array().unwrap().iter().map(|event| event["version"].clone()).collect();
    assert_eq!(versions, [4, 5], "what the snapshot does not include stays");
    append(&workdir, 1).await;
    let rest = workdir.windrow(&[&read[..], &["--from", "6", "--json"]].concat()).await.json();
    assert_eq!(rest["rows"].as_array().unwrap().len(), 1, "versions go on");
    let other = workdir.windrow(&["events", "read", "other", "--json"]).await.json();
    assert_eq!(other["rows"].as_array().unwrap().len(), 1, "without a snapshot nothing goes");
    signal(&worker, "TERM").await;
    assert_eq!(ended(worker).await.code, 0);
}
