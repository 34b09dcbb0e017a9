//! Migrations go forward; functions live in a schema named after their own text.
//!
//! Holds throughout: two builds with different functions never share one, so old and new programs
//! overlap safely during an upgrade; a program refuses a schema it does not know.

use std::sync::LazyLock;

use deadpool_postgres::Object;
use tokio_postgres::Client;
use windrow_store::error::{Error, Kind, Result};

use crate::db::{Db, with_functions};
use crate::error::{from_driver, kind_of};

mod embedded {
    refinery::embed_migrations!("migrations");
}

const HISTORY: &str = "windrow_schema_history";
/// The advisory lock that orders those who migrate: "windrow" in ASCII.
const LOCK: i64 = 0x77_69_6e_64_72_6f_77;

/// How long one who migrates waits for another.
const WAIT: &str = "SET lock_timeout = '60s'";

macro_rules! functions {
    ($($name:literal),* $(,)?) => { &[$(include_str!(concat!("../sql/", $name, ".sql"))),*] };
}

/// Everything that must be decided under a lock.
const FUNCTIONS: &[&str] = functions![
    "kernel/add_returned",
    "kernel/ready_at",
    "kernel/move_lines",
    "kernel/settle_batch",
    "kernel/settle_batches",
    "kernel/lock_permits",
    "kernel/free_permits",
    "kernel/use_permits",
    "ingest/finish_chunk",
    "ingest/seal_file",
    "ingest/drop_file",
    "batch/create_batch",
    "batch/steer_batch",
    "batch/reprocess",
    "claim/split_lines",
    "claim/tidy_lines",
    "claim/take_returned",
    "claim/claim",
    "claim/lease_lines",
    "claim/give_back",
    "claim/release_leases",
    "claim/set_limit",
    "record/record",
    "member/tombstone",
    "finalise/close_batch",
    "finalise/find_unclosed",
    "sweep/return_lost",
    "sweep/prune",
    "sweep/reap",
    "partition/stream_hash",
    "partition/partition_of",
    "partition/set_up",
    "partition/take_partitions",
    "partition/release_partitions",
    "partition/fence",
    "wake/wake",
    "message/put_messages",
    "message/lock_stream",
    "message/read_owned",
    "message/commit_started",
    "message/places",
    "message/commit_done",
    "message/commit_consumed",
    "message/commit_failed",
    "message/commit_dead",
    "message/replay_dead",
    "message/tidy_messages",
    "message/tell_batch",
    "object/put_states",
    "event/append_events",
    "call/lock_calls",
    "call/repeat_call",
    "call/submit_call",
    "call/submit_calls",
    "call/commit_calls",
    "app/check_text",
    "app/check_body",
    "app/send",
    "app/append",
    "app/close_to_public",
];

/// The schema of this build's functions.
pub(crate) fn functions_schema() -> &'static str {
    static NAME: LazyLock<String> = LazyLock::new(|| {
        let mut hasher = blake3::Hasher::new();
        FUNCTIONS.iter().for_each(|text| {
            hasher.update(text.as_bytes());
        });
        format!("windrow_fn_{}", &hasher.finalize().to_hex()[..12])
    });
    &NAME
}

pub(crate) async fn run(db: &Db) -> Result<()> {
    const VERB: &str = "migrate";
    // Taken out of the pool: its end gives the lock back, whatever happens in between.
    let mut client = Object::take(db.client(VERB, &"database").await?);
    let driver = |cause| from_driver(VERB, "database", cause);
    client.batch_execute(WAIT).await.map_err(driver)?;
    client.execute(include_str!("../sql/migrate/lock.sql"), &[&LOCK]).await.map_err(driver)?;
    let mut runner = embedded::migrations::runner();
    runner.set_migration_table_name(HISTORY);
    let tables = runner.run_async(&mut *client).await;
    tables.map_err(from_runner)?;
    install_functions(&client).await.map_err(driver)
}

/// Creates the functions in one transaction, unless this build's schema is there already.
async fn install_functions(client: &Client) -> Result<(), tokio_postgres::Error> {
    let schema = functions_schema();
    let there =
        client.query_one(include_str!("../sql/migrate/has_functions.sql"), &[&schema]).await?;
    if there.get(0) {
        return Ok(());
    }
    let texts: String = FUNCTIONS.iter().map(|text| with_functions(text)).collect();
    client.batch_execute(&format!("BEGIN; CREATE SCHEMA {schema}; {texts} COMMIT")).await
}

/// A migration that failed: the database's own word if it has one, else the schema is not ours.
fn from_runner(cause: refinery::Error) -> Error {
    let driver = std::error::Error::source(&cause)
        .and_then(|source| source.downcast_ref::<tokio_postgres::Error>());
    let kind = match driver {
        Some(driver) if driver.is_closed() => Kind::Unavailable,
        Some(driver) => driver.code().map_or(Kind::Unavailable, |code| kind_of(code.code())),
        None => Kind::Corrupt,
    };
    Error::new(kind, "migrate", "database").because(cause)
}
