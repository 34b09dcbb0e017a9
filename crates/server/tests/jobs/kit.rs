//! A server on a free port over a database of its own, keys for three people, and an executor that
//! does what each line says.

use std::sync::Arc;

use reqwest::Method;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use windrow_domain::attempt::{Class, Failure};
use windrow_domain::{Owner, Role, Target};
use windrow_engine::clock::Clock;
use windrow_engine::execute::{Call, Executor, Tried};
use windrow_engine::signal::Stop;
use windrow_engine::storage::Storage;
use windrow_engine::{Engine, Handle, ingest};
use windrow_server::secret::{Secret, Terms};
use windrow_server::{App, Metrics, Options, Parts, Routes, Unserved};
use windrow_store::Store;
use windrow_store_sqlite::{Location, SqliteStore};

pub(crate) struct Desk {
    pub(crate) ann: String,
    pub(crate) bob: String,
    pub(crate) admin: String,
    /// How many lines may still be answered.
    pub(crate) gate: Arc<Semaphore>,
    url: String,
    http: reqwest::Client,
    stop: Stop,
    engine: Option<Handle>,
    tasks: JoinSet<()>,
    _folder: tempfile::TempDir,
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

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
    pub(crate) content_type: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("no JSON: {}", self.text()))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The JSON of an answer with this status.
    #[track_caller]
    pub(crate) fn ok(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text());
        self.json()
    }

    /// Checks the one shape of refusals.
    #[track_caller]
    pub(crate) fn refused(&self, status: u16, code: &str) {
        let error = self.ok(status)["error"].clone();
        assert_eq!(error["code"], code, "{error}");
        assert!(error["message"].is_string() && error["type"].is_string(), "{error}");
    }
}

/// Serves every model but one.
struct All;

impl Routes for All {
    fn check(&self, target: &Target, _: &str) -> Result<(), Unserved> {
        if target.as_str() == "unknown" { Err(Unserved::Target) } else { Ok(()) }
    }
}

/// Does what a line says in its body: `answer` is given as it is, `fail` and `missing` are refused.
async fn execute(gate: Arc<Semaphore>, call: Call) -> Tried {
    gate.acquire().await.unwrap().forget();
    let line: Value = serde_json::from_slice(&call.raw).unwrap();
    let refuse = |class: Class, code: &str| {
        let (code, message) = (code.to_owned(), "It says so.".to_owned());
        Tried::failed(Failure { class, code, message, retry_after: None })
    };
    let tried = match line["body"]["do"].as_str() {
        Some("fail") => refuse(Class::Permanent, "http_400"),
        Some("missing") => refuse(Class::NotFound, "http_404"),
        Some("wobble") if call.attempt == 1 => refuse(Class::Server, "http_503"),
        _ => match line["body"]["answer"].as_str() {
            Some(text) => Tried::completed(text.to_owned()),
            None => Tried::completed(json!({ "line": call.line }).to_string()),
        },
    };
    Tried { custom_id: line["custom_id"].as_str().map(str::to_owned), ..tried }
}

impl Desk {
    pub(crate) async fn new() -> Self {
        Self::with(Setup::default()).await
    }

    pub(crate) async fn with(setup: Setup) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let location = Location::File(folder.path().join("windrow.db"));
        let options = windrow_store_sqlite::Options { location, ..Default::default() };
        let store: Arc<dyn Store> = Arc::new(SqliteStore::open(options).await.unwrap());
        let storage = Storage::open(folder.path().join("outputs").to_str().unwrap()).unwrap();
        let gate = Arc::new(Semaphore::new(setup.answers));
        let gated = gate.clone();
        let executor: Arc<dyn Executor> = Arc::new(move |call| execute(gated.clone(), call));
        let (stop, mut tasks) = (Stop::new(), JoinSet::new());
        let engine = setup.works.then(|| {
            let builder = Engine::builder(store.clone()).executor(executor.clone());
            builder.storage(storage.clone()).options(work()).stop(stop.clone()).build()
        });
        let handle = engine.as_ref().map(Engine::handle);
        if let Some(engine) = engine {
            tasks.spawn(async move { engine.run().await.map(drop).unwrap() });
        }
        let app = App::new(Parts {
            store: store.clone(),
            storage,
            routes: Arc::new(All),
            engine: handle.clone(),
            executor: setup.has_executor.then_some(executor),
            work: work(),
            ingest: ingest::Options::default(),
            options: Options { pending_dashboard: setup.pending_dashboard, ..Options::default() },
            clock: Clock::machine(),
            metrics: Metrics::new(Clock::machine()),
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let server_stop = stop.clone();
        tasks.spawn(async move { app.serve(listener, None, server_stop).await.unwrap() });
        Self {
            ann: key(&*store, "ann", Role::Member).await,
            bob: key(&*store, "bob", Role::Member).await,
            admin: key(&*store, "root", Role::Admin).await,
            gate,
            url,
            http: reqwest::Client::new(),
            stop,
            engine: handle,
            tasks,
            _folder: folder,
        }
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> &str {
        self.url.trim_start_matches("http://")
    }

    pub(crate) async fn send(
        &self,
        key: &str,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<reqwest::Body>,
    ) -> Answer {
        let response = self.ask(key, method, path, headers, body).await;
        let content_type = response.headers().get("content-type");
        let content_type = content_type.map(|value| value.to_str().unwrap().to_owned());
        Answer {
            status: response.status().as_u16(),
            content_type: content_type.unwrap_or_default(),
            body: response.bytes().await.unwrap().to_vec(),
        }
    }

    pub(crate) async fn ask(
        &self,
        key: &str,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<reqwest::Body>,
    ) -> reqwest::Response {
        let request = self.http.request(method, format!("{}{path}", self.url)).body(body);
        let request = request.header("authorization", format!("Bearer {key}"));
        let request =
            headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        request.send().await.unwrap()
    }

    pub(crate) async fn get(&self, key: &str, path: &str) -> Answer {
        self.send(key, Method::GET, path, &[], "").await
    }

    pub(crate) async fn post(&self, key: &str, path: &str) -> Answer {
        self.send(key, Method::POST, path, &[], "").await
    }

    pub(crate) async fn post_json(&self, key: &str, path: &str, body: &Value) -> Answer {
        let json = [("content-type", "application/json")];
        self.send(key, Method::POST, path, &json, body.to_string()).await
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

    /// Stops everything and waits for it.
    pub(crate) async fn stop(mut self) {
        self.stop.give();
        self.engine.iter().for_each(Handle::stop);
        while let Some(ended) = self.tasks.join_next().await {
            ended.unwrap();
        }
    }
}

/// Small waits, so that tests are quick.
fn work() -> windrow_engine::Options {
    let mut options = windrow_engine::Options { grace_ms: 200, ..Default::default() };
    (options.retry.backoff_ms_min, options.retry.backoff_ms_max) = (1, 10);
    options
}

async fn key(store: &dyn Store, owner: &str, role: Role) -> String {
    let (id, secret) = Secret::make().unwrap();
    let (owner, name) = (Owner::new(owner).unwrap(), "test".to_owned());
    let terms = Terms { owner, role, name, expires_at: None };
    store.add_key(secret.to_new_key(id, terms)).await.unwrap();
    secret.reveal().to_owned()
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
