//! What the tests of the API share: a database of their own, a server on a free port over it, keys, and a
//! client.

#![allow(dead_code, reason = "each test program uses its part")]

use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

use reqwest::Method;
use reqwest::header::HeaderMap;
use serde_json::Value;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use windrow_domain::{KeyId, Owner, Role, Target};
use windrow_engine::clock::Clock;
use windrow_engine::ingest;
use windrow_engine::signal::Stop;
use windrow_engine::storage::Storage;
use windrow_server::api_key::{ApiKey, KeySpec};
use windrow_server::{App, Metrics, Options, Parts, Routes, Unserved};
use windrow_store::Store;
use windrow_store_sqlite::{Location, SqliteStore};

/// Serves every model but one.
pub(crate) struct AnyModel;

impl Routes for AnyModel {
    fn check(&self, target: &Target, _: &str) -> Result<(), Unserved> {
        if target.as_str() == "unknown" { Err(Unserved::Target) } else { Ok(()) }
    }
}

/// Serves no model.
pub(crate) struct NoModels;

impl Routes for NoModels {
    fn check(&self, _: &Target, _: &str) -> Result<(), Unserved> {
        Err(Unserved::Target)
    }
}

/// A database in a folder that goes with the test.
pub(crate) async fn database() -> (TempDir, Arc<SqliteStore>) {
    let folder = tempfile::tempdir().unwrap();
    let location = Location::File(folder.path().join("windrow.db"));
    let options = windrow_store_sqlite::Options::default().location(location);
    (folder, Arc::new(SqliteStore::open(options).await.unwrap()))
}

/// The parts of a server over it with default limits and without a worker.
pub(crate) fn parts(store: Arc<dyn Store>, folder: &Path, routes: impl Routes + 'static) -> Parts {
    Parts {
        store,
        storage: Storage::open(folder.join("outputs").to_str().unwrap()).unwrap(),
        routes: Arc::new(routes),
        engine: None,
        executor: None,
        work: windrow_engine::Options::default(),
        ingest: ingest::Options::default(),
        options: Options::default(),
        clock: Clock::machine(),
        metrics: Metrics::new(Clock::machine()),
    }
}

/// Serves until it is stopped; gives its URL.
pub(crate) async fn serve(app: App, stop: &Stop, tasks: &mut JoinSet<()>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let stop = stop.clone();
    tasks.spawn(async move { app.serve(listener, None, stop).await.unwrap() });
    url
}

/// Creates a key.
pub(crate) async fn key(store: &dyn Store, owner: &str, role: Role) -> (KeyId, String) {
    let (id, api_key) = ApiKey::generate().unwrap();
    let (owner, name) = (Owner::new(owner).unwrap(), "test".to_owned());
    let spec = KeySpec { owner, role, name, expires_at: None };
    store.add_key(api_key.to_new_key(id, spec)).await.unwrap();
    (id, api_key.reveal().to_owned())
}

/// A server on a free port, its database, and its callers.
pub(crate) struct TestServer {
    callers: Callers,
    pub(crate) stop: Stop,
    pub(crate) tasks: JoinSet<()>,
    _folder: TempDir,
}

impl Deref for TestServer {
    type Target = Callers;

    fn deref(&self) -> &Callers {
        &self.callers
    }
}

impl TestServer {
    /// Serves the application over a database in this folder, with keys for its callers.
    pub(crate) async fn start(app: App, store: &dyn Store, folder: TempDir, stop: Stop) -> Self {
        let mut tasks = JoinSet::new();
        let url = serve(app, &stop, &mut tasks).await;
        let callers = Callers::new(store, url).await;
        Self { callers, stop, tasks, _folder: folder }
    }

    /// Stops the server, and waits for every task.
    pub(crate) async fn stop(mut self) {
        self.stop.give();
        while let Some(ended) = self.tasks.join_next().await {
            ended.unwrap();
        }
    }
}

/// Two members and an admin, with their keys, and a client to send their requests.
pub(crate) struct Callers {
    pub(crate) ann: String,
    pub(crate) bob: String,
    pub(crate) bob_id: KeyId,
    pub(crate) admin: String,
    pub(crate) url: String,
    http: reqwest::Client,
}

impl Callers {
    pub(crate) async fn new(store: &dyn Store, url: String) -> Self {
        let (bob_id, bob) = key(store, "bob", Role::Member).await;
        Self {
            ann: key(store, "ann", Role::Member).await.1,
            bob,
            bob_id,
            admin: key(store, "root", Role::Admin).await.1,
            url,
            http: reqwest::Client::new(),
        }
    }

    /// The address it listens on.
    pub(crate) fn address(&self) -> &str {
        self.url.trim_start_matches("http://")
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
    ) -> ApiResponse {
        let response = self.ask(key, method, path, headers, body).await;
        ApiResponse {
            status: response.status().as_u16(),
            headers: response.headers().clone(),
            body: response.bytes().await.unwrap().to_vec(),
        }
    }

    pub(crate) async fn get(&self, key: &str, path: &str) -> ApiResponse {
        self.send(key, Method::GET, path, &[], "").await
    }

    pub(crate) async fn post(&self, key: &str, path: &str) -> ApiResponse {
        self.send(key, Method::POST, path, &[], "").await
    }

    pub(crate) async fn post_json(&self, key: &str, path: &str, body: &Value) -> ApiResponse {
        let json = [("content-type", "application/json")];
        self.send(key, Method::POST, path, &json, body.to_string()).await
    }
}

/// A response that was read to its end.
pub(crate) struct ApiResponse {
    pub(crate) status: u16,
    headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl ApiResponse {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("no JSON: {}", self.text()))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// The JSON of a response with this status.
    #[track_caller]
    pub(crate) fn ok(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text());
        self.json()
    }

    /// Checks the shape of an error, and gives its message.
    #[track_caller]
    pub(crate) fn refused(&self, status: u16, code: &str) -> String {
        let error = self.ok(status)["error"].clone();
        assert_eq!(error["code"], code, "{error}");
        assert!(error["type"].is_string(), "{error}");
        error["message"].as_str().unwrap().to_owned()
    }
}
