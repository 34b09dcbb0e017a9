//! The migration that gives lanes their upstream: what was begun goes on where it was meant to, and a build
//! of before can claim nothing any more.

use tokio_postgres::error::SqlState;
use windrow_store::Upstreams as _;
use windrow_testkit::postgres::Database;

use crate::support::{Session, fresh, store};

/// The migrations before it, and itself.
const BEFORE: [&str; 8] = [
    include_str!("../../migrations/V0001__batch_plane.sql"),
    include_str!("../../migrations/V0002__duties.sql"),
    include_str!("../../migrations/V0003__server.sql"),
    include_str!("../../migrations/V0004__message_plane.sql"),
    include_str!("../../migrations/V0005__ids_by_queue.sql"),
    include_str!("../../migrations/V0006__prune_events.sql"),
    include_str!("../../migrations/V0007__calls_by_state.sql"),
    include_str!("../../migrations/V0008__one_index_for_each_key.sql"),
];
const UPSTREAMS: &str = include_str!("../../migrations/V0009__upstreams.sql");
/// The claim of the build before: it knows no upstream.
const OLD_CLAIM: &str = include_str!("../older/claim.sql");

/// What the URLs of runs become; none for batches that were no run.
const LANES: [(&str, Option<&str>, &str); 7] = [
    ("run", Some("http://127.0.0.1:8000/"), "http://127.0.0.1:8000"),
    ("run", Some("http://host/"), "http://host:80"),
    ("run", Some("https://host/v1/"), "https://host:443/v1"),
    ("run", Some("https://host:8443/v1/x"), "https://host:8443/v1/x"),
    ("run", Some("http://[::1]/a"), "http://[::1]:80/a"),
    ("run", None, "?"),
    ("ingest", Some("http://host/"), "?"),
];

async fn call_old_claim(session: &Session) -> Result<(), tokio_postgres::Error> {
    let nobody = "00000000-0000-0000-0000-000000000001";
    let claim = format!(
        "SELECT * FROM windrow_fn_of_before.claim(NULL, '{nobody}', '{nobody}', '{{m}}', NULL, 1, 1, 0, true)"
    );
    session.batch_execute(&claim).await
}

#[tokio::test]
async fn what_was_begun_goes_where_it_was_meant_to_and_older_builds_claim_nothing() {
    let database = Database::empty().await;
    let session = Session::open(&database.url()).await.unwrap();
    for migration in BEFORE {
        session.batch_execute(migration).await.unwrap();
    }
    let old = OLD_CLAIM.replace("{fn}", "windrow_fn_of_before");
    session.batch_execute(&format!("CREATE SCHEMA windrow_fn_of_before; {old}")).await.unwrap();
    call_old_claim(&session).await.expect("it works before");
    for (no, (job_type, to, _)) in (1..).zip(LANES) {
        let metadata = to.map_or("{}".to_owned(), |to| format!("{{\"to\":\"{to}\"}}"));
        let rows = format!(
            "INSERT INTO windrow.batches (id, file_id, owner, endpoint, state, priority, job_type, metadata, created_at)
             VALUES (lpad('{no}', 32, '0')::uuid, lpad('{no}', 32, '0')::uuid, 'ada', '/', 'in_progress', 0,
                     '{job_type}', '{metadata}', now());
             INSERT INTO windrow.batch_lanes
             VALUES (lpad('{no}', 32, '0')::uuid, 0, 'm', 'ada', lpad('{no}', 32, '0')::uuid, 0, NULL, 1, 'open',
                     '-infinity', now())"
        );
        session.batch_execute(&rows).await.unwrap();
    }
    session.batch_execute(UPSTREAMS).await.unwrap();
    let lanes = session
        .query("SELECT upstream FROM windrow.batch_lanes ORDER BY batch_id", &[])
        .await
        .unwrap();
    let lanes: Vec<String> = lanes.iter().map(|row| row.get(0)).collect();
    assert_eq!(lanes, LANES.map(|(_, _, upstream)| upstream));
    let error = call_old_claim(&session).await.expect_err("an older build must not claim");
    assert_eq!(error.code(), Some(&SqlState::INVALID_SCHEMA_NAME), "{error}");
}

/// A mark of one database says nothing in another.
#[tokio::test]
async fn each_database_has_a_secret_of_its_own() {
    let (one, two) = (fresh().await, Database::empty().await);
    let (one, two) = (store(&one.url()).await, store(&two.url()).await);
    two.migrate().await.unwrap();
    assert_ne!(one.mark_secret().await.unwrap(), two.mark_secret().await.unwrap());
}
