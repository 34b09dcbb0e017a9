//! A server on a free port over a database of its own, a runner with a small object and a consumer,
//! and keys for three people.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use windrow_domain::{Owner, Role, Target};
use windrow_engine::clock::Clock;
use windrow_engine::deliver::Patterns;
use windrow_engine::ingest;
use windrow_engine::messages::{
    self, Client, Consumer, Context, Effects, HandlerError, Object, Runner,
};
use windrow_engine::signal::Stop;
use windrow_engine::storage::Storage;
use windrow_server::secret::{Secret, Terms};
use windrow_server::{App, Messages, Metrics, Options, Parts, Routes, Unserved};
use windrow_store::{Plane, Store};
use windrow_store_sqlite::{Location, SqliteStore};

/// What handlers share with the test.
#[derive(Default)]
pub(crate) struct Hands {
    /// Runs of the object's methods.
    pub(crate) runs: AtomicU32,
    /// Whether the consumer takes what is poison.
    pub(crate) is_immune: AtomicBool,
    /// Messages that the consumer took.
    pub(crate) taken: AtomicU32,
}

/// A number that grows.
struct Counter {
    hands: Arc<Hands>,
    gate: Arc<Semaphore>,
}

#[async_trait]
impl Object for Counter {
    fn object_type(&self) -> &'static str {
        "counter"
    }

    async fn call(
        &self,
        context: Context,
        method: &str,
        args: Bytes,
    ) -> Result<Effects, HandlerError> {
        self.hands.runs.fetch_add(1, Ordering::SeqCst);
        let before: u64 = match &context.state {
            Some(state) => std::str::from_utf8(state)?.parse()?,
            None => 0,
        };
        match method {
            "add" => {
                let args: Value = serde_json::from_slice(&args)?;
                let now = before + args["n"].as_u64().unwrap_or(1);
                let event = context.event("added", now.to_string());
                let append = context.append(windrow_domain::Expected::Any, vec![event]);
                let effects = Effects::reply(json!({ "value": now }).to_string());
                Ok(effects.put(now.to_string()).append(append))
            }
            "bytes" => Ok(Effects::reply(vec![0_u8, 255, 1])),
            "slow" => {
                self.gate.acquire().await?.forget();
                Ok(Effects::reply("\"at last\""))
            }
            "echo" => Ok(Effects::reply(args)),
            "who" => Ok(Effects::reply(context.caller_object().unwrap_or_default().to_owned())),
            _ => Err(HandlerError::permanent(format!("a counter cannot {method}"))),
        }
    }
}

/// Takes everything but poison.
struct Taster(Arc<Hands>);

#[async_trait]
impl Consumer for Taster {
    async fn consume(&self, context: Context, _: Bytes) -> Result<Effects, HandlerError> {
        if context.kind == "poison" && !self.0.is_immune.load(Ordering::SeqCst) {
            return Err(HandlerError::permanent("it is poison"));
        }
        self.0.taken.fetch_add(1, Ordering::SeqCst);
        Ok(Effects::none())
    }
}

struct Nobody;

impl Routes for Nobody {
    fn check(&self, _: &Target, _: &str) -> Result<(), Unserved> {
        Err(Unserved::Target)
    }
}

/// What runs messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Runs {
    /// A runner in the server's process.
    Here,
    /// Nobody, and nothing is set up.
    Never,
    /// The server has no messages at all.
    Off,
}

pub(crate) struct Desk {
    pub(crate) ann: String,
    pub(crate) bob: String,
    pub(crate) admin: String,
    /// How many slow calls may end.
    pub(crate) gate: Arc<Semaphore>,
    pub(crate) hands: Arc<Hands>,
    pub(crate) url: String,
    http: reqwest::Client,
    stop: Stop,
    runner: Option<Runner>,
    tasks: JoinSet<()>,
    _folder: tempfile::TempDir,
}

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: reqwest::header::HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("no JSON: {}", self.text()))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// The JSON of an answer with this status.
    #[track_caller]
    pub(crate) fn ok(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text());
        self.json()
    }

    /// Checks the one shape of refusals, and gives the sentence.
    #[track_caller]
    pub(crate) fn refused(&self, status: u16, code: &str) -> String {
        let error = self.ok(status)["error"].clone();
        assert_eq!(error["code"], code, "{error}");
        assert!(error["type"].is_string(), "{error}");
        error["message"].as_str().unwrap().to_owned()
    }
}

impl Desk {
    pub(crate) async fn new() -> Self {
        Self::with(Runs::Here).await
    }

    pub(crate) async fn with(runs: Runs) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let location = Location::File(folder.path().join("windrow.db"));
        let options = windrow_store_sqlite::Options { location, ..Default::default() };
        let sqlite = Arc::new(SqliteStore::open(options).await.unwrap());
        let (store, plane): (Arc<dyn Store>, Arc<dyn Plane>) = (sqlite.clone(), sqlite);
        let (hands, gate) = (Arc::<Hands>::default(), Arc::new(Semaphore::new(0)));
        let runner = match runs {
            Runs::Here => Some(runner(plane.clone(), &hands, &gate).await),
            Runs::Never | Runs::Off => None,
        };
        let parts = Parts {
            store: store.clone(),
            storage: Storage::open(folder.path().join("outputs").to_str().unwrap()).unwrap(),
            routes: Arc::new(Nobody),
            engine: None,
            executor: None,
            work: windrow_engine::Options::default(),
            ingest: ingest::Options::default(),
            options: Options { key_ms_max: 100, ..Options::default() },
            clock: Clock::machine(),
            metrics: Metrics::new(Clock::machine()),
        };
        let messages = match &runner {
            Some(runner) => Messages::new(runner.client()).watched(runner.watch()),
            None => Messages::new(Client::new(plane)),
        };
        let app = match runs {
            Runs::Here | Runs::Never => App::with_messages(parts, messages),
            Runs::Off => App::new(parts),
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (stop, mut tasks) = (Stop::new(), JoinSet::new());
        let server_stop = stop.clone();
        tasks.spawn(async move { app.serve(listener, None, server_stop).await.unwrap() });
        Self {
            ann: key(&*store, "ann", Role::Member).await,
            bob: key(&*store, "bob", Role::Member).await,
            admin: key(&*store, "root", Role::Admin).await,
            gate,
            hands,
            url,
            http: reqwest::Client::new(),
            stop,
            runner,
            tasks,
            _folder: folder,
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

    pub(crate) async fn send(
        &self,
        key: &str,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<reqwest::Body>,
    ) -> Answer {
        let response = self.ask(key, method, path, headers, body).await;
        Answer {
            status: response.status().as_u16(),
            headers: response.headers().clone(),
            body: response.bytes().await.unwrap().to_vec(),
        }
    }

    pub(crate) async fn get(&self, key: &str, path: &str) -> Answer {
        self.send(key, Method::GET, path, &[], "").await
    }

    pub(crate) async fn post(&self, key: &str, path: &str, body: &Value) -> Answer {
        let json = [("content-type", "application/json")];
        self.send(key, Method::POST, path, &json, body.to_string()).await
    }

    /// Asks an object of ann's, under this name.
    pub(crate) async fn call(&self, path: &str, id: &str, args: &str) -> Answer {
        let headers = [("idempotency-key", id), ("content-type", "application/json")];
        let path = format!("/v1/objects/{path}");
        self.send(&self.ann, Method::POST, &path, &headers, args.to_owned()).await
    }

    /// Asks until the answer is as it should be.
    pub(crate) async fn until(
        &self,
        key: &str,
        path: &str,
        is_so: impl Fn(&Value) -> bool,
    ) -> Value {
        let clock = Clock::machine();
        for _ in 0..1_500 {
            let answer = self.get(key, path).await.ok(200);
            if is_so(&answer) {
                return answer;
            }
            clock.sleep(std::time::Duration::from_millis(20)).await;
        }
        panic!("{path} does not come to be as it should");
    }

    /// Stops everything and waits for it.
    pub(crate) async fn stop(mut self) {
        self.stop.give();
        while let Some(ended) = self.tasks.join_next().await {
            ended.unwrap();
        }
        if let Some(runner) = self.runner.take() {
            runner.stop().await;
        }
    }
}

async fn runner(plane: Arc<dyn Plane>, hands: &Arc<Hands>, gate: &Arc<Semaphore>) -> Runner {
    let counter = Counter { hands: hands.clone(), gate: gate.clone() };
    let mut options =
        messages::Options { partitions: 16, grace_ms: 200, poll_ms: 100, ..Default::default() };
    (options.retry.backoff_ms_min, options.retry.backoff_ms_max) = (1, 10);
    Runner::builder(plane, "desk")
        .options(options)
        .object(counter)
        .consumer("taster", Patterns::default(), Taster(hands.clone()))
        .start()
        .await
        .unwrap()
}

async fn key(store: &dyn Store, owner: &str, role: Role) -> String {
    let (id, secret) = Secret::make().unwrap();
    let (owner, name) = (Owner::new(owner).unwrap(), "test".to_owned());
    let terms = Terms { owner, role, name, expires_at: None };
    store.add_key(secret.to_new_key(id, terms)).await.unwrap();
    secret.reveal().to_owned()
}
