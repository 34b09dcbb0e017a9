//! Migrations: several at once, twice, by a newer program, by one who may not.

use tokio::task::JoinSet;
use windrow_store::{Finalise, Kind};
use windrow_store_postgres::{Options, PostgresStore};
use windrow_testkit::postgres::Database;

use crate::kit::{Session, fresh, store, whole};
use crate::verbs::run_every_verb;

const HISTORY: &str = "SELECT version, name, applied_on, checksum FROM windrow_schema_history";

#[tokio::test(flavor = "multi_thread")]
async fn programs_that_migrate_an_empty_database_at_once_all_succeed() {
    let database = Database::empty().await;
    let mut programs = JoinSet::new();
    for _ in 0..4 {
        let program = store(&database.url()).await;
        programs.spawn(async move { program.migrate().await.map_err(|error| whole(&error)) });
    }
    for migrated in programs.join_all().await {
        migrated.unwrap();
    }
    run_every_verb(&store(&database.url()).await).await;
}

#[tokio::test]
async fn a_second_migration_changes_nothing() {
    let database = Database::empty().await;
    let program = store(&database.url()).await;
    program.migrate().await.unwrap();
    let session = Session::open(&database.url()).await.unwrap();
    let before = things(&session).await;
    program.migrate().await.unwrap();
    store(&database.url()).await.migrate().await.unwrap();
    assert_eq!(things(&session).await, before);
}

/// Every table and function with its identity, and the history.
async fn things(session: &Session) -> Vec<String> {
    let statement = format!(
        "SELECT oid::text || ' ' || relname FROM pg_class WHERE relnamespace = 'windrow'::regnamespace
         UNION ALL SELECT p.oid::text || ' ' || proname FROM pg_proc p
         JOIN pg_namespace n ON n.oid = pronamespace WHERE nspname LIKE 'windrow\\_fn\\_%'
         UNION ALL SELECT h::text FROM ({HISTORY}) h ORDER BY 1"
    );
    let rows = session.query(&statement, &[]).await.unwrap();
    assert!(rows.len() > 50, "tables, indexes and functions");
    rows.iter().map(|row| row.get(0)).collect()
}

#[tokio::test]
async fn a_database_that_was_never_migrated_is_corrupt_until_it_is() {
    let database = Database::empty().await;
    let program = store(&database.url()).await;
    let error = program.find_unclosed(1).await.unwrap_err();
    assert_eq!(error.kind, Kind::Corrupt, "{}", whole(&error));
    program.migrate().await.unwrap();
    program.find_unclosed(1).await.unwrap();
}

#[tokio::test]
async fn a_column_of_a_newer_program_is_not_noticed_by_open_connections() {
    let database = fresh().await;
    // One connection, so that what was prepared before is what runs after.
    let options = Options { pool_max: 1, ..Options::new(database.url()) };
    let older = PostgresStore::connect(options).await.unwrap();
    run_every_verb(&older).await;
    let newer = Session::open(&database.url()).await.unwrap();
    for row in newer
        .query("SELECT tablename::text FROM pg_tables WHERE schemaname = 'windrow'", &[])
        .await
        .unwrap()
    {
        let table: String = row.get(0);
        let statement = format!("ALTER TABLE windrow.{table} ADD COLUMN note text");
        newer.batch_execute(&statement).await.unwrap();
    }
    run_every_verb(&older).await;
}

#[tokio::test]
async fn one_who_may_not_create_is_told_so_and_blocks_nobody() {
    let database = Database::empty().await;
    let admin = Session::open(&database.url()).await.unwrap();
    let role = format!("{}_guest", database.name());
    admin.batch_execute(&format!("CREATE ROLE {role}")).await.unwrap();

    let guest_url = format!("{}?options=-c%20role%3D{role}", database.url());
    let guest = PostgresStore::connect(Options::new(guest_url)).await.unwrap();
    let error = guest.migrate().await.unwrap_err();
    let text = whole(&error);
    assert!(text.contains("permission denied"), "{text}");

    // The guest's pool is still open: whatever it holds, the next one does not wait for it.
    let program = store(&database.url()).await;
    program.migrate().await.unwrap();
    drop(guest);
    let clear = format!("DROP OWNED BY {role}; DROP ROLE {role}");
    admin.batch_execute(&clear).await.unwrap();
}

#[tokio::test]
async fn a_schema_newer_than_the_program_is_refused() {
    let database = fresh().await;
    let session = Session::open(&database.url()).await.unwrap();
    let newer = "INSERT INTO windrow_schema_history (version, name, applied_on, checksum)
                 SELECT 9999, 'from_the_future', applied_on, '1' FROM windrow_schema_history LIMIT 1";
    assert_eq!(session.execute(newer, &[]).await.unwrap(), 1);
    let program = store(&database.url()).await;
    let error = program.migrate().await.unwrap_err();
    let text = whole(&error);
    assert_eq!(error.kind, Kind::Corrupt, "{text}");
    assert!(text.contains("9999") && text.contains("from_the_future"), "{text}");

    // Refused, and nothing is held back: when the row is gone, it goes on.
    session.execute("DELETE FROM windrow_schema_history WHERE version = 9999", &[]).await.unwrap();
    program.migrate().await.unwrap();
}
