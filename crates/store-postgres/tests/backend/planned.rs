//! Statements of the message plane are planned once for each connection: a plan that was made while the
//! tables were empty must do when they are full.

use bytes::Bytes;
use windrow_domain::{DeadLetterId, Expected, Queue};
use windrow_store::call::{Answer, CallResult};
use windrow_store::event::Append;
use windrow_store::message::{
    Commit, Dead, Done, FailedAttempt, MessageRef, ProcessingReport, Started,
};
use windrow_store::object::{ObjectKey, PutState};
use windrow_store::{Calls, Events, Messages};
use windrow_store_postgres::{Options, PostgresStore};

use crate::messages::{LARGE, Runner, append, call, message, owner, stream};
use crate::support::{Session, fresh, sessions_ended};

/// Rows of each table when it is full.
const ROWS: i32 = 50_000;
/// What all verbs together may read of the indexes. One look at a whole index is more.
const READ_MAX: i64 = 20_000;
/// How many of a kind are in one commit.
const SOME: usize = 20;

const FILL: [&str; 7] = [
    "INSERT INTO windrow.streams (owner, queue, name, partition, touched_at)
     SELECT 'plane', 0, 'fill-' || i, i % 16, now() FROM generate_series(1, $1) i",
    "INSERT INTO windrow.messages (partition, stream_no, position, id, kind, payload, sent_at)
     SELECT partition, no, 1, name, 'k', '', now() FROM windrow.streams WHERE name LIKE 'fill-%' LIMIT $1::int",
    "INSERT INTO windrow.message_ids (owner, queue, id, digest, partition, stream_no, position, seen_at)
     SELECT 'plane', 0, 'fill-' || i, '', 0, i, 1, now() FROM generate_series(1, $1) i",
    "INSERT INTO windrow.objects (owner, stream, state, updated_at)
     SELECT 'plane', 'fill-' || i, '', now() FROM generate_series(1, $1) i",
    "INSERT INTO windrow.event_streams (owner, stream, version, feed_xid)
     SELECT 'plane', 'fill-' || i, 1, '1' FROM generate_series(1, $1) i",
    "INSERT INTO windrow.events (owner, stream, version, id, kind, payload, at, feed_xid)
     SELECT 'plane', 'fill-' || i, 1, 'e', 'k', '', now(), '1' FROM generate_series(1, $1) i",
    "INSERT INTO windrow.calls (owner, request_id, object_type, object_id, method, hash, args, state, policy,
                                created_at, updated_at)
     SELECT 'plane', 'fill-' || i, 'wallet', i::text, 'deposit', '', '', 0, 'retry', now(), now()
       FROM generate_series(1, $1) i",
];

/// Sends and ends messages in every way, asks and answers, keeps and forgets states, appends.
async fn work(store: &PostgresStore, runner: &Runner, prefix: &str) {
    let id = |no: usize| format!("{prefix}-{no}");
    let new = (0..4 * SOME).map(|no| {
        let consumers = if no < SOME { vec!["a".to_owned(), "b".to_owned()] } else { Vec::new() };
        let one = message(Queue::Inbox, &id(no), id(no));
        windrow_store::message::NewMessage { consumers, ..one }
    });
    let sent = store.send(new.collect()).await.unwrap();
    let at: Vec<MessageRef> = sent.iter().map(|sent| sent.at).collect();
    let key = |no: usize| ObjectKey { owner: owner(), stream: stream(&id(no)) };
    let states = |state: Option<&'static [u8]>| {
        (0..SOME).map(move |no| PutState { key: key(no), state: state.map(Bytes::from_static) })
    };
    let dead = |at: &MessageRef| Dead {
        at: *at,
        id: DeadLetterId::new(),
        error: "no".to_owned(),
        counts: true,
    };
    let first = Commit {
        started: at[..2 * SOME].iter().map(|at| Started { at: *at }).collect(),
        failed: at[SOME..2 * SOME].iter().map(|at| failed(*at)).collect(),
        done: at[..SOME]
            .iter()
            .map(|at| Done { at: *at, consumer: Some("a".to_owned()) })
            .collect(),
        dead: at[2 * SOME..3 * SOME].iter().map(dead).collect(),
        states: states(Some(b"s")).collect(),
        messages: (0..SOME).map(|no| message(Queue::Outbox, &id(no), id(no))).collect(),
        events: (0..SOME).map(|no| append(&id(no), id(no))).collect(),
        submits: (0..SOME).map(|no| call(&id(no), &id(no))).collect(),
        ..runner.effects()
    };
    let submitted = store.commit(first).await.unwrap().submitted;
    let second = Commit {
        done: at[3 * SOME..].iter().map(|at| Done { at: *at, consumer: None }).collect(),
        states: states(None).collect(),
        running: submitted.iter().map(|at| running(*at)).collect(),
        ..runner.effects()
    };
    store.commit(second).await.unwrap();
    let answers = submitted.iter().enumerate().map(|(no, at)| CallResult {
        key: call(&id(no), &id(no)).key,
        at: *at,
        answer: Answer::Reply(Bytes::new()),
    });
    store.commit(Commit { calls: answers.collect(), ..runner.effects() }).await.unwrap();
    // Not as expected, and there before: the slow way of an append.
    let again = Append { expected: Expected::Version(0), ..append(&id(0), id(0)) };
    store.append(vec![again]).await.unwrap();
    store.submit_call(call(&id(0), &format!("{prefix}-alone"))).await.unwrap();
    store.submit_call(call(&id(0), &format!("{prefix}-alone"))).await.unwrap();
}

fn failed(at: MessageRef) -> FailedAttempt {
    let not_before = jiff::Timestamp::from_second(1).unwrap();
    FailedAttempt { at, error: "no".to_owned(), not_before, waiting: Vec::new(), counts: true }
}

fn running(at: MessageRef) -> ProcessingReport {
    ProcessingReport { at, attempts: 0, not_before: None }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_planned_on_empty_tables_finds_rows_by_key_in_full_ones() {
    let database = fresh().await;
    let session = Session::open(&database.url()).await.unwrap();
    let options = Options::new(database.url()).pool_max(1);
    let store = PostgresStore::connect(options).await.unwrap();
    let runner = Runner::join(&store).await;
    for table in LARGE {
        let stays = format!("ALTER TABLE windrow.{table} SET (autovacuum_enabled = false)");
        session.batch_execute(&stays).await.unwrap();
    }
    work(&store, &runner, "new").await;
    for table in LARGE {
        session.batch_execute(&format!("DELETE FROM windrow.{table}")).await.unwrap();
        session.batch_execute(&format!("VACUUM ANALYZE windrow.{table}")).await.unwrap();
    }
    work(&store, &runner, "empty").await;
    for fill in FILL {
        session.execute(fill, &[&ROWS]).await.unwrap();
    }
    let read = "SELECT relname::text, indexrelname::text, idx_tup_read FROM pg_stat_user_indexes
                 WHERE schemaname = 'windrow' AND idx_tup_read > 0 ORDER BY 3 DESC";
    session
        .batch_execute("SELECT pg_stat_force_next_flush(); SELECT pg_stat_reset()")
        .await
        .unwrap();
    work(&store, &runner, "full").await;
    drop(store);
    sessions_ended(&session).await;
    let seen = session.query(read, &[]).await.unwrap();
    let seen: Vec<(String, String, i64)> =
        seen.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect();
    let total: i64 = seen.iter().map(|(.., read)| read).sum();
    assert!((1..READ_MAX).contains(&total), "{total}: {seen:?}");
}
