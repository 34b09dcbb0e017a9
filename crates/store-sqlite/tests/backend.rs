//! What only this backend promises: its statements, its group commit, its file.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod support;

use std::path::Path;
use std::time::Duration;

use support::{all_completed, batch_of, new_batch, request, sealed_file};
use tokio::task::JoinSet;
use windrow_domain::{InstanceId, State};
use windrow_store::record::Turn;
use windrow_store::{
    Batches as _, Claim as _, Finalise as _, Inspect as _, Kind, Members as _, Record as _, Scope,
    Sweep,
};
use windrow_store_sqlite::{Location, Options, SqliteStore};

fn statement_files(dir: &Path, found: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            statement_files(&path, found);
        } else {
            found.push(path);
        }
    }
}

#[tokio::test]
async fn every_statement_prepares_and_carries_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("w.db");
    SqliteStore::open(Options::file(&path)).await.unwrap();
    let conn = rusqlite::Connection::open(&path).unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("sql");
    let mut files = Vec::new();
    statement_files(&root, &mut files);
    assert!(files.len() > 50, "only {} statements were found", files.len());
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let name = file.strip_prefix(&root).unwrap().with_extension("");
        let tag = format!("/* {} */", name.display());
        assert!(text.starts_with("-- "), "{} does not say what it promises", file.display());
        assert!(text.contains(&tag), "{} lacks its name {tag}", file.display());
        conn.prepare(&text).unwrap_or_else(|cause| panic!("{}: {cause}", file.display()));
    }
}

/// Full scans that are meant: tables that stay small, and steps inside a statement.
const SCANS_MEANT: [&str; 22] = [
    "SCAN bisect",
    "SCAN answered",
    "SCAN asked",
    "SCAN json_each",
    "SCAN backlog",
    "SCAN c",
    "SCAN p",
    "SCAN newest",
    "SCAN w",
    "SCAN leases",
    "SCAN upstreams",
    "SCAN e",
    "SCAN members",
    "SCAN sets",
    "SCAN v",
    "SCAN CONSTANT ROW",
    "SCAN files USING INDEX files_reap_idx",
    "SCAN files USING INDEX files_forget_idx",
    "SCAN permits",
    "SCAN l USING INDEX batch_lanes_live_idx",
    "SCAN b USING INDEX batches_running_idx",
    "SCAN batches USING INDEX batches_deleted_idx",
];

#[tokio::test]
async fn no_statement_scans_a_table_that_grows() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("w.db");
    SqliteStore::open(Options::file(&path)).await.unwrap();
    let conn = rusqlite::Connection::open(&path).unwrap();
    let mut files = Vec::new();
    statement_files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("sql"), &mut files);
    let mut bad = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let mut plan = conn.prepare(&format!("EXPLAIN QUERY PLAN {text}")).unwrap();
        for at in 1..=plan.parameter_count() {
            plan.raw_bind_parameter(at, 1).unwrap();
        }
        let mut steps = plan.raw_query();
        while let Some(row) = steps.next().unwrap() {
            let step: String = row.get(3).unwrap();
            let meant =
                SCANS_MEANT.iter().any(|scan| format!("{step} ").starts_with(&format!("{scan} ")));
            if step.starts_with("SCAN ") && !meant {
                bad.push(format!("{}: {step}", file.display()));
            }
        }
    }
    assert!(bad.is_empty(), "{bad:#?}");
}

async fn drain(store: &SqliteStore, instance: InstanceId) -> u64 {
    let mut lines = 0;
    let mut outcomes = Vec::new();
    loop {
        let turn = Turn { instance, outcomes, claim: Some(request(7)) };
        let reply = store.turn(turn).await.unwrap();
        let Some(tranche) = reply.claimed else {
            return lines;
        };
        lines += tranche.lines.len() as u64;
        outcomes = vec![all_completed(&tranche)];
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_drains_in_memory() {
    let store = SqliteStore::open(Options::default()).await.unwrap();
    let batch = batch_of(&store, 100).await;
    assert_eq!(drain(&store, InstanceId::new()).await, 100);
    let audit = store.verify(batch.id).await.unwrap();
    audit.check().unwrap();
    assert!(matches!(audit.state, State::Finalizing(_)));
    assert_eq!(audit.lanes[0].counts.completed, 100);
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_that_wait_together_share_a_commit_and_fail_alone() {
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(Options::file(dir.path().join("w.db"))).await.unwrap();
    let file = sealed_file(&store, 3).await;
    let before = store.stats();
    let mut calls = JoinSet::new();
    for n in 0..200 {
        let store = store.clone();
        calls.spawn(async move {
            let mut batch = new_batch(file);
            if n % 10 == 0 {
                // Fails after it has read and before it has written.
                batch.file = windrow_domain::FileId::new();
            }
            store.create_batch(batch).await
        });
    }
    let mut failed = 0;
    for created in calls.join_all().await {
        match created {
            Ok(batch) => assert_eq!(batch.counts.total, 3),
            Err(error) => {
                assert_eq!(error.kind, Kind::Missing);
                failed += 1;
            }
        }
    }
    assert_eq!(failed, 20);
    let after = store.stats();
    let (calls, commits) = (after.calls - before.calls, after.commits - before.commits);
    assert_eq!(calls, 200);
    assert!(commits < calls, "{commits} commits for {calls} calls");
}

#[tokio::test(flavor = "multi_thread")]
async fn callers_that_leave_break_nothing() {
    let store = SqliteStore::open(Options::default()).await.unwrap();
    let file = sealed_file(&store, 3).await;
    for _ in 0..50 {
        let (store, mut calls) = (store.clone(), JoinSet::new());
        calls.spawn(async move { store.create_batch(new_batch(file)).await });
        tokio::task::yield_now().await;
        calls.abort_all();
    }
    store.create_batch(new_batch(file)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_answered_is_there_after_reopening() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::file(dir.path().join("w.db"));
    let store = SqliteStore::open(options.clone()).await.unwrap();
    let batch = batch_of(&store, 20).await;
    let instance = InstanceId::new();
    let claimed = store.lease_tranche(instance, request(5)).await.unwrap().unwrap();
    drop(store);

    let store = SqliteStore::open(options).await.unwrap();
    let audit = store.verify(batch.id).await.unwrap();
    audit.check().unwrap();
    assert_eq!(audit.lanes[0].counts.leased, 5);
    let reply = store.record(instance, vec![all_completed(&claimed)]).await.unwrap();
    assert_eq!(reply.folds.len(), 1);
    assert_eq!(store.batch(&Scope::All, batch.id).await.unwrap().counts.completed, 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_stores_on_one_file_share_the_work() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::file(dir.path().join("w.db"));
    let (one, two) =
        tokio::join!(SqliteStore::open(options.clone()), SqliteStore::open(options.clone()));
    let (one, two) = (one.unwrap(), two.unwrap());
    let batch = batch_of(&one, 2_000).await;
    let mut workers = JoinSet::new();
    for store in [&one, &two, &one, &two] {
        let store = store.clone();
        workers.spawn(async move { drain(&store, InstanceId::new()).await });
    }
    assert_eq!(workers.join_all().await.iter().sum::<u64>(), 2_000);
    let audit = two.verify(batch.id).await.unwrap();
    audit.check().unwrap();
    assert_eq!(audit.lanes[0].counts.completed, 2_000);
}

/// The steps of the schema race one by one, so a few rounds are needed to lose several of them.
#[tokio::test(flavor = "multi_thread")]
async fn a_new_file_may_be_opened_by_many_at_once() {
    for _ in 0..20 {
        let dir = tempfile::tempdir().unwrap();
        let mut opening = JoinSet::new();
        for _ in 0..8 {
            opening.spawn(SqliteStore::open(Options::file(dir.path().join("w.db"))));
        }
        for store in opening.join_all().await {
            store.unwrap().members().await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_file_that_is_no_database_is_corrupt() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("w.db");
    std::fs::write(&path, "not a database, by any means".repeat(500)).unwrap();
    let error = SqliteStore::open(Options::file(&path)).await.unwrap_err();
    assert_eq!(error.kind, Kind::Corrupt);
}

#[tokio::test]
async fn a_schema_from_the_future_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("w.db");
    drop(SqliteStore::open(Options::file(&path)).await.unwrap());
    let conn = rusqlite::Connection::open(&path).unwrap();
    let later = "INSERT INTO refinery_schema_history (version, name, applied_on, checksum) \
                 SELECT 9999, 'later', applied_on, '1' FROM refinery_schema_history LIMIT 1";
    conn.execute(later, []).unwrap();
    let error = SqliteStore::open(Options::file(&path)).await.unwrap_err();
    assert_eq!(error.kind, Kind::Corrupt);
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert!(cause.contains("newer"), "{cause}");
}

#[tokio::test]
async fn a_place_that_cannot_be_opened_is_unavailable() {
    let dir = tempfile::tempdir().unwrap();
    let location = Location::File(dir.path().join("no/such/folder/w.db"));
    let error = SqliteStore::open(Options::default().location(location)).await.unwrap_err();
    assert_eq!(error.kind, Kind::Unavailable);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_another_process_locks_is_busy_and_then_works() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("w.db");
    let options = Options::file(&path).busy_timeout(Duration::from_millis(50));
    let store = SqliteStore::open(options).await.unwrap();
    let conn = rusqlite::Connection::open(&path).unwrap();
    conn.execute_batch("BEGIN IMMEDIATE").unwrap();
    let error = store.return_lost(1, 1).await.unwrap_err();
    assert_eq!(error.kind, Kind::Busy);
    conn.execute_batch("ROLLBACK").unwrap();
    store.return_lost(1, 1).await.unwrap();
}

/// The fold flips a batch in the transaction that ends its last lane. Should one ever be missed, the sweep's
/// own look flips it, by the same test.
#[tokio::test]
async fn a_batch_whose_lanes_are_done_and_that_was_not_flipped_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("w.db");
    let store = SqliteStore::open(Options::file(&path)).await.unwrap();
    let (missed, running) = (batch_of(&store, 3).await.id, batch_of(&store, 3).await.id);
    let me = InstanceId::new();
    let request = windrow_store::claim::Request { only: Some(missed), ..request(10) };
    let tranche = store.lease_tranche(me, request).await.unwrap().unwrap();
    let reply = store.record(me, vec![all_completed(&tranche)]).await.unwrap();
    assert_eq!(reply.finalizing, [missed]);
    let conn = rusqlite::Connection::open(&path).unwrap();
    let unflipped = "UPDATE batches SET state = 'in_progress', finalizing_at = NULL WHERE id = ?1";
    assert_eq!(conn.execute(unflipped, [missed.0.into_bytes()]).unwrap(), 1);
    drop(conn);
    let state = async |id| store.batch(&Scope::All, id).await.unwrap().state;
    assert_eq!(state(missed).await, State::InProgress);
    assert_eq!(store.find_unclosed(10).await.unwrap(), [missed]);
    assert!(matches!(state(missed).await, State::Finalizing(_)), "it can be closed now");
    assert_eq!(state(running).await, State::InProgress);
}
