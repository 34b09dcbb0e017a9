//! An upload in parts whose writer loses its right, or dies, in the middle: nothing of it is ever visible in the
//! bucket, and what stays of a killed process is what the bucket's own rule ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use windrow::domain::attempt::Status;
use windrow::domain::{BatchId, InstanceId, LeaseId, Route, Target, UpstreamId};
use windrow::engine::clock::Clock;
use windrow::engine::finalise::{Closing, Finaliser};
use windrow::engine::storage::{PART_BYTES, Storage};
use windrow::engine::{Options, async_trait};
use windrow::store::claim::Request as Claim;
use windrow::store::layer::{LayeredStore, StoreLayer};
use windrow::store::record::{Finished, Outcomes};
use windrow::store::{Kind, Store};
use windrow_e2e::Server;
use windrow_e2e::raw::Request;
use windrow_e2e::s3::S3;
use windrow_e2e::server::WITHIN;
use windrow_fault::{Backend, Fixture, input, wait};
use windrow_testkit::proxy::{Mode, Proxy};

use crate::bucket::{bucket, page, uploads};

/// Large answers, so that an output has several parts.
const ANSWER_BYTES: usize = 1 << 20;
const LINES: u64 = 24;
/// How long a finalisation is held.
const LEASE: Duration = Duration::from_millis(1_500);

/// The names of all objects that can be seen.
async fn objects(s3: &S3) -> Vec<String> {
    let listed = page(s3, "/outputs?list-type=2").await;
    let keys = listed.split("<Key>").skip(1);
    keys.map(|rest| rest.split("</Key>").next().unwrap().to_owned()).collect()
}

/// Holds the reads of results until there are permits, and the renewals while it is told to.
#[derive(Clone)]
struct Slow {
    reads: Arc<Semaphore>,
    holds_renewals: Arc<AtomicBool>,
    renewals: Arc<Semaphore>,
}

#[async_trait]
impl StoreLayer for Slow {
    type Span = ();

    async fn begin(&self, verb: &'static str) {
        if verb == "finished" {
            self.reads.acquire().await.unwrap().forget();
        }
        if verb == "take_finalisation" && self.holds_renewals.load(Ordering::SeqCst) {
            self.renewals.acquire().await.unwrap().forget();
        }
    }

    fn end(&self, (): (), _: &'static str, _: Option<Kind>) {}
}

/// A batch with a large answer for each line that waits to be closed.
async fn settled(store: &dyn Store) -> BatchId {
    let id = BatchId::new();
    input::batch(store, id, LINES).await;
    let instance = InstanceId::new();
    let request = Claim {
        lease: LeaseId::new(),
        routes: vec![Route::new(UpstreamId::new("test").unwrap(), Target::new("echo").unwrap())],
        binds: true,
        only: Some(id),
        lines_max: u32::try_from(LINES).unwrap(),
        lease_ms: 60_000,
    };
    let tranche = store.lease_tranche(instance, request).await.unwrap().unwrap();
    let answer = json!({ "text": "x".repeat(ANSWER_BYTES) }).to_string();
    let mut outcomes = Outcomes::of(tranche.lease.held);
    outcomes.finished = (tranche.lines.iter())
        .map(|line| {
            let bare = Finished::bare(line.seq, line.line, Status::Completed, 1);
            let custom_id = Some(input::custom_id(line.line));
            let response = Some(answer.clone().into());
            Finished { custom_id, http_status: Some(200), response, ..bare }
        })
        .collect();
    assert_eq!(store.record(instance, vec![outcomes]).await.unwrap().finalizing, [id]);
    id
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_finaliser_that_loses_its_token_in_the_middle_leaves_no_object_and_no_part() {
    let Some(s3) = S3::start().await else { return };
    bucket(&s3).await;
    let fixture = Fixture::on(Backend::Sqlite).await;
    let store: Arc<dyn Store> = windrow_fault::fixture::open(fixture.database()).await.unwrap();
    let id = settled(&*store).await;
    let storage = Storage::open_with("s3://outputs/batches", &s3.settings()).unwrap();
    let slow = Slow {
        reads: Arc::new(Semaphore::new(0)),
        holds_renewals: Arc::default(),
        renewals: Arc::new(Semaphore::new(0)),
    };
    let finaliser = |store: Arc<dyn Store>| {
        let options = Options::default().finalise_lease(LEASE);
        let (who, clock) = (InstanceId::new(), Clock::machine());
        Finaliser::new(store, Some(storage.clone()), who, clock, &options)
    };
    let loser = finaliser(Arc::new(LayeredStore::new(store.clone(), slow.clone())));
    let mut losing = JoinSet::new();
    losing.spawn(async move { loser.close(id).await });
    // One page of results after the other, until the first part is on its way.
    let begun = || async {
        slow.reads.add_permits(1);
        (uploads(&s3).await == 1).then_some(())
    };
    wait::until(WITHIN, begun, || page(&s3, "/outputs?uploads")).await;
    slow.holds_renewals.store(true, Ordering::SeqCst);
    slow.reads.forget_permits(usize::MAX >> 4);
    let winner = finaliser(store.clone());
    let won = || async {
        match winner.close(id).await.unwrap() {
            Closing::Closed(batch) => Some(batch),
            Closing::Left => None,
        }
    };
    wait::until(WITHIN, won, || async { "it is not closed".to_owned() }).await;
    let seen = objects(&s3).await;
    assert_eq!(seen.len(), 1, "the winner's output: {seen:?}");
    assert!(
        storage.size(seen[0].strip_prefix("batches/").unwrap()).await.unwrap() > PART_BYTES as u64
    );
    slow.renewals.add_permits(1_000);
    slow.reads.add_permits(1_000);
    let left = losing.join_next().await.unwrap().unwrap().unwrap();
    assert!(matches!(left, Closing::Left), "{left:?}");
    let gone = || async { (uploads(&s3).await == 0).then_some(()) };
    wait::until(WITHIN, gone, || page(&s3, "/outputs?uploads")).await;
    assert_eq!(objects(&s3).await, seen, "nothing of the loser is to be seen");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_killed_in_the_middle_of_an_upload_writes_the_output_once_it_is_back() {
    let Some(s3) = S3::start().await else { return };
    bucket(&s3).await;
    let address = s3.url().trim_start_matches("http://").parse().unwrap();
    let proxy = Proxy::start(address).await.unwrap();
    let through = format!("http://{}", proxy.address());
    let settings = s3.settings().map(|(name, value)| match name {
        "AWS_ENDPOINT_URL" => (name, through.as_str()),
        _ => (name, value),
    });
    let mut server = Server::with_storage("s3://outputs/batches", &settings).await;
    let (key, text) = (server.key("ann").await, "x".repeat(ANSWER_BYTES));
    let line = |no: u64| {
        let body = json!({ "model": "m", "n": text });
        let url = "/v1/chat/completions";
        json!({ "custom_id": format!("c-{no}"), "method": "POST", "url": url, "body": body })
            .to_string()
    };
    let lines = (1..=LINES).map(|no| line(no) + "\n").collect::<String>();
    // Each piece is late, so that an output of many parts takes its time.
    proxy.set(Mode::Delay(Duration::from_millis(2)));
    let created = Request::new("POST", "/api/jobs", &key)
        .header("content-type", "application/jsonl")
        .body(lines)
        .send(server.address())
        .await;
    assert_eq!(created.status, 201, "{created:?}");
    let id = created.json()["jobId"].as_str().unwrap().to_owned();
    let begun = || async { (uploads(&s3).await == 1).then_some(()) };
    wait::until(WITHIN, begun, || async { server.said() }).await;
    assert_eq!(objects(&s3).await, [""; 0], "nothing is seen before its end");
    proxy.set(Mode::Pass);
    server.start_again("s3://outputs/batches", &settings).await;
    assert_eq!(objects(&s3).await, [""; 0], "nor after its writer died");
    let path = format!("/api/jobs/{id}");
    let ended = || async {
        let job = Request::new("GET", &path, &key).send(server.address()).await.json();
        (job["status"] == "completed").then_some(job)
    };
    let job: Value = wait::until(WITHIN, ended, || async { server.said() }).await;
    assert_eq!(job["counts"]["done"], LINES);
    let seen = objects(&s3).await;
    assert_eq!(seen.len(), 1, "one output: {seen:?}");
    // The dead process cannot forget its parts, which cost until the bucket's rule ends them (docs/operate/running.md).
    assert!(uploads(&s3).await <= 1);
    let batch =
        Request::new("GET", &format!("/v1/batches/{id}"), &key).send(server.address()).await;
    let path = format!("/v1/files/{}/content", batch.json()["output_file_id"].as_str().unwrap());
    let whole = Request::new("GET", &path, &key).send(server.address()).await;
    assert_eq!(whole.body.iter().filter(|byte| **byte == b'\n').count() as u64, LINES);
}
