//! Messages, calls and events: the commands, beside a worker that runs what they send.

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Child;
use windrow_testkit::upstream::{Reply, Script, Upstream};

use crate::kit::{Desk, Said, ended, signal};

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
async fn desk() -> (Desk, Upstream, Child) {
    let (desk, upstream) = (Desk::new(), Upstream::start(script(true)).await.unwrap());
    let url = upstream.url();
    let config = format!(
        "[messages]\npartitions = 8\npoll_ms = 200\n[objects.wallet]\nurl = \"{url}/wallet\"\n\
         [inbox.orders]\nkinds = [\"order.*\"]\nurl = \"{url}/orders\"\n[publish.hook]\n\
         type = \"webhook\"\nurl = \"{url}/hook\"\n"
    );
    desk.write("windrow.toml", &config);
    let said = desk.windrow(&["migrate"]).await;
    assert_eq!(said.code, 0, "{said:?}");
    let worker = desk.spawn(&["work"]);
    let all = |said: &Said| {
        let rows = said.json()["rows"].clone();
        let rows = rows.as_array().unwrap().clone();
        rows.len() == 8 && rows.iter().all(|row| row["is_owner_live"] == true)
    };
    until(&desk, &["partitions", "--json"], all).await;
    (desk, upstream, worker)
}

/// What a command says once it says what is wanted.
async fn until(desk: &Desk, args: &[&str], is_it: impl Fn(&Said) -> bool) -> Said {
    let mut said = desk.windrow(args).await;
    for _ in 0..LOOKS_MAX {
        if is_it(&said) {
            return said;
        }
        said = desk.windrow(args).await;
    }
    panic!("{args:?} still says {said:?}");
}

/// The rows of a list.
fn rows(said: &Said) -> Vec<Value> {
    said.json()["rows"].as_array().unwrap().clone()
}

async fn stop(worker: Child) {
    signal(&worker, "TERM").await;
    let said = ended(worker).await;
    assert_eq!(said.code, 0, "{said:?}");
}

#[tokio::test]
async fn an_object_is_asked_once_under_an_id_and_its_calls_are_shown() {
    let (desk, upstream, worker) = desk().await;
    let ask = ["call", "wallet", "7", "deposit", "{\"cents\":5}", "--id", "r1"];
    let said = desk.windrow(&ask).await;
    assert_eq!((said.code, said.out.trim()), (0, "{\"cents\":5}"), "{said:?}");
    let requests = upstream.counts().requests;
    let again = desk.windrow(&[&ask[..], &["--json"]].concat()).await;
    assert_eq!(again.json()["reply"]["cents"], 5);
    assert_eq!(upstream.counts().requests, requests, "a repeat asks nobody");
    let other = desk.windrow(&["call", "wallet", "7", "deposit", "{}", "--id", "r1"]).await;
    assert_eq!(other.code, 1, "{other:?}");
    assert!(other.err.contains("that id was used before, for something else"), "{other:?}");
    let failed = desk.windrow(&["call", "wallet", "7", "overdraw", "--id", "r2"]).await;
    assert_eq!(failed.code, 1, "{failed:?}");
    assert!(
        failed.err.contains("call r2 failed") && failed.err.contains("too little"),
        "{failed:?}"
    );
    let unknown = desk.windrow(&["call", "walet", "7", "deposit"]).await;
    assert_eq!(unknown.code, 1, "{unknown:?}");
    assert!(unknown.err.contains("the types are wallet."), "{unknown:?}");

    let said = desk.windrow(&["calls"]).await;
    let lines: Vec<_> = said.out.lines().collect();
    assert_eq!((said.code, lines.len()), (0, 3), "{said:?}");
    assert!(lines[1].starts_with("r2") && lines[1].contains("failed"), "{said:?}");
    assert!(lines[2].contains("wallet/7") && lines[2].contains("completed"), "{said:?}");
    let list = async |args: &[&str]| rows(&desk.windrow(args).await).len();
    assert_eq!(list(&["calls", "list", "--state", "failed", "--json"]).await, 1);
    assert_eq!(list(&["calls", "--object", "wallet/8", "--json"]).await, 0);
    assert_eq!(list(&["calls", "--stuck", "--json"]).await, 0);
    assert_eq!(list(&["calls", "--owner", "ann", "--json"]).await, 0);
    assert_eq!(list(&["calls", "--owner", "ann", "--all", "--json"]).await, 2);
    let got = desk.windrow(&["calls", "get", "r1", "--json"]).await.json();
    assert_eq!((&got["retry_count"], &got["args"]["cents"]), (&json!(1), &json!(5)));
    let said = desk.windrow(&["calls", "get", "r1"]).await;
    assert!(said.out.contains("reply     {\"cents\":5}"), "{said:?}");
    let said = desk.windrow(&["calls", "get", "r9"]).await;
    assert_eq!(said.code, 1, "{said:?}");

    let stats = desk.windrow(&["calls", "stats", "--json"]).await.json();
    assert_eq!((&stats["rows"], &stats["failure_rate"]), (&json!(2), &json!(0.5)), "{stats}");
    let said = desk.windrow(&["calls", "stats"]).await;
    for words in ["completed", "answered in, p95", "repeats a call", "50.00%"] {
        assert!(said.out.contains(words), "{words}: {said:?}");
    }
    let events = rows(&desk.windrow(&["events", "read", "wallet/7", "--json"]).await);
    assert_eq!((events.len(), &events[0]["payload"]["cents"]), (1, &json!(5)));
    stop(worker).await;
}

#[tokio::test]
async fn what_cannot_be_published_is_a_dead_letter_until_it_is_sent_again() {
    let (desk, upstream, worker) = desk().await;
    for id in ["m1", "m2"] {
        let said = desk.windrow(&["messages", "send", "s", "shop.opened", "{}", "--id", id]).await;
        assert_eq!(said.code, 0, "{said:?}");
        assert!(said.out.contains(&format!("Sent message {id} to the outbox")), "{said:?}");
    }
    let dead = ["dead-letters", "--json"];
    let letters = rows(&until(&desk, &dead, |said| rows(said).len() == 2).await);
    assert_eq!(letters[1]["message"]["id"], "m1", "newest first: {letters:?}");
    let again = desk.windrow(&["messages", "send", "s", "shop.opened", "{}", "--id", "m1"]).await;
    assert!(again.out.contains("was there before"), "{again:?}");
    let said = desk.windrow(&["dead-letters"]).await;
    assert!(said.out.contains("shop.opened") && said.out.contains("410"), "{said:?}");
    let said = desk.windrow(&["doctor"]).await;
    assert_eq!(said.code, 0, "{said:?}");
    assert!(said.out.contains("look   messages: 2 dead letters"), "{said:?}");

    assert_eq!(desk.windrow(&["dead-letters", "replay"]).await.code, 2, "which ones?");
    upstream.set(script(false));
    let before = upstream.seen().len();
    let said = desk.windrow(&["dead-letters", "replay", "--every", "--stream", "s"]).await;
    assert_eq!((said.code, said.out.trim()), (0, "Sent 2 messages again."), "{said:?}");
    until(&desk, &["messages", "--json"], |said| rows(said).is_empty()).await;
    let ids: Vec<_> = upstream.seen()[before..].iter().map(|seen| seen.key().to_owned()).collect();
    assert_eq!(ids.len(), 2);
    assert!(ids[0].ends_with("m1") && ids[1].ends_with("m2"), "in their order: {ids:?}");

    // One that nobody takes, and that nobody wants any more.
    upstream.set(script(true));
    let said = desk.windrow(&["messages", "send", "t", "shop.closed"]).await;
    assert_eq!(said.code, 0, "{said:?}");
    let letters = rows(&until(&desk, &dead, |said| !rows(said).is_empty()).await);
    let id = letters[0]["id"].as_str().unwrap();
    let said = desk.windrow(&["dead-letters", "discard", id]).await;
    assert_eq!(said.out.trim(), "Forgot 1 messages.");
    assert!(desk.windrow(&["dead-letters"]).await.out.contains("No dead letters."));
    stop(worker).await;
}

#[tokio::test]
async fn the_inbox_is_handled_and_whoever_takes_part_is_listed() {
    let (desk, upstream, worker) = desk().await;
    let send = ["messages", "send", "o", "order.placed", "{\"no\":1}", "--to", "inbox"];
    assert_eq!(desk.windrow(&send).await.code, 0);
    until(&desk, &["messages", "--json"], |said| rows(said).is_empty()).await;
    let seen = upstream.seen();
    let body: Value = serde_json::from_slice(&seen[0].body).unwrap();
    assert_eq!((seen[0].path.as_str(), &body["payload"]["no"]), ("/orders", &json!(1)));
    // Not before its time, and shown until then.
    let later = [&send[..], &["--not-before", "2100-01-01T00:00:00Z", "--header", "a=b"]].concat();
    assert_eq!(desk.windrow(&later).await.code, 0);
    let said = desk.windrow(&["messages", "list", "--queue", "inbox"]).await;
    assert!(said.out.contains("2100-01-01") && said.out.contains("{\"no\":1}"), "{said:?}");

    let said = desk.windrow(&["instances"]).await;
    let line = said.out.lines().find(|line| line.contains(" windrow ")).unwrap();
    let id = line.split(' ').next().unwrap().to_owned();
    let said = desk.windrow(&["partitions"]).await;
    assert!(said.out.starts_with("service windrow, 8 partitions: 8 run, 0 without"), "{said:?}");
    assert_eq!(said.out.matches(&id).count(), 8, "{said:?}");
    stop(worker).await;
    let said = desk.windrow(&["partitions", "--free", "--json"]).await;
    assert_eq!(rows(&said).len(), 8, "they were given back");
    assert!(desk.windrow(&["instances"]).await.out.contains("No instances."));
    let said = desk.windrow(&["instances", "--left"]).await;
    assert!(said.out.contains(&id), "{said:?}");
    let said = desk.windrow(&["doctor", "--set", "messages.partitions=9"]).await;
    assert_eq!(said.code, 9, "{said:?}");
    assert!(said.out.contains("nobody runs 8 partitions"), "{said:?}");
    let said = desk.windrow(&["work", "--set", "messages.partitions=9"]).await;
    assert_eq!(said.code, 9, "{said:?}");
    assert!(said.err.contains("are run otherwise than by"), "{said:?}");
    let other = "[messages]\npartitions = 8\n[objects.cart]\nurl = \"http://127.0.0.1:1/\"\n";
    desk.write("windrow.toml", other);
    let said = desk.windrow(&["doctor"]).await;
    assert!(said.out.contains("[wallet], and this configuration [cart]"), "{said:?}");
    assert!(said.out.contains("this configuration has no publisher for them"), "{said:?}");
}

#[tokio::test]
async fn events_are_appended_read_and_followed_without_anybody_to_run_messages() {
    let desk = Desk::new();
    let append = ["events", "append", "wallet/7", "money.deposited", "{\"cents\":5}"];
    let said = desk.windrow(&[&append[..], &["--expected", "0"]].concat()).await;
    assert_eq!((said.code, said.out.trim()), (0, "Stream wallet/7 is at version 1."), "{said:?}");
    let said = desk.windrow(&[&append[..], &["--expected", "0"]].concat()).await;
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.err.contains("is at version 1, not at 0 as expected"), "{said:?}");
    desk.write("big.json", "[1, 2]");
    let said = desk.windrow(&["events", "append", "other", "listed", "@big.json"]).await;
    assert_eq!(said.code, 0, "{said:?}");

    let page = desk.windrow(&["events", "feed", "--limit", "1", "--json"]).await.json();
    assert_eq!(page["rows"][0]["stream"], "wallet/7");
    let next = page["next"].as_str().unwrap();
    let page = desk.windrow(&["events", "feed", "--after", next, "--json"]).await.json();
    assert_eq!(page["rows"][0]["payload"], json!([1, 2]));
    let said = desk.windrow(&["events", "read", "nothing"]).await;
    assert_eq!(said.out.trim(), "No events.");

    let mut follower = desk.spawn(&["events", "follow", "wallet/7", "--from", "1", "--json"]);
    let mut lines = BufReader::new(follower.stdout.take().unwrap()).lines();
    let mut version = async || {
        let line = lines.next_line().await.unwrap().unwrap();
        serde_json::from_str::<Value>(&line).unwrap()["version"].clone()
    };
    assert_eq!(version().await, 1);
    let said = desk.windrow(&append).await;
    assert!(said.out.contains("version 2"), "{said:?}");
    assert_eq!(version().await, 2, "what comes later is shown, too");
    signal(&follower, "INT").await;
    assert_eq!(ended(follower).await.code, 0);

    // Sending needs somebody who has set messages up.
    let said = desk.windrow(&["messages", "send", "s", "k"]).await;
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.err.contains("nobody has run messages on this database yet"), "{said:?}");
    let said = desk.windrow(&["partitions"]).await;
    assert!(said.out.contains("Nobody has run messages"), "{said:?}");
}

#[tokio::test]
async fn grants_are_printed_for_postgres_alone() {
    let desk = Desk::new();
    let roles = ["--app", "shop", "--monitor", "eye", "--admin", "ro\"ot"];
    let said = desk.windrow(&[&["grants"][..], &roles].concat()).await;
    assert_eq!(said.code, 2, "{said:?}");
    assert!(said.err.contains("has no roles"), "{said:?}");
    let database = ["grants", "--database", "postgres://127.0.0.1:1/d"];
    let said = desk.windrow(&[&database[..], &roles].concat()).await;
    assert_eq!(said.code, 0, "{said:?}");
    assert!(said.out.contains("TO \"shop\", \"eye\";"), "{said:?}");
    assert!(said.out.contains("TO \"ro\"\"ot\";"), "{said:?}");
    let said = desk.windrow(&[&database[..], &roles, &["--apply"]].concat()).await;
    assert_eq!(said.code, 1, "{said:?}");
}

#[tokio::test]
async fn what_is_wrong_with_the_tables_is_told_before_anything_runs() {
    let desk = Desk::new();
    for (table, words) in [
        ("[objects.a]\nurl = \"ftp://h\"\n", "[objects.a] cannot be used as it is configured"),
        ("[publish.a]\ntype = \"webhook\"\nurl = { env = \"NOT_SET\" }\n", "NOT_SET, not set"),
        ("[consume.a]\ntype = \"nats\"\n", "stream must be one word"),
        ("[messages]\nunrouted = \"lost\"\n", "none of dead_letter, keep and drop"),
        ("[messages]\nstale_ms = 100\n[objects.a]\nurl = \"http://h\"\n", "stale_ms"),
    ] {
        desk.write("windrow.toml", table);
        let said = desk.windrow(&["work"]).await;
        assert_eq!(said.code, 9, "{table} {said:?}");
        assert!(said.err.contains(words), "{table} {said:?}");
    }
}
