//! A batch belongs to its upstream: no other process sends its lines elsewhere or with another key, whatever
//! it has been started with, and `status` says that nobody here works on it.

use std::fs;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use windrow_fault::{Backend, Fixture, Program, input, program, wait};
use windrow_testkit::upstream::{Reply, Script, Upstream};

use crate::{WITHIN, on_both_stores, saw};

const LINES: u64 = 60;
/// Lines that both workers of the other host have to do meanwhile, which shows that they look for work.
const OTHER_LINES: u64 = 20;
/// Requests that the first host sees before its run is stopped.
const SEEN: u64 = 5;
const KEY: &str = "WINDROW_TEST_KEY";

on_both_stores!(
    a_stopped_run_is_left_alone_by_a_worker_and_a_server_for_another_host,
    a_name_with_another_url_claims_nothing_until_a_person_says_so,
    many_urls_are_one_lane,
);

/// What a command prints as JSON.
fn says(fixture: &Fixture, words: &[&str], settings: &[(&str, &str)]) -> Value {
    let (subcommand, rest) = words.split_first().unwrap();
    let mut command = program::windrow(fixture, subcommand);
    command.args(rest).arg("--json").envs(settings.iter().copied());
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    serde_json::from_str(text.trim()).unwrap_or_else(|why| panic!("{why}: {text}\n{error}"))
}

fn with_key(mut command: Command, key: &str) -> Command {
    command.args(["--api-key-env", KEY]).env(KEY, key);
    command
}

/// Waits until a program has said that.
async fn said(program: &Program, words: &str) {
    let look = || async { program.said().contains(words).then_some(()) };
    wait::until(WITHIN, look, || async { program.said() }).await;
}

async fn a_stopped_run_is_left_alone_by_a_worker_and_a_server_for_another_host(backend: Backend) {
    let fixture = Fixture::on(backend).await;
    let slow = Script::new(|_| Reply::Delay(Duration::from_millis(20), Box::new(Reply::Echo)));
    let (ours, other) =
        (Upstream::start(slow).await.unwrap(), Upstream::start(Script::echo()).await.unwrap());
    let file = fixture.folder().join("in.jsonl");
    fs::write(&file, input::text(LINES)).unwrap();
    let run = || {
        let mut command = program::run(&fixture, &file, &ours.url(), "out.jsonl");
        command.args(["--concurrency", "1"]);
        with_key(command, "key-of-ours")
    };
    let mut first = Program::start(&fixture, "first", run());
    saw(&ours, SEEN).await;
    first.terminate();
    first.ended(WITHIN).await;
    let sent = ours.counts().requests;
    assert!(sent < LINES, "it was stopped before its end");
    let batch = says(&fixture, &["batches"], &[])["rows"][0]["id"].as_str().unwrap().to_owned();

    let worker = program::worker(&fixture, &other.url());
    let worker = Program::start(&fixture, "work", with_key(worker, "key-of-other"));
    let mut server = program::windrow(&fixture, "serve");
    server.args(["--to", &other.url(), "--listen", "127.0.0.1:0"]);
    let server = Program::start(&fixture, "serve", with_key(server, "key-of-other"));
    said(&worker, "working").await;
    said(&server, "Listening on").await;
    // The same URL, and another key: billed to another account.
    let stranger = program::worker(&fixture, &ours.url());
    let stranger = Program::start(&fixture, "stranger", with_key(stranger, "key-of-another-team"));
    said(&stranger, "windrow upstreams accept").await;
    for _ in 0..2 {
        let meanwhile = fixture.batch(OTHER_LINES).await;
        fixture.closed(meanwhile, WITHIN).await;
    }
    assert_eq!(other.counts().requests, 2 * OTHER_LINES, "only what was meant for it");
    assert_eq!(ours.counts().requests, sent, "nor anything with another key");
    assert!(other.seen().iter().all(|seen| seen.header("authorization") == "Bearer key-of-other"));
    let status = says(&fixture, &["status", &batch], &[]);
    assert_eq!(status["batch"]["upstreams"], serde_json::json!([ours.url()]));
    assert_eq!(status["served_by"][ours.url()], serde_json::json!([]), "nobody serves it");

    // The same command goes on, though the database knows by now who else is there.
    let mut again = Program::start(&fixture, "again", run());
    assert_eq!(again.ended(WITHIN).await.code(), Some(0), "{}", again.said());
    assert_eq!(ours.counts().requests, LINES);
    assert!(ours.seen().iter().all(|seen| seen.header("authorization") == "Bearer key-of-ours"));
}

async fn a_name_with_another_url_claims_nothing_until_a_person_says_so(backend: Backend) {
    let fixture = Fixture::on(backend).await;
    let (ours, other) = (
        Upstream::start(Script::echo()).await.unwrap(),
        Upstream::start(Script::echo()).await.unwrap(),
    );
    let config = |name: &str, url: &str| {
        let path = fixture.folder().join(name);
        let text = format!("[upstreams.main]\nbase_url = \"{url}\"\ntargets = [\"echo\"]\n");
        fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let (here, there) = (config("here.toml", &ours.url()), config("there.toml", &other.url()));
    let worker = |config: &str| {
        let mut command = program::windrow(&fixture, "work");
        command.args(["--config", config]);
        command
    };
    let mut first = Program::start(&fixture, "here", worker(&here));
    said(&first, "working").await;
    let known = || async {
        let found = fixture.store().upstreams().await.ok()?;
        found.iter().any(|known| known.upstream.as_str() == "main").then_some(())
    };
    wait::until(WITHIN, known, || async { first.said() }).await;
    first.terminate();
    first.ended(WITHIN).await;
    fs::write(fixture.folder().join("in.jsonl"), input::text(LINES)).unwrap();
    let ingest = ["ingest", "in.jsonl", "--batch", "--config", &here];
    let batch = says(&fixture, &ingest, &[])["batch"]["id"].as_str().unwrap().parse().unwrap();

    let second = Program::start(&fixture, "there", worker(&there));
    said(&second, "windrow upstreams set main").await;
    let meanwhile = fixture.batch(OTHER_LINES).await;
    let third = Program::start(&fixture, "to", program::worker(&fixture, &other.url()));
    fixture.closed(meanwhile, WITHIN).await;
    drop(third);
    assert_eq!(other.counts().requests, OTHER_LINES, "nothing of the batch for the other host");
    let mut set = Command::new(program::binary());
    set.args(["upstreams", "set", "main", "--base-url", &other.url(), "--config", &there]);
    set.args(["--database", fixture.database()]).arg("--data").arg(fixture.folder());
    let set = set.env_clear().env("HOME", fixture.folder()).output().unwrap();
    assert!(set.status.success(), "{set:?}");
    fixture.closed(batch, WITHIN).await;
    assert_eq!((ours.counts().requests, other.counts().requests), (0, OTHER_LINES + LINES));
    drop(second);
}

/// As many targets as lines would be as many limits in flight.
async fn many_urls_are_one_lane(backend: Backend) {
    const URLS: u64 = 2_000;
    const CONCURRENCY: u64 = 4;
    let fixture = Fixture::on(backend).await;
    let upstream = Upstream::start(Script::always(Reply::json(200, "{}"))).await.unwrap();
    let line = |no| {
        let url = if no % 2 == 0 { format!("/search?q={no}") } else { format!("/items/{no}") };
        format!("{{\"custom_id\":\"{no}\",\"method\":\"GET\",\"url\":\"{url}\"}}\n")
    };
    let file = fixture.folder().join("in.jsonl");
    fs::write(&file, (0..URLS).map(line).collect::<String>()).unwrap();
    let mut command = program::run(&fixture, &file, &upstream.url(), "out.jsonl");
    command.args(["--concurrency", &CONCURRENCY.to_string()]);
    let mut run = Program::start(&fixture, "run", command);
    assert_eq!(run.ended(WITHIN).await.code(), Some(0), "{}", run.said());
    let counts = upstream.counts();
    assert_eq!(counts.requests, URLS);
    assert!(counts.in_flight_max <= CONCURRENCY, "{counts:?}");
    let status = says(&fixture, &["status", "last"], &[]);
    assert_eq!(status["lanes"].as_array().unwrap().len(), 1, "{status}");
    assert_eq!(status["lanes"][0]["target"], "(no model)");
}
