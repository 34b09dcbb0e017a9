//! A world on PostgreSQL: a database of its own for each case, direct or through a pooler.

use async_trait::async_trait;
use jiff::Timestamp;
use windrow_store::{Error, Time};
use windrow_store_conformance::World;
use windrow_store_postgres::{Options, PostgresStore};
use windrow_testkit::postgres::Database;
use windrow_testkit::required;

/// A fresh database with a given clock.
pub(crate) struct PostgresWorld {
    options: Options,
    store: PostgresStore,
    database: Database,
}

impl PostgresWorld {
    /// A world whose store talks to the server itself.
    #[allow(dead_code, reason = "each test program uses its own way in")]
    pub(crate) async fn direct() -> Self {
        let database = fresh().await;
        let url = database.url();
        Self::over(database, url, false).await
    }

    /// A world whose store talks through a transaction pooler.
    #[allow(dead_code, reason = "each test program uses its own way in")]
    pub(crate) async fn pooled() -> Self {
        let database = fresh().await;
        // Skipped where there is no pooler; at least the statements that one needs are run.
        let pooler = required("a transaction pooler", database.pooler_url());
        let url = pooler.unwrap_or_else(|| database.url());
        Self::over(database, url, true).await
    }

    async fn over(database: Database, url: String, transaction_pooler: bool) -> Self {
        let time = Time::given(Timestamp::from_second(1_800_000_000).unwrap());
        let options =
            Options::new(url).pool_max(6).transaction_pooler(transaction_pooler).time(time);
        let store = PostgresStore::connect(options.clone()).await.unwrap();
        Self { options, store, database }
    }
}

async fn fresh() -> Database {
    Database::fresh(async |url| {
        PostgresStore::connect(Options::new(url)).await?.migrate().await?;
        Ok::<_, Error>(())
    })
    .await
}

#[async_trait]
impl World for PostgresWorld {
    type Store = PostgresStore;

    fn store(&self) -> &PostgresStore {
        &self.store
    }

    fn time(&self) -> &Time {
        &self.options.time
    }

    async fn another(&self) -> PostgresStore {
        PostgresStore::connect(self.options.clone()).await.unwrap()
    }

    async fn deadlocks(&self) -> u64 {
        self.database.deadlocks().await
    }
}
