//! The fixture of a test: a database of its own, and a folder.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use windrow::domain::BatchId;
use windrow::postgres::PostgresStore;
use windrow::sqlite::SqliteStore;
use windrow::store::batch::Batch;
use windrow::store::{Result, Scope, Store};
use windrow_testkit::postgres::Database;

use crate::{input, wait};

/// Opens the database as the programs under test do: a path is SQLite.
pub async fn open(database: &str) -> Result<Arc<dyn Store>> {
    if !database.contains("://") {
        return Ok(Arc::new(SqliteStore::open(windrow::sqlite::Options::file(database)).await?));
    }
    let store = PostgresStore::connect(windrow::postgres::Options::new(database)).await?;
    store.migrate().await?;
    Ok(Arc::new(store))
}

/// What keeps the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// A file that several processes share.
    Sqlite,
    /// A database of its own on the test's server.
    Postgres,
}

/// A database and a folder, gone when it is dropped.
pub struct Fixture {
    store: Arc<dyn Store>,
    database: String,
    // Dropped after the store, which has connections to it.
    _clone: Option<Database>,
    folder: TempDir,
}

impl Fixture {
    /// A new one.
    ///
    /// # Panics
    /// When it cannot be made.
    pub async fn on(backend: Backend) -> Self {
        match backend {
            Backend::Sqlite => {
                let folder = folder();
                let path = folder.path().join("windrow.db");
                let path = path.to_str().expect("a path of plain characters").to_owned();
                Self::over(path, folder).await
            }
            Backend::Postgres => {
                let migrate = |url: String| async move { open(&url).await.map(drop) };
                let clone = Database::fresh(migrate).await;
                let fixture = Self::over(clone.url(), folder()).await;
                Self { _clone: Some(clone), ..fixture }
            }
        }
    }

    /// A database at that address, which somebody else removes.
    ///
    /// # Panics
    /// When it cannot be opened.
    pub async fn at(database: String) -> Self {
        Self::over(database, folder()).await
    }

    async fn over(database: String, folder: TempDir) -> Self {
        let store = open(&database).await.expect("the test's own database opens");
        Self { store, database, _clone: None, folder }
    }

    /// Gives the programs under test another way to the same database; this one looks past it.
    pub fn reach_by(&mut self, database: String) {
        self.database = database;
    }

    /// To look into it, past the programs under test.
    pub fn store(&self) -> &dyn Store {
        &*self.store
    }

    /// Its address, as `--database` takes it.
    pub fn database(&self) -> &str {
        &self.database
    }

    /// The folder for everything.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The folder of outputs, unless a test puts them elsewhere.
    pub fn outputs(&self) -> PathBuf {
        self.folder().join("outputs")
    }

    /// A batch of that many lines.
    pub async fn batch(&self, lines: u64) -> BatchId {
        let id = BatchId::new();
        input::batch(self.store(), id, lines).await;
        id
    }

    /// Waits until the batch is closed.
    ///
    /// # Panics
    /// When it is not closed in time, with the state it is in.
    pub async fn closed(&self, batch: BatchId, within: Duration) -> Batch {
        let look = || async {
            // A server that is away for the moment is asked again.
            let found = self.store.batch(&Scope::All, batch).await.ok()?;
            found.state.is_closed().then_some(found)
        };
        wait::until(within, look, || self.describe(batch)).await
    }

    /// Waits until that many lines of the batch have a result.
    ///
    /// # Panics
    /// When they have none in time.
    pub async fn finished(&self, batch: BatchId, lines: u64, within: Duration) {
        let look = || async {
            let found = self.store.batch(&Scope::All, batch).await.ok()?;
            (found.counts.finished() >= lines).then_some(())
        };
        wait::until(within, look, || self.describe(batch)).await;
    }

    /// What is known of the batch, for a test that gave up on it.
    pub async fn describe(&self, batch: BatchId) -> String {
        let found = self.store.batch(&Scope::All, batch).await;
        let lanes = self.store.lanes(&Scope::All, batch).await;
        let audit = self.store.verify(batch).await.map(|audit| audit.check());
        let members = self.store.members().await.map(|members| members.len());
        format!(
            "the batch is {found:#?}, its lanes {lanes:?}, audit {audit:?}, members {members:?}"
        )
    }
}

fn folder() -> TempDir {
    tempfile::Builder::new().prefix("windrow-fault-").tempdir().expect("a temporary folder")
}
