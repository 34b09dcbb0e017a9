//! Lifecycle: what is done to a batch is an event of its own stream and a message of its owner's
//! outbox, from the moment it is done.
//!
//! Holds throughout: the messages are read as a runner reads them; each is compared with its event.

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use windrow_domain::attempt::Status;
use windrow_domain::{BatchId, Expected, InstanceId, Queue, State};
use windrow_store::batch::{NewBatch, Reprocess, Select};
use windrow_store::event::{BATCH_KINDS, Event};
use windrow_store::finalise::{Finalisation, Rows};
use windrow_store::ingest::FileVerdict;
use windrow_store::message::{Headers, Message, MessageRetention};
use windrow_store::partition::Setup;
use windrow_store::{
    Batches, Events, Finalise, Kind, MessageStore, Messages, Partitions, Scope, Sweep,
};

use super::MessageWorld;
use super::fixture::*;
use crate::cancellation::CancelAfter;
use crate::fixture::{
    LEASE_MS, MODEL, Sheet, Worker, batch, batch_of, line_error, patiently, rows, run_over,
};

/// How long batches of these cases may run.
const WINDOW_SECS: u64 = 60;

async fn set_up(world: &impl MessageWorld, lifecycle: bool) {
    let setup = Setup { lifecycle, ..setup() };
    world.store().set_up(setup).await.expect("lifecycle is free to change");
}

/// A world in which batches tell what is done to them, and a runner that owns everything.
async fn telling<W: MessageWorld>(world: &W) -> Runner<W::Store> {
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
async fn ended(world: &impl MessageWorld, state: State) -> BatchId {
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

/// What is told of such a batch before it is closed.
fn before(id: BatchId, state: State) -> Vec<String> {
    let mut acts = vec![format!("{id}.created")];
    match state {
        State::Cancelled => acts.push(format!("{id}.cancelling")),
        State::Expired => acts.push(format!("{id}.expiring")),
        _ => {}
    }
    acts
}

/// Puts every completed line of a batch back.
async fn reprocess(store: &impl Batches, id: BatchId, generation: Option<u32>) -> u64 {
    let select = Select::Statuses(vec![Status::Completed]);
    let step = Reprocess { generation, lines_max: 1, ..Reprocess::first(id, select) };
    store.reprocess(&Scope::All, step).await.unwrap().moved
}

/// The events of a batch.
async fn events(store: &impl Events, id: BatchId) -> Vec<Event> {
    let name = stream(&format!("batch/{id}"));
    store.read_stream(&ada(), &name, 1, 100).await.expect("nothing of it was pruned")
}

/// The messages of a batch that wait, in their order; each is what the event beside it is.
async fn told<S: MessageStore + Clone>(runner: &Runner<S>, id: BatchId) -> Vec<Message> {
    let name = format!("batch/{id}");
    let messages = runner.messages().await;
    let of = |message: &Message| message.stream.as_str() == name;
    let messages: Vec<Message> = messages.into_iter().filter(of).collect();
    for (version, (message, event)) in
        (1..).zip(messages.iter().zip(events(&runner.store, id).await))
    {
        let wanted = Event {
            owner: message.owner.clone(),
            stream: message.stream.clone(),
            version,
            id: message.id.clone(),
            kind: message.kind.clone(),
            payload: message.payload.clone(),
            headers: Headers::new(),
            at: message.sent_at,
        };
        assert_eq!(event, wanted);
        assert!(BATCH_KINDS.contains(&event.kind.as_str()), "{}", event.kind);
    }
    messages
}

/// Both are there, and nothing else.
async fn check_told<S: MessageStore + Clone>(runner: &Runner<S>, id: BatchId, wanted: &[String]) {
    assert_eq!(ids(&told(runner, id).await), wanted);
    let events = events(&runner.store, id).await;
    let names: Vec<_> = events.iter().map(|event| event.id.as_str()).collect();
    assert_eq!(names, wanted);
}

fn says(told: &Message) -> Value {
    serde_json::from_slice(&told.payload).expect("it tells in JSON")
}

/// What is told of the end of a batch, all of it: when, under which id, and with which counts (total,
/// completed, failed).
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
    let [total, completed, failed] = counts;
    let counts = json!({
        "total": total, "completed": completed, "failed": failed, "not_found": 0, "skipped": 0,
    });
    let wanted = json!({
        "id": batch.to_string(), "state": state, "generation": generation, "counts": counts,
    });
    assert_eq!(says(told), wanted);
}

/// Everything that is done to a batch is told once: as an event and as a message. A repeat, and a
/// reason that changes, tell nothing.
pub async fn what_is_done_to_a_batch_is_told_once(world: &impl MessageWorld) {
    let (store, runner) = (world.store(), telling(world).await);
    let file = Sheet::of(ADA).lines(MODEL, 3).seal(store).await;
    let new = run_over(file, ADA);
    let (id, all) = (new.id, &Scope::All);
    for _ in 0..2 {
        store.create_batch(new.clone()).await.unwrap();
    }
    let long = "ä".repeat(3000);
    for reason in [Some("too many fail".to_owned()), None, Some("the budget is used up".to_owned())]
    {
        store.pause_batch(all, id, reason).await.unwrap();
    }
    for _ in 0..2 {
        store.resume_batch(all, id, None).await.unwrap();
    }
    store.pause_batch(all, id, Some(long)).await.unwrap();
    store.resume_batch(all, id, None).await.unwrap();
    let worker = Worker::on(store);
    worker.complete(&worker.claim_only(id, &[MODEL], 2).await.unwrap()).await;
    assert_eq!(reprocess(store, id, None).await, 1);
    assert_eq!(reprocess(store, id, Some(1)).await, 1, "a second step of the same");
    assert_eq!(reprocess(store, id, None).await, 0, "nothing to do");
    worker.finish(&worker.claim_only(id, &[MODEL], 1).await.unwrap(), Status::Failed).await;
    for _ in 0..2 {
        store.cancel_batch(all, id).await.unwrap();
    }
    assert_eq!(kind(store.pause_batch(all, id, None).await), Kind::Refused);
    close(store, &take(store, id).await).await;
    let wanted = [
        ("created", "in_progress"),
        ("paused.2", "paused"),
        ("resumed.3", "in_progress"),
        ("paused.4", "paused"),
        ("resumed.5", "in_progress"),
        ("reprocessed.1", "in_progress"),
        ("cancelling.1", "cancelling"),
        ("cancelled.1", "cancelled"),
    ];
    let names: Vec<String> = wanted.iter().map(|(name, _)| format!("{id}.{name}")).collect();
    check_told(&runner, id, &names).await;
    let told = told(&runner, id).await;
    let states: Vec<Value> = told.iter().map(|one| says(one)["state"].clone()).collect();
    assert_eq!(states, wanted.map(|(_, state)| json!(state)));
    assert_eq!(says(&told[1])["reason"], "too many fail");
    assert_eq!(says(&told[3])["reason"], "ä".repeat(1000), "a long one is cut");
    assert_eq!(says(&told[2]).get("reason"), None);
    let counts = |of: &Message| says(of)["counts"].clone();
    assert_eq!(
        (&counts(&told[0])["total"], &counts(&told[0])["completed"]),
        (&json!(3), &json!(0))
    );
    assert_eq!(
        (&counts(&told[5])["total"], &counts(&told[5])["completed"]),
        (&json!(3), &json!(1))
    );
    assert_eq!(&counts(&told[7])["failed"], &json!(1));
    // What happened stays when the batch goes.
    store.delete_batch(all, id).await.unwrap();
    while store.reap(1000).await.unwrap().more {}
    check_told(&runner, id, &names).await;
}

/// The same act of many at once is told once, and acts that meet are told in the order in which they
/// happened.
pub async fn acts_at_once_are_each_told_once<W: MessageWorld>(world: &W) {
    let (store, other) = (world.store(), world.another().await);
    let runner = telling(world).await;
    let (id, all) = (batch_of(store, ADA, 2).await, &Scope::All);
    let pause = async |store: &W::Store| patiently(|| store.pause_batch(all, id, None)).await;
    let (a, b, c) = tokio::join!(pause(store), pause(&other), pause(store));
    assert!([a, b, c].iter().all(Result::is_ok));
    check_told(&runner, id, &[format!("{id}.created"), format!("{id}.paused.2")]).await;
    let resume = async |store: &W::Store| patiently(|| store.resume_batch(all, id, None)).await;
    for _ in 0..5 {
        let (a, b) = tokio::join!(pause(store), resume(&other));
        assert!(a.is_ok() && b.is_ok());
    }
    let cancel = async |store: &W::Store| patiently(|| store.cancel_batch(all, id)).await;
    let (a, b) = tokio::join!(cancel(store), cancel(&other));
    assert!(a.is_ok() && b.is_ok());
    let told = told(&runner, id).await;
    assert_eq!(told.len(), events(store, id).await.len());
    let mut states = told.iter().map(|one| says(one)["state"].clone()).collect::<Vec<_>>();
    let count = states.len();
    states.dedup();
    assert_eq!(states.len(), count, "each moved the batch: {states:?}");
    assert_eq!(states.last(), Some(&json!("cancelling")));
    assert_eq!(ids(&told).iter().filter(|name| name.ends_with(".cancelling")).count(), 1);
}

/// Acts, sends and appends to the batch's own stream, and tidying meet without a deadlock; what an
/// owner writes there itself stands beside what is told.
pub async fn acts_that_meet_other_writers_never_deadlock<W: MessageWorld>(world: &W) {
    const ROUNDS: usize = 15;
    let runner = telling(world).await;
    let store = world.store();
    let batches = [batch_of(store, ADA, 1).await, batch_of(store, ADA, 1).await];
    let mut tasks = JoinSet::new();
    for id in batches {
        let store = world.another().await;
        tasks.spawn(async move {
            for _ in 0..ROUNDS {
                let all = &Scope::All;
                patiently(|| store.pause_batch(all, id, None)).await.unwrap();
                patiently(|| store.resume_batch(all, id, None)).await.unwrap();
            }
        });
    }
    for writer in 0..2 {
        let store = world.another().await;
        tasks.spawn(async move {
            for no in 0..ROUNDS {
                let mut names = batches.map(|id| format!("batch/{id}"));
                if writer == 1 {
                    names.reverse();
                }
                let (id, [one, two]) = (format!("{writer}-{no}"), &names);
                send_all(&store, vec![outbox(one, &id), outbox(two, &id)]).await;
                let appends = [one, two].map(|name| append(name, Expected::Any, &[&id]));
                store.append(appends.into()).await.unwrap();
                let retention = MessageRetention { stream_ms: 0, event_ms: Some(0), ..keep() };
                store.prune_messages(retention, 10).await.unwrap();
            }
        });
    }
    tasks.join_all().await;
    for id in batches {
        let (mine, own) = (2 * ROUNDS + 1, 2 * ROUNDS);
        assert_eq!(version(store, &format!("batch/{id}")).await, (mine + own) as u64);
        let messages = runner.messages().await;
        assert_eq!(ids_of(&messages, &format!("batch/{id}")).len(), mine + own);
    }
}

/// The end of a batch is a snapshot of its stream, so that old events of batches can be pruned like
/// others; what is told afterwards goes on.
pub async fn events_of_ended_batches_can_be_pruned(world: &impl MessageWorld) {
    let (store, runner) = (world.store(), telling(world).await);
    let id = ended(world, State::Completed).await;
    let retention = MessageRetention { event_ms: Some(1), ..keep() };
    pass(world, 10);
    assert_eq!(store.prune_messages(retention, 100).await.unwrap().events, 0, "it is not closed");
    close(store, &take(store, id).await).await;
    let last = told(&runner, id).await.pop().expect("its end is told");
    let name = stream(&format!("batch/{id}"));
    let snapshot = store.snapshot(&ada(), &name).await.unwrap().expect("its end is a snapshot");
    assert_eq!((snapshot.version, snapshot.state), (2, last.payload));
    batch_of(store, ADA, 1).await;
    pass(world, 10);
    assert_eq!(store.prune_messages(retention, 100).await.unwrap().events, 2);
    assert_eq!(reprocess(store, id, None).await, 1);
    assert_eq!(Worker::on(store).drain(id, &[MODEL]).await, [id]);
    close(store, &take(store, id).await).await;
    let events = store.read_stream(&ada(), &name, 3, 10).await.unwrap();
    let names: Vec<_> = events.iter().map(|event| event.id.as_str()).collect();
    assert_eq!(names, [format!("{id}.reprocessed.1"), format!("{id}.completed.1")]);
    assert_eq!(store.snapshot(&ada(), &name).await.unwrap().map(|at| at.version), Some(4));
}

/// A batch that is closed is told of once, whichever way it ended; closing it again tells nothing.
pub async fn a_closed_batch_is_told_of_once(world: &impl MessageWorld) {
    let (store, runner) = (world.store(), telling(world).await);
    for (state, counts) in
        [(State::Completed, [4, 3, 1]), (State::Cancelled, [4, 0, 1]), (State::Expired, [4, 0, 1])]
    {
        let id = ended(world, state).await;
        let mut wanted = before(id, state);
        check_told(&runner, id, &wanted).await;
        let held = take(store, id).await;
        pass(world, 10);
        let at = now(world);
        assert_eq!(close(store, &held).await, state);
        pass(world, 10);
        for _ in 0..2 {
            assert_eq!(close(store, &held).await, state, "a repeat");
        }
        wanted.push(format!("{id}.{}", state.as_str()));
        check_told(&runner, id, &wanted).await;
        let told = told(&runner, id).await;
        check(told.last().unwrap(), id, wanted.last().unwrap(), at, counts);
        runner.finish(&told.iter().map(|one| one.at).collect::<Vec<_>>()).await;
        close(store, &held).await;
        assert_eq!(runner.messages().await, [], "nor does it come back");
    }
}

/// A batch that is created failed is told of as failed, and a repeated creation tells nothing.
pub async fn a_batch_that_is_created_failed_is_told_of(world: &impl MessageWorld) {
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
        let verdict = FileVerdict::Invalid(vec![line_error(1)]);
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
        check_told(&runner, id, &[name]).await;
    }
}

/// A batch that runs again is told of again, behind the first time and under another id: receivers
/// that know repeats do not take it for one.
pub async fn a_batch_that_closes_again_is_told_of_again(world: &impl MessageWorld) {
    let (store, runner) = (world.store(), telling(world).await);
    let id = ended(world, State::Completed).await;
    close(store, &take(store, id).await).await;
    assert_eq!(reprocess(store, id, None).await, 1);
    assert_eq!(Worker::on(store).drain(id, &[MODEL]).await, [id]);
    let mut names =
        ["created", "completed", "reprocessed.1"].map(|act| format!("{id}.{act}")).to_vec();
    check_told(&runner, id, &names).await;
    close(store, &take(store, id).await).await;
    names.push(format!("{id}.completed.1"));
    check_told(&runner, id, &names).await;
    let told = told(&runner, id).await;
    for at in [1, 3] {
        check(&told[at], id, &names[at], now(world), [4, 3, 1]);
    }
}

/// Where nobody asked for it nothing is told, and who changes that changes it from then on.
pub async fn nothing_is_told_where_nobody_asked(world: &impl MessageWorld) {
    let (store, runner) = (world.store(), ready(world).await);
    for asked in [false, true, false] {
        set_up(world, asked).await;
        for state in [State::Completed, State::Cancelled, State::Expired] {
            let id = ended(world, state).await;
            assert_eq!(close(store, &take(store, id).await).await, state);
            let mut wanted = before(id, state);
            wanted.push(format!("{id}.{}", state.as_str()));
            check_told(&runner, id, if asked { &wanted } else { &[] }).await;
        }
        let sealed = Sheet::of(ADA).lines(MODEL, 1).seal(store).await;
        let failed = NewBatch { errors: vec![line_error(1)], ..run_over(sealed, ADA) };
        let (id, wanted) = (failed.id, [format!("{}.failed", failed.id)]);
        store.create_batch(failed).await.unwrap();
        check_told(&runner, id, if asked { &wanted } else { &[] }).await;
    }
    // One that began untold is told of from then on.
    let id = batch_of(store, ADA, 1).await;
    set_up(world, true).await;
    store.pause_batch(&Scope::All, id, None).await.unwrap();
    check_told(&runner, id, &[format!("{id}.paused.1")]).await;
}

/// A closing that is refused tells nothing, and one that is sent many times at once tells once.
pub async fn only_the_closing_that_counts_is_told_of<W: MessageWorld>(world: &W) {
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
    let created = format!("{id}.created");
    check_told(&runner, id, std::slice::from_ref(&created)).await;
    let close = async |store: &W::Store| {
        patiently(|| store.close_batch(held, rows(&held.counts), "{}", &[])).await
    };
    let (a, b, c) = tokio::join!(close(store), close(&other), close(store));
    for closed in [a, b, c] {
        assert_eq!(closed.unwrap().state, State::Completed);
    }
    check_told(&runner, id, &[created, format!("{id}.completed")]).await;
}

/// A closing that its caller drops, wherever it is cut off: the batch is closed and told of in both
/// ways, or none of it; the same closing again has all.
pub async fn a_closing_and_its_message_come_together(world: &impl MessageWorld) {
    let (store, doomed) = (world.store(), world.another().await);
    let runner = telling(world).await;
    for cut in CancelAfter::growing() {
        let id = ended(world, State::Completed).await;
        let held = take(store, id).await;
        cut.run(doomed.close_batch(&held, rows(&held.counts), "{}", &[])).await;
        // What was given up on may still happen between two looks.
        let before = (told(&runner, id).await.len(), events(store, id).await.len());
        let closed = 1 + usize::from(batch(store, id).await.state == State::Completed);
        let after = (told(&runner, id).await.len(), events(store, id).await.len());
        assert!(before.0 <= closed && closed <= after.0, "{cut:?}: {before:?}, {after:?}");
        assert!(before.1 <= closed && closed <= after.1, "{cut:?}: {before:?}, {after:?}");
        close(store, &held).await;
        check_told(&runner, id, &[format!("{id}.created"), format!("{id}.completed")]).await;
    }
}
