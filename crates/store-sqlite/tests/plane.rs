//! What this backend adds to the contract of the message plane.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod support;

use support::{all_completed, batch_of, new_batch, owner, request, sealed_file};
use windrow_domain::{BatchId, InstanceId, Queue, Stream};
use windrow_store::finalise::Rows;
use windrow_store::ingest::LineError;
use windrow_store::message::{Message, MessagesQuery};
use windrow_store::partition::Setup;
use windrow_store::{
    Batches as _, Claim as _, Finalise as _, Messages as _, Partitions as _, Record as _, Scope,
};
use windrow_store_sqlite::{Options, SqliteStore};

async fn open(lifecycle: bool) -> SqliteStore {
    let store = SqliteStore::open(Options::default()).await.unwrap();
    let service = "orders".to_owned();
    let setup = Setup { service, partitions: 16, object_types: Vec::new(), lifecycle };
    store.set_up(setup).await.unwrap();
    store
}

/// Runs a batch to its end and closes it.
async fn close(store: &SqliteStore, batch: BatchId) {
    let instance = InstanceId::new();
    while let Some(tranche) = store.lease_tranche(instance, request(100)).await.unwrap() {
        store.record(instance, vec![all_completed(&tranche)]).await.unwrap();
    }
    let held = store.take_finalisation(batch, instance, 60_000).await.unwrap();
    let rows = Rows { completed: held.counts.completed, ..Rows::default() };
    for _ in 0..2 {
        store.close_batch(&held, rows, "{}", &[]).await.unwrap();
    }
}

async fn told(store: &SqliteStore, batch: BatchId) -> Vec<Message> {
    let stream = Some(Stream::new(format!("batch/{batch}")).unwrap());
    let query = MessagesQuery { stream, limit: 10, ..MessagesQuery::default() };
    store.messages(&Scope::Owner(owner()), query).await.unwrap().rows
}

#[tokio::test]
async fn a_closed_batch_tells_once() {
    let store = open(true).await;
    let batch = batch_of(&store, 3).await.id;
    assert!(told(&store, batch).await.is_empty());
    close(&store, batch).await;
    let messages = told(&store, batch).await;
    let [message] = messages.as_slice() else { panic!("{messages:?}") };
    assert_eq!((message.queue, &message.owner), (Queue::Outbox, &owner()));
    assert_eq!(message.id, format!("{batch}.completed"));
    assert_eq!(message.kind, "batch.completed");
    let says: serde_json::Value = serde_json::from_slice(&message.payload).unwrap();
    assert_eq!(says["id"], batch.to_string());
    assert_eq!(
        (says["state"].as_str(), says["counts"]["completed"].as_u64()),
        (Some("completed"), Some(3))
    );
}

#[tokio::test]
async fn a_batch_that_is_created_failed_tells() {
    let store = open(true).await;
    let mut new = new_batch(sealed_file(&store, 1).await);
    new.errors = vec![LineError {
        code: "bad".to_owned(),
        line: None,
        message: "no".to_owned(),
        param: None,
    }];
    for _ in 0..2 {
        store.create_batch(new.clone()).await.unwrap();
    }
    let messages = told(&store, new.id).await;
    let [message] = messages.as_slice() else { panic!("{messages:?}") };
    assert_eq!(message.kind, "batch.failed");
}

#[tokio::test]
async fn nobody_is_told_who_did_not_ask() {
    let store = open(false).await;
    let batch = batch_of(&store, 3).await.id;
    close(&store, batch).await;
    assert!(told(&store, batch).await.is_empty());
}
