//! A server with an executor that does what each line says.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use windrow_domain::State;
use windrow_domain::attempt::{Class, Failure};
use windrow_engine::execute::{Attempt, Executor, Outcome};
use windrow_engine::signal::Stop;
use windrow_engine::{Engine, Handle};
use windrow_server::{App, Options, Parts};
use windrow_store::{Scope, Store};

use crate::support::{self, AnyModel, TestServer};

pub(crate) struct Harness {
    server: TestServer,
    /// How many lines may still be answered.
    pub(crate) gate: Arc<Semaphore>,
    engine: Option<Handle>,
    store: Arc<dyn Store>,
}

impl Deref for Harness {
    type Target = TestServer;

    fn deref(&self) -> &TestServer {
        &self.server
    }
}

/// What differs from a server that only works when it is told to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    /// Lines that are answered before the gate closes.
    pub(crate) answers: usize,
    /// Whether a worker runs beside the API.
    pub(crate) works: bool,
    pub(crate) has_executor: bool,
    pub(crate) pending_dashboard: bool,
}

impl Default for Setup {
    fn default() -> Self {
        let answers = Semaphore::MAX_PERMITS;
        Self { answers, works: false, has_executor: true, pending_dashboard: true }
    }
}

/// Does what a line says in its body: `answer` is given as it is, `fail` and `missing` are refused,
/// `throttle once` and `wobble` at first.
async fn execute(gate: Arc<Semaphore>, attempt: Attempt) -> Outcome {
    gate.acquire().await.unwrap().forget();
    let line: Value = serde_json::from_slice(&attempt.raw).unwrap();
    let refuse =
        |class: Class, code: &str| Outcome::failed(Failure::new(class, code, "It says so."));
    let tried = match line["body"]["do"].as_str() {
        Some("fail") => refuse(Class::Permanent, "http_400"),
        Some("missing") => refuse(Class::NotFound, "http_404"),
        Some("throttle once") if attempt.number == 1 => refuse(Class::Throttled, "http_429"),
        Some("throttle") => {
            let failure = Failure::new(Class::Throttled, "http_429", "It says so.");
            Outcome::failed(failure.retry_after(Duration::from_secs(60)))
        }
        Some("wobble") if attempt.number == 1 => refuse(Class::Server, "http_503"),
        _ => match line["body"]["answer"].as_str() {
            Some(text) => Outcome::completed(text.to_owned()),
            None => Outcome::completed(json!({ "line": attempt.line }).to_string()),
        },
    };
    Outcome { custom_id: line["custom_id"].as_str().map(str::to_owned), ..tried }
}

impl Harness {
    pub(crate) async fn new() -> Self {
        Self::with(Setup::default()).await
    }

    pub(crate) async fn with(setup: Setup) -> Self {
        let (folder, store) = support::database().await;
        let mut parts = support::parts(store, folder.path(), AnyModel);
        let store = parts.metrics.store(parts.store);
        parts.store = store.clone();
        let gate = Arc::new(Semaphore::new(setup.answers));
        let gated = gate.clone();
        let execute = move |attempt| execute(gated.clone(), attempt);
        let executor: Arc<dyn Executor> = Arc::new(parts.metrics.executor(execute));
        let stop = Stop::new();
        let engine = setup.works.then(|| {
            let builder = Engine::builder(store.clone()).executor(executor.clone());
            builder.storage(parts.storage.clone()).options(work()).stop(stop.clone()).build()
        });
        let handle = engine.as_ref().map(Engine::handle);
        let app = App::new(Parts {
            engine: handle.clone(),
            executor: setup.has_executor.then_some(executor),
            work: work(),
            options: Options::default().pending_dashboard(setup.pending_dashboard),
            ..parts
        });
        let mut server = TestServer::start(app, &*store, folder, stop).await;
        if let Some(engine) = engine {
            server.tasks.spawn(async move { engine.run().await.map(drop).unwrap() });
        }
        Self { server, gate, engine: handle, store }
    }

    /// Makes a job of these lines.
    pub(crate) async fn job(&self, key: &str, query: &str, lines: String) -> Value {
        let path = format!("/api/jobs{query}");
        let jsonl = [("content-type", "application/jsonl")];
        self.send(key, Method::POST, &path, &jsonl, lines).await.ok(201)
    }

    /// A job of that many lines with nothing special; gives its id.
    pub(crate) async fn plain_job(&self, key: &str, lines: u64) -> String {
        let job = self.job(key, "", (1..=lines).map(|no| line(no, json!({}))).collect()).await;
        job["jobId"].as_str().unwrap().to_owned()
    }

    /// Drives a job to its end.
    pub(crate) async fn finish(&self, key: &str, id: &str) -> Value {
        let path = format!("/api/jobs/{id}/kickoff?durationMs=30000");
        let kicked = self.post(key, &path).await.ok(200);
        assert_eq!(
            (&kicked["closed"], &kicked["remaining"]),
            (&json!(true), &json!(0)),
            "{kicked}"
        );
        kicked
    }

    /// Ends the window of a job: the API's shortest one is a minute.
    pub(crate) async fn end_window(&self, id: &str) {
        let (all, id) = (Scope::All, id.parse().unwrap());
        let state = self.store.batch(&all, id).await.unwrap().state;
        self.store.resume_batch(&all, id, Some(0)).await.unwrap();
        if state == State::Paused {
            self.store.pause_batch(&all, id, None).await.unwrap();
        }
    }

    /// Waits until a job whose window is over has expired and is closed.
    pub(crate) async fn expire(&self, id: &str) {
        self.store.expire_batches(100).await.unwrap();
        self.post(&self.admin, &format!("/api/jobs/{id}/kickoff?durationMs=30000")).await.ok(200);
        let job = self.get(&self.admin, &format!("/api/jobs/{id}")).await.ok(200);
        assert_eq!(job["status"], "expired", "{job}");
    }

    /// Every item of a list, page by page; `between` happens after each page.
    pub(crate) async fn walk(
        &self,
        key: &str,
        path: &str,
        mut between: impl FnMut(),
    ) -> Vec<Value> {
        let (mut items, mut after) = (Vec::new(), String::new());
        for _ in 0..10_000 {
            let page = self.get(key, &format!("{path}&after={after}")).await.ok(200);
            items.extend(page["data"].as_array().unwrap().iter().cloned());
            match page["nextCursor"].as_str() {
                Some(next) => next.clone_into(&mut after),
                None => return items,
            }
            between();
        }
        panic!("the list does not end");
    }

    /// Stops the server and its worker, and waits for both.
    pub(crate) async fn stop(self) {
        self.engine.iter().for_each(Handle::stop);
        self.server.stop().await;
    }
}

/// Small waits, so that tests are quick.
fn work() -> windrow_engine::Options {
    let mut options = windrow_engine::Options::default().grace(Duration::from_millis(200));
    (options.retry.backoff_ms_min, options.retry.backoff_ms_max) = (1, 10);
    options
}

/// A request, with more in its body.
pub(crate) fn line(no: u64, more: Value) -> String {
    let mut body = json!({ "model": "small", "title": format!("T {no}"), "sku": no });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let line = json!({
        "custom_id": format!("c-{no}"), "method": "POST", "url": "/v1/x", "body": body,
    });
    format!("{line}\n")
}

pub(crate) fn ids(items: &[Value]) -> Vec<u64> {
    let mut ids: Vec<u64> =
        items.iter().map(|item| item["itemId"].as_str().unwrap().parse().unwrap()).collect();
    ids.sort_unstable();
    ids
}
