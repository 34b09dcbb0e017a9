//! Where the wallets are kept, and the instances that run them.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use windrow::domain::Owner;
use windrow::engine::messages::{CallOutcome, Client, Options, Runner, Running};
use windrow::postgres::PostgresStore;
use windrow::sqlite::SqliteStore;
use windrow::store::MessageStore;

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
pub(crate) async fn start(store: Arc<dyn MessageStore>) -> Result<Running> {
    let options = Options::default()
        .heartbeat_every(Duration::from_millis(300))
        .stale_after(Duration::from_secs(1));
    let runner = Runner::builder(store, "wallet").options(options).typed(Wallet);
    runner.start().await.context("starting an instance")
}

pub(crate) fn owner() -> Owner {
    Owner::new("bank").expect("a short name")
}

/// Asks a wallet under an id, and waits for the answer: the same id and call give the same answer, always.
pub(crate) async fn ask(client: &Client, id: &str, wallet: &str, ask: &Ask) -> Result<CallOutcome> {
    let call = client.ask::<Wallet>(wallet, ask).owner(owner()).caller("example").id(id);
    Ok(call.untyped().await?)
}
