//! Where the wallets are kept, and the instances that run them.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use windrow::domain::{CrashPolicy, Owner, RequestId};
use windrow::engine::messages::{AsObject, CallOutcome, Client, Options, Runner};
use windrow::postgres::PostgresStore;
use windrow::sqlite::SqliteStore;
use windrow::store::MessageStore;
use windrow::store::call::{CallKey, NewCall};

use crate::wallet::{Ask, Wallet};

/// A database: a file of SQLite, or PostgreSQL by its URL.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    File(PathBuf),
    Url(String),
}

impl Place {
    /// Opens it, and makes the tables that are not there.
    pub(crate) async fn open(&self) -> Result<Arc<dyn MessageStore>> {
        match self {
            Place::File(path) => {
                let options = windrow::sqlite::Options::file(path);
                Ok(Arc::new(SqliteStore::open(options).await.context("opening the file")?))
            }
            Place::Url(url) => {
                let options = windrow::postgres::Options::new(url);
                let store = PostgresStore::connect(options).await.context("connecting")?;
                store.migrate().await.context("making the tables")?;
                Ok(Arc::new(store))
            }
        }
    }
}

/// An instance that runs wallets. Others take over a second after it has died.
pub(crate) async fn start(store: Arc<dyn MessageStore>) -> Result<Runner> {
    let options = Options { heartbeat_ms: 300, stale_ms: 1_000, ..Options::default() };
    let runner = Runner::builder(store, "wallet").options(options).object(AsObject::new(Wallet));
    runner.start().await.context("starting an instance")
}

pub(crate) fn owner() -> Owner {
    Owner::new("bank").expect("a short name")
}

/// A question to a wallet, under an id: the same id and question give the same answer, always.
pub(crate) fn question(id: &str, wallet: &str, ask: &Ask) -> Result<NewCall> {
    // A method with its arguments is `{"deposit": {"cents": 5}}`, one without is `"balance"`.
    let (method, args) = match serde_json::to_value(ask)? {
        serde_json::Value::Object(one) => {
            one.into_iter().next().context("a method and its arguments")?
        }
        serde_json::Value::String(method) => (method, serde_json::Value::Null),
        other => anyhow::bail!("{other} is no question"),
    };
    Ok(NewCall {
        key: CallKey { owner: owner(), request_id: RequestId::new(id)? },
        object_type: "wallet".to_owned(),
        object_id: wallet.to_owned(),
        method,
        args: serde_json::to_vec(&args)?.into(),
        policy: CrashPolicy::Retry,
        caller_object: None,
        caller_client: Some("example".to_owned()),
        expires_at: None,
        waiter: None,
    })
}

/// Asks, and waits for the answer.
pub(crate) async fn ask(client: &Client, id: &str, wallet: &str, ask: &Ask) -> Result<CallOutcome> {
    let patience = Duration::from_secs(30);
    Ok(client.call(question(id, wallet, ask)?, patience).await?)
}
