//! Migrations: several at once, twice, by a newer program, by one who may not.

use std::error::Error as _;

use tokio::task::JoinSet;
use windrow_store::{Error, Finalise, Kind};
use windrow_store_postgres::{NoRight, Options, PostgresStore, grants};
use windrow_testkit::postgres::Database;

use crate::support::{Session, fresh, store, whole};
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
    let options = Options::new(database.url()).pool_max(1);
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
    assert!(text.contains("must run `windrow migrate`"), "{text}");

    // The guest's pool is still open: whatever it holds, the next one does not wait for it.
    let program = store(&database.url()).await;
    program.migrate().await.unwrap();
    drop(guest);
    let clear = format!("DROP OWNED BY {role}; DROP ROLE {role}");
    admin.batch_execute(&clear).await.unwrap();
}

/// Whether the role was told that it has no right.
fn has_no_right(migrated: Result<(), Error>) -> bool {
    let error = migrated.unwrap_err();
    error.source().is_some_and(|cause| cause.is::<NoRight>())
}

#[tokio::test]
async fn a_role_that_may_create_nothing_uses_what_is_up_to_date() {
    let database = fresh().await;
    let owner = Session::open(&database.url()).await.unwrap();
    let roles = ["app", "mon", "adm"].map(|kind| format!("{}_{kind}", database.name()));
    let [app, monitor, admin] = &roles;
    for role in &roles {
        owner.batch_execute(&format!("CREATE ROLE {role}")).await.unwrap();
    }
    let by = async |role: &str| {
        let url = format!("{}?options=-c%20role%3D{role}", database.url());
        PostgresStore::connect(Options::new(url)).await.unwrap()
    };
    assert!(has_no_right(by(admin).await.migrate().await), "before the grants");
    owner.batch_execute(&grants(app, monitor, admin)).await.unwrap();
    by(admin).await.migrate().await.unwrap();
    by(monitor).await.migrate().await.unwrap();
    assert!(has_no_right(by(app).await.migrate().await), "applications only call functions");

    // Functions of another build: only their owner makes ours.
    let schema = "SELECT nspname::text FROM pg_namespace WHERE nspname LIKE 'windrow\\_fn\\_%'";
    let schema: String = owner.query_one(schema, &[]).await.unwrap().get(0);
    let aside = format!("ALTER SCHEMA {schema} RENAME TO windrow_fn_of_before");
    owner.batch_execute(&aside).await.unwrap();
    assert!(has_no_right(by(admin).await.migrate().await), "ours are not there");
    store(&database.url()).await.migrate().await.unwrap();
    assert!(has_no_right(by(admin).await.migrate().await), "ours are not granted");
    owner.batch_execute(&grants(app, monitor, admin)).await.unwrap();
    by(admin).await.migrate().await.unwrap();
    for role in &roles {
        let clear = format!("DROP OWNED BY {role}; DROP ROLE {role}");
        owner.batch_execute(&clear).await.unwrap();
    }
}

/// A role called `windrow` finds the schema `windrow` first once that is there.
#[tokio::test]
async fn the_history_is_found_wherever_names_lead() {
    let database = Database::empty().await;
    store(&database.url()).await.migrate().await.unwrap();
    for path in ["windrow%2Cpublic", "pg_temp"] {
        let other = format!("{}?options=-c%20search_path%3D{path}", database.url());
        store(&other).await.migrate().await.unwrap();
    }
    let session = Session::open(&database.url()).await.unwrap();
    let drop =
        "DO $$ BEGIN EXECUTE (SELECT format('DROP SCHEMA %I CASCADE', nspname) FROM pg_namespace
                WHERE nspname LIKE 'windrow\\_fn\\_%'); END $$";
    session.batch_execute(drop).await.unwrap();
    let other = format!("{}?options=-c%20search_path%3Dwindrow%2Cpublic", database.url());
    store(&other).await.migrate().await.unwrap();
    let tables = "SELECT count(*) FROM pg_class WHERE relname = 'windrow_schema_history'";
    assert_eq!(session.query_one(tables, &[]).await.unwrap().get::<_, i64>(0), 1);
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
