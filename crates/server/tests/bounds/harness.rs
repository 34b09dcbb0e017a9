//! A server over a database whose answers can be kept back, with a clock and bounds of the test's own.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, watch};
use windrow_engine::clock::Clock;
use windrow_engine::execute::{Attempt, Executor, Outcome};
use windrow_engine::signal::Stop;
use windrow_server::{App, Metrics, Options, Parts};
use windrow_store::layer::{LayeredStore, StoreLayer};
use windrow_store::{Kind, Store};

use crate::support::{self, AnyModel, TestServer};

/// Longest wait for anything, of the machine's time.
pub(crate) const LONG: Duration = Duration::from_secs(20);

/// Keeps calls of some verbs back, counts them, and lets time pass with them.
#[derive(Clone)]
pub(crate) struct StoreGates {
    kept_back: Arc<Mutex<HashMap<&'static str, watch::Sender<u64>>>>,
    takes: Arc<Mutex<HashMap<&'static str, Duration>>>,
    clock: Clock,
}

impl StoreGates {
    /// From now on calls of this verb wait for ever.
    pub(crate) fn keep_back(&self, verb: &'static str) -> watch::Receiver<u64> {
        let counter = watch::Sender::new(0);
        let seen = counter.subscribe();
        self.kept_back.lock().unwrap().insert(verb, counter);
        seen
    }

    /// From now on calls of this verb take so long, by the test's clock.
    pub(crate) fn take(&self, verb: &'static str, time: Duration) {
        self.takes.lock().unwrap().insert(verb, time);
    }
}

#[async_trait]
impl StoreLayer for StoreGates {
    type Span = ();

    async fn begin(&self, verb: &'static str) {
        if let Some(time) = self.takes.lock().unwrap().get(verb) {
            self.clock.advance(*time);
        }
        let counter = self.kept_back.lock().unwrap().get(verb).cloned();
        if let Some(counter) = counter {
            counter.send_modify(|count| *count += 1);
            std::future::pending::<()>().await;
        }
    }

    fn end(&self, (): (), _: &'static str, _: Option<Kind>) {}
}

pub(crate) struct Harness {
    pub(crate) server: TestServer,
    /// The store itself, without a layer.
    pub(crate) store: Arc<dyn Store>,
    pub(crate) gates: StoreGates,
    /// How many lines may still be answered.
    pub(crate) answers: Arc<Semaphore>,
    http: reqwest::Client,
}

impl Deref for Harness {
    type Target = TestServer;

    fn deref(&self) -> &TestServer {
        &self.server
    }
}

impl Harness {
    pub(crate) async fn new(clock: Clock, options: Options) -> Self {
        let (folder, store) = support::database().await;
        let store: Arc<dyn Store> = store;
        let gates =
            StoreGates { kept_back: Arc::default(), takes: Arc::default(), clock: clock.clone() };
        let answers = Arc::new(Semaphore::new(Semaphore::MAX_PERMITS));
        let gate = answers.clone();
        let executor: Arc<dyn Executor> = Arc::new(move |attempt: Attempt| {
            let gate = gate.clone();
            async move {
                gate.acquire().await.unwrap().forget();
                Outcome::completed(json!({ "line": attempt.line }).to_string())
            }
        });
        let work = windrow_engine::Options::default().grace(Duration::from_millis(200));
        let layered = Arc::new(LayeredStore::new(store.clone(), gates.clone()));
        let app = App::new(Parts {
            executor: Some(executor),
            work,
            options,
            clock: clock.clone(),
            metrics: Metrics::new(clock),
            ..support::parts(layered, folder.path(), AnyModel)
        });
        let server = TestServer::start(app, &*store, folder, Stop::new()).await;
        let http = reqwest::Client::builder().timeout(LONG).build().unwrap();
        Self { server, store, gates, answers, http }
    }

    /// One that runs by the machine's clock.
    pub(crate) async fn usual() -> Self {
        Self::new(Clock::machine(), Options::default()).await
    }

    pub(crate) async fn get(&self, key: &str, path: &str) -> reqwest::Response {
        self.http.get(format!("{}{path}", self.url)).bearer_auth(key).send().await.unwrap()
    }

    pub(crate) async fn get_json(&self, key: &str, path: &str) -> Value {
        let response = self.get(key, path).await;
        assert_eq!(response.status(), 200, "{path}");
        read(response).await
    }

    pub(crate) fn post(&self, key: &str, path: &str, body: String) -> reqwest::RequestBuilder {
        let request = self.http.post(format!("{}{path}", self.url)).bearer_auth(key);
        let is_json = body.starts_with('{') && !body.contains("custom_id");
        let kind = if is_json { "application/json" } else { "application/jsonl" };
        request.header("content-type", kind).body(body)
    }

    pub(crate) async fn job(&self, key: &str, lines: String) -> String {
        let made = self.post(key, "/api/jobs", lines).send().await.unwrap();
        assert_eq!(made.status(), 201);
        read(made).await["jobId"].as_str().unwrap().to_owned()
    }

    /// Takes a file in as OpenAI's clients send it; gives its id.
    pub(crate) async fn file(&self, key: &str, lines: &str) -> String {
        let body = format!(
            "--B\r\ncontent-disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n--B\r\n\
             content-disposition: form-data; name=\"file\"; filename=\"f.jsonl\"\r\n\r\n{lines}\r\n\
             --B--\r\n"
        );
        let request = self.http.post(format!("{}/v1/files", self.url)).bearer_auth(key);
        let request = request.header("content-type", "multipart/form-data; boundary=B").body(body);
        let made = request.send().await.unwrap();
        assert_eq!(made.status(), 200);
        read(made).await["id"].as_str().unwrap().to_owned()
    }

    pub(crate) fn create_batch(&self, key: &str, file: &str) -> reqwest::RequestBuilder {
        let asked =
            json!({ "input_file_id": file, "endpoint": "/v1/x", "completion_window": "24h" });
        self.post(key, "/v1/batches", asked.to_string())
    }

    pub(crate) async fn stop(self) {
        self.server.stop().await;
    }
}

pub(crate) async fn read(response: reqwest::Response) -> Value {
    let body = response.bytes().await.unwrap();
    serde_json::from_slice(&body).unwrap_or_else(|_| panic!("no JSON: {body:?}"))
}

pub(crate) fn line(no: u64, model: &str) -> String {
    let (id, body) = (format!("c-{no}"), json!({ "model": model }));
    format!("{}\n", json!({ "custom_id": id, "method": "POST", "url": "/v1/x", "body": body }))
}

pub(crate) fn lines(count: u64) -> String {
    (1..=count).map(|no| line(no, "small")).collect()
}
