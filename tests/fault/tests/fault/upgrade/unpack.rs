//! What was stored, laid out as the build had left it.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use serde_json::Value;
use tokio::task::JoinSet;
use tokio_postgres::NoTls;
use windrow_fault::stored::{self, DUMP, Stage, TOLD};
use windrow_fault::{Backend, program};
use windrow_testkit::postgres::Database;

/// Time went by since these were made, and the longest window of a job is 30 days: it begins now.
const LATER_SQLITE: &str = "UPDATE batches SET
    deadline = deadline + CAST(unixepoch('subsec') * 1000000 AS INTEGER) - created_at,
    created_at = CAST(unixepoch('subsec') * 1000000 AS INTEGER)
    WHERE deadline IS NOT NULL AND closed_at IS NULL";
/// The same; and this is another cluster (docs/operate/postgres.md).
const LATER_POSTGRES: &str = "
    UPDATE windrow.batches SET deadline = deadline + (now() - created_at), created_at = now()
    WHERE deadline IS NOT NULL AND closed_at IS NULL;
    UPDATE windrow.events SET feed_xid = '1';
    UPDATE windrow.event_streams SET feed_xid = '1'";

/// A stored database, ready to be gone on with.
pub(super) struct Unpacked {
    /// What was told of it when it was made.
    pub(super) told: Value,
    /// This build's binary over it.
    pub(super) stage: Stage,
    /// As the store opens it.
    pub(super) database: String,
    _clone: Option<Database>,
}

/// The folder of every build that was stored.
pub(super) fn builds() -> Vec<PathBuf> {
    let entries = fs::read_dir(stored::folder()).unwrap();
    let builds = entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir());
    let builds: Vec<PathBuf> = builds.collect();
    assert!(!builds.is_empty(), "nothing is stored");
    builds
}

impl Unpacked {
    pub(super) async fn new(build: &Path, backend: Backend) -> Self {
        let from = build.join(stored::name(backend));
        let told = serde_json::from_slice(&fs::read(from.join(TOLD)).unwrap()).unwrap();
        let clone = match backend {
            Backend::Sqlite => None,
            Backend::Postgres => Some(load(&from.join(DUMP)).await),
        };
        let url = clone.as_ref().map(Database::url);
        let stage = Stage::new(program::binary(), url.clone());
        copy(&from.join("data"), &stage.data()).unwrap();
        let file = stage.data().join("windrow.db");
        if backend == Backend::Sqlite {
            rusqlite::Connection::open(&file).unwrap().execute(LATER_SQLITE, []).unwrap();
        }
        let database = url.unwrap_or_else(|| file.to_str().unwrap().to_owned());
        Self { told, stage, database, _clone: clone }
    }

    /// A text that was told.
    pub(super) fn told(&self, name: &str) -> &str {
        self.told[name].as_str().unwrap()
    }
}

async fn load(dump: &Path) -> Database {
    let database = Database::empty().await;
    let (client, connection) = tokio_postgres::connect(&database.url(), NoTls).await.unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(connection);
    let packed = File::open(dump.with_added_extension("gz")).unwrap();
    client.batch_execute(&io::read_to_string(GzDecoder::new(packed)).unwrap()).await.unwrap();
    client.batch_execute(LATER_POSTGRES).await.unwrap();
    database
}

/// The folder and all in it; what is packed is unpacked.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let path = entry?.path();
        let to = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &to)?;
        } else if path.extension().is_some_and(|end| end == "gz") {
            let mut packed = GzDecoder::new(File::open(&path)?);
            io::copy(&mut packed, &mut File::create(to.with_extension(""))?)?;
        } else {
            fs::copy(&path, &to)?;
        }
    }
    Ok(())
}
