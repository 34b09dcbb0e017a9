//! A stop over HTTP stops: after `POST …/cancel`, `…/pause` or the end of the window nothing more reaches the
//! upstream, by the upstream's own clock. The API and the worker are two processes, so that only the database
//! connects them.

#![expect(
    clippy::disallowed_methods,
    reason = "the time of a stop is compared with the upstream's own"
)]

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::Value;
use windrow::store::Scope;
use windrow_fault::raw::Request;
use windrow_fault::{Backend, Fixture, Program, input, program, wait};
use windrow_testkit::upstream::{Reply, Script, Upstream};

use crate::stop::{LINE, LINES, SEEN, USUAL_BOUNDS, check_quiet_since};
use crate::{WITHIN, on_both_stores, saw};

const KEY: &str = "admin-of-the-stop-tests";
/// The window that a job gets while it runs.
const WINDOW: Duration = Duration::from_secs(2);

on_both_stores!(
    after_a_cancel_over_http_nothing_is_sent,
    after_a_pause_over_http_nothing_is_sent_until_it_is_resumed,
    after_the_end_of_a_window_nothing_is_sent_until_it_has_a_new_one,
);

struct Stage {
    _programs: [Program; 2],
    fixture: Fixture,
    upstream: Upstream,
    address: SocketAddr,
    job: String,
}

impl Stage {
    /// A job of many lines that runs, and of which a few were sent.
    async fn new(backend: Backend) -> Self {
        let fixture = Fixture::on(backend).await;
        let upstream = Upstream::start(Script::always(Reply::Echo.after(LINE))).await.unwrap();
        let mut work = program::worker(&fixture, &upstream.url());
        work.args(["--concurrency", "1"]).envs(USUAL_BOUNDS);
        let work = Program::start(&fixture, "work", work);
        let mut serve = program::windrow(&fixture, "serve");
        serve.args(["--no-work", "--json", "--listen", "127.0.0.1:0"]).envs(USUAL_BOUNDS);
        let serve = Program::start(&fixture, "serve", {
            serve.env("WINDROW_ADMIN_KEY", KEY);
            serve
        });
        let address = listening(&serve).await;
        let created = Request::new("POST", "/api/jobs", KEY)
            .header("content-type", "application/jsonl")
            .body(input::text(LINES))
            .send(address)
            .await;
        assert_eq!(created.status, 201, "{created:?}");
        let job = created.json()["jobId"].as_str().unwrap().to_owned();
        saw(&upstream, SEEN).await;
        Self { _programs: [work, serve], fixture, upstream, address, job }
    }

    /// Asks for something to be done to the job; gives when that was answered.
    async fn post(&self, what: &str) -> Instant {
        let path = format!("/api/jobs/{}/{what}", self.job);
        let response = Request::new("POST", &path, KEY).send(self.address).await;
        let returned = Instant::now();
        assert_eq!(response.status, 200, "{what}: {response:?}");
        returned
    }

    /// The job, once it is as it should be.
    async fn until(&self, is_it: impl Fn(&Value) -> bool) -> Value {
        let path = format!("/api/jobs/{}", self.job);
        let look = || async {
            let job = Request::new("GET", &path, KEY).send(self.address).await.json();
            is_it(&job).then_some(job)
        };
        let state = || async {
            String::from_utf8(Request::new("GET", &path, KEY).send(self.address).await.body)
                .unwrap()
        };
        wait::until(WITHIN, look, state).await
    }

    /// Every line is in one place, and what was sent is what has a result.
    async fn check_ended(&self, status: &str) {
        let job = self.until(|job| job["status"] == status).await;
        assert_eq!(job["counts"]["done"], self.upstream.counts().requests, "{job}");
        let rows = self.fixture.store().verify(self.job.parse().unwrap()).await.unwrap();
        rows.check().unwrap();
    }
}

/// Where a server says that it listens.
async fn listening(serve: &Program) -> SocketAddr {
    let look = || async {
        let said = serve.said();
        let values = said.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let mut urls = values.filter_map(|value| Some(value["listening"].as_str()?.to_owned()));
        urls.next()?.strip_prefix("http://")?.parse().ok()
    };
    wait::until(WITHIN, look, || async { serve.said() }).await
}

async fn after_a_cancel_over_http_nothing_is_sent(backend: Backend) {
    let stage = Stage::new(backend).await;
    let cancelled = stage.post("cancel").await;
    stage.check_ended("cancelled").await;
    check_quiet_since(&stage.upstream, cancelled);
}

async fn after_a_pause_over_http_nothing_is_sent_until_it_is_resumed(backend: Backend) {
    let stage = Stage::new(backend).await;
    let paused = stage.post("pause").await;
    stage.until(|job| job["counts"]["processing"] == 0).await;
    check_quiet_since(&stage.upstream, paused);
    let sent = stage.upstream.counts().requests;
    stage.post("resume").await;
    saw(&stage.upstream, sent + 1).await;
    let cancelled = stage.post("cancel").await;
    stage.check_ended("cancelled").await;
    check_quiet_since(&stage.upstream, cancelled);
}

/// The shortest window of the API is a minute, so the store is asked for this one.
async fn after_the_end_of_a_window_nothing_is_sent_until_it_has_a_new_one(backend: Backend) {
    let stage = Stage::new(backend).await;
    let (store, id) = (stage.fixture.store(), stage.job.parse().unwrap());
    store.resume_batch(&Scope::All, id, Some(WINDOW.as_secs())).await.unwrap();
    let ends = Instant::now() + WINDOW;
    stage.check_ended("expired").await;
    check_quiet_since(&stage.upstream, ends);
    let sent = stage.upstream.counts().requests;
    assert!(sent < LINES, "it was stopped before its end");
    let path = format!("/api/jobs/{}/resume", stage.job);
    let refused = Request::new("POST", &path, KEY).send(stage.address).await;
    assert_eq!(refused.refused(400), "refused");
    stage.post("resume?window=2h").await;
    saw(&stage.upstream, sent + 1).await;
    stage.post("cancel").await;
    stage.check_ended("cancelled").await;
}
