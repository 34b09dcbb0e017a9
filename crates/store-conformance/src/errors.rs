//! Errors: a refused call says the same on every database, word for word.
//!
//! Holds throughout: the words of a verb and its subject come from the contract's table and from no
//! backend; an argument that is wrong is named instead of the subject.

use std::collections::BTreeMap;

use windrow_domain::{BatchId, FileId, InstanceId, KeyId, LeaseId};
use windrow_store::batch::{NewBatch, Reprocess, Select};
use windrow_store::call::CallsQuery;
use windrow_store::event::Snapshot;
use windrow_store::ingest::{Chunk, FileVerdict};
use windrow_store::inspect::{BatchesQuery, FilesQuery, FinishedQuery, PendingQuery};
use windrow_store::key::KeysQuery;
use windrow_store::message::{Commit, Exchange};
use windrow_store::record::Turn;
use windrow_store::{
    Batches, Calls, Claim, Events, Finalise, Ingest, Inspect, Keys, Members, Messages, Objects,
    Partitions, Record, Result, Scope,
};

use crate::World;
use crate::fixture::*;
use crate::message::fixture::{all, call, call_key, inbox, key, setup, stream};

/// What an error that had to come says.
#[track_caller]
fn text<T>(result: Result<T>) -> String {
    result.err().expect("the store had to refuse this").to_string()
}

/// Bounds are checked before a backend is asked, and the text names the argument.
pub async fn a_refused_argument_says_the_same_on_every_database(world: &impl World) {
    let store = world.store();
    let (instance, batch, any) = (InstanceId::new(), BatchId::new(), Scope::All);
    let new = run_over(FileId::new(), "ada");
    let pairs: BTreeMap<_, _> = (0..65).map(|no| (no.to_string(), String::new())).collect();
    let step =
        Reprocess { batch, select: Select::Statuses(Vec::new()), generation: None, lines_max: 0 };
    let turn = Turn { instance, outcomes: Vec::new(), claim: Some(request(&[], 1)) };
    let read = windrow_store::message::Read {
        instance,
        from: Vec::new(),
        held: Vec::new(),
        messages_max: 0,
        stream_messages_max: 1,
    };
    let exchange =
        Exchange { commit: Commit::new(instance), heartbeat: false, read: Some(read.clone()) };
    let unnamed = windrow_store::call::NewCall { method: String::new(), ..call("1", "r1") };
    let endless = FileVerdict::ValidFor("x".repeat(3000));
    let told = [
        text(store.seal_file(FileId::new(), endless.clone()).await),
        text(store.create_batch(NewBatch { metadata: pairs, ..new.clone() }).await),
        text(store.create_batch(NewBatch { window_secs: Some(u64::MAX), ..new.clone() }).await),
        text(store.create_batch_with_file(new, endless).await),
        text(store.reprocess(&any, step).await),
        text(store.waiting(None, 0).await),
        text(store.extend_leases(instance, Vec::new(), 0).await),
        text(store.turn(turn).await),
        text(store.take_finalisation(batch, instance, 0).await),
        text(store.take_duty(instance, "", 1).await),
        text(store.files(&any, FilesQuery::default()).await),
        text(store.batches(&any, BatchesQuery::default()).await),
        text(store.attempt_counts(batch, &[1; 1001]).await),
        text(store.pending(&any, PendingQuery::default()).await),
        text(store.finished(&any, FinishedQuery::default()).await),
        text(store.keys(&any, KeysQuery::default()).await),
        text(store.touch_keys(&[KeyId::new(); 1001]).await),
        text(store.set_up(windrow_store::partition::Setup { partitions: 0, ..setup() }).await),
        text(store.send(vec![inbox("a", "")]).await),
        text(store.read_owned(read).await),
        text(store.exchange(exchange).await),
        text(store.states(&vec![key("wallet/1"); 1001]).await),
        text(store.read_stream(&owner("ada"), &stream("a"), 1, 0).await),
        text(store.read_all(&any, None, 0).await),
        text(store.submit_call(unnamed).await),
        text(store.calls(&any, CallsQuery::default()).await),
    ];
    let expected = [
        "could not seal file endpoint: invalid",
        "could not create batch metadata: invalid",
        "could not create batch window_secs: invalid",
        "could not create batch endpoint: invalid",
        "could not reprocess batch lines_max: invalid",
        "could not list waiting targets limit: invalid",
        "could not extend leases of instance lease_ms: invalid",
        "could not record turn of instance targets: invalid",
        "could not take finalisation of batch lease_ms: invalid",
        "could not take duty duty: invalid",
        "could not list files limit: invalid",
        "could not list batches limit: invalid",
        "could not count attempts of batch lines: invalid",
        "could not list pending lines limit: invalid",
        "could not list finished lines limit: invalid",
        "could not list keys limit: invalid",
        "could not touch keys keys: invalid",
        "could not set up messages partitions: invalid",
        "could not send messages id: invalid",
        "could not read messages for instance messages_max: invalid",
        "could not exchange for instance messages_max: invalid",
        "could not read object states objects: invalid",
        "could not read stream limit: invalid",
        "could not read events limit: invalid",
        "could not submit call method: invalid",
        "could not list calls limit: invalid",
    ];
    assert_eq!(told, expected);
}

/// What a backend refuses is named by the seam: the verb of the call, and what it was for.
pub async fn a_refused_call_says_the_same_on_every_database(world: &impl World) {
    let store = world.store();
    let (ada, any) = (scope("ada"), Scope::All);
    let (file, batch, instance) = (FileId::new(), BatchId::new(), InstanceId::new());
    let open = Sheet::of("ada").lines(MODEL, 1);
    open.write(store).await;
    let running = batch_of(store, "ada", 1).await;
    let of_open = run_over(open.id, "ada");
    let stolen = windrow_store::ingest::NewFile { owner: owner("bob"), ..open.new_file() };
    let other = Worker::on(store);
    let claim = request(&[MODEL], 1);
    other.ask(claim.clone()).await.expect("there is a line");
    let twice = Turn { instance, outcomes: Vec::new(), claim: Some(claim) };
    let after_id = BatchesQuery { after_id: Some(batch), limit: 1, ..BatchesQuery::default() };
    let after = KeysQuery { after: Some("x".to_owned()), limit: 1 };
    let (no_file, no_batch) = (file.to_string(), batch.to_string());
    let told = [
        (text(store.open_file(stolen).await), format!("open file {}: conflict", open.id)),
        (
            text(store.add_lines(file, Chunk::default()).await),
            format!("add lines to file {no_file}: missing"),
        ),
        (
            text(store.expire_file(file, now(world)).await),
            format!("expire file {no_file}: missing"),
        ),
        (
            text(store.seal_file(file, FileVerdict::Valid).await),
            format!("seal file {no_file}: missing"),
        ),
        (text(store.drop_file(&ada, file).await), format!("drop file {no_file}: missing")),
        (text(store.file(&ada, file).await), format!("read file {no_file}: missing")),
        (
            text(store.file_errors(&ada, file).await),
            format!("read errors of file {no_file}: missing"),
        ),
        (
            text(store.file_lanes(&ada, file).await),
            format!("read lanes of file {no_file}: missing"),
        ),
        (
            text(store.chunk_sizes(&ada, file).await),
            format!("read chunk sizes of file {no_file}: missing"),
        ),
        (
            text(store.read_chunk(&ada, file, 3).await),
            format!("read chunk 3 of file {no_file}: missing"),
        ),
        (
            text(store.create_batch(of_open.clone()).await),
            format!("create batch {}: conflict", of_open.id),
        ),
        (
            text(store.pause_batch(&ada, batch, None).await),
            format!("pause batch {no_batch}: missing"),
        ),
        (text(store.resume_batch(&ada, batch).await), format!("resume batch {no_batch}: missing")),
        (text(store.cancel_batch(&ada, batch).await), format!("cancel batch {no_batch}: missing")),
        (text(store.delete_batch(&ada, batch).await), format!("delete batch {no_batch}: missing")),
        (text(store.batch(&ada, batch).await), format!("read batch {no_batch}: missing")),
        (text(store.lanes(&ada, batch).await), format!("read lanes of batch {no_batch}: missing")),
        (
            text(store.audit_log(&ada, batch).await),
            format!("read audit log of batch {no_batch}: missing"),
        ),
        (
            text(store.attempts(&ada, batch, 1).await),
            format!("read attempts of batch {no_batch}: missing"),
        ),
        (text(store.verify(batch).await), format!("verify batch {no_batch}: missing")),
        (
            text(store.delete_batch(&ada, running).await),
            format!("delete batch {running}: conflict"),
        ),
        (
            text(store.take_finalisation(running, instance, 1000).await),
            format!("take finalisation of batch {running}: refused"),
        ),
        (text(store.turn(twice).await), format!("record turn of instance {instance}: conflict")),
        (text(store.batches(&any, after_id).await), "list batches after_id: invalid".to_owned()),
        (text(store.keys(&any, after).await), "list keys after: invalid".to_owned()),
        (text(store.find_key(&[7; 32]).await), "find key by hash: missing".to_owned()),
        (
            text(store.heartbeat(instance).await),
            format!("send heartbeat of instance {instance}: missing"),
        ),
        (text(store.tombstone(instance).await), format!("tombstone instance {instance}: missing")),
    ];
    for (said, expected) in told {
        assert_eq!(said, format!("could not {expected}"));
    }
    assert!(store.release_leases(instance, vec![LeaseId::new()]).await.is_ok());
}

/// The same for messages, events and calls.
pub async fn a_refused_message_says_the_same_on_every_database(world: &impl World) {
    let store = world.store();
    let (any, stranger) = (Scope::All, InstanceId::new());
    let unset = text(store.send(vec![inbox("a", "m1")]).await);
    assert_eq!(unset, "could not send messages: refused");
    let unset = text(store.submit_call(call("1", "r1")).await);
    assert_eq!(unset, "could not submit call r1: refused");
    store.set_up(setup()).await.expect("a fresh world is set up");
    store.send(vec![inbox("a", "m1")]).await.expect("a message is sent");
    let other = windrow_store::message::NewMessage { kind: "other".into(), ..inbox("a", "m1") };
    let fence = windrow_store::partition::Fence { partition: 0, epoch: 1 };
    let stale = Commit { fences: vec![fence], ..Commit::new(stranger) };
    let exchange = Exchange { commit: stale.clone(), heartbeat: false, read: None };
    let snapshot = Snapshot {
        owner: owner("ada"),
        stream: stream("a"),
        version: 9,
        state: bytes::Bytes::new(),
    };
    let larger = windrow_store::partition::Setup { partitions: 9, ..setup() };
    let dead = [windrow_domain::DeadLetterId::new()];
    let told = [
        (text(store.set_up(larger).await), "set up messages: conflict".to_owned()),
        (
            text(store.take_partitions(stranger, &all()).await),
            format!("take partitions for instance {stranger}: missing"),
        ),
        (
            text(store.clear_suspects(stranger, &[fence]).await),
            format!("clear suspects of instance {stranger}: lease_lost"),
        ),
        (text(store.send(vec![other]).await), "send messages: conflict".to_owned()),
        (text(store.commit(stale).await), format!("commit for instance {stranger}: lease_lost")),
        (
            text(store.exchange(exchange).await),
            format!("exchange for instance {stranger}: lease_lost"),
        ),
        (text(store.replay_dead(&any, &dead).await), "replay dead letters: missing".to_owned()),
        (
            text(store.put_snapshot(snapshot).await),
            "put snapshot of stream version: invalid".to_owned(),
        ),
        (text(store.call(&call_key("r9")).await), "read call r9: missing".to_owned()),
    ];
    for (said, expected) in told {
        assert_eq!(said, format!("could not {expected}"));
    }
}
