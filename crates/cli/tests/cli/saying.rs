//! What commands say, accept and return: usage errors as JSON, lists that go on, numbers and addresses as
//! people write them, and nothing that is not true.

use serde_json::Value;
use windrow_testkit::postgres::Database;
use windrow_testkit::upstream::{Script, Upstream};

use crate::support::{CommandOutput, Workdir, exists};

fn error(output: &CommandOutput) -> Value {
    let value: Value =
        serde_json::from_str(output.err.trim()).unwrap_or_else(|why| panic!("{why}: {output:?}"));
    value["error"].clone()
}

#[tokio::test]
async fn with_json_every_error_is_json() {
    let workdir = Workdir::new();
    for args in [
        &["run", "--json"][..],
        &["status", "zzzz", "--json"],
        &["--json", "nonsense"],
        &["batches", "--limit", "0", "--json"],
    ] {
        let output = workdir.windrow(args).await;
        assert_eq!(output.code, 2, "{output:?}");
        let error = error(&output);
        assert_eq!((&error["code"], &error["exit_code"]), (&"usage".into(), &2.into()), "{error}");
        assert!(!error["message"].as_str().unwrap().is_empty(), "{error}");
        assert!(!error["what_to_do"].as_str().unwrap().is_empty(), "{error}");
    }
    let help = workdir.windrow(&["run", "--help", "--json"]).await;
    assert!(help.code == 0 && help.out.contains("--fresh"), "{help:?}");
}

#[tokio::test]
async fn every_error_of_an_invalid_file_can_be_read() {
    let (workdir, upstream) = (Workdir::new(), Upstream::start(Script::echo()).await.unwrap());
    workdir.write("a.jsonl", &"{\"oops\"\n".repeat(44));
    let args = ["run", "a.jsonl", "--to", &upstream.url()];
    let output = workdir.windrow(&args).await;
    assert_eq!(output.code, 3, "{output:?}");
    assert!(output.err.contains("44 errors") && output.err.contains("… and 24 more"), "{output:?}");
    assert!(output.err.contains("--json"), "{output:?}");
    let told = error(&workdir.windrow(&[&args[..], &["--json"]].concat()).await);
    assert_eq!(told["errors"].as_array().unwrap().len(), 44, "{told}");
    assert_eq!((&told["errors_total"], &told["errors"][43]["line"]), (&44.into(), &44.into()));
    assert!(!told["message"].as_str().unwrap().contains('\n'), "{told}");

    workdir.write("a.jsonl", "{\"oops\"\n");
    let output = workdir.windrow(&["ingest", "a.jsonl"]).await;
    assert!(output.out.contains("does not validate: 1 error."), "{output:?}");
    let show = output.command_after("To see all that is kept");
    let shown = workdir.shell(&show, &[]).await.json();
    assert_eq!(shown["errors"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_summary_is_json_within_json_no_more() {
    let (workdir, upstream) = (Workdir::new(), Upstream::start(Script::echo()).await.unwrap());
    workdir.requests("a.jsonl", 3);
    assert_eq!(workdir.windrow(&["run", "a.jsonl", "--to", &upstream.url()]).await.code, 0);
    let rows = workdir.windrow(&["batches", "--json"]).await.json();
    assert!(rows["rows"][0]["summary"]["output"].is_object(), "{rows}");
}

#[tokio::test]
async fn a_reader_that_goes_away_is_no_error() {
    let (workdir, upstream) = (Workdir::new(), Upstream::start(Script::echo()).await.unwrap());
    workdir.requests("a.jsonl", 3000);
    assert_eq!(workdir.windrow(&["run", "a.jsonl", "--to", &upstream.url()]).await.code, 0);
    for command in ["results last", "results last --errors", "export last --format csv"] {
        let line = format!("(windrow {command}; echo \"code $?\" >&2) | head -n 1");
        let output = workdir.shell(&line, &[]).await;
        assert_eq!(output.err.trim(), "code 0", "{command}: {output:?}");
    }
}

#[tokio::test]
async fn ids_of_the_api_are_taken_and_short_or_wrong_ones_are_told_why() {
    let workdir = Workdir::new();
    workdir.requests("a.jsonl", 3);
    let made = workdir.windrow(&["ingest", "a.jsonl", "--batch", "--json"]).await.json();
    let id = made["batch"]["id"].as_str().unwrap();
    let api = format!("batch_{}", id.replace('-', ""));
    let status = workdir.windrow(&["status", &api, "--json"]).await.json();
    assert_eq!(status["batch"]["id"], id);
    assert_eq!(workdir.windrow(&["status", "LAST"]).await.code, 0);
    for (given, why) in [("zzzz", "is in no batch id"), ("ab", "too short")] {
        let output = workdir.windrow(&["status", given]).await;
        assert!(output.code == 2 && output.err.contains(why), "{output:?}");
    }
}

#[tokio::test]
async fn a_command_that_reads_creates_and_migrates_nothing() {
    let workdir = Workdir::new();
    workdir.write("empty.db", "");
    for command in ["batches", "files", "doctor"] {
        let output = workdir.windrow(&[command, "--database", "empty.db"]).await;
        assert_eq!(output.code, 1, "{output:?}");
        assert!(output.err.contains("has no Windrow schema yet"), "{output:?}");
    }
    assert_eq!(std::fs::metadata(workdir.path("empty.db")).unwrap().len(), 0, "it is still empty");
    let output = workdir.windrow(&["batches", "--database", "empty.db"]).await;
    let migrate = output.command_after("bring it up to date: ");
    assert_eq!(workdir.shell(&migrate, &[]).await.code, 0, "{migrate}");
    assert_eq!(workdir.windrow(&["batches", "--database", "empty.db"]).await.code, 0);
}

#[tokio::test]
async fn values_are_taken_as_people_write_them_and_refused_in_words() {
    let workdir = Workdir::new();
    workdir.requests("a.jsonl", 1);
    let to = "http://127.0.0.1:1";
    for (args, wanted) in [
        (&["run", "a.jsonl", "--to", to, "--window", "5"][..], "Give a unit: 5s"),
        (&["run", "a.jsonl", "--to", to, "--concurrency", "0"], "a whole number from 1 to 100,000"),
        (&["calls", "stats", "--window", "0"], "a whole number, at least 1"),
        (&["keys", "revoke", "nonsense"], "not the id of a key"),
        (&["dead-letters", "replay", "nonsense"], "not the id of a dead letter"),
        (&["serve", "--listen", "here"], "an address with a port"),
    ] {
        let output = workdir.windrow(args).await;
        assert!(output.code == 2 && output.err.contains(wanted), "{args:?}: {output:?}");
    }
    let secret = "sk-proj-very-secret";
    let output = workdir.windrow(&["run", "a.jsonl", "--to", to, "--api-key-env", secret]).await;
    assert_eq!(output.code, 9, "{output:?}");
    assert!(
        output.err.contains("not the key itself") && !output.err.contains(secret),
        "{output:?}"
    );
    let output = workdir.windrow(&["run", "none.jsonl", "--to", to]).await;
    assert!(output.err.contains("What to do: check the path"), "{output:?}");
    assert!(!exists(workdir.path("home")), "nothing was made");
}

#[tokio::test]
async fn help_is_short_and_names_defaults_and_values() {
    let workdir = Workdir::new();
    let help = workdir.windrow(&["status", "--help"]).await.out;
    let (_, global) = help.split_once("Global options:\n").unwrap();
    assert!(global.trim_end().lines().count() <= 8, "{global}");
    let help = workdir.windrow(&["export", "--help"]).await.out;
    assert!(help.contains("http_status") && help.contains("finished_at"), "{help}");
    let help = workdir.windrow(&["batches", "--help"]).await.out;
    assert!(help.contains("in_progress") && help.contains("expired"), "{help}");
}

#[tokio::test]
async fn on_postgres_a_command_that_reads_creates_nothing_and_tls_is_said_to_be_missing() {
    let (workdir, database) = (Workdir::new(), Database::empty().await);
    let url = database.url();
    let output = workdir.windrow(&["batches", "--database", &url]).await;
    assert_eq!(output.code, 1, "{output:?}");
    assert!(output.err.contains("has no Windrow schema yet"), "{output:?}");
    let again = workdir.windrow(&["batches", "--database", &url]).await;
    assert!(again.err.contains("has no Windrow schema yet"), "nothing was created: {again:?}");
    let migrate = output.command_after("bring it up to date: ");
    assert_eq!(workdir.shell(&migrate, &[]).await.code, 0, "{migrate}");
    assert_eq!(workdir.windrow(&["batches", "--database", &url]).await.code, 0);

    let separator = if url.contains('?') { '&' } else { '?' };
    let output = workdir
        .windrow(&["batches", "--database", &format!("{url}{separator}sslmode=require")])
        .await;
    assert_eq!(output.code, 1, "{output:?}");
    assert!(output.err.contains("Windrow has no TLS to PostgreSQL yet"), "{output:?}");
    assert!(!output.err.contains("corrupt"), "{output:?}");
}
