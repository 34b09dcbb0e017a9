//! A server with a runner that has a small object and a consumer.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use windrow_engine::clock::Clock;
use windrow_engine::deliver::Patterns;
use windrow_engine::messages::{
    self, Client, Consumer, Context, Effects, HandlerError, Object, Runner, Running,
};
use windrow_engine::signal::Stop;
use windrow_server::{App, Messages, Options, Parts};
use windrow_store::{MessageStore, Store};

use crate::support::{self, ApiResponse, NoModels, TestServer};

/// What handlers share with the test.
#[derive(Default)]
pub(crate) struct HandlerState {
    /// Runs of the object's methods.
    pub(crate) runs: AtomicU32,
    /// Whether the consumer takes what is poison.
    pub(crate) is_immune: AtomicBool,
    /// Messages that the consumer took.
    pub(crate) taken: AtomicU32,
}

/// A number that grows.
struct Counter {
    handlers: Arc<HandlerState>,
    gate: Arc<Semaphore>,
}

#[async_trait]
impl Object for Counter {
    const TYPE: &'static str = "counter";

    async fn call(
        &self,
        context: Context,
        method: &str,
        args: Bytes,
    ) -> Result<Effects, HandlerError> {
        self.handlers.runs.fetch_add(1, Ordering::SeqCst);
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
            "away" => Err(HandlerError::unavailable("its database is down")),
            "who" => Ok(Effects::reply(context.caller_object().unwrap_or_default().to_owned())),
            _ => Err(HandlerError::permanent(format!("a counter cannot {method}"))),
        }
    }
}

/// Takes everything but poison.
struct PoisonConsumer(Arc<HandlerState>);

#[async_trait]
impl Consumer for PoisonConsumer {
    async fn consume(&self, context: Context, _: Bytes) -> Result<Effects, HandlerError> {
        if context.kind == "poison" && !self.0.is_immune.load(Ordering::SeqCst) {
            return Err(HandlerError::permanent("it is poison"));
        }
        self.0.taken.fetch_add(1, Ordering::SeqCst);
        Ok(Effects::none())
    }
}

/// What runs messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunnerMode {
    /// A runner in the server's process.
    Here,
    /// Nobody, and nothing is set up.
    Never,
    /// The server has no messages at all.
    Off,
}

pub(crate) struct Harness {
    server: TestServer,
    /// How many slow calls may end.
    pub(crate) gate: Arc<Semaphore>,
    pub(crate) handlers: Arc<HandlerState>,
    /// The store behind the server.
    pub(crate) message_store: Arc<dyn MessageStore>,
    runner: Option<Running>,
}

impl Deref for Harness {
    type Target = TestServer;

    fn deref(&self) -> &TestServer {
        &self.server
    }
}

impl Harness {
    pub(crate) async fn new() -> Self {
        Self::with(RunnerMode::Here).await
    }

    pub(crate) async fn with(runs: RunnerMode) -> Self {
        let (folder, sqlite) = support::database().await;
        let (store, message_store): (Arc<dyn Store>, Arc<dyn MessageStore>) =
            (sqlite.clone(), sqlite);
        let (handlers, gate) = (Arc::<HandlerState>::default(), Arc::new(Semaphore::new(0)));
        let runner = match runs {
            RunnerMode::Here => Some(runner(message_store.clone(), &handlers, &gate).await),
            RunnerMode::Never | RunnerMode::Off => None,
        };
        let parts = Parts {
            options: Options::default().key_cache_max(Duration::from_millis(100)),
            ..support::parts(store.clone(), folder.path(), NoModels)
        };
        let messages = match &runner {
            Some(runner) => Messages::new(runner.client()).watched({
                let handle = runner.handle();
                move || handle.gauges()
            }),
            None => Messages::new(Client::new(message_store.clone())),
        };
        let app = match runs {
            RunnerMode::Here | RunnerMode::Never => App::with_messages(parts, messages),
            RunnerMode::Off => App::new(parts),
        };
        let server = TestServer::start(app, &*store, folder, Stop::new()).await;
        Self { server, gate, handlers, message_store, runner }
    }

    /// Asks an object of ann's, under this name.
    pub(crate) async fn call(&self, path: &str, id: &str, args: &str) -> ApiResponse {
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

    /// Stops the server and then the runner, and waits for both.
    pub(crate) async fn stop(self) {
        self.server.stop().await;
        if let Some(runner) = self.runner {
            runner.stop().await;
        }
    }
}

async fn runner(
    message_store: Arc<dyn MessageStore>,
    handlers: &Arc<HandlerState>,
    gate: &Arc<Semaphore>,
) -> Running {
    let counter = Counter { handlers: handlers.clone(), gate: gate.clone() };
    let mut options = messages::Options::default()
        .partitions(16)
        .grace(Duration::from_millis(200))
        .poll_every(Duration::from_millis(100));
    (options.retry.backoff_ms_min, options.retry.backoff_ms_max) = (1, 10);
    Runner::builder(message_store, "test")
        .options(options)
        .object(counter)
        .consumer("taster", Patterns::default(), PoisonConsumer(handlers.clone()))
        .start()
        .await
        .unwrap()
}
