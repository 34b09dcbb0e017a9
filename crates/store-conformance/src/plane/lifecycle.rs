//! Lifecycle: what became of a batch waits in its owner's outbox from the moment it is closed.
//!
//! Holds throughout: the messages are read as a runner reads them.

use jiff::Timestamp;
use serde_json::{Value, json};
use windrow_domain::attempt::Status;
use windrow_domain::{BatchId, InstanceId, Queue, State};
use windrow_store::batch::{NewBatch, Reprocess, Select};
use windrow_store::finalise::{Finalisation, Rows};
use windrow_store::ingest::Verdict;
use windrow_store::message::{Headers, Message};
use windrow_store::partition::Setup;
use windrow_store::{Batches, Finalise, Kind, Partitions, Scope, Store, Sweep};

use super::PlaneWorld;
use super::fixture::*;
use crate::abandon::Patience;
use crate::fixture::{
    LEASE_MS, MODEL, Sheet, Worker, batch, batch_of, line_error, patiently, rows, run_over,
};

/// How long batches of these cases may run.
const WINDOW_SECS: u64 = 60;

async fn set_up(world: &impl PlaneWorld, lifecycle: bool) {
    let setup = Setup { lifecycle, ..setup() };
    world.store().set_up(setup).await.expect("lifecycle is free to change");
}

/// A world in which batches tell their end, and a runner that owns everything.
async fn telling<W: PlaneWorld>(world: &W) -> Runner<W::Store> {
    set_up(world, true).await;
    Runner::owning(world.store(), &all()).await
}

/// Takes a batch that waits to be closed.
async fn take(store: &impl Finalise, id: BatchId) -> Finalisation {
    let held = store.take_finalisation(id, InstanceId::new(), LEASE_MS).await;
    held.expect("a batch that is finalizing can be taken")
}

async fn close(store: &impl Finalise, held: &Finalisation) -> State {
    let closed = store.close_batch(held, rows(&held.counts), "{}", &[]).await;
    closed.expect("the right rows close it").state
}

/// A batch of ada's with four lines, one of which is done, that was ended so and waits to be closed.
async fn ended(world: &impl PlaneWorld, state: State) -> BatchId {
    let store = world.store();
    let file = Sheet::of(ADA).lines(MODEL, 4).seal(store).await;
    let new = NewBatch { window_secs: Some(WINDOW_SECS), ..run_over(file, ADA) };
    let id = store.create_batch(new).await.unwrap().id;
    let worker = Worker::on(store);
    worker.finish(&worker.claim_only(id, &[MODEL], 1).await.unwrap(), Status::Failed).await;
    match state {
        State::Cancelled => drop(store.cancel_batch(&Scope::All, id).await.unwrap()),
        State::Expired => {
            pass(world, WINDOW_SECS * 1000);
            assert_eq!(store.expire_batches(10).await.unwrap(), [id]);
        }
        _ => assert_eq!(worker.drain(id, &[MODEL]).await, [id]),
    }
    id
}

/// Runs every completed line of a closed batch again.
async fn run_again(store: &(impl Store + Clone), id: BatchId) {
    let select = Select::Statuses(vec![Status::Completed]);
    let step = Reprocess { batch: id, select, generation: None, lines_max: 10 };
    assert!(store.reprocess(&Scope::All, step).await.unwrap().moved > 0);
    assert_eq!(Worker::on(store).drain(id, &[MODEL]).await, [id]);
}

/// What is told of a batch, all of it: when, under which id, and with which counts (total, completed,
/// failed).
#[track_caller]
fn check(told: &Message, batch: BatchId, id: &str, at: Timestamp, counts: [u64; 3]) {
    let mut names = id.split('.').skip(1);
    let state = names.next().expect("an id names the state");
    let generation: u32 = names.next().map_or(0, |number| number.parse().unwrap());
    let wanted = Message {
        at: told.at,
        queue: Queue::Outbox,
        owner: ada(),
        stream: stream(&format!("batch/{batch}")),
        id: id.to_owned(),
        kind: format!("batch.{state}"),
        payload: told.payload.clone(),
        headers: Headers::new(),
        sent_at: at,
        not_before: None,
        attempts: 0,
        started: None,
        waiting: Vec::new(),
        error: None,
    };
    assert_eq!(*told, wanted);
    let says: Value = serde_json::from_slice(&told.payload).expect("it tells in JSON");
    let [total, completed, failed] = counts;
    let counts = json!({
        "total": total, "completed": completed, "failed": failed, "not_found": 0, "skipped": 0,
    });
    let wanted = json!({
        "id": batch.to_string(), "state": state, "generation": generation, "counts": counts,
    });
    assert_eq!(says, wanted);
}

/// A batch that is closed is told of once, whichever way it ended; closing it again tells nothing.
pub async fn a_closed_batch_is_told_of_once(world: &impl PlaneWorld) {
    let (store, runner) = (world.store(), telling(world).await);
    for (state, counts) in
        [(State::Completed, [4, 3, 1]), (State::Cancelled, [4, 0, 1]), (State::Expired, [4, 0, 1])]
    {
        let id = ended(world, state).await;
        assert_eq!(runner.messages().await, [], "it is not closed yet");
        let held = take(store, id).await;
        pass(world, 10);
        let at = now(world);
        assert_eq!(close(store, &held).await, state);
        pass(world, 10);
        for _ in 0..2 {
            assert_eq!(close(store, &held).await, state, "a repeat");
        }
        let told = runner.messages().await;
        assert_eq!(told.len(), 1, "{told:?}");
        check(&told[0], id, &format!("{id}.{}", state.as_str()), at, counts);
        runner.finish(&[told[0].at]).await;
        close(store, &held).await;
        assert_eq!(runner.messages().await, [], "nor does it come back");
    }
}

/// A batch that is created failed is told of as well, and a repeated creation tells nothing.
pub async fn a_batch_that_is_created_failed_is_told_of(world: &impl PlaneWorld) {
    let (store, runner) = (world.store(), telling(world).await);
    let sealed = Sheet::of(ADA).lines(MODEL, 1).seal(store).await;
    let invalid = Sheet::of(ADA).lines(MODEL, 2).raw(None, "?\n");
    invalid.seal_invalid(store, vec![line_error(3)]).await;
    let open = Sheet::of(ADA).lines(MODEL, 1);
    open.write(store).await;
    let with_errors = NewBatch { errors: vec![line_error(1)], ..run_over(sealed, ADA) };
    let over_invalid = run_over(invalid.id, ADA);
    let with_file = run_over(open.id, ADA);
    let made = [with_errors.id, over_invalid.id, with_file.id];
    let at = now(world);
    for _ in 0..2 {
        for new in [&with_errors, &over_invalid] {
            assert_eq!(store.create_batch(new.clone()).await.unwrap().state, State::Failed);
        }
        let verdict = Verdict::Invalid(vec![line_error(1)]);
        let failed = store.create_batch_with_file(with_file.clone(), verdict).await.unwrap();
        assert_eq!(failed.state, State::Failed);
        pass(world, 10);
    }
    let told = runner.messages().await;
    assert_eq!(told.len(), made.len(), "{told:?}");
    for id in made {
        let name = format!("{id}.failed");
        let of = told.iter().find(|one| one.id == name).expect("each is told of");
        check(of, id, &name, at, [0, 0, 0]);
    }
}

/// A batch that runs again is told of again, behind the first time and under another id: receivers
/// that know repeats do not take it for one.
pub async fn a_batch_that_closes_again_is_told_of_again(world: &impl PlaneWorld) {
    let (store, runner) = (world.store(), telling(world).await);
    let id = ended(world, State::Completed).await;
    close(store, &take(store, id).await).await;
    run_again(store, id).await;
    assert_eq!(runner.messages().await.len(), 1);
    close(store, &take(store, id).await).await;
    let told = runner.messages().await;
    let names = [format!("{id}.completed"), format!("{id}.completed.1")];
    assert_eq!(ids(&told), names);
    for (one, name) in told.iter().zip(&names) {
        check(one, id, name, now(world), [4, 3, 1]);
    }
}

/// Where nobody asked for it nothing is told, and who changes that changes it from then on.
pub async fn nothing_is_told_where_nobody_asked(world: &impl PlaneWorld) {
    let (store, runner) = (world.store(), ready(world).await);
    let mut wanted = Vec::new();
    for asked in [false, true, false] {
        set_up(world, asked).await;
        for state in [State::Completed, State::Cancelled, State::Expired] {
            let id = ended(world, state).await;
            assert_eq!(close(store, &take(store, id).await).await, state);
            wanted.extend(asked.then(|| format!("{id}.{}", state.as_str())));
        }
        let sealed = Sheet::of(ADA).lines(MODEL, 1).seal(store).await;
        let failed = NewBatch { errors: vec![line_error(1)], ..run_over(sealed, ADA) };
        wanted.extend(asked.then(|| format!("{}.failed", failed.id)));
        store.create_batch(failed).await.unwrap();
        let told = runner.messages().await;
        assert_eq!(sorted(ids(&told)), sorted(&wanted), "asked for: {asked}");
    }
}

/// A closing that is refused tells nothing, and one that is sent many times at once tells once.
pub async fn only_the_closing_that_counts_is_told_of<W: PlaneWorld>(world: &W) {
    let (store, other) = (world.store(), world.another().await);
    let runner = telling(world).await;
    let id = batch_of(store, ADA, 2).await;
    Worker::on(store).drain(id, &[MODEL]).await;
    let held = &take(store, id).await;
    let wrong = Rows { completed: 1, ..Rows::default() };
    assert_eq!(kind(store.close_batch(held, wrong, "{}", &[]).await), Kind::Conflict);
    let stale = Finalisation { token: held.token + 1, ..held.clone() };
    let late = store.close_batch(&stale, rows(&held.counts), "{}", &[]).await;
    assert_eq!(kind(late), Kind::LeaseLost);
    assert_eq!(runner.messages().await, []);
    let close = async |store: &W::Store| {
        patiently(|| store.close_batch(held, rows(&held.counts), "{}", &[])).await
    };
    let (a, b, c) = tokio::join!(close(store), close(&other), close(store));
    for closed in [a, b, c] {
        assert_eq!(closed.unwrap().state, State::Completed);
    }
    assert_eq!(ids(&runner.messages().await), [format!("{id}.completed")]);
}

/// A closing that its caller drops, wherever it is cut off: the batch is closed and told of, or
/// neither; the same closing again has both.
pub async fn a_closing_and_its_message_come_together(world: &impl PlaneWorld) {
    let (store, doomed) = (world.store(), world.another().await);
    let runner = telling(world).await;
    for patience in Patience::growing() {
        let id = ended(world, State::Completed).await;
        let held = take(store, id).await;
        patience.wait(doomed.close_batch(&held, rows(&held.counts), "{}", &[])).await;
        // What was given up on may still happen between two looks.
        let before = runner.messages().await.len();
        let closed = usize::from(batch(store, id).await.state == State::Completed);
        let after = runner.messages().await.len();
        assert!(before <= closed && closed <= after, "{patience:?}: {before}, {closed}, {after}");
        close(store, &held).await;
        let told = runner.messages().await;
        assert_eq!(ids(&told), [format!("{id}.completed")], "{patience:?}");
        runner.finish(&[told[0].at]).await;
    }
}
