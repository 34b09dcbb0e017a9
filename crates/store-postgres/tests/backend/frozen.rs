//! What several builds share on one database, and what applications call: tables, migrations, functions,
//! notifications and locks.

use std::path::Path;
use std::time::Duration;

use futures_util::StreamExt;
use tokio::task::JoinSet;
use tokio::time::timeout;
use windrow_domain::{InstanceId, Owner, RequestId};
use windrow_store::batch::NewBatch;
use windrow_store::call::CallKey;
use windrow_store::wake::Wake;
use windrow_store::{Batches, Wakes};
use windrow_testkit::kept::assert_kept;
use windrow_testkit::postgres::Database;

use crate::support::{Session, file, fresh, new_batch, store, until, whole};

/// Longest wait for what was told.
const HEARD_MAX: Duration = Duration::from_secs(60);

/// Names, columns in their order and indexes of every table, and of each migration what is compared.
#[tokio::test]
async fn the_tables_and_the_migrations_behind_them_stay_what_they_are() {
    let database = fresh().await;
    let session = Session::open(&database.url()).await.unwrap();
    let columns = "SELECT 'table ' || table_name || ' '
                          || string_agg(column_name || ' ' || udt_name, ', ' ORDER BY ordinal_position)
                     FROM information_schema.columns WHERE table_schema = 'windrow'
                    GROUP BY table_name ORDER BY table_name";
    let indexes = "SELECT 'index ' || tablename || ' ' || indexname FROM pg_indexes
                    WHERE schemaname = 'windrow' ORDER BY tablename, indexname";
    let sequences = "SELECT 'sequence ' || sequence_name FROM information_schema.sequences
                      WHERE sequence_schema = 'windrow' ORDER BY sequence_name";
    let migrations = "SELECT 'migration V' || version || '__' || name || ' ' || checksum
                        FROM windrow_schema_history ORDER BY version";
    let made = lines(&session, &[columns, indexes, sequences, migrations]).await;
    assert_kept(kept("schema.txt"), &made);
}

/// The functions that applications call, every code that one of ours raises, and what notifications are
/// made of. Which call raises which code is held in `app`.
#[tokio::test]
async fn what_applications_call_and_what_functions_raise_and_tell_stays_what_it_is() {
    let database = fresh().await;
    let session = Session::open(&database.url()).await.unwrap();
    let functions = "SELECT 'function windrow.' || proname || '(' || pg_get_function_arguments(oid)
                            || ') returns ' || pg_get_function_result(oid)
                       FROM pg_proc WHERE pronamespace = 'windrow'::regnamespace ORDER BY proname";
    let codes = "SELECT DISTINCT 'code ' || code[1] FROM pg_proc
                   JOIN pg_namespace n ON n.oid = pronamespace,
                        regexp_matches(prosrc, 'ERRCODE = ''(WR\\d+)''', 'g') code
                  WHERE nspname LIKE 'windrow%' ORDER BY 1";
    let told = "SELECT DISTINCT 'told ' || told[1] FROM pg_proc
                  JOIN pg_namespace n ON n.oid = pronamespace,
                       regexp_matches(prosrc, $$('(?:windrow_|w|c)' [|][|] .*)$$, 'gn') told
                 WHERE nspname LIKE 'windrow%' ORDER BY 1";
    let made = lines(&session, &[functions, codes, told]).await;
    assert_kept(kept("functions.txt"), &made);
}

/// The texts that statements give, one a line.
async fn lines(session: &Session, statements: &[&str]) -> String {
    let mut made = String::new();
    for statement in statements {
        for row in session.query(*statement, &[]).await.unwrap() {
            made.push_str(&format!("{}\n", row.get::<_, String>(0)));
        }
    }
    made
}

fn kept(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/frozen").join(name)
}

/// A build hears what another one tells it.
#[tokio::test]
async fn an_instance_hears_its_own_channel_and_these_forms() {
    let database = fresh().await;
    let session = Session::open(&database.url()).await.unwrap();
    let instance: InstanceId = "01890a5d-ac96-774b-bcce-b302099a8057".parse().unwrap();
    let heard = store(&database.url()).await.listen(instance).await.unwrap();
    for told in ["w3,7", "w", "c[\"ada\", \"r1\"]"] {
        let tell = "SELECT pg_notify('windrow_01890a5dac96774bbcceb302099a8057', $1)";
        session.execute(tell, &[&told]).await.unwrap();
    }
    let heard = timeout(HEARD_MAX, heard.take(3).collect::<Vec<_>>()).await.unwrap();
    let key =
        CallKey { owner: Owner::new("ada").unwrap(), request_id: RequestId::new("r1").unwrap() };
    let frozen = [Wake::Work(vec![3, 7]), Wake::Work(Vec::new()), Wake::Answered(key)];
    assert_eq!(heard, frozen);
}

/// Takes an advisory lock, lets the call begin, and sees that it waits for this lock.
async fn waits_for(
    database: &Database,
    key: &str,
    call: impl Future<Output = Result<(), String>> + Send + 'static,
) {
    let (holder, watcher) = (
        Session::open(&database.url()).await.unwrap(),
        Session::open(&database.url()).await.unwrap(),
    );
    let take = format!("BEGIN; SELECT pg_advisory_xact_lock({key})");
    holder.batch_execute(&take).await.unwrap();
    let mut calls = JoinSet::new();
    calls.spawn(call);
    let waiting = "SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
                      AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
    until(&format!("somebody waits for {key}"), async || {
        !watcher.query(waiting, &[]).await.unwrap().is_empty()
    })
    .await;
    holder.batch_execute("COMMIT").await.unwrap();
    for called in calls.join_all().await {
        called.unwrap();
    }
}

/// Two builds that take different locks for the same thing do not see each other.
#[tokio::test(flavor = "multi_thread")]
async fn those_who_migrate_and_those_who_count_open_batches_wait_for_these_locks() {
    let database = Database::empty().await;
    let program = store(&database.url()).await;
    let migrate = async move { program.migrate().await.map_err(|error| whole(&error)) };
    // "windrow" in ASCII.
    waits_for(&database, "x'77696e64726f77'::bigint", migrate).await;

    let program = store(&database.url()).await;
    let batch = NewBatch { open_max: Some(5), ..new_batch(file(&program, 1).await) };
    let create =
        async move { program.create_batch(batch).await.map(drop).map_err(|error| whole(&error)) };
    waits_for(&database, "hashtextextended('ada', 429)", create).await;
}
