//! The contract's meaning, on a database in a file and on one in memory.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use async_trait::async_trait;
use jiff::Timestamp;
use tempfile::TempDir;
use windrow_store::Time;
use windrow_store_conformance::World;
use windrow_store_sqlite::{Location, Options, SqliteStore};

/// A fresh database and a clock that stands still.
pub struct SqliteWorld {
    store: SqliteStore,
    options: Options,
    /// Kept for as long as the database in it.
    dir: Option<TempDir>,
}

impl SqliteWorld {
    async fn new(dir: Option<TempDir>) -> Self {
        let start: Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
        let location = match &dir {
            Some(dir) => Location::File(dir.path().join("windrow.db")),
            None => Location::Memory,
        };
        let options = Options::default().location(location).time(Time::given(start));
        let store = SqliteStore::open(options.clone()).await.unwrap();
        Self { store, options, dir }
    }
}

#[async_trait]
impl World for SqliteWorld {
    type Store = SqliteStore;

    fn store(&self) -> &SqliteStore {
        &self.store
    }

    fn time(&self) -> &Time {
        &self.options.time
    }

    async fn another(&self) -> SqliteStore {
        match self.dir {
            Some(_) => SqliteStore::open(self.options.clone()).await.unwrap(),
            // Nobody else can see a database in memory.
            None => self.store.clone(),
        }
    }

    async fn deadlocks(&self) -> u64 {
        0
    }
}

pub async fn in_a_file() -> SqliteWorld {
    SqliteWorld::new(Some(tempfile::tempdir().unwrap())).await
}

pub async fn in_memory() -> SqliteWorld {
    SqliteWorld::new(None).await
}

mod file {
    windrow_store_conformance::suite!(world = crate::in_a_file);
}

mod memory {
    windrow_store_conformance::suite!(world = crate::in_memory);
}

mod messages_in_a_file {
    windrow_store_conformance::message_suite!(world = crate::in_a_file);
}

mod messages_in_memory {
    windrow_store_conformance::message_suite!(world = crate::in_memory);
}
