//! Migrations go forward; functions live in a schema named after their own text.
//!
//! Holds throughout: two builds with different functions never share one, so old and new programs
//! overlap safely during an upgrade; a program refuses a schema it does not know; where there is
//! nothing to do, a role needs no right to create anything.

use std::fmt;
use std::sync::LazyLock;

use deadpool_postgres::Object;
use refinery::Runner;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;
use windrow_store::error::{Cause, Error, Kind, NotMigrated, Result};

use crate::db::{Db, with_functions};
use crate::error::{from_driver, kind_of};

mod embedded {
    refinery::embed_migrations!("migrations");
}

const HISTORY: &str = "windrow_schema_history";
/// The advisory lock under which one process at a time migrates: "windrow" in ASCII.
const LOCK: i64 = 0x77_69_6e_64_72_6f_77;

/// A process that migrates waits at most so long for another one; its own statements have no bound.
const WAIT: &str = "SET lock_timeout = '60s'; SET statement_timeout = 0; \
                    SET idle_in_transaction_session_timeout = 0";

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
    "batch/move_batch",
    "batch/reprocess",
    "batch/find_seqs",
    "batch/try_now",
    "batch/reshape",
    "batch/continue_batch",
    "claim/split_lines",
    "claim/tidy_lines",
    "claim/take_returned",
    "claim/claim",
    "claim/lease_lines",
    "claim/give_back",
    "claim/release_leases",
    "claim/set_limit",
    "record/record",
    "record/flush_unless_flushed",
    "member/tombstone",
    "finalise/close_batch",
    "finalise/find_unclosed",
    "sweep/return_lost",
    "sweep/prune",
    "sweep/reap",
    "partition/stream_hash",
    "partition/partition_of",
    "partition/serving",
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
    "call/places_of_calls",
    "message/commit_done",
    "message/commit_consumed",
    "message/commit_failed",
    "message/commit_dead",
    "message/replay_dead",
    "message/tidy_messages",
    "message/tell_batch",
    "object/put_states",
    "event/append_events",
    "event/prune_events",
    "call/lock_calls",
    "call/repeat_call",
    "call/submit_call",
    "call/submit_calls",
    "call/commit_running",
    "call/commit_calls",
    "call/end_unanswered",
    "call/cancel_call",
    "call/expire_calls",
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

const VERB: &str = "migrate";

/// Why a role cannot use the database yet: the cause of an error of `migrate`.
#[derive(Debug)]
pub struct NoRight(Option<Cause>);

impl fmt::Display for NoRight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "this role has no right to: the role that owns the schema must run `windrow migrate` \
             first, then `windrow grants`",
        )
    }
}

impl std::error::Error for NoRight {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.as_deref().map(|cause| cause as _)
    }
}

pub(crate) async fn run(db: &Db) -> Result<()> {
    let driver = |cause| from_driver(cause).named(VERB, "database");
    let named = |error: Error| error.named(VERB, "database");
    let mut runner = embedded::migrations::runner();
    let client = db.client().await.map_err(named)?;
    let state = db.in_time(schema_state(&client, &runner)).await.map_err(named)?;
    match state.map_err(driver).map_err(with_right)? {
        SchemaState::Current => return Ok(()),
        SchemaState::Closed => return Err(corrupt(NoRight(None))),
        SchemaState::Newer(applied) => return Err(corrupt(applied)),
        SchemaState::Behind(_) => {}
    }
    // Taken out of the pool: its end gives the lock back, whatever happens in between.
    let mut client = Object::take(client);
    client.batch_execute(WAIT).await.map_err(driver)?;
    client.execute(include_str!("../sql/migrate/lock.sql"), &[&LOCK]).await.map_err(driver)?;
    let history = find_history(&client).await.map_err(driver)?;
    runner.set_migration_table_name(history.as_deref().unwrap_or(HISTORY));
    let tables = runner.run_async(&mut *client).await;
    tables.map_err(from_runner).map_err(with_right)?;
    install_functions(&client).await.map_err(driver).map_err(with_right)
}

/// Reads the schema's state, and changes nothing.
pub(crate) async fn check(db: &Db) -> Result<()> {
    let driver = |cause| from_driver(cause).named("open", "database");
    let named = |error: Error| error.named("open", "database");
    let runner = embedded::migrations::runner();
    let client = db.client().await.map_err(named)?;
    let state = db.in_time(schema_state(&client, &runner)).await.map_err(named)?;
    match state.map_err(driver).map_err(with_right)? {
        SchemaState::Current => Ok(()),
        SchemaState::Closed => Err(corrupt(NoRight(None))),
        SchemaState::Newer(applied) => Err(corrupt(applied)),
        SchemaState::Behind(applied) => {
            let known = runner.get_migrations().iter().map(refinery::Migration::version).max();
            let known = known.unwrap_or(0).into();
            Err(Error::new(Kind::Corrupt, "open", "database")
                .because(NotMigrated { applied, known }))
        }
    }
}

/// What the schema is for this program and this role.
enum SchemaState {
    /// The schema is up to date.
    Current,
    /// Up to date, and not for this role.
    Closed,
    /// Of a program that came after this one.
    Newer(String),
    /// To be migrated, or not ours; with the version that it has, 0 for none.
    Behind(i64),
}

fn corrupt(cause: impl Into<Cause>) -> Error {
    Error::new(Kind::Corrupt, VERB, "database").because(cause)
}

/// Reads, and changes nothing: a role that may create nothing works with what is there.
async fn schema_state(
    client: &Client,
    runner: &Runner,
) -> Result<SchemaState, tokio_postgres::Error> {
    let Some(history) = find_history(client).await? else { return Ok(SchemaState::Behind(0)) };
    let applied = include_str!("../sql/migrate/applied.sql").replace("{history}", &history);
    let applied = client.query_typed(&applied, &[]).await?;
    let is_same = |(row, ours): (&tokio_postgres::Row, &refinery::Migration)| {
        let (version, name, checksum): (i64, &str, &str) = (row.get(0), row.get(1), row.get(2));
        version == i64::from(ours.version())
            && name == ours.name()
            && checksum == ours.checksum().to_string()
    };
    let mut ours: Vec<_> = runner.get_migrations().iter().collect();
    ours.sort_unstable();
    let known = ours.last().map_or(0, |last| i64::from(last.version()));
    if let Some(newer) = applied.iter().find(|row| row.get::<_, i64>(0) > known) {
        let (version, name): (i64, &str) = (newer.get(0), newer.get(1));
        let text = format!("V{version}__{name} was applied, and this program knows up to {known}");
        return Ok(SchemaState::Newer(text));
    }
    let last = applied.iter().map(|row| row.get::<_, i64>(0)).max().unwrap_or(0);
    if applied.len() != ours.len() || !applied.iter().zip(ours).all(is_same) {
        return Ok(SchemaState::Behind(last));
    }
    Ok(match find_functions(client).await? {
        None => SchemaState::Behind(last),
        Some(false) => SchemaState::Closed,
        Some(true) => SchemaState::Current,
    })
}

/// The table of what was applied, with its schema: where a role's `search_path` leads changes.
async fn find_history(client: &Client) -> Result<Option<String>, tokio_postgres::Error> {
    let text = include_str!("../sql/migrate/find_history.sql");
    let found = client.query_typed(text, &[(&HISTORY, Type::TEXT)]).await?;
    Ok(found.first().map(|row| row.get(0)))
}

/// Whether this role may use this build's functions; none when they are not there.
async fn find_functions(client: &Client) -> Result<Option<bool>, tokio_postgres::Error> {
    let text = include_str!("../sql/migrate/has_functions.sql");
    let found = client.query_typed(text, &[(&functions_schema(), Type::TEXT)]).await?;
    Ok(found.first().map(|row| row.get(0)))
}

/// Creates the functions in one transaction, unless this build's schema is there already.
async fn install_functions(client: &Client) -> Result<(), tokio_postgres::Error> {
    if find_functions(client).await?.is_some() {
        return Ok(());
    }
    let schema = functions_schema();
    let texts: String = FUNCTIONS.iter().map(|text| with_functions(text)).collect();
    client.batch_execute(&format!("BEGIN; CREATE SCHEMA {schema}; {texts} COMMIT")).await
}

/// The same error; when the role has no right, with what is to be done.
fn with_right(error: Error) -> Error {
    let first = std::error::Error::source(&error);
    let mut causes = std::iter::successors(first, |cause| cause.source());
    let is_refused = causes.any(|cause| {
        let driver = cause.downcast_ref::<tokio_postgres::Error>();
        driver.is_some_and(|driver| driver.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE))
    });
    if is_refused {
        Error::new(error.kind, VERB, "database").because(NoRight(Some(error.into())))
    } else {
        error
    }
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
    Error::new(kind, VERB, "database").because(cause)
}
