//! Errors: a refused call says the same on every database, word for word.
//!
//! Holds throughout: the words of a verb and its subject come from the contract's table and from no
//! backend; an argument that is wrong is named instead of the subject.

use std::collections::BTreeMap;

use windrow_domain::{BatchId, FileId, InstanceId, KeyId};
use windrow_store::batch::{NewBatch, Reprocess, Select};
use windrow_store::call::CallsQuery;
use windrow_store::claim::Poll;
use windrow_store::event::Snapshot;
use windrow_store::ingest::{Chunk, FileDescription, FileVerdict};
use windrow_store::inspect::{BatchesQuery, FilesQuery, FinishedQuery, PendingQuery, RowsQuery};
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
    let select = Select::Statuses(Vec::new());
    let step = Reprocess { lines_max: 0, ..Reprocess::first(batch, select) };
    let turn = Turn { instance, outcomes: Vec::new(), claim: Some(request(&[], 1)) };
    let endless = FileVerdict::ValidFor("x".repeat(3000));
    let told = [
        text(store.seal_file(FileId::new(), endless.clone()).await),
        text(store.create_batch(NewBatch { metadata: pairs, ..new.clone() }).await),
        text(store.create_batch(NewBatch { window_secs: Some(u64::MAX), ..new.clone() }).await),
        text(store.create_batch_with_file(new, endless).await),
        text(store.reprocess(&any, step).await),
        text(store.waiting(Poll::targets(0)).await),
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
    ];
    let expected = [
        "could not seal file endpoint: invalid",
        "could not create batch metadata: invalid",
        "could not create batch window_secs: invalid",
        "could not create batch endpoint: invalid",
        "could not reprocess batch lines_max: invalid",
        "could not list waiting targets limit: invalid",
        "could not extend leases of instance lease_ms: invalid",
        "could not record turn of instance routes: invalid",
        "could not take finalisation of batch lease_ms: invalid",
        "could not take duty duty: invalid",
        "could not list files limit: invalid",
        "could not list batches limit: invalid",
        "could not count attempts of batch lines: invalid",
        "could not list pending lines limit: invalid",
        "could not list finished lines limit: invalid",
        "could not list keys limit: invalid",
        "could not touch keys keys: invalid",
    ];
    assert_eq!(told, expected);
}

/// The same for messages, events and calls.
pub async fn a_refused_argument_of_a_message_says_the_same_on_every_database(world: &impl World) {
    let store = world.store();
    let (instance, any) = (InstanceId::new(), Scope::All);
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
    let told = [
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
pub async fn a_refused_file_says_the_same_on_every_database(world: &impl World) {
    let store = world.store();
    let (ada, file) = (scope("ada"), FileId::new());
    let open = Sheet::of("ada").lines(MODEL, 1);
    open.write(store).await;
    let stolen = windrow_store::ingest::NewFile { owner: owner("bob"), ..open.new_file() };
    let said = text(store.open_file(stolen).await);
    assert_eq!(said, format!("could not open file {}: conflict", open.id));
    let told = [
        (text(store.add_lines(file, Chunk::default()).await), "add lines to file"),
        (text(store.expire_file(file, now(world)).await), "expire file"),
        (text(store.describe_file(file, FileDescription::default()).await), "describe file"),
        (text(store.seal_file(file, FileVerdict::Valid).await), "seal file"),
        (text(store.drop_file(&ada, file).await), "drop file"),
        (text(store.file(&ada, file).await), "read file"),
        (text(store.file_errors(&ada, file).await), "read errors of file"),
        (text(store.file_lanes(&ada, file).await), "read lanes of file"),
        (text(store.chunk_sizes(&ada, file).await), "read chunk sizes of file"),
        (text(store.read_chunk(&ada, file, 3).await), "read chunk 3 of file"),
    ];
    for (said, words) in told {
        assert_eq!(said, format!("could not {words} {file}: missing"));
    }
}

/// The same for batches, leases, keys and members.
pub async fn a_refused_call_says_the_same_on_every_database(world: &impl World) {
    let store = world.store();
    let (ada, any) = (scope("ada"), Scope::All);
    let (batch, instance) = (BatchId::new(), InstanceId::new());
    let open = Sheet::of("ada").lines(MODEL, 1);
    open.write(store).await;
    let running = batch_of(store, "ada", 1).await;
    let missing = [
        (text(store.pause_batch(&ada, batch, None).await), "pause batch"),
        (text(store.resume_batch(&ada, batch, None).await), "resume batch"),
        (text(store.cancel_batch(&ada, batch).await), "cancel batch"),
        (text(store.delete_batch(&ada, batch).await), "delete batch"),
        (text(store.batch(&ada, batch).await), "read batch"),
        (text(store.lanes(&ada, batch).await), "read lanes of batch"),
        (text(store.audit_log(&ada, batch).await), "read audit log of batch"),
        (text(store.recipes(&ada, batch).await), "read recipes of batch"),
        (text(store.job_definition(batch).await), "read definition of batch"),
        (text(store.attempts(&ada, batch, 1).await), "read attempts of batch"),
        (text(store.rows(&ada, RowsQuery::of(batch, 1)).await), "list rows of batch"),
        (text(store.verify(batch).await), "verify batch"),
    ];
    for (said, words) in missing {
        assert_eq!(said, format!("could not {words} {batch}: missing"));
    }
    let claim = request(&[MODEL], 1);
    Worker::on(store).ask(claim.clone()).await.expect("there is a line");
    let twice = Turn { instance, outcomes: Vec::new(), claim: Some(claim) };
    let after_id = BatchesQuery { after_id: Some(batch), limit: 1, ..BatchesQuery::default() };
    let after = KeysQuery { after: Some("x".to_owned()), limit: 1 };
    let of_open = run_over(open.id, "ada");
    let created = format!("create batch {}: conflict", of_open.id);
    let taken = text(store.take_finalisation(running, instance, 1000).await);
    let beat = text(store.heartbeat(instance).await);
    let told = [
        (text(store.create_batch(of_open).await), created),
        (
            text(store.delete_batch(&ada, running).await),
            format!("delete batch {running}: conflict"),
        ),
        (taken, format!("take finalisation of batch {running}: refused")),
        (text(store.turn(twice).await), format!("record turn of instance {instance}: conflict")),
        (text(store.batches(&any, after_id).await), "list batches after_id: invalid".to_owned()),
        (text(store.keys(&any, after).await), "list keys after: invalid".to_owned()),
        (text(store.find_key(&[7; 32]).await), "find key by hash: missing".to_owned()),
        (beat, format!("send heartbeat of instance {instance}: missing")),
        (text(store.tombstone(instance).await), format!("tombstone instance {instance}: missing")),
    ];
    for (said, expected) in told {
        assert_eq!(said, format!("could not {expected}"));
    }
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
