//! What holds at the edges: crashes in the middle, more clients than there are permits, slow reads,
//! long responses, and the end of the process.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod harness;
#[path = "../support/mod.rs"]
mod support;

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;
use windrow_domain::BatchId;
use windrow_engine::clock::Clock;
use windrow_server::Options;
use windrow_store::Scope;
use windrow_store::sweep::Retention;

use crate::harness::{Harness, LONG, line, lines, read};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_dies_before_the_job_is_created_leaves_nothing_visible() {
    let mut harness = Harness::usual().await;
    let mut plain = harness.gates.keep_back("create_batch");
    let mut whole = harness.gates.keep_back("create_batch_with_file");
    let mut callers = JoinSet::new();
    let attempt = harness.post(&harness.ann, "/api/jobs", lines(300)).send();
    callers.spawn(async move { drop(attempt.await) });
    tokio::select! {
        made = plain.wait_for(|count| *count > 0) => drop(made.unwrap()),
        made = whole.wait_for(|count| *count > 0) => drop(made.unwrap()),
    }
    let count = |list: Value| list["data"].as_array().unwrap().len();
    assert_eq!(
        count(harness.get_json(&harness.ann, "/v1/files").await),
        0,
        "a file without its job"
    );
    assert_eq!(count(harness.get_json(&harness.ann, "/api/jobs").await), 0);
    // The process is gone.
    harness.server.tasks.shutdown().await;
    let none = Retention { closed_batch_secs: None, open_file_secs: 0, member_secs: 3600 };
    let pruned = harness.store.prune(none, 10).await.unwrap();
    assert_eq!(pruned.files, 1, "what is left is swept");
}

/// The job's errors are those of its lines, judged as they came in.
#[tokio::test]
async fn a_failed_job_lists_its_invalid_lines() {
    let harness = Harness::usual().await;
    let sent = format!("{}{}{}", line(1, "small"), line(2, "unknown"), line(3, "small"));
    let errors = async |path: &str| {
        let made = harness.post(&harness.ann, path, sent.clone()).send().await.unwrap();
        assert_eq!(made.status(), 201);
        let job = read(made).await;
        assert_eq!(job["status"], "failed");
        let message = |error: &Value| (error["line"].as_u64(), error["code"].clone());
        job["errors"].as_array().unwrap().iter().map(message).collect::<Vec<_>>()
    };
    let unknown = (Some(2), json!("model_not_found"));
    assert_eq!(errors("/api/jobs").await, std::slice::from_ref(&unknown));
    let other = |line| (Some(line), json!("url_mismatch"));
    let both = [other(1), other(2), unknown, other(3)];
    assert_eq!(errors("/api/jobs?endpoint=/v1/y").await, both);
    harness.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_cannot_be_searched_in_time_fails_its_batch_all_the_same() {
    let clock = Clock::manual(Timestamp::UNIX_EPOCH);
    let harness = Harness::new(clock, Options::default()).await;
    let file =
        harness.file(&harness.ann, &format!("{}{}", lines(2_000), line(2_001, "unknown"))).await;
    let retrieve = async |id: &Value| {
        let path = format!("/v1/batches/{}", id.as_str().unwrap());
        harness.get_json(&harness.ann, &path).await
    };
    let soon = read(harness.create_batch(&harness.ann, &file).send().await.unwrap()).await;
    let failed = retrieve(&soon["id"]).await;
    assert_eq!(failed["errors"]["data"][0]["line"], 2_001, "with time the line is found");

    harness.gates.take("read_chunk", Duration::from_secs(1));
    let made = read(harness.create_batch(&harness.ann, &file).send().await.unwrap()).await;
    assert_eq!(made["status"], "validating");
    let failed = retrieve(&made["id"]).await;
    assert_eq!(failed["status"], "failed");
    let errors = failed["errors"]["data"].as_array().unwrap();
    let [error] = &errors[..] else { panic!("{errors:?}") };
    assert_eq!((&error["code"], &error["line"]), (&json!("model_not_found"), &Value::Null));
    let message = error["message"].as_str().unwrap();
    assert!(message.starts_with("There is no model unknown, and 1 lines"), "{message}");
    harness.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_number_of_concurrent_file_checks_is_limited() {
    let clock = Clock::manual(Timestamp::UNIX_EPOCH);
    let harness = Harness::new(clock.clone(), Options::default()).await;
    let bad = line(1, "unknown");
    let (anns, bobs) =
        (harness.file(&harness.ann, &bad).await, harness.file(&harness.bob, &bad).await);
    let mut looks = harness.gates.keep_back("read_chunk");
    let mut callers = JoinSet::new();
    let mut attempt = |key: &str, file: &str| {
        let attempt = harness.create_batch(key, file).send();
        callers.spawn(async move { attempt.await.unwrap() });
    };
    (0..6).for_each(|_| attempt(&harness.ann, &anns));
    (0..6).for_each(|_| attempt(&harness.bob, &bobs));
    // Two of each owner look; the others wait for their turn, and not without end.
    timeout(LONG, looks.wait_for(|count| *count >= 4)).await.unwrap().unwrap();
    for _ in 0..8 {
        let ended = async {
            loop {
                tokio::select! {
                    ended = callers.join_next() => break ended.unwrap().unwrap(),
                    () = tokio::task::yield_now() => clock.advance(Duration::from_millis(1)),
                }
            }
        };
        let refused = timeout(LONG, ended).await.expect("there is no bound");
        assert_eq!(refused.status(), 429);
        assert!(refused.headers().contains_key("retry-after"));
        assert_eq!(read(refused).await["error"]["code"], "checks_exceeded");
    }
    assert_eq!(*looks.borrow(), 4);
}

/// Ends a job's lines but one.
async fn almost_done(harness: &Harness, key: &str) -> String {
    let id = harness.job(key, lines(3)).await;
    harness.answers.forget_permits(usize::MAX);
    harness.answers.add_permits(2);
    let path = format!("/api/jobs/{id}/kickoff?durationMs=500");
    let kicked = harness.post(key, &path, String::new()).send().await.unwrap();
    assert_eq!(read(kicked).await["finished"], 2);
    id
}

fn output_of(batch: &Value) -> String {
    format!("/v1/files/{}/content", batch["output_file_id"].as_str().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn growing_outputs_are_limited_and_one_owner_does_not_take_all() {
    let harness = Harness::usual().await;
    let mut paths = Vec::new();
    for key in [&harness.bob, &harness.ann] {
        let id = almost_done(&harness, key).await.replace('-', "");
        paths.push(output_of(&harness.get_json(key, &format!("/v1/batches/batch_{id}")).await));
    }
    let _kept_back = harness.gates.keep_back("finished");
    let mut readers = Vec::new();
    let refused = loop {
        let response = harness.get(&harness.bob, &paths[0]).await;
        if response.status() != 200 {
            break response;
        }
        assert!(readers.len() < 1_000, "there is no bound");
        readers.push(response);
    };
    assert_eq!(refused.status(), 429);
    assert_eq!(read(refused).await["error"]["code"], "downloads_exceeded");
    assert_eq!(harness.get(&harness.ann, &paths[1]).await.status(), 200, "others have theirs");
    drop(readers);
    let again = async { while harness.get(&harness.bob, &paths[0]).await.status() != 200 {} };
    timeout(LONG, again).await.expect("permits are returned");
    harness.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_owner_leaves_permits_for_the_uploads_of_others() {
    let harness = Harness::new(Clock::machine(), Options::default().uploads_max(4)).await;
    let mut opened = harness.gates.keep_back("open_file");
    let mut callers = JoinSet::new();
    let mut attempt = |key: &str| {
        let attempt = harness.post(key, "/api/jobs", lines(1)).send();
        callers.spawn(async move { attempt.await.unwrap() });
    };
    (0..4).for_each(|_| attempt(&harness.bob));
    let refused = callers.join_next().await.unwrap().unwrap();
    assert_eq!(refused.status(), 429);
    assert_eq!(read(refused).await["error"]["code"], "uploads_exceeded");
    let attempt = harness.post(&harness.ann, "/api/jobs", lines(1)).send();
    callers.spawn(async move { attempt.await.unwrap() });
    let all = opened.wait_for(|count| *count == 4);
    assert_eq!(*timeout(LONG, all).await.unwrap().unwrap(), 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_stream_ends_with_its_key() {
    let options = Options::default().key_cache_max(Duration::from_millis(50));
    let harness = Harness::new(Clock::machine(), options).await;
    let id = harness.job(&harness.bob, lines(1)).await;
    let mut events = harness.get(&harness.bob, &format!("/api/jobs/{id}/events")).await;
    let first = events.chunk().await.unwrap().unwrap();
    assert!(first.starts_with(b"event: progress"));
    // As another process would do it.
    harness.store.revoke_key(&Scope::All, harness.bob_id).await.unwrap();
    let end = async { while events.chunk().await.unwrap().is_some() {} };
    timeout(LONG, end).await.expect("it listens on with a key that is no more");
    harness.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kickoff_whose_client_has_gone_releases_its_lines_at_the_stop() {
    let harness = Harness::usual().await;
    let id = harness.job(&harness.ann, lines(5)).await;
    harness.answers.forget_permits(usize::MAX);
    let mut wire = TcpStream::connect(harness.address()).await.unwrap();
    let head = format!(
        "POST /api/jobs/{id}/kickoff?durationMs=60000 HTTP/1.1\r\nhost: x\r\n\
         authorization: Bearer {}\r\ncontent-length: 0\r\n\r\n",
        harness.ann
    );
    wire.write_all(head.as_bytes()).await.unwrap();
    let batch: BatchId = id.parse().unwrap();
    let leased = async || harness.store.batch(&Scope::All, batch).await.unwrap().counts.leased;
    let all = async { while leased().await < 5 {} };
    timeout(LONG, all).await.expect("it is driven");
    drop(wire);
    let store = harness.store.clone();
    timeout(LONG, harness.stop()).await.expect("it ends");
    let counts = store.batch(&Scope::All, batch).await.unwrap().counts;
    assert_eq!((counts.leased, counts.unfinished()), (0, 5), "{counts:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_says_that_an_output_is_not_final_while_its_batch_runs_again() {
    let harness = Harness::usual().await;
    let id = harness.job(&harness.ann, lines(2)).await;
    let drive = format!("/api/jobs/{id}/kickoff?durationMs=10000");
    let kicked = harness.post(&harness.ann, &drive, String::new()).send().await.unwrap();
    assert_eq!(read(kicked).await["closed"], true);
    let outputs = async || {
        let list = harness.get_json(&harness.ann, "/v1/files?purpose=batch_output").await;
        list["data"].as_array().unwrap().clone()
    };
    assert_eq!(outputs().await[0]["status"], "processed");
    let again = json!({ "scope": "job", "statuses": ["DONE"] }).to_string();
    let path = format!("/api/jobs/{id}/reprocess");
    let moved = harness.post(&harness.ann, &path, again).send().await.unwrap();
    assert_eq!(read(moved).await["moved"], 2);
    let listed = outputs().await;
    let one = format!("/v1/files/{}", listed[0]["id"].as_str().unwrap());
    assert_eq!(listed[0]["status"], "uploaded");
    assert_eq!(listed[0], harness.get_json(&harness.ann, &one).await, "one file, one answer");
    harness.stop().await;
}

#[tokio::test]
async fn a_small_body_that_does_not_come_is_waited_for_as_long_as_configured() {
    let options = Options::default().body_idle_timeout(Duration::from_millis(100));
    let harness = Harness::new(Clock::machine(), options).await;
    let mut wire = TcpStream::connect(harness.address()).await.unwrap();
    let head = format!(
        "POST /v1/batches HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\n\
         content-type: application/json\r\ncontent-length: 100\r\n\r\n{{",
        harness.ann
    );
    wire.write_all(head.as_bytes()).await.unwrap();
    let mut status = [0; 12];
    timeout(LONG, wire.read_exact(&mut status)).await.expect("it has an end").unwrap();
    assert_eq!(&status, b"HTTP/1.1 408");
    harness.stop().await;
}
