//! Batches: creating and steering a run. Running lines again is in `reprocess`.

use std::collections::BTreeMap;

use tokio::task::JoinSet;
use windrow_domain::attempt::Status;
use windrow_domain::batch::{Ending, Event, Refused, apply};
use windrow_domain::{BatchId, Counts, FileId, Phase, State};
use windrow_store::batch::{METADATA_PAIRS_MAX, NewBatch, Reprocess, Select};
use windrow_store::error::{Error, Kind};
use windrow_store::ingest::FileVerdict;
use windrow_store::inspect::BatchesQuery;
use windrow_store::{Batches, Claim, Finalise, Ingest, Inspect, Scope, Sweep};

use crate::World;
use crate::fixture::*;

/// A new batch has every line untouched and everything that was said about it.
pub async fn a_new_batch_has_every_line_untouched(world: &impl World) {
    let store = world.store();
    let file = Sheet::of("ada").lines(MODEL, 5).lines("model-b", 2).seal(store).await;
    let new = NewBatch {
        window_secs: Some(60),
        priority: -7,
        job_type: Some("sizes".to_owned()),
        source_address: Some("203.0.113.9".to_owned()),
        metadata: BTreeMap::from([("team".to_owned(), "ß-ü".to_owned())]),
        idempotency_key: Some("k".to_owned()),
        ..run_over(file, "ada")
    };
    let batch = store.create_batch(new.clone()).await.unwrap();

    assert_eq!((batch.id, batch.file, &batch.owner), (new.id, file, &new.owner));
    assert_eq!((batch.state, batch.generation, batch.priority), (State::InProgress, 0, -7));
    assert_eq!((&batch.endpoint, &batch.job_type), (&new.endpoint, &new.job_type));
    assert_eq!((&batch.source_address, &batch.metadata), (&new.source_address, &new.metadata));
    assert_eq!((batch.created_at, batch.deadline), (now(world), Some(later(world, 60_000))));
    assert_eq!((batch.cancelling_at, batch.finalizing_at, batch.closed_at), (None, None, None));
    assert_eq!((&batch.last_error, &batch.summary), (&None, &None));
    assert!(batch.errors.is_empty());
    assert_eq!(batch.counts, Counts::untouched(7));
    assert_eq!(store.batch(&scope("ada"), batch.id).await.unwrap(), batch);

    let lanes = store.lanes(&scope("ada"), batch.id).await.unwrap();
    let shown: Vec<_> = lanes
        .iter()
        .map(|lane| (lane.lane, lane.target.as_str(), lane.phase, lane.counts))
        .collect();
    let open = |no, name, total| (no, name, Phase::Open, Counts::untouched(total));
    assert_eq!(shown, [open(0, MODEL, 5), open(1, "model-b", 2)]);
    check(store, batch.id).await;
}

/// Creating again with the same id gives the same batch; with other arguments it is a conflict.
pub async fn creating_twice_gives_the_same_batch(world: &impl World) {
    let store = world.store();
    let file = Sheet::of("ada").lines(MODEL, 4).seal(store).await;
    let new = run_over(file, "ada");
    let first = store.create_batch(new.clone()).await.unwrap();
    let tranche = Worker::on(store).take(1).await;
    pass(world, 1000);
    let second = store.create_batch(new.clone()).await.unwrap();
    assert_eq!((second.id, second.created_at), (first.id, first.created_at));
    assert_eq!(second.counts.leased, 1, "the run goes on as it was");
    assert_eq!(tranche.lease.batch, first.id);

    let other_file = Sheet::of("ada").lines(MODEL, 4).seal(store).await;
    let other = NewBatch { file: other_file, ..new.clone() };
    assert_eq!(kind(store.create_batch(other).await), Kind::Conflict);
    let other = NewBatch { endpoint: "/v1/other".to_owned(), ..new };
    assert_eq!(kind(store.create_batch(other).await), Kind::Conflict);
    check(store, first.id).await;
}

/// A key gives its owner's first batch, means nothing to another owner, and is free again when the
/// batch is deleted.
pub async fn an_idempotency_key_belongs_to_its_owner(world: &impl World) {
    let store = world.store();
    let key = Some("nightly".to_owned());
    let file = Sheet::of("ada").lines(MODEL, 1).seal(store).await;
    let keyed =
        |owner_name, file| NewBatch { idempotency_key: key.clone(), ..run_over(file, owner_name) };
    let first = store.create_batch(keyed("ada", file)).await.unwrap();
    let second = store.create_batch(keyed("ada", file)).await.unwrap();
    assert_eq!(first, second);

    let other = NewBatch { endpoint: "/v1/other".to_owned(), ..keyed("ada", file) };
    assert_eq!(kind(store.create_batch(other).await), Kind::Conflict);
    let file_two = Sheet::of("ada").lines(MODEL, 1).seal(store).await;
    assert_eq!(kind(store.create_batch(keyed("ada", file_two)).await), Kind::Conflict);

    let file_bob = Sheet::of("bob").lines(MODEL, 1).seal(store).await;
    let bobs = store.create_batch(keyed("bob", file_bob)).await.unwrap();
    assert_ne!(bobs.id, first.id);
    let keyless = store.create_batch(run_over(file, "ada")).await.unwrap();
    assert_ne!(keyless.id, first.id);

    let worker = Worker::on(store);
    worker.drain(first.id, &[MODEL]).await;
    worker.close(first.id).await;
    assert_eq!(store.create_batch(keyed("ada", file)).await.unwrap().id, first.id);
    store.delete_batch(&scope("ada"), first.id).await.unwrap();
    let fresh = store.create_batch(keyed("ada", file)).await.unwrap();
    assert_ne!(fresh.id, first.id);
}

/// Many instances that create with one key at the same moment make one batch.
pub async fn one_key_makes_one_batch_however_many_ask(world: &impl World) {
    let file = Sheet::of("ada").lines(MODEL, 3).seal(world.store()).await;
    let mut tasks = JoinSet::new();
    for _ in 0..6 {
        let store = world.another().await;
        let new = NewBatch { idempotency_key: Some("once".to_owned()), ..run_over(file, "ada") };
        tasks.spawn(async move { patiently(|| store.create_batch(new.clone())).await });
    }
    let made = tasks.join_all().await;
    let ids: Vec<_> = made.into_iter().map(|batch| batch.unwrap().id).collect();
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    let query = BatchesQuery { limit: 10, ..BatchesQuery::default() };
    let listed = world.store().batches(&scope("ada"), query).await.unwrap().rows;
    assert_eq!(listed.len(), 1);
    check(world.store(), ids[0]).await;
}

/// A batch needs a sealed file of its own owner; that there is another's is not even told.
pub async fn a_batch_needs_a_sealed_file_of_its_owner(world: &impl World) {
    let store = world.store();
    let unknown = store.create_batch(run_over(FileId::new(), "ada")).await;
    assert_eq!(kind(unknown), Kind::Missing);
    let file = Sheet::of("ada").lines(MODEL, 1).seal(store).await;
    assert_eq!(kind(store.create_batch(run_over(file, "bob")).await), Kind::Missing);
    let open = Sheet::of("ada").lines(MODEL, 1);
    open.write(store).await;
    assert_eq!(kind(store.create_batch(run_over(open.id, "ada")).await), Kind::Conflict);
    let theirs = store.create_batch(run_over(open.id, "bob")).await;
    assert_eq!(kind(theirs), Kind::Missing);
    let query = BatchesQuery { limit: 10, ..BatchesQuery::default() };
    assert!(store.batches(&Scope::All, query).await.unwrap().rows.is_empty());
}

/// A file that is sealed with its batch is seen when the batch is, and not before: what refuses the
/// batch leaves the file open, and a repeat finds both.
pub async fn a_file_and_its_batch_come_together_or_not_at_all(world: &impl World) {
    let store = world.store();
    let verdict = || FileVerdict::ValidFor("/v1/x".to_owned());
    let is_hidden = async |id| kind(store.file(&Scope::All, id).await) == Kind::Missing;
    let key = Some("once".to_owned());
    let sheet = Sheet::of("ada").lines(MODEL, 3);
    sheet.write(store).await;
    let new = NewBatch { idempotency_key: key.clone(), ..run_over(sheet.id, "ada") };

    let full = NewBatch { open_max: Some(0), ..new.clone() };
    let theirs = NewBatch { owner: owner("bob"), ..new.clone() };
    for (refused, why) in [(full, Kind::Limited), (theirs, Kind::Missing)] {
        assert_eq!(kind(store.create_batch_with_file(refused, verdict()).await), why);
        assert!(is_hidden(sheet.id).await, "{why:?}");
    }
    let made = store.create_batch_with_file(new.clone(), verdict()).await.unwrap();
    assert_eq!((made.state, made.counts), (State::InProgress, Counts::untouched(3)));
    let file = store.file(&scope("ada"), sheet.id).await.unwrap();
    assert_eq!((file.endpoint.as_deref(), file.lines), (Some("/v1/x"), 3));
    assert_eq!(store.create_batch_with_file(new.clone(), verdict()).await.unwrap(), made);

    let other = Sheet::of("ada").lines(MODEL, 1);
    other.write(store).await;
    let reused = NewBatch { idempotency_key: key, ..run_over(other.id, "ada") };
    assert_eq!(kind(store.create_batch_with_file(reused, verdict()).await), Kind::Conflict);
    assert!(is_hidden(other.id).await);
    store.expire_file(other.id, later(world, 1_000)).await.expect("it is open as before");
    store.drop_file(&scope("ada"), other.id).await.unwrap();

    let bad = Sheet::of("ada").lines(MODEL, 1);
    bad.write(store).await;
    let errors = FileVerdict::Invalid(vec![line_error(1)]);
    let failed = store.create_batch_with_file(run_over(bad.id, "ada"), errors).await.unwrap();
    assert_eq!((failed.state, failed.errors), (State::Failed, vec![line_error(1)]));
    check(store, made.id).await;
}

/// Over an invalid file a batch is closed before it begins, with the file's errors.
pub async fn a_batch_over_an_invalid_file_is_failed(world: &impl World) {
    let store = world.store();
    let sheet = Sheet::of("ada").lines(MODEL, 2).raw(None, "?\n");
    let errors = vec![line_error(3)];
    sheet.seal_invalid(store, errors.clone()).await;
    let new = run_over(sheet.id, "ada");
    let batch = store.create_batch(new.clone()).await.unwrap();
    assert_eq!((batch.state, &batch.errors), (State::Failed, &errors));
    assert_eq!((batch.closed_at, batch.counts), (Some(now(world)), Counts::default()));
    assert_eq!(store.create_batch(new).await.unwrap(), batch);
    assert_eq!(store.batch(&scope("ada"), batch.id).await.unwrap(), batch);
    assert!(store.lanes(&scope("ada"), batch.id).await.unwrap().is_empty());
    assert!(store.find_unclosed(10).await.unwrap().is_empty());
    check(store, batch.id).await;
    store.delete_batch(&scope("ada"), batch.id).await.unwrap();
    assert_eq!(kind(store.batch(&scope("ada"), batch.id).await), Kind::Missing);
}

/// Metadata has a bound.
pub async fn metadata_over_the_bound_is_invalid(world: &impl World) {
    let store = world.store();
    let file = Sheet::of("ada").lines(MODEL, 1).seal(store).await;
    let pairs = |count: usize| (0..count).map(|no| (no.to_string(), String::new())).collect();
    let full = NewBatch { metadata: pairs(METADATA_PAIRS_MAX), ..run_over(file, "ada") };
    let batch = store.create_batch(full.clone()).await.unwrap();
    assert_eq!(batch.metadata, full.metadata);
    let over = NewBatch { metadata: pairs(METADATA_PAIRS_MAX + 1), ..run_over(file, "ada") };
    assert_eq!(kind(store.create_batch(over).await), Kind::Invalid);
}

/// A window that ends after the end of time is an answer, not an accident.
pub async fn an_endless_window_is_answered(world: &impl World) {
    let store = world.store();
    let file = Sheet::of("ada").lines(MODEL, 1).seal(store).await;
    let new = NewBatch { window_secs: Some(u64::MAX), ..run_over(file, "ada") };
    match store.create_batch(new).await {
        Err(error) => assert_eq!(error.kind, Kind::Invalid),
        Ok(batch) => {
            assert!(batch.deadline.is_none_or(|deadline| deadline > batch.created_at));
            assert!(store.expire_batches(10).await.unwrap().is_empty());
        }
    }
}

/// Pausing stops claims; what is leased finishes; resuming goes on where it stopped.
pub async fn a_paused_batch_gives_no_lines_until_it_is_resumed(world: &impl World) {
    let store = world.store();
    let batch = batch_of(store, "ada", 10).await;
    let worker = Worker::on(store);
    let held = worker.take(4).await;
    let reason = Some("budget spent".to_owned());
    let paused = store.pause_batch(&scope("ada"), batch, reason.clone()).await.unwrap();
    assert_eq!((paused.state, &paused.last_error), (State::Paused, &reason));
    check(store, batch).await;
    assert_eq!(worker.claim(10).await, None);

    let outcomes = finished_some(&held, Status::Completed, |seq| seq < 2);
    let reply = worker.record(outcomes).await;
    assert_eq!(kept(&reply).0.expect("two are left").outstanding.to_string(), "2-3");
    store.release_leases(worker.instance, vec![held.lease.held.id]).await.unwrap();
    assert_eq!(worker.claim(10).await, None, "returned lines wait too");
    check(store, batch).await;

    let again = store.pause_batch(&scope("ada"), batch, reason).await.unwrap();
    assert_eq!(again.state, State::Paused);
    let resumed = store.resume_batch(&scope("ada"), batch, None).await.unwrap();
    assert_eq!(resumed.state, State::InProgress);
    assert_eq!(
        store.resume_batch(&scope("ada"), batch, None).await.unwrap().state,
        State::InProgress
    );
    assert_eq!(seqs(&worker.take(10).await).to_string(), "2-3");
    assert_eq!(seqs(&worker.take(10).await).to_string(), "4-9");
    check(store, batch).await;
}

/// A batch that has nothing leased is finalizing as soon as it is cancelled.
pub async fn cancelling_with_nothing_leased_settles_at_once(world: &impl World) {
    let store = world.store();
    let batch = Sheet::of("ada").lines(MODEL, 4).lines("model-b", 2).run(store).await;
    let worker = Worker::on(store);
    let tranche = worker.take(2).await;
    worker.record(finished_some(&tranche, Status::Completed, |seq| seq == 0)).await;
    worker.store.release_leases(worker.instance, vec![tranche.lease.held.id]).await.unwrap();
    pass(world, 500);
    let cancelled = store.cancel_batch(&scope("ada"), batch).await.unwrap();

    assert_eq!(cancelled.state, State::Finalizing(Ending::Cancelled));
    assert_eq!(cancelled.cancelling_at, Some(now(world)));
    assert_eq!(cancelled.finalizing_at, Some(now(world)));
    let counts = cancelled.counts;
    assert_eq!((counts.completed, counts.returned, counts.untouched), (1, 1, 4));
    assert_eq!(worker.ask(request(&[MODEL, "model-b"], 10)).await, None);
    check(store, batch).await;
    pass(world, 500);
    assert_eq!(store.cancel_batch(&scope("ada"), batch).await.unwrap(), cancelled);
    assert_eq!(store.find_unclosed(10).await.unwrap(), [batch]);
    let closed = worker.close(batch).await;
    assert_eq!(closed.state, State::Cancelled);
    assert_eq!(store.cancel_batch(&scope("ada"), batch).await.unwrap().state, State::Cancelled);
    check(store, batch).await;
}

/// What is leased may finish after a cancel; everything else never runs.
pub async fn leased_lines_may_finish_after_a_cancel(world: &impl World) {
    let store = world.store();
    let batch = Sheet::of("ada").lines(MODEL, 6).lines("model-b", 3).run(store).await;
    let worker = Worker::on(store);
    let first = worker.take(2).await;
    let second = worker.take(2).await;
    let cancelled = store.cancel_batch(&scope("ada"), batch).await.unwrap();
    assert_eq!(cancelled.state, State::Cancelling);
    assert_eq!(store.cancel_batch(&scope("ada"), batch).await.unwrap(), cancelled);
    assert_eq!(worker.ask(request(&[MODEL, "model-b"], 10)).await, None);
    check(store, batch).await;

    assert!(worker.complete(&first).await.finalizing.is_empty());
    assert_eq!(counts(store, batch).await.completed, 2);
    let late = again(&second, later(world, 1000));
    assert_eq!(worker.record(late).await.finalizing, [batch]);
    let settled = batch_state(world, batch).await;
    assert_eq!(settled, State::Finalizing(Ending::Cancelled));
    check(store, batch).await;
    pass(world, 5000);
    assert_eq!(worker.claim(10).await, None, "a retry of a cancelled line never runs");
}

async fn batch_state(world: &impl World, id: BatchId) -> State {
    batch(world.store(), id).await.state
}

/// Every state meets every command as the domain says: done, or refused with both sides and the
/// batch as it was.
pub async fn every_command_meets_every_state_as_the_domain_says(world: &impl World) {
    let events = [Event::Paused, Event::Resumed, Event::Cancelled, Event::Reprocessed];
    for state in State::ALL {
        for event in events {
            let id = batch_in(world, state).await;
            let before = batch(world.store(), id).await;
            assert_eq!(before.state, state);
            let outcome = command(world, id, event).await;
            let after = batch(world.store(), id).await;
            match (apply(state, event), outcome) {
                (Ok(expected), Ok(())) => assert_eq!(after.state, expected, "{state} {event:?}"),
                (Err(refused), Err(error)) => {
                    assert_eq!(error.kind, Kind::Refused, "{state} {event:?}");
                    assert_eq!(error.refused(), Some(refused));
                    assert_eq!(after, before, "a refusal changes nothing");
                }
                (expected, given) => panic!("{state} {event:?}: {expected:?}, not {given:?}"),
            }
            check(world.store(), id).await;
        }
    }
}

async fn command(world: &impl World, batch: BatchId, event: Event) -> Result<(), Error> {
    let (store, all) = (world.store(), Scope::All);
    let select = Select::Statuses(vec![Status::Completed]);
    let step = Reprocess { lines_max: 10, ..Reprocess::first(batch, select) };
    match event {
        Event::Paused => store.pause_batch(&all, batch, None).await.map(drop),
        Event::Resumed => store.resume_batch(&all, batch, None).await.map(drop),
        Event::Cancelled => store.cancel_batch(&all, batch).await.map(drop),
        Event::Reprocessed => store.reprocess(&all, step).await.map(drop),
        other => panic!("{other:?} is no command"),
    }
}

/// A batch in that state: one line completed and, while it runs, one leased.
async fn batch_in(world: &impl World, state: State) -> BatchId {
    let store = world.store();
    if state == State::Failed {
        let sheet = Sheet::of("ada").raw(None, "?\n");
        sheet.seal_invalid(store, vec![line_error(1)]).await;
        return store.create_batch(run_over(sheet.id, "ada")).await.unwrap().id;
    }
    let file = Sheet::of("ada").lines(MODEL, 2).seal(store).await;
    let new = NewBatch { window_secs: Some(600), ..run_over(file, "ada") };
    let id = store.create_batch(new).await.unwrap().id;
    let worker = Worker::on(store);
    let first = worker.claim_only(id, &[MODEL], 1).await.unwrap();
    worker.complete(&first).await;
    let second = worker.claim_only(id, &[MODEL], 1).await.unwrap();
    let all = Scope::All;
    match state {
        State::Paused => drop(store.pause_batch(&all, id, None).await.unwrap()),
        State::Cancelling | State::Finalizing(Ending::Cancelled) | State::Cancelled => {
            store.cancel_batch(&all, id).await.unwrap();
        }
        State::Expiring | State::Finalizing(Ending::Expired) | State::Expired => {
            pass(world, 600_000);
            assert!(store.expire_batches(100).await.unwrap().contains(&id));
        }
        _ => {}
    }
    if !state.is_running() {
        assert_eq!(worker.complete(&second).await.finalizing, [id]);
    }
    if state.is_closed() {
        worker.close(id).await;
    }
    id
}

/// A batch that does not exist, or is another owner's, is missing for every command and read.
pub async fn another_owners_batch_is_missing(world: &impl World) {
    let store = world.store();
    let theirs = batch_of(store, "ada", 2).await;
    let bob = scope("bob");
    for id in [theirs, BatchId::new()] {
        let step = |generation| Reprocess {
            generation,
            lines_max: 10,
            ..Reprocess::first(id, Select::Statuses(Status::ALL.to_vec()))
        };
        assert_eq!(kind(store.pause_batch(&bob, id, None).await), Kind::Missing);
        assert_eq!(kind(store.resume_batch(&bob, id, None).await), Kind::Missing);
        assert_eq!(kind(store.cancel_batch(&bob, id).await), Kind::Missing);
        assert_eq!(kind(store.reprocess(&bob, step(None)).await), Kind::Missing);
        assert_eq!(kind(store.reprocess(&bob, step(Some(0))).await), Kind::Missing);
        assert_eq!(kind(store.delete_batch(&bob, id).await), Kind::Missing);
        assert_eq!(kind(store.batch(&bob, id).await), Kind::Missing);
        assert_eq!(kind(store.lanes(&bob, id).await), Kind::Missing);
        assert_eq!(kind(store.attempts(&bob, id, 1).await), Kind::Missing);
    }
    let mine = Scope::All;
    let unknown = BatchId::new();
    assert_eq!(kind(store.pause_batch(&mine, unknown, None).await), Kind::Missing);
    assert_eq!(kind(store.cancel_batch(&mine, unknown).await), Kind::Missing);
    assert_eq!(kind(store.delete_batch(&mine, unknown).await), Kind::Missing);
    assert_eq!(kind(store.verify(unknown).await), Kind::Missing);
    assert_eq!(batch_state(world, theirs).await, State::InProgress);
}

/// Only a closed batch can be deleted; then it is missing everywhere and reaped to the last row.
pub async fn a_deleted_batch_vanishes_and_leaves_nothing(world: &impl World) {
    let store = world.store();
    let worker = Worker::on(store);
    let file = Sheet::of("ada").lines(MODEL, 60).seal(store).await;
    let id = store.create_batch(run_over(file, "ada")).await.unwrap().id;
    let stays = store.create_batch(run_over(file, "ada")).await.unwrap().id;
    assert_eq!(kind(store.delete_batch(&scope("ada"), id).await), Kind::Conflict);
    let tranche = worker.claim_only(id, &[MODEL], 30).await.unwrap();
    worker.record(again(&tranche, now(world))).await;
    pass(world, 1000);
    worker.drain(id, &[MODEL]).await;
    worker.drain(stays, &[MODEL]).await;
    assert_eq!(kind(store.delete_batch(&scope("ada"), id).await), Kind::Conflict);
    worker.close(id).await;
    store.delete_batch(&scope("ada"), id).await.unwrap();

    let check_gone = async || {
        assert_eq!(kind(store.batch(&Scope::All, id).await), Kind::Missing);
        assert_eq!(kind(store.lanes(&Scope::All, id).await), Kind::Missing);
        assert_eq!(kind(store.attempts(&Scope::All, id, 1).await), Kind::Missing);
        assert_eq!(kind(store.verify(id).await), Kind::Missing);
        assert_eq!(kind(store.cancel_batch(&Scope::All, id).await), Kind::Missing);
        assert_eq!(kind(store.delete_batch(&Scope::All, id).await), Kind::Missing);
        let taken = store.take_finalisation(id, worker.instance, LEASE_MS).await;
        assert_eq!(kind(taken), Kind::Missing);
        assert!(results(store, id).await.is_empty(), "its results are not listed");
        let query = BatchesQuery { limit: 10, ..BatchesQuery::default() };
        let listed = store.batches(&scope("ada"), query).await.unwrap().rows;
        assert_eq!(listed.iter().map(|batch| batch.id).collect::<Vec<_>>(), [stays]);
    };
    check_gone().await;
    let (rows, steps) = reap_all(store, 20).await;
    assert!(rows >= 91, "results, history, lane and batch were reaped: {rows}");
    assert!(steps > 3, "reaping goes in small steps, not {steps}");
    check_gone().await;
    assert_eq!(reap_all(store, 20).await, (0, 1), "nothing is left to reap");
    check(store, stays).await;
    has_one_result_per_line(store, stays, 60).await;
}

/// What a refusal carries is what the domain says, down to the words.
pub async fn a_refusal_names_the_state_and_the_command(world: &impl World) {
    let id = batch_in(world, State::Completed).await;
    let error = world.store().resume_batch(&scope("ada"), id, None).await.unwrap_err();
    let refused = Refused { from: State::Completed, event: Event::Resumed };
    assert_eq!((error.kind, error.refused()), (Kind::Refused, Some(refused)));
    assert!(whole_text(&error).contains("completed"), "{}", whole_text(&error));
}

/// An owner has at most so many batches that are not closed; others do not count for it, and neither
/// does one that is closed from the start.
pub async fn an_owner_has_no_more_open_batches_than_it_may(world: &impl World) {
    let store = world.store();
    let file = Sheet::of("ada").lines(MODEL, 1).seal(store).await;
    let bad = Sheet::of("ada").lines(MODEL, 1).seal_invalid(store, vec![line_error(1)]).await.id;
    let bobs = Sheet::of("bob").lines(MODEL, 1).seal(store).await;
    let at_most =
        |open_max, file, name| NewBatch { open_max: Some(open_max), ..run_over(file, name) };
    assert_eq!(kind(store.create_batch(at_most(0, file, "ada")).await), Kind::Limited);
    let first = store.create_batch(at_most(2, file, "ada")).await.unwrap().id;
    let paused = store.create_batch(run_over(file, "ada")).await.unwrap().id;
    store.pause_batch(&Scope::All, paused, None).await.unwrap();
    let refused = at_most(2, file, "ada");
    assert_eq!(kind(store.create_batch(refused.clone()).await), Kind::Limited);
    assert_eq!(kind(store.batch(&Scope::All, refused.id).await), Kind::Missing);
    store.create_batch(at_most(1, bobs, "bob")).await.unwrap();
    let failed = store.create_batch(at_most(2, bad, "ada")).await.unwrap();
    assert_eq!(failed.state, State::Failed);
    assert_eq!(kind(store.create_batch(at_most(1, bobs, "ada")).await), Kind::Missing);

    let worker = Worker::on(store);
    worker.drain(first, &[MODEL]).await;
    assert_eq!(kind(store.create_batch(refused.clone()).await), Kind::Limited, "not closed yet");
    worker.close(first).await;
    store.create_batch(refused.clone()).await.unwrap();
    assert_eq!(kind(store.create_batch(at_most(2, file, "ada")).await), Kind::Limited);
    store.create_batch(run_over(file, "ada")).await.expect("without a bound there is none");
}

/// What is wrong with a run is found before it begins: it is failed from the start, none of its lines
/// is ever claimed, and its errors stay when the file goes.
pub async fn a_batch_that_is_created_with_errors_is_failed(world: &impl World) {
    let store = world.store();
    let file = Sheet::of("ada").lines(MODEL, 3).seal(store).await;
    let errors = vec![line_error(1), line_error(3)];
    let new = NewBatch { errors: errors.clone(), open_max: Some(0), ..run_over(file, "ada") };
    let batch = store.create_batch(new.clone()).await.unwrap();
    assert_eq!((batch.state, batch.counts.total), (State::Failed, 0));
    assert_eq!(batch.errors, errors);
    assert_eq!(batch.closed_at, Some(now(world)));
    assert_eq!(store.create_batch(new).await.unwrap(), batch);
    assert!(Worker::on(store).claim(10).await.is_none());

    let good = store.create_batch(run_over(file, "ada")).await.unwrap();
    assert_eq!((good.state, good.errors.len()), (State::InProgress, 0), "the file is not to blame");
    store.cancel_batch(&Scope::All, good.id).await.unwrap();
    Worker::on(store).close(good.id).await;
    store.drop_file(&scope("ada"), file).await.unwrap();
    assert_eq!(store.batch(&scope("ada"), batch.id).await.unwrap().errors, errors);
}

/// A repeat gives the batch that was created, however many the owner may have by now.
pub async fn a_repeated_creation_is_never_limited(world: &impl World) {
    let store = world.store();
    let file = Sheet::of("ada").lines(MODEL, 1).seal(store).await;
    let key = Some("once".to_owned());
    let new = NewBatch { open_max: Some(1), idempotency_key: key, ..run_over(file, "ada") };
    let made = store.create_batch(new.clone()).await.unwrap();
    assert_eq!(store.create_batch(new.clone()).await.unwrap(), made);
    let keyed = NewBatch { id: BatchId::new(), open_max: Some(0), ..new.clone() };
    assert_eq!(store.create_batch(keyed).await.unwrap(), made);
    let other = NewBatch { endpoint: "/v1/other".to_owned(), ..new };
    assert_eq!(kind(store.create_batch(other).await), Kind::Conflict);
}

/// Of many that are created at the same moment, as many are made as the owner may have.
pub async fn the_bound_of_open_batches_holds_however_many_ask(world: &impl World) {
    let file = Sheet::of("ada").lines(MODEL, 1).seal(world.store()).await;
    let mut tasks = JoinSet::new();
    for _ in 0..8 {
        let store = world.another().await;
        let new = NewBatch { open_max: Some(3), ..run_over(file, "ada") };
        tasks.spawn(async move { patiently(|| store.create_batch(new.clone())).await });
    }
    let (made, limited): (Vec<_>, Vec<_>) =
        tasks.join_all().await.into_iter().partition(Result::is_ok);
    assert_eq!((made.len(), limited.len()), (3, 5));
    assert!(limited.into_iter().all(|refused| refused.unwrap_err().kind == Kind::Limited));
    let query = BatchesQuery { limit: 10, ..BatchesQuery::default() };
    let listed = world.store().batches(&scope("ada"), query).await.unwrap().rows;
    assert_eq!(listed.len(), 3);
}
