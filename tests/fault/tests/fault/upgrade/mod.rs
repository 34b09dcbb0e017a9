//! A database and a data folder that an older build made go on under this one: nothing is sent twice, and
//! nothing is lost. `tests/fault/stored/README.md` says what is in them.

mod messages;
mod unpack;

use std::collections::BTreeMap;

use serde_json::{Value, json};
use windrow_fault::check::custom_ids;
use windrow_fault::stored::{self, HAY_LINES, JOB_KEY, JOB_PATH, STRAW, STRAW_LINES, Server};
use windrow_fault::{Backend, input, wait};
use windrow_testkit::upstream::{ReceivedRequest, Script, Upstream};

use crate::{WITHIN, on_both_stores};
use unpack::Unpacked;

/// The exit code of a run that finished with failed lines.
const SOME_FAILED: i32 = 5;

on_both_stores!(what_an_older_build_left_goes_on);

async fn what_an_older_build_left_goes_on(backend: Backend) {
    for build in unpack::builds() {
        println!("{}", build.display());
        let left = Unpacked::new(&build, backend).await;
        let receiver = receiver(backend).await;
        the_run_goes_on(&left, &receiver).await;
        // Its key is in the database: none is given here.
        let server = left.stage.serve("serve", &[], &[]).await;
        the_job_is_the_same_and_ends(&left, &server, &receiver).await;
        messages::calls_are_answered_once(&server, &receiver).await;
        messages::messages_arrive_once_and_in_order(&left, &server, &receiver).await;
        messages::events_are_as_they_were(&left, &server).await;
        server.stop().await;
        messages::the_snapshot_stands(&left).await;
        let found = left.stage.says(&["doctor"]).await;
        assert_eq!((&found["wrong"], &found["messages"]["wrong"]), (&json!([]), &json!([])));
    }
}

/// Whoever has the address is waited for.
async fn receiver(backend: Backend) -> Upstream {
    let start = || async {
        let script = Script::new(stored::receive);
        Upstream::start_at(stored::address(backend), script).await.ok()
    };
    wait::until(WITHIN, start, || async { "the stored address is taken".to_owned() }).await
}

/// The keys that the receiver saw, of requests that are such, in their order.
fn keys(receiver: &Upstream, is_such: impl Fn(&ReceivedRequest) -> bool) -> Vec<String> {
    let seen = receiver.seen().into_iter().filter(is_such);
    seen.map(|seen| seen.key().to_owned()).collect()
}

/// `<run>:<line>:<n>`, by line; a line that is there twice is wrong.
fn by_line(run: &str, keys: impl IntoIterator<Item = String>) -> BTreeMap<u64, u64> {
    let mut lines = BTreeMap::new();
    for key in keys {
        let parts: Vec<&str> = key.split(':').collect();
        let [of, line, n] = parts[..] else { panic!("a key of another form: {key:?}") };
        assert_eq!(of, run, "of another run");
        let before = lines.insert(line.parse().unwrap(), n.parse().unwrap());
        assert_eq!(before, None, "sent twice: {key}");
    }
    lines
}

async fn the_run_goes_on(left: &Unpacked, receiver: &Upstream) {
    let mut run = left.stage.run(&[]);
    let status = run.ended(WITHIN).await;
    assert_eq!(status.code(), Some(SOME_FAILED), "{}", run.said());
    let id = left.told("run");
    let told = |name: &str| {
        let keys = left.told[name].as_array().unwrap().iter();
        by_line(id, keys.map(|key| key.as_str().unwrap().to_owned()))
    };
    let (finished, failed, in_flight) = (told("finished"), told("failed"), told("in_flight"));
    let sent = by_line(id, keys(receiver, |seen| stored::hay(seen).is_some()));
    let open = (1..=HAY_LINES).filter(|line| !finished.contains_key(line));
    assert!(sent.keys().copied().eq(open), "{finished:?} were finished, and sent were {sent:?}");
    for (line, n) in &sent {
        // After an answer the key is the next; without one it is the same, so that a repeat is known.
        let next = failed.get(line).map(|n| n + 1).or(in_flight.get(line).copied());
        assert_eq!(*n, next.unwrap_or(1), "line {line}");
    }
    let errors = left.stage.data().join(format!("runs/{id}.errors.jsonl"));
    let (mut ids, refused) =
        (custom_ids(&left.stage.folder().join("out.jsonl")), custom_ids(&errors));
    assert_eq!((refused.len(), ids.len() as u64), (1, HAY_LINES - 1));
    ids.extend(refused);
    ids.sort_unstable();
    let mut wanted: Vec<String> = (1..=HAY_LINES).map(input::custom_id).collect();
    wanted.sort_unstable();
    assert_eq!(ids, wanted, "one result for each line");
}

async fn the_job_is_the_same_and_ends(left: &Unpacked, server: &Server, receiver: &Upstream) {
    let (job, done) = (left.told("job"), left.told("done"));
    let file = Value::from(stored::requests(STRAW, STRAW_LINES));
    let again = server.ask(("POST", JOB_PATH), Some(JOB_KEY), &file).await;
    assert_eq!((again.status, again.json()["jobId"].as_str()), (200, Some(job)), "{again:?}");
    let ended = server.until(&format!("/api/jobs/{job}"), |job| job["status"] == "completed").await;
    assert_eq!(ended["counts"]["done"], STRAW_LINES, "{ended}");
    let acts = ended["acts"].as_array().unwrap().iter().map(|act| act["action"].as_str().unwrap());
    // Its build knew no upstream: the first claim said where it goes.
    assert!(acts.clone().eq(["create", "pause", "resume", "bind to straw"]), "{ended}");
    let straw =
        |seen: &ReceivedRequest| seen.path == input::ENDPOINT && stored::hay(seen).is_none();
    assert!(by_line(job, keys(receiver, straw)).into_keys().eq(1..=STRAW_LINES), "each line once");

    let list = server.ask(("GET", "/api/jobs"), None, &Value::Null).await.json();
    let mut jobs: Vec<&str> =
        list["data"].as_array().unwrap().iter().map(|job| job["jobId"].as_str().unwrap()).collect();
    let mut wanted = [left.told("run"), job, done];
    jobs.sort_unstable();
    wanted.sort_unstable();
    assert_eq!(jobs, wanted, "no second job");
    let results = left.stage.folder().join("done.jsonl");
    left.stage.says(&["results", done, "--out", results.to_str().unwrap()]).await;
    assert_eq!(custom_ids(&results).len() as u64, STRAW_LINES);
}
