//! Messages, calls and events: the commands, beside a worker that runs what they send.

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Child;
use windrow_testkit::upstream::{Reply, Script, Upstream};

use crate::support::{CommandOutput, Workdir, ended, signal};

/// Looks that are taken for something to happen. Each starts a process, so they take their time.
const LOOKS_MAX: u32 = 500;

/// A wallet, a handler of orders, and a webhook that may be gone.
fn script(is_gone: bool) -> Script {
    Script::new(move |seen| {
        let body: Value = serde_json::from_slice(&seen.body).unwrap_or_default();
        match seen.path.as_str() {
            "/wallet" if body["method"] == "overdraw" => Reply::error(422, "too little money"),
            "/wallet" => {
                let events = json!([{ "kind": "money.moved", "payload": body["args"] }]);
                Reply::json(200, json!({ "reply": body["args"], "events": events }).to_string())
            }
            "/hook" if is_gone => Reply::error(410, "no more"),
            _ => Reply::json(200, ""),
        }
    })
}

/// A desk whose worker runs messages and nothing else.
async fn workdir() -> (Workdir, Upstream, Child) {
    let (workdir, upstream) = (Workdir::new(), Upstream::start(script(true)).await.unwrap());
    let url = upstream.url();
    let config = format!(
        "[messages]\npartitions = 8\npoll_ms = 200\n[objects.wallet]\nurl = \"{url}/wallet\"\n\
         [inbox.orders]\nkinds = [\"order.*\"]\nurl = \"{url}/orders\"\n[publish.hook]\n\
         type = \"webhook\"\nurl = \"{url}/hook\"\n"
    );
    workdir.write("windrow.toml", &config);
    let output = workdir.windrow(&["migrate"]).await;
    assert_eq!(output.code, 0, "{output:?}");
    let worker = workdir.spawn(&["work"]);
    let all = |output: &CommandOutput| {
        let rows = output.json()["rows"].clone();
        let rows = rows.as_array().unwrap().clone();
        rows.len() == 8 && rows.iter().all(|row| row["is_owner_live"] == true)
    };
    until(&workdir, &["partitions", "--json"], all).await;
    (workdir, upstream, worker)
}

/// What a command says once it says what is wanted.
async fn until(
    workdir: &Workdir,
    args: &[&str],
    is_it: impl Fn(&CommandOutput) -> bool,
) -> CommandOutput {
    let mut output = workdir.windrow(args).await;
    for _ in 0..LOOKS_MAX {
        if is_it(&output) {
            return output;
        }
        output = workdir.windrow(args).await;
    }
    panic!("{args:?} still says {output:?}");
}

/// The rows of a list.
fn rows(output: &CommandOutput) -> Vec<Value> {
    output.json()["rows"].as_array().unwrap().clone()
}

async fn stop(worker: Child) {
    signal(&worker, "TERM").await;
    let output = ended(worker).await;
    assert_eq!(output.code, 0, "{output:?}");
}

#[tokio::test]
async fn an_object_is_asked_once_under_an_id_and_its_calls_are_shown() {
    let (workdir, upstream, worker) = workdir().await;
    let ask = ["call", "wallet", "7", "deposit", "{\"cents\":5}", "--id", "r1"];
    let output = workdir.windrow(&ask).await;
    assert_eq!((output.code, output.out.trim()), (0, "{\"cents\":5}"), "{output:?}");
    let requests = upstream.counts().requests;
    let again = workdir.windrow(&[&ask[..], &["--json"]].concat()).await;
    assert_eq!(again.json()["reply"]["cents"], 5);
    assert_eq!(upstream.counts().requests, requests, "a repeat asks nobody");
    let other = workdir.windrow(&["call", "wallet", "7", "deposit", "{}", "--id", "r1"]).await;
    assert_eq!(other.code, 1, "{other:?}");
    assert!(other.err.contains("this id was already used with other content"), "{other:?}");
    let failed = workdir.windrow(&["call", "wallet", "7", "overdraw", "--id", "r2"]).await;
    assert_eq!(failed.code, 1, "{failed:?}");
    assert!(
        failed.err.contains("call r2 failed") && failed.err.contains("too little"),
        "{failed:?}"
    );
    let unknown = workdir.windrow(&["call", "walet", "7", "deposit"]).await;
    assert_eq!(unknown.code, 1, "{unknown:?}");
    assert!(unknown.err.contains("the known types are wallet."), "{unknown:?}");

    let output = workdir.windrow(&["calls"]).await;
    let lines: Vec<_> = output.out.lines().collect();
    assert_eq!((output.code, lines.len()), (0, 3), "{output:?}");
    assert!(lines[1].starts_with("r2") && lines[1].contains("failed"), "{output:?}");
    assert!(lines[2].contains("wallet/7") && lines[2].contains("completed"), "{output:?}");
    let list = async |args: &[&str]| rows(&workdir.windrow(args).await).len();
    assert_eq!(list(&["calls", "list", "--state", "failed", "--json"]).await, 1);
    assert_eq!(list(&["calls", "--object", "wallet/8", "--json"]).await, 0);
    assert_eq!(list(&["calls", "--stuck", "--json"]).await, 0);
    assert_eq!(list(&["calls", "--owner", "ann", "--json"]).await, 0);
    assert_eq!(list(&["calls", "--owner", "ann", "--all", "--json"]).await, 2);
    let got = workdir.windrow(&["calls", "get", "r1", "--json"]).await.json();
    assert_eq!((&got["retry_count"], &got["args"]["cents"]), (&json!(1), &json!(5)));
    let output = workdir.windrow(&["calls", "get", "r1"]).await;
    assert!(output.out.contains("reply     {\"cents\":5}"), "{output:?}");
    let output = workdir.windrow(&["calls", "get", "r9"]).await;
    assert_eq!(output.code, 1, "{output:?}");

    let stats = workdir.windrow(&["calls", "stats", "--json"]).await.json();
    assert_eq!((&stats["rows"], &stats["failure_rate"]), (&json!(2), &json!(0.5)), "{stats}");
    let output = workdir.windrow(&["calls", "stats"]).await;
    for words in ["completed", "latency p95", "repeats per call", "50.00%"] {
        assert!(output.out.contains(words), "{words}: {output:?}");
    }
    let events = rows(&workdir.windrow(&["events", "read", "wallet/7", "--json"]).await);
    assert_eq!((events.len(), &events[0]["payload"]["cents"]), (1, &json!(5)));
    stop(worker).await;
}

#[tokio::test]
async fn what_cannot_be_published_is_a_dead_letter_until_it_is_sent_again() {
    let (workdir, upstream, worker) = workdir().await;
    for id in ["m1", "m2"] {
        let output =
            workdir.windrow(&["messages", "send", "s", "shop.opened", "{}", "--id", id]).await;
        assert_eq!(output.code, 0, "{output:?}");
        assert!(output.out.contains(&format!("Sent message {id} to the outbox")), "{output:?}");
    }
    let dead = ["dead-letters", "--json"];
    let letters = rows(&until(&workdir, &dead, |output| rows(output).len() == 2).await);
    assert_eq!(letters[1]["message"]["id"], "m1", "newest first: {letters:?}");
    let again =
        workdir.windrow(&["messages", "send", "s", "shop.opened", "{}", "--id", "m1"]).await;
    assert!(again.out.contains("was sent before"), "{again:?}");
    let output = workdir.windrow(&["dead-letters"]).await;
    assert!(output.out.contains("shop.opened") && output.out.contains("410"), "{output:?}");
    let output = workdir.windrow(&["doctor"]).await;
    assert_eq!(output.code, 0, "{output:?}");
    assert!(output.out.contains("look   messages: 2 dead letters"), "{output:?}");

    assert_eq!(workdir.windrow(&["dead-letters", "replay"]).await.code, 2, "which ones?");
    upstream.set(script(false));
    let before = upstream.seen().len();
    let output = workdir.windrow(&["dead-letters", "replay", "--every", "--stream", "s"]).await;
    assert_eq!((output.code, output.out.trim()), (0, "Replayed 2 messages."), "{output:?}");
    until(&workdir, &["messages", "--json"], |output| rows(output).is_empty()).await;
    let ids: Vec<_> = upstream.seen()[before..].iter().map(|seen| seen.key().to_owned()).collect();
    assert_eq!(ids.len(), 2);
    assert!(ids[0].ends_with("m1") && ids[1].ends_with("m2"), "in their order: {ids:?}");

    // One that nobody takes, and that nobody wants any more.
    upstream.set(script(true));
    let output = workdir.windrow(&["messages", "send", "t", "shop.closed"]).await;
    assert_eq!(output.code, 0, "{output:?}");
    let letters = rows(&until(&workdir, &dead, |output| !rows(output).is_empty()).await);
    let id = letters[0]["id"].as_str().unwrap();
    let output = workdir.windrow(&["dead-letters", "discard", id]).await;
    assert_eq!(output.out.trim(), "Discarded 1 message.");
    assert!(workdir.windrow(&["dead-letters"]).await.out.contains("No dead letters."));
    stop(worker).await;
}

#[tokio::test]
async fn the_inbox_is_handled_and_whoever_takes_part_is_listed() {
    let (workdir, upstream, worker) = workdir().await;
    let send = ["messages", "send", "o", "order.placed", "{\"no\":1}", "--to", "inbox"];
    assert_eq!(workdir.windrow(&send).await.code, 0);
    until(&workdir, &["messages", "--json"], |output| rows(output).is_empty()).await;
    let seen = upstream.seen();
    let body: Value = serde_json::from_slice(&seen[0].body).unwrap();
    assert_eq!((seen[0].path.as_str(), &body["payload"]["no"]), ("/orders", &json!(1)));
    // Not before its time, and shown until then.
    let later = [&send[..], &["--not-before", "2100-01-01T00:00:00Z", "--header", "a=b"]].concat();
    assert_eq!(workdir.windrow(&later).await.code, 0);
    let output = workdir.windrow(&["messages", "list", "--queue", "inbox"]).await;
    assert!(output.out.contains("2100-01-01") && output.out.contains("{\"no\":1}"), "{output:?}");

    let output = workdir.windrow(&["instances"]).await;
    let line = output.out.lines().find(|line| line.contains(" windrow ")).unwrap();
    let id = line.split(' ').next().unwrap().to_owned();
    let output = workdir.windrow(&["partitions"]).await;
    assert!(
        output.out.starts_with("service windrow, 8 partitions: 8 owned, 0 without"),
        "{output:?}"
    );
    assert_eq!(output.out.matches(&id).count(), 8, "{output:?}");
    stop(worker).await;
    let output = workdir.windrow(&["partitions", "--free", "--json"]).await;
    assert_eq!(rows(&output).len(), 8, "they were given back");
    assert!(workdir.windrow(&["instances"]).await.out.contains("No instances."));
    let output = workdir.windrow(&["instances", "--left"]).await;
    assert!(output.out.contains(&id), "{output:?}");
    let output = workdir.windrow(&["doctor", "--set", "messages.partitions=9"]).await;
    assert_eq!(output.code, 9, "{output:?}");
    assert!(output.out.contains("8 partitions without a live owner"), "{output:?}");
    let output = workdir.windrow(&["work", "--set", "messages.partitions=9"]).await;
    assert_eq!(output.code, 9, "{output:?}");
    assert!(output.err.contains("are not run by service"), "{output:?}");
    let other = "[messages]\npartitions = 8\n[objects.cart]\nurl = \"http://127.0.0.1:1/\"\n";
    workdir.write("windrow.toml", other);
    let output = workdir.windrow(&["doctor"]).await;
    assert!(output.out.contains("[wallet], but this configuration has [cart]"), "{output:?}");
    assert!(output.out.contains("this configuration has no publisher for them"), "{output:?}");
}

#[tokio::test]
async fn events_are_appended_read_and_followed_without_anybody_to_run_messages() {
    let workdir = Workdir::new();
    let append = ["events", "append", "wallet/7", "money.deposited", "{\"cents\":5}"];
    let output = workdir.windrow(&[&append[..], &["--expected", "0"]].concat()).await;
    assert_eq!(
        (output.code, output.out.trim()),
        (0, "Stream wallet/7 is at version 1."),
        "{output:?}"
    );
    let output = workdir.windrow(&[&append[..], &["--expected", "0"]].concat()).await;
    assert_eq!(output.code, 1, "{output:?}");
    assert!(output.err.contains("is at version 1, not at 0 as expected"), "{output:?}");
    workdir.write("big.json", "[1, 2]");
    let output = workdir.windrow(&["events", "append", "other", "listed", "@big.json"]).await;
    assert_eq!(output.code, 0, "{output:?}");

    let page = workdir.windrow(&["events", "feed", "--limit", "1", "--json"]).await.json();
    assert_eq!(page["rows"][0]["stream"], "wallet/7");
    let next = page["next"].as_str().unwrap();
    let page = workdir.windrow(&["events", "feed", "--after", next, "--json"]).await.json();
    assert_eq!(page["rows"][0]["payload"], json!([1, 2]));
    let output = workdir.windrow(&["events", "read", "nothing"]).await;
    assert_eq!(output.out.trim(), "No events.");

    let mut follower = workdir.spawn(&["events", "follow", "wallet/7", "--from", "1", "--json"]);
    let mut lines = BufReader::new(follower.stdout.take().unwrap()).lines();
    let mut version = async || {
        let line = lines.next_line().await.unwrap().unwrap();
        serde_json::from_str::<Value>(&line).unwrap()["version"].clone()
    };
    assert_eq!(version().await, 1);
    let output = workdir.windrow(&append).await;
    assert!(output.out.contains("version 2"), "{output:?}");
    assert_eq!(version().await, 2, "what comes later is shown, too");
    signal(&follower, "INT").await;
    assert_eq!(ended(follower).await.code, 0);

    // Sending needs somebody who has set messages up.
    let output = workdir.windrow(&["messages", "send", "s", "k"]).await;
    assert_eq!(output.code, 1, "{output:?}");
    assert!(output.err.contains("messages were never run on this database"), "{output:?}");
    let output = workdir.windrow(&["partitions"]).await;
    assert!(output.out.contains("Messages were never run"), "{output:?}");
}

#[tokio::test]
async fn grants_are_printed_for_postgres_alone() {
    let workdir = Workdir::new();
    let roles = ["--app", "shop", "--monitor", "eye", "--admin", "ro\"ot"];
    let output = workdir.windrow(&[&["grants"][..], &roles].concat()).await;
    assert_eq!(output.code, 2, "{output:?}");
    assert!(output.err.contains("has no roles"), "{output:?}");
    let database = ["grants", "--database", "postgres://127.0.0.1:1/d"];
    let output = workdir.windrow(&[&database[..], &roles].concat()).await;
    assert_eq!(output.code, 0, "{output:?}");
    assert!(output.out.contains("TO \"shop\", \"eye\";"), "{output:?}");
    assert!(output.out.contains("TO \"ro\"\"ot\";"), "{output:?}");
    let output = workdir.windrow(&[&database[..], &roles, &["--apply"]].concat()).await;
    assert_eq!(output.code, 1, "{output:?}");
}

#[tokio::test]
async fn what_is_wrong_with_the_tables_is_told_before_anything_runs() {
    let workdir = Workdir::new();
    for (table, words) in [
        ("[objects.a]\nurl = \"ftp://h\"\n", "the configuration of [objects.a] is not valid"),
        ("[publish.a]\ntype = \"webhook\"\nurl = { env = \"NOT_SET\" }\n", "NOT_SET, not set"),
        ("[consume.a]\ntype = \"nats\"\n", "stream must be one word"),
        ("[messages]\nunrouted = \"lost\"\n", "not one of dead_letter, keep and drop"),
        ("[messages]\nstale_ms = 100\n[objects.a]\nurl = \"http://h\"\n", "stale_ms"),
    ] {
        workdir.write("windrow.toml", table);
        let output = workdir.windrow(&["work"]).await;
        assert_eq!(output.code, 9, "{table} {output:?}");
        assert!(output.err.contains(words), "{table} {output:?}");
    }
}
