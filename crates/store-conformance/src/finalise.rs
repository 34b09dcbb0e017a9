//! Finalising: exactly one instance closes a settled batch, with rows that equal the counts.

use tokio::task::JoinSet;
use windrow_domain::attempt::Status;
use windrow_domain::{BatchId, Ending, InstanceId, State};
use windrow_store::batch::{Reprocess, Select};
use windrow_store::claim::LEASE_MS_MAX;
use windrow_store::error::Kind;
use windrow_store::finalise::{Finalisation, Rows};
use windrow_store::{Batches, Finalise, Record, Scope, Sweep};

use crate::World;
use crate::fixture::*;

/// A batch of so many completed lines that waits to be closed.
async fn settled(world: &impl World, lines: u64) -> BatchId {
    let batch = batch_of(world.store(), "ada", lines).await;
    let finalizing = Worker::on(world.store()).drain(batch, &[MODEL]).await;
    assert_eq!(finalizing, [batch]);
    batch
}

/// The fold of the last line flips the batch in the same moment.
pub async fn the_last_fold_flips_the_batch(world: &impl World) {
    let store = world.store();
    let id = batch_of(store, "ada", 2).await;
    let worker = Worker::on(store);
    worker.complete(&worker.take(1).await).await;
    assert_eq!(batch(store, id).await.finalizing_at, None);
    let last = worker.take(1).await;
    pass(world, 777);
    worker.complete(&last).await;
    let flipped = batch(store, id).await;
    assert_eq!(flipped.state, State::Finalizing(Ending::Completed));
    assert_eq!((flipped.finalizing_at, flipped.closed_at), (Some(now(world)), None));
    check(store, id).await;
}

/// Taking the finalisation tells everything that closing needs.
pub async fn taking_tells_what_closing_needs(world: &impl World) {
    let store = world.store();
    let id = batch_of(store, "ada", 3).await;
    let worker = Worker::on(store);
    worker.finish(&worker.take(2).await, Status::Failed).await;
    worker.complete(&worker.take(1).await).await;
    let held = store.take_finalisation(id, worker.instance, 5000).await.unwrap();
    assert_eq!((held.batch, held.instance, held.generation), (id, worker.instance, 0));
    assert_eq!((held.ending, held.expires_at), (Ending::Completed, later(world, 5000)));
    assert_eq!(held.counts, counts(store, id).await);
    assert_eq!((held.counts.failed, held.counts.completed), (2, 1));
}

/// A batch that runs, is closed, or is not there cannot be taken.
pub async fn only_a_finalizing_batch_can_be_taken(world: &impl World) {
    let store = world.store();
    let worker = Worker::on(store);
    let running = batch_of(store, "ada", 2).await;
    let take = async |id: BatchId| store.take_finalisation(id, worker.instance, LEASE_MS).await;
    let refused = take(running).await.unwrap_err();
    assert_eq!(refused.kind, Kind::Refused);
    assert_eq!(refused.refused().expect("both sides").from, State::InProgress);
    store.pause_batch(&Scope::All, running, None).await.unwrap();
    assert_eq!(take(running).await.unwrap_err().refused().unwrap().from, State::Paused);
    let closed = settled(world, 1).await;
    worker.close(closed).await;
    assert_eq!(take(closed).await.unwrap_err().refused().unwrap().from, State::Completed);
    assert_eq!(kind(take(BatchId::new()).await), Kind::Missing);
}

/// While one holds it another is told `Contended`; the holder may take it again, for longer.
pub async fn a_taken_finalisation_is_contended(world: &impl World) {
    let store = world.store();
    let id = settled(world, 2).await;
    let (one, two) = (InstanceId::new(), InstanceId::new());
    let held = store.take_finalisation(id, one, LEASE_MS).await.unwrap();
    let error = store.take_finalisation(id, two, LEASE_MS).await.unwrap_err();
    assert_eq!(error.kind, Kind::Contended);
    pass(world, LEASE_MS - 1);
    assert_eq!(kind(store.take_finalisation(id, two, LEASE_MS).await), Kind::Contended);
    let again = store.take_finalisation(id, one, LEASE_MS).await.unwrap();
    assert_eq!((again.token, again.expires_at), (held.token, later(world, LEASE_MS)));
    pass(world, LEASE_MS - 1);
    assert_eq!(kind(store.take_finalisation(id, two, LEASE_MS).await), Kind::Contended);
    pass(world, 1);
    let taken = store.take_finalisation(id, two, LEASE_MS).await.unwrap();
    assert!(taken.token > held.token, "tokens rise with every taking");
    assert_eq!(kind(store.take_finalisation(id, one, LEASE_MS).await), Kind::Contended);
    let late = store.close_batch(&again, rows(&again.counts), "{}", &[]).await;
    assert_eq!(kind(late), Kind::LeaseLost, "the slow loser closes nothing");
    assert_eq!(batch(store, id).await.state, State::Finalizing(Ending::Completed));
    store.close_batch(&taken, rows(&taken.counts), "{}", &[]).await.unwrap();
}

/// The time of a finalisation has bounds.
pub async fn a_finalisation_out_of_bounds_is_invalid(world: &impl World) {
    let store = world.store();
    let id = settled(world, 1).await;
    for lease_ms in [0, LEASE_MS_MAX + 1, u64::MAX] {
        let refused = store.take_finalisation(id, InstanceId::new(), lease_ms).await;
        assert_eq!(kind(refused), Kind::Invalid);
    }
    store.take_finalisation(id, InstanceId::new(), LEASE_MS_MAX).await.unwrap();
}

/// Closing writes state, time and summary; the same closing again gives the closed batch.
pub async fn closing_can_be_repeated(world: &impl World) {
    let store = world.store();
    let id = settled(world, 3).await;
    let held = store.take_finalisation(id, InstanceId::new(), LEASE_MS).await.unwrap();
    pass(world, 500);
    let summary = "{\"rows\":3,\"note\":\"gut ✓\"}";
    let closed = store.close_batch(&held, rows(&held.counts), summary, &[]).await.unwrap();
    assert_eq!((closed.state, closed.closed_at), (State::Completed, Some(now(world))));
    let kept: String = closed.summary.clone().expect("a summary").split_whitespace().collect();
    assert_eq!(kept, summary.split_whitespace().collect::<String>());
    assert_eq!(batch(store, id).await, closed);
    pass(world, 500);
    assert_eq!(store.close_batch(&held, rows(&held.counts), summary, &[]).await.unwrap(), closed);
    assert_eq!(batch(store, id).await, closed);
    let stranger = Finalisation { token: held.token + 1, ..held.clone() };
    assert_eq!(
        kind(store.close_batch(&stranger, rows(&held.counts), "{}", &[]).await),
        Kind::LeaseLost
    );
    check(store, id).await;
}

/// Rows that do not equal the counts close nothing; the right ones do afterwards.
pub async fn rows_that_differ_from_the_counts_are_a_conflict(world: &impl World) {
    let store = world.store();
    let id = settled(world, 3).await;
    let held = store.take_finalisation(id, InstanceId::new(), LEASE_MS).await.unwrap();
    let right = rows(&held.counts);
    let wrong = [
        Rows::default(),
        Rows { completed: 2, ..right },
        Rows { failed: 1, ..right },
        Rows { completed: 2, failed: 1, ..right },
        Rows { not_found: 1, ..right },
        Rows { skipped: 1, ..right },
    ];
    for rows in wrong {
        assert_eq!(kind(store.close_batch(&held, rows, "{}", &[]).await), Kind::Conflict);
        assert_eq!(batch(store, id).await.closed_at, None);
    }
    assert_eq!(store.close_batch(&held, right, "{}", &[]).await.unwrap().state, State::Completed);
}

/// A proof that is not the row's closes nothing: token, instance or generation.
pub async fn a_wrong_proof_closes_nothing(world: &impl World) {
    let store = world.store();
    let id = settled(world, 1).await;
    let held = store.take_finalisation(id, InstanceId::new(), LEASE_MS).await.unwrap();
    let right = rows(&held.counts);
    let wrong = [
        Finalisation { token: held.token + 1, ..held.clone() },
        Finalisation { instance: InstanceId::new(), ..held.clone() },
        Finalisation { generation: 1, ..held.clone() },
    ];
    for proof in wrong {
        assert_eq!(kind(store.close_batch(&proof, right, "{}", &[]).await), Kind::LeaseLost);
    }
    let nowhere = Finalisation { batch: BatchId::new(), ..held.clone() };
    assert_eq!(kind(store.close_batch(&nowhere, right, "{}", &[]).await), Kind::Missing);
    store.close_batch(&held, right, "{}", &[]).await.unwrap();
}

/// Late but untaken closings count: time alone takes nothing away.
pub async fn a_late_closing_that_nobody_took_counts(world: &impl World) {
    let store = world.store();
    let id = settled(world, 1).await;
    let held = store.take_finalisation(id, InstanceId::new(), LEASE_MS).await.unwrap();
    pass(world, 10 * LEASE_MS);
    let closed = store.close_batch(&held, rows(&held.counts), "{}", &[]).await.unwrap();
    assert_eq!(closed.state, State::Completed);
}

/// Of many that take it at the same moment one gets it, and the others are told so.
pub async fn one_of_many_takes_the_finalisation(world: &impl World) {
    let id = settled(world, 2).await;
    let mut tasks = JoinSet::new();
    for _ in 0..8 {
        let store = world.another().await;
        let take = async move {
            patiently(|| store.take_finalisation(id, InstanceId::new(), LEASE_MS)).await
        };
        tasks.spawn(take);
    }
    // Each call of patiently makes a new instance, so a repeat is never its own holder.
    let all = tasks.join_all().await;
    let (got, lost): (Vec<_>, Vec<_>) = all.into_iter().partition(Result::is_ok);
    assert_eq!((got.len(), lost.len()), (1, 7));
    assert!(lost.into_iter().all(|lost| lost.unwrap_err().kind == Kind::Contended));
}

/// The same closing sent many times at once closes once, and every sender is told.
pub async fn one_closing_sent_many_times_closes_once(world: &impl World) {
    let id = settled(world, 2).await;
    let held = world.store().take_finalisation(id, InstanceId::new(), LEASE_MS).await.unwrap();
    let mut tasks = JoinSet::new();
    for _ in 0..6 {
        let (store, held) = (world.another().await, held.clone());
        let close = async move {
            patiently(|| store.close_batch(&held, rows(&held.counts), "{}", &[])).await
        };
        tasks.spawn(close);
    }
    for closed in tasks.join_all().await {
        assert_eq!(closed.unwrap().state, State::Completed);
    }
    check(world.store(), id).await;
}

/// Batches nobody closes are found, oldest first, up to the limit; held and closed ones are not.
pub async fn unclosed_batches_are_found(world: &impl World) {
    let store = world.store();
    assert!(store.find_unclosed(10).await.unwrap().is_empty());
    batch_of(store, "ada", 1).await;
    let mut waiting = Vec::new();
    for _ in 0..4 {
        let id = Sheet::of("ada").lines("model-b", 1).run(store).await;
        waiting.push(id);
    }
    // Settled in another order than created.
    waiting.swap(0, 3);
    for id in &waiting {
        pass(world, 1000);
        Worker::on(store).drain(*id, &["model-b"]).await;
    }
    assert_eq!(store.find_unclosed(10).await.unwrap(), waiting);
    assert_eq!(store.find_unclosed(2).await.unwrap(), waiting[..2]);

    let held = store.take_finalisation(waiting[0], InstanceId::new(), LEASE_MS).await.unwrap();
    assert_eq!(store.find_unclosed(10).await.unwrap(), waiting[1..]);
    let worker = Worker::on(store);
    worker.close(waiting[1]).await;
    assert_eq!(store.find_unclosed(10).await.unwrap(), waiting[2..]);
    pass(world, LEASE_MS);
    let found = store.find_unclosed(10).await.unwrap();
    assert_eq!(found, [waiting[0], waiting[2], waiting[3]], "its holder let the time pass");
    store.close_batch(&held, rows(&held.counts), "{}", &[]).await.unwrap();
    assert_eq!(store.find_unclosed(10).await.unwrap(), waiting[2..]);
}

/// A cancelled batch closes as cancelled, an expired one as expired, with what they got done.
pub async fn a_batch_ends_as_it_was_ended(world: &impl World) {
    let store = world.store();
    let worker = Worker::on(store);
    let file = Sheet::of("ada").lines(MODEL, 4).seal(store).await;
    for ending in [Ending::Cancelled, Ending::Expired] {
        let new = windrow_store::batch::NewBatch { window_secs: Some(60), ..run_over(file, "ada") };
        let id = store.create_batch(new).await.unwrap().id;
        worker.complete(&worker.claim_only(id, &[MODEL], 1).await.unwrap()).await;
        if ending == Ending::Cancelled {
            store.cancel_batch(&Scope::All, id).await.unwrap();
        } else {
            pass(world, 60_000);
            assert_eq!(store.expire_batches(10).await.unwrap(), [id]);
        }
        let held = store.take_finalisation(id, worker.instance, LEASE_MS).await.unwrap();
        assert_eq!((held.ending, held.counts.completed), (ending, 1));
        assert_eq!(held.counts.untouched, 3, "lines that never ran can be told");
        let closed = store.close_batch(&held, rows(&held.counts), "{}", &[]).await.unwrap();
        let state = if ending == Ending::Cancelled { State::Cancelled } else { State::Expired };
        assert_eq!(closed.state, state);
        check(store, id).await;
    }
}

/// The two last lines of a batch, recorded at the same moment by two instances: one of them sees
/// that it was the last, and exactly one.
pub async fn two_last_lines_at_once_settle_once(world: &impl World) {
    let (store, other) = (world.store(), world.another().await);
    for round in 0..15 {
        let id = Sheet::of("ada").lines(MODEL, 1).lines("model-b", 1).run(store).await;
        let (one, two) = (Worker::on(store), Worker::on(&other));
        let first = one.claim_only(id, &[MODEL], 1).await.expect("a line");
        let second = two.claim_only(id, &["model-b"], 1).await.expect("a line");
        let (first, second) =
            (vec![finished(&first, Status::Completed)], vec![finished(&second, Status::Failed)]);
        let (a, b) = tokio::join!(
            patiently(|| one.store.record(one.instance, first.clone())),
            patiently(|| two.store.record(two.instance, second.clone())),
        );
        let reported = [a.unwrap().finalizing, b.unwrap().finalizing].concat();
        assert_eq!(reported, [id], "round {round}");
        check(store, id).await;
    }
}

/// A cancel and the last line that meet: whoever is first, the line's turn reports the settling,
/// and the batch ends as one of the two says.
pub async fn a_cancel_that_meets_the_last_line_settles_once(world: &impl World) {
    let (store, other) = (world.store(), world.another().await);
    for round in 0..12 {
        let id = batch_of(store, "ada", 1).await;
        let worker = Worker::on(store);
        let last = worker.claim_only(id, &[MODEL], 1).await.expect("a line");
        let last = vec![finished(&last, Status::Completed)];
        let record = patiently(|| store.record(worker.instance, last.clone()));
        let cancel = patiently(|| other.cancel_batch(&Scope::All, id));
        // Either side may be the first to be polled.
        let (recorded, cancelled) = if round % 2 == 0 {
            tokio::join!(record, cancel)
        } else {
            let (cancelled, recorded) = tokio::join!(cancel, record);
            (recorded, cancelled)
        };
        assert_eq!(recorded.unwrap().finalizing, [id], "round {round}");
        let ending = match cancelled {
            Ok(_) => Ending::Cancelled,
            Err(error) => {
                assert_eq!(error.kind, Kind::Refused);
                Ending::Completed
            }
        };
        assert_eq!(batch(store, id).await.state, State::Finalizing(ending));
        check(store, id).await;
    }
}

/// A closing and a reprocess that meet: the batch runs again, and never stays closed with lines
/// that wait.
pub async fn a_closing_that_meets_a_reprocess_leaves_the_batch_running(world: &impl World) {
    let (store, other) = (world.store(), world.another().await);
    for round in 0..12 {
        let id = settled(world, 2).await;
        let held = store.take_finalisation(id, InstanceId::new(), LEASE_MS).await.unwrap();
        let select = Select::Statuses(vec![Status::Completed]);
        let step = Reprocess { lines_max: 10, ..Reprocess::first(id, select) };
        let close = patiently(|| store.close_batch(&held, rows(&held.counts), "{}", &[]));
        let again = patiently(|| other.reprocess(&Scope::All, step.clone()));
        // Either side may be the first to be polled.
        let (closed, again) = if round % 2 == 0 {
            tokio::join!(close, again)
        } else {
            let (again, closed) = tokio::join!(again, close);
            (closed, again)
        };
        assert_eq!(again.unwrap().moved, 2);
        if let Err(error) = closed {
            assert_eq!(error.kind, Kind::LeaseLost, "{}", whole_text(&error));
        }
        let after = batch(store, id).await;
        assert_eq!((after.state, after.generation), (State::InProgress, 1), "round {round}");
        assert_eq!((after.closed_at, after.finalizing_at, after.summary), (None, None, None));
        check(store, id).await;
        assert_eq!(Worker::on(store).drain(id, &[MODEL]).await, [id]);
    }
}

/// A holder that comes back late, when nobody else took the finalisation, keeps its token: what it
/// wrote under it still counts.
pub async fn a_late_holder_that_nobody_followed_keeps_its_token(world: &impl World) {
    let store = world.store();
    let id = settled(world, 2).await;
    let (one, two) = (InstanceId::new(), InstanceId::new());
    let held = store.take_finalisation(id, one, LEASE_MS).await.unwrap();
    pass(world, 3 * LEASE_MS);
    let again = world.another().await.take_finalisation(id, one, LEASE_MS).await.unwrap();
    assert_eq!((again.token, again.expires_at), (held.token, later(world, LEASE_MS)));
    assert_eq!(kind(store.take_finalisation(id, two, LEASE_MS).await), Kind::Contended);
    let closed = store.close_batch(&held, rows(&held.counts), "{}", &[]).await.unwrap();
    assert_eq!(closed.state, State::Completed);
    check(store, id).await;
}
