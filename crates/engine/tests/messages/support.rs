//! What the tests of messages share: a store, short bounds, a wallet, and consumers made of closures.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use windrow_domain::retry::Policy;
use windrow_domain::{Expected, Owner, Queue, RequestId, Stream};
use windrow_engine::clock::Clock;
use windrow_engine::deliver::Patterns;
use windrow_engine::messages::{
    Builder, CallOutcome, Client, Consumer, Context, Effects, HandlerError, Options, Runner, Typed,
};
use windrow_store::call::{CallKey, NewCall};
use windrow_store::layer::{LayeredStore, StoreLayer};
use windrow_store::message::{DeadLetter, MessagesQuery, NewMessage};
use windrow_store::{Kind, MessageStore, Messages, Scope, Store};
use windrow_store_postgres::PostgresStore;
use windrow_store_sqlite::SqliteStore;
use windrow_testkit::postgres::Database;

pub(crate) const LONG: Duration = Duration::from_secs(20);
pub(crate) const MINUTE: Duration = Duration::from_secs(60);

/// What keeps the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Backend {
    /// In memory.
    Sqlite,
    /// A database of its own on the test's server.
    Postgres,
}

/// An empty store, whose database goes with it.
pub(crate) async fn store(backend: Backend) -> Arc<dyn Store> {
    match backend {
        Backend::Sqlite => {
            let options = windrow_store_sqlite::Options::default();
            Arc::new(SqliteStore::open(options).await.unwrap())
        }
        Backend::Postgres => {
            let database = database().await;
            let store = connect(database.url()).await;
            Arc::new(LayeredStore::new(store, Keeps { _database: database }))
        }
    }
}

/// A migrated database on the test's server.
pub(crate) async fn database() -> Database {
    let migrate = |url| async { connect(url).await.migrate().await };
    Database::fresh(migrate).await
}

pub(crate) async fn connect(url: String) -> Arc<PostgresStore> {
    let options = windrow_store_postgres::Options::new(url);
    Arc::new(PostgresStore::connect(options).await.unwrap())
}

/// Keeps a database as long as the store that it is around.
struct Keeps {
    _database: Database,
}

#[async_trait]
impl StoreLayer for Keeps {
    type Span = ();

    async fn begin(&self, _: &'static str) {}

    fn end(&self, (): (), _: &'static str, _: Option<Kind>) {}
}

/// Few partitions and short waits.
pub(crate) fn options() -> Options {
    let retry = Policy { backoff_ms_min: 5, backoff_ms_max: 20, ..Policy::default() };
    let ms = Duration::from_millis;
    Options::default()
        .partitions(8)
        .heartbeat_every(ms(100))
        .stale_after(ms(500))
        .poll_every(ms(100))
        .poll_awake_every(ms(20))
        .idle_after(ms(100))
        .handler_timeout(ms(2_000))
        .grace(ms(5_000))
        .retry(retry)
}

pub(crate) fn runner(store: Arc<dyn MessageStore>) -> Builder {
    Runner::builder(store, "test").options(options())
}

pub(crate) fn owner() -> Owner {
    Owner::new("ann").unwrap()
}

pub(crate) fn stream(name: &str) -> Stream {
    Stream::new(name).unwrap()
}

pub(crate) fn sent(queue: Queue, name: &str, id: &str) -> NewMessage {
    NewMessage::new(queue, owner(), stream(name), id).kind("test").payload(id.to_owned())
}

pub(crate) fn inbox(name: &str, id: &str) -> NewMessage {
    sent(Queue::Inbox, name, id)
}

/// A question for a wallet.
pub(crate) fn question(wallet: &str, id: &str, method: &str, args: &str) -> NewCall {
    NewCall::new(key(id), "wallet", wallet, method).args(args.to_owned())
}

pub(crate) fn deposit(wallet: &str, id: &str, cents: u64) -> NewCall {
    question(wallet, id, "deposit", &format!(r#"{{"cents":{cents}}}"#))
}

pub(crate) fn key(id: &str) -> CallKey {
    CallKey { owner: owner(), request_id: RequestId::new(id).unwrap() }
}

pub(crate) fn reply(text: &str) -> CallOutcome {
    CallOutcome::Reply(Bytes::from(text.to_owned()))
}

/// Waits until something holds, and fails when it does not in a long time.
pub(crate) async fn until<F: Future<Output = bool>>(what: &str, mut holds: impl FnMut() -> F) {
    let clock = Clock::machine();
    while !holds().await {
        assert!(clock.elapsed() < LONG, "in vain: {what}");
        clock.sleep(Duration::from_millis(5)).await;
    }
}

/// Whether nothing waits any more, in any queue.
pub(crate) async fn is_empty(store: &dyn Messages) -> bool {
    store.backlog().await.unwrap().iter().all(|backlog| backlog.messages == 0)
}

pub(crate) async fn settle(store: &dyn Messages) {
    until("all messages ended", || is_empty(store)).await;
}

pub(crate) async fn dead(store: &dyn Messages) -> Vec<DeadLetter> {
    let query = MessagesQuery { limit: 100, ..MessagesQuery::default() };
    store.dead_letters(&Scope::All, query).await.unwrap().rows
}

/// What handlers saw, by stream.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<BTreeMap<String, Vec<String>>>>);

impl Log {
    pub(crate) fn add(&self, context: &Context) {
        let mut log = self.0.lock().unwrap();
        log.entry(context.stream.as_str().to_owned()).or_default().push(context.id.clone());
    }

    pub(crate) fn of(&self, stream: &str) -> Vec<String> {
        self.0.lock().unwrap().get(stream).cloned().unwrap_or_default()
    }

    pub(crate) fn count(&self, id: &str) -> usize {
        let log = self.0.lock().unwrap();
        log.values().flatten().filter(|seen| *seen == id).count()
    }
}

type Boxed = Pin<Box<dyn Future<Output = Result<Effects, HandlerError>> + Send>>;

/// A consumer made of a closure.
pub(crate) struct Does<F>(pub(crate) F);

#[async_trait]
impl<F: Fn(Context, Bytes) -> Boxed + Send + Sync + 'static> Consumer for Does<F> {
    async fn consume(&self, context: Context, payload: Bytes) -> Result<Effects, HandlerError> {
        self.0(context, payload).await
    }
}

/// Everything goes there.
pub(crate) fn all() -> Patterns {
    Patterns::default()
}

/// Money of somebody. Each change is an event and a message.
pub(crate) struct Wallet;

#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Cents {
    pub(crate) cents: u64,
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Ask {
    Deposit { cents: u64 },
    Withdraw { cents: u64 },
    Balance,
    Transfer { cents: u64, to: String },
}

#[async_trait]
impl Typed for Wallet {
    type State = Cents;
    type Call = Ask;
    type Reply = u64;
    const TYPE: &'static str = "wallet";

    async fn run(
        &self,
        context: &Context,
        state: &mut Cents,
        call: Ask,
        effects: &mut Effects,
    ) -> Result<u64, HandlerError> {
        match call {
            Ask::Balance => return Ok(state.cents),
            Ask::Deposit { cents } => state.cents += cents,
            Ask::Withdraw { cents } | Ask::Transfer { cents, .. } if cents > state.cents => {
                return Err(HandlerError::permanent("not enough money"));
            }
            Ask::Withdraw { cents } => state.cents -= cents,
            Ask::Transfer { cents, to } => {
                state.cents -= cents;
                let args = format!(r#"{{"cents":{cents}}}"#);
                effects.calls.push(context.ask("wallet", to, "deposit", args)?);
            }
        }
        let event = context.event("wallet.changed", state.cents.to_string());
        effects.events.push(context.append(Expected::Any, vec![event]));
        Ok(state.cents)
    }
}

pub(crate) async fn balance(client: &Client, wallet: &str, id: &str) -> CallOutcome {
    client.call(question(wallet, id, "balance", ""), LONG).await.unwrap()
}
