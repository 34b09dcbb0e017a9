//! Calls that end otherwise than by an answer, calls from a file, and processes that serve different things.

use serde_json::{Value, json};
use tokio::process::Child;
use windrow_testkit::upstream::{Reply, Script, Upstream};

use crate::support::{CommandOutput, Workdir, ended, signal};

/// Looks that are taken for something to happen. Each starts a process, so they take their time.
const LOOKS_MAX: u32 = 500;
/// Calls of the type that one process of two serves: enough for both to own some of them.
const INVOICES: usize = 24;

/// Objects that answer with their arguments, and one that is not there now.
fn script() -> Script {
    Script::new(|seen| {
        let body: Value = serde_json::from_slice(&seen.body).unwrap_or_default();
        match seen.path.as_str() {
            "/away" => Reply::error(503, "not now"),
            "/broken" => Reply::error(500, "broken"),
            "/gone" => Reply::error(410, "no more"),
            "/wallet" | "/invoice" => {
                Reply::json(200, json!({ "reply": body["args"] }).to_string())
            }
            _ => Reply::json(200, "{}"),
        }
    })
}

const MESSAGES: &str = "[messages]\npartitions = 8\npoll_ms = 100\nheartbeat_ms = 100\n\
                        stale_ms = 5000\nbackoff_ms_min = 1\nbackoff_ms_max = 20\n";

/// A folder with a worker that has these tables.
async fn workdir(tables: &[(&str, &str)]) -> (Workdir, Upstream, Child) {
    let (workdir, upstream) = (Workdir::new(), Upstream::start(script()).await.unwrap());
    configure(&workdir, "windrow.toml", &upstream, tables);
    assert_eq!(workdir.windrow(&["migrate"]).await.code, 0);
    let worker = workdir.spawn(&["work"]);
    owned(&workdir, 1).await;
    (workdir, upstream, worker)
}

fn configure(workdir: &Workdir, name: &str, upstream: &Upstream, tables: &[(&str, &str)]) {
    let mut config = MESSAGES.to_owned();
    for (table, path) in tables {
        let kind = if table.starts_with("publish") { "type = \"webhook\"\n" } else { "" };
        config += &format!("[{table}]\n{kind}url = \"{}{path}\"\n", upstream.url());
    }
    workdir.write(name, &config);
}

/// Waits until so many processes own all partitions together.
async fn owned(workdir: &Workdir, owners: usize) {
    let all = |output: &CommandOutput| {
        let rows = rows(output);
        let mut instances: Vec<_> = rows.iter().map(|row| row["instance"].to_string()).collect();
        instances.sort_unstable();
        instances.dedup();
        let live = rows.iter().all(|row| row["is_owner_live"] == true);
        rows.len() == 8 && live && instances.len() == owners
    };
    until(workdir, &["partitions", "--json"], all).await;
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

fn rows(output: &CommandOutput) -> Vec<Value> {
    output.json()["rows"].as_array().unwrap().clone()
}

async fn stop(worker: Child) -> CommandOutput {
    signal(&worker, "TERM").await;
    let output = ended(worker).await;
    assert_eq!(output.code, 0, "{output:?}");
    output
}

#[tokio::test]
async fn a_call_that_waits_until_its_time_is_over_fails_and_stays_failed() {
    let (workdir, upstream, worker) = workdir(&[("objects.away", "/away")]).await;
    let ask = ["call", "away", "7", "add", "{}", "--id", "r1", "--expires", "1", "--wait", "60"];
    let first = workdir.windrow(&ask).await;
    assert_eq!(first.code, 1, "{first:?}");
    assert!(first.err.contains("call r1 failed: expired: its time was over"), "{first:?}");
    assert!(first.err.contains("503"), "the last error is said: {first:?}");
    let asked = upstream.counts().requests;
    assert!(asked >= 1);
    let again = workdir.windrow(&ask).await;
    assert_eq!((again.code, again.err), (1, first.err));
    let call = workdir.windrow(&["calls", "get", "r1", "--json"]).await.json();
    assert_eq!((&call["state"], &call["retry_count"]), (&json!("failed"), &json!(1)), "{call}");
    assert!(rows(&workdir.windrow(&["messages", "--json"]).await).is_empty());
    stop(worker).await;
    assert_eq!(upstream.counts().requests, asked, "it is not run any more");
}

#[tokio::test]
async fn a_call_that_waits_is_cancelled_and_whoever_waits_for_it_is_told() {
    let tables = [("objects.away", "/away"), ("objects.wallet", "/wallet")];
    let (workdir, _upstream, worker) = workdir(&tables).await;
    let waits = workdir.spawn(&["call", "away", "7", "add", "--id", "r1", "--wait", "3600"]);
    let listed = ["calls", "list", "--state", "pending,processing", "--json"];
    until(&workdir, &listed, |output| rows(output).len() == 1).await;
    let output = workdir.windrow(&["calls", "cancel", "r1", "--reason", "a typo"]).await;
    assert_eq!(
        (output.code, output.out.trim()),
        (0, "call r1 of away/7 is cancelled"),
        "{output:?}"
    );
    let told = ended(waits).await;
    assert_eq!(told.code, 1, "{told:?}");
    assert!(told.err.contains("call r1 failed: cancelled: a typo"), "{told:?}");
    let again = workdir.windrow(&["calls", "cancel", "r1", "--json"]).await;
    assert_eq!((again.code, &again.json()["error"]), (0, &json!("cancelled: a typo")));
    assert!(rows(&workdir.windrow(&["messages", "--json"]).await).is_empty());

    let output = workdir.windrow(&["call", "wallet", "7", "add", "5", "--id", "r2"]).await;
    assert_eq!((output.code, output.out.trim()), (0, "5"), "{output:?}");
    let output = workdir.windrow(&["calls", "cancel", "r2"]).await;
    assert_eq!(output.code, 1, "{output:?}");
    assert!(output.err.contains("call r2 has its answer and keeps it"), "{output:?}");
    assert_eq!(workdir.windrow(&["calls", "cancel", "r9"]).await.code, 1);
    stop(worker).await;
}

#[tokio::test]
async fn calls_of_a_type_that_only_one_of_two_processes_serves_wait_for_it_and_none_fails() {
    let old = [("objects.wallet", "/wallet")];
    let (workdir, upstream, first) = workdir(&old).await;
    let new = [("objects.wallet", "/wallet"), ("objects.invoice", "/invoice")];
    configure(&workdir, "new.toml", &upstream, &new);
    let second = workdir.spawn(&["work", "--config", "new.toml"]);
    owned(&workdir, 2).await;
    let lines: Vec<String> = (0..INVOICES)
        .map(|no| {
            let call = json!({ "id": format!("i{no}"), "object_type": "invoice",
                "object_id": no.to_string(), "method": "send", "args": no });
            call.to_string()
        })
        .collect();
    workdir.write("calls.jsonl", &lines.join("\n"));
    let output = workdir.windrow(&["call", "--file", "calls.jsonl"]).await;
    assert_eq!(output.code, 0, "{output:?}");
    // Those of the partitions that the new process owns are answered, and the others wait.
    let waiting = |output: &CommandOutput| {
        let waiting = rows(output);
        let put_off =
            |row: &Value| row["error"].as_str().is_some_and(|error| error.contains("waits"));
        !waiting.is_empty() && waiting.len() < INVOICES && waiting.iter().all(put_off)
    };
    let output = until(&workdir, &["messages", "--limit", "1000", "--json"], waiting).await;
    for message in rows(&output) {
        assert_eq!(message["attempts"], 0, "{message}");
    }
    let doctor = workdir.windrow(&["doctor"]).await;
    let pid = |child: &Child| format!("(pid {})", child.id().unwrap());
    let line = doctor.out.lines().find(|line| line.contains("object type invoice")).unwrap();
    let (with, without) = line.split_once("but not by").unwrap();
    assert!(with.contains(&pid(&second)) && without.contains(&pid(&first)), "{line}");
    assert!(!doctor.out.contains("object type wallet"), "{doctor:?}");

    let old = stop(first).await;
    assert!(old.err.contains("no handler for objects invoice"), "{old:?}");
    let done = ["calls", "list", "--state", "completed", "--limit", "1000", "--json"];
    until(&workdir, &done, |output| rows(output).len() == INVOICES).await;
    // What nobody serves fails: the type is unknown once the process that had it is gone.
    stop(second).await;
}

#[tokio::test]
async fn messages_about_batches_without_a_publisher_are_dropped() {
    let with_hook = [("objects.wallet", "/wallet"), ("publish.hook", "/hook")];
    let (workdir, upstream, first) = workdir(&with_hook).await;
    configure(&workdir, "objects.toml", &upstream, &[("objects.wallet", "/wallet")]);
    let second = workdir.spawn(&["work", "--config", "objects.toml"]);
    owned(&workdir, 2).await;
    stop(first).await;
    owned(&workdir, 1).await;
    workdir.requests("in.jsonl", 3);
    let run = ["run", "in.jsonl", "--to", &upstream.url(), "--config", "objects.toml"];
    let output = workdir.windrow(&run).await;
    assert_eq!(output.code, 0, "{output:?}");
    let kinds = rows(&workdir.windrow(&["events", "feed", "--json"]).await);
    assert!(kinds.iter().any(|event| event["kind"] == "batch.completed"), "it was told: {kinds:?}");
    until(&workdir, &["messages", "--json"], |output| rows(output).is_empty()).await;
    let dead = rows(&workdir.windrow(&["dead-letters", "--all", "--json"]).await);
    assert!(dead.is_empty(), "{dead:?}");
    stop(second).await;
}

/// "pending" alone does not say whether anything is wrong.
#[tokio::test]
async fn a_call_whose_handler_is_away_says_why_it_waits_and_since_when() {
    let (workdir, _upstream, worker) = workdir(&[("objects.away", "/away")]).await;
    for id in ["r1", "r2"] {
        let ask = ["call", "away", "7", "add", "{}", "--id", id, "--wait", "0"];
        workdir.windrow(&ask).await;
    }
    let get = ["calls", "get", "r1", "--json"];
    let failed = |output: &CommandOutput| output.json()["waiting"]["reason"].is_string();
    let call = until(&workdir, &get, failed).await.json();
    let waiting = &call["waiting"];
    assert!(waiting["reason"].as_str().unwrap().contains("503"), "{call}");
    assert_eq!(waiting["since"], call["created_at"]);
    assert_eq!(waiting["behind"], Value::Null);
    let shown = workdir.windrow(&["calls", "get", "r1"]).await.out;
    let line = shown.lines().find(|line| line.starts_with("waits")).unwrap();
    assert!(line.contains("since 20") && line.contains("503"), "{shown}");
    let second = workdir.windrow(&["calls", "get", "r2", "--json"]).await.json();
    assert_eq!(second["waiting"]["behind"], "r1", "{second}");
    stop(worker).await;
}

#[tokio::test]
async fn a_dead_letter_says_how_often_it_was_tried() {
    for (path, attempts) in [("/broken", 5), ("/gone", 1)] {
        let (workdir, upstream, worker) = workdir(&[("publish.hook", path)]).await;
        let output = workdir.windrow(&["messages", "send", "s", "shop.opened", "{}"]).await;
        assert_eq!(output.code, 0, "{output:?}");
        let dead = ["dead-letters", "--json"];
        let letters = rows(&until(&workdir, &dead, |output| !rows(output).is_empty()).await);
        assert_eq!(letters[0]["message"]["attempts"], attempts, "{letters:?}");
        assert_eq!(upstream.seen().len(), attempts, "as often as it was posted");
        let shown = workdir.windrow(&["dead-letters"]).await.out;
        let line = shown.lines().nth(1).unwrap();
        assert!(line.contains(&format!(" {attempts}  ")), "{shown}");
        stop(worker).await;
    }
}

#[tokio::test]
async fn calls_come_from_a_file_and_those_repeated_again_and_again_are_listed() {
    let (workdir, _upstream, worker) = workdir(&[("objects.wallet", "/wallet")]).await;
    let line = |no: u32| {
        format!(
            "{{\"id\":\"r{no}\",\"object_type\":\"wallet\",\"object_id\":\"{no}\",\"method\":\"add\",\"args\":{no}}}\n"
        )
    };
    workdir.write("calls.jsonl", &(0..1500).map(line).collect::<String>());
    let output = workdir.windrow(&["call", "--file", "calls.jsonl", "--json"]).await;
    assert_eq!(output.json(), json!({ "submitted": 1500, "repeats": 0 }), "{output:?}");
    workdir.write("few.jsonl", &(0..3).map(line).collect::<String>());
    for _ in 0..4 {
        let output = workdir.windrow(&["call", "--file", "few.jsonl", "--json"]).await;
        assert_eq!(output.json(), json!({ "submitted": 0, "repeats": 3 }), "{output:?}");
    }
    let done = ["calls", "stats", "--json"];
    let all = |output: &CommandOutput| output.json()["by_state"] == json!([["completed", 1500]]);
    until(&workdir, &done, all).await;
    let output = workdir.windrow(&["calls", "retries", "--json"]).await;
    assert_eq!(output.json().as_array().unwrap().len(), 3, "{output:?}");
    assert_eq!(output.json()[0]["retries_max"], 4);
    let output = workdir.windrow(&["calls", "retries"]).await;
    assert!(output.out.contains("wallet/0") && output.out.contains("4.00"), "{output:?}");
    let output = workdir.windrow(&["calls", "retries", "--above", "4"]).await;
    assert_eq!(output.out.trim(), "No call was repeated more than 4 times.");
    workdir.write("bad.jsonl", &format!("{}{{\"object_type\": 1}}\n", line(1)));
    let output = workdir.windrow(&["call", "--file", "bad.jsonl"]).await;
    assert_eq!(output.code, 3, "{output:?}");
    assert!(output.err.contains("line 2 of bad.jsonl is not a call"), "{output:?}");
    stop(worker).await;
}
