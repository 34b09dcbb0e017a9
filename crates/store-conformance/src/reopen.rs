//! Reopening: what a closed batch keeps when it runs again, and how a stopped one goes on.

use windrow_domain::attempt::Status;
use windrow_domain::{BatchId, State};
use windrow_store::batch::{Continue, NewBatch, Reprocess, Select};
use windrow_store::error::Kind;
use windrow_store::inspect::FinishedQuery;
use windrow_store::{Batches, Claim, Ingest, Inspect, Sweep};

use crate::World;
use crate::fixture::*;

fn step(batch: BatchId, select: Select) -> Reprocess {
    Reprocess::first(batch, select)
}

fn statuses(statuses: &[Status]) -> Select {
    Select::Statuses(statuses.to_vec())
}

/// A result that runs again is not lost: until the line has a new one, the earlier one is found in its place, and
/// is marked; counts are those of the current generation.
pub async fn an_earlier_result_stands_in_until_there_is_a_new_one(world: &impl World) {
    let store = world.store();
    let id = batch_of(store, "ada", 4).await;
    let worker = Worker::on(store);
    worker.complete(&worker.claim(4).await.unwrap()).await;
    let closed = worker.close(id).await;
    store.reprocess(&scope("ada"), step(id, statuses(&[Status::Completed]))).await.unwrap();
    let with_earlier = async || {
        let query = FinishedQuery {
            batch: Some(id),
            earlier: true,
            bodies: true,
            limit: 10,
            ..FinishedQuery::default()
        };
        let rows = store.finished(&scope("ada"), query).await.unwrap().rows;
        rows.into_iter()
            .map(|row| (row.result.line, row.generation, row.earlier))
            .collect::<Vec<_>>()
    };
    assert_eq!(with_earlier().await, [(1, 0, true), (2, 0, true), (3, 0, true), (4, 0, true)]);
    let plain = FinishedQuery { batch: Some(id), limit: 10, ..FinishedQuery::default() };
    let plain = store.finished(&scope("ada"), plain).await.unwrap().rows;
    assert_eq!(plain, [], "without being asked for, it is not there");
    let held = worker.claim(2).await.unwrap();
    worker.complete(&held).await;
    assert_eq!(with_earlier().await, [(1, 1, false), (2, 1, false), (3, 0, true), (4, 0, true)]);
    // Page by page, as outputs are written.
    let (mut lines, mut after) = (Vec::new(), None);
    loop {
        let query = FinishedQuery {
            batch: Some(id),
            earlier: true,
            limit: 1,
            after,
            ..FinishedQuery::default()
        };
        let page = store.finished(&scope("ada"), query).await.unwrap();
        lines.extend(page.rows.iter().map(|row| row.result.line));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(lines, [1, 2, 3, 4]);
    let counts = batch(store, id).await.counts;
    assert_eq!((counts.completed, counts.returned), (2, 2));
    check(store, id).await;
    store.cancel_batch(&scope("ada"), id).await.unwrap();
    worker.close(id).await;
    assert_eq!(with_earlier().await.len(), 4, "stopped before they ran again");
    assert!(closed.generation < batch(store, id).await.generation);
    store.delete_batch(&scope("ada"), id).await.unwrap();
    while store.reap(10).await.unwrap().more {}
}

/// A closed batch that runs again has a new window: as long as its last one, or as asked for.
pub async fn a_closed_batch_that_runs_again_has_a_new_window(world: &impl World) {
    let store = world.store();
    let file = Sheet::of("ada").lines(MODEL, 2).seal(store).await;
    let new = NewBatch { window_secs: Some(60), ..run_over(file, "ada") };
    let id = store.create_batch(new).await.unwrap().id;
    let worker = Worker::on(store);
    for (asked, length) in [(None, 60), (Some(5), 5), (None, 5)] {
        worker.complete(&worker.claim(2).await.unwrap()).await;
        worker.close(id).await;
        pass(world, 3_600_000);
        let first = Reprocess { window_secs: asked, ..step(id, statuses(&[Status::Completed])) };
        store.reprocess(&scope("ada"), first).await.unwrap();
        let deadline = batch(store, id).await.deadline.unwrap();
        assert_eq!(deadline, later(world, length * 1000));
        assert_eq!(store.expire_batches(10).await.unwrap(), []);
        let held = worker.claim(2).await.unwrap();
        assert_eq!(held.lease.deadline, Some(deadline));
        store.release_leases(worker.instance, vec![held.lease.held.id]).await.unwrap();
    }
}

/// A batch that was stopped goes on: what never ran runs, nothing finished does, and it may be stopped again.
pub async fn a_stopped_batch_goes_on_with_what_never_ran(world: &impl World) {
    let store = world.store();
    for stop in ["cancel", "window"] {
        let file = Sheet::of("ada").lines(MODEL, 4).lines("model-b", 1).seal(store).await;
        let new = NewBatch { window_secs: Some(60), ..run_over(file, "ada") };
        let id = store.create_batch(new).await.unwrap().id;
        let worker = Worker::on(store);
        worker.complete(&worker.claim_only(id, &[MODEL], 2).await.unwrap()).await;
        worker.complete(&worker.claim_only(id, &["model-b"], 2).await.unwrap()).await;
        let how = || Continue { batch: id, window_secs: None, open_max: Some(1) };
        assert_eq!(kind(store.continue_batch(&scope("ada"), how()).await), Kind::Refused);
        if stop == "cancel" {
            store.cancel_batch(&scope("ada"), id).await.unwrap();
        } else {
            pass(world, 60_000);
            assert_eq!(store.expire_batches(10).await.unwrap(), [id]);
        }
        assert_eq!(kind(store.continue_batch(&scope("ada"), how()).await), Kind::Refused, "{stop}");
        let stopped = worker.close(id).await;
        assert_eq!(kind(store.continue_batch(&scope("bob"), how()).await), Kind::Missing);
        let again = store.continue_batch(&scope("ada"), how()).await.unwrap();
        assert_eq!((again.state, again.cancelling_at), (State::InProgress, None), "{stop}");
        assert_eq!(again.generation, stopped.generation + 1);
        assert_eq!(again.deadline, Some(later(world, 60_000)));
        assert_eq!(again.counts.completed, 3);
        assert_eq!(kind(store.continue_batch(&scope("ada"), how()).await), Kind::Refused, "twice");
        check(store, id).await;
        let rest = worker.claim_only(id, &[MODEL, "model-b"], 10).await.unwrap();
        assert_eq!(rest.lines.iter().map(|line| line.line).collect::<Vec<_>>(), [3, 4]);
        worker.complete(&rest).await;
        assert_eq!(worker.close(id).await.state, State::Completed);
        check(store, id).await;
        store.delete_batch(&scope("ada"), id).await.unwrap();
    }
}

/// A batch that is late goes on when it is resumed with a new window, paused or not; without one its window stays.
pub async fn a_late_batch_goes_on_with_a_new_window(world: &impl World) {
    let store = world.store();
    for pause in [true, false] {
        let file = Sheet::of("ada").lines(MODEL, 2).lines("model-b", 1).seal(store).await;
        let new = NewBatch { window_secs: Some(60), ..run_over(file, "ada") };
        let created = store.create_batch(new).await.unwrap();
        let id = created.id;
        if pause {
            store.pause_batch(&scope("ada"), id, None).await.unwrap();
        }
        pass(world, 60_000);
        let worker = Worker::on(store);
        let same = store.resume_batch(&scope("ada"), id, None).await.unwrap();
        assert_eq!((same.state, same.deadline), (State::InProgress, created.deadline));
        assert_eq!(worker.claim_only(id, &[MODEL], 2).await, None, "it is late");
        let too_long = store.resume_batch(&scope("ada"), id, Some(u64::MAX)).await;
        assert_eq!(kind(too_long), Kind::Invalid);
        assert_eq!(kind(store.resume_batch(&scope("bob"), id, Some(5)).await), Kind::Missing);
        let resumed = store.resume_batch(&scope("ada"), id, Some(5)).await.unwrap();
        let deadline = later(world, 5_000);
        assert_eq!((resumed.state, resumed.deadline), (State::InProgress, Some(deadline)));
        assert_eq!(store.expire_batches(10).await.unwrap(), []);
        for (target, lines) in [(MODEL, 2), ("model-b", 1)] {
            let held = worker.claim_only(id, &[target], 2).await.unwrap();
            assert_eq!((held.lines.len(), held.lease.deadline), (lines, Some(deadline)));
            store.release_leases(worker.instance, vec![held.lease.held.id]).await.unwrap();
        }
        check(store, id).await;
        pass(world, 5_000);
        assert_eq!(store.expire_batches(10).await.unwrap(), [id], "also the new window ends");
        worker.close(id).await;
        assert_eq!(kind(store.resume_batch(&scope("ada"), id, Some(5)).await), Kind::Refused);
    }
}

/// A batch whose every line has a result, whose file was dropped, or whose owner has as many as it may, does not go on.
pub async fn a_stopped_batch_does_not_go_on_without_lines_a_file_or_room(world: &impl World) {
    let store = world.store();
    let how = |batch, open_max| Continue { batch, window_secs: None, open_max };
    let full = batch_of(store, "ada", 1).await;
    let worker = Worker::on(store);
    let held = worker.claim_only(full, &[MODEL], 1).await.unwrap();
    store.cancel_batch(&scope("ada"), full).await.unwrap();
    worker.complete(&held).await;
    worker.close(full).await;
    assert_eq!(kind(store.continue_batch(&scope("ada"), how(full, None)).await), Kind::Conflict);

    let stopped = batch_of(store, "ada", 1).await;
    store.cancel_batch(&scope("ada"), stopped).await.unwrap();
    let closed = worker.close(stopped).await;
    let _open = batch_of(store, "ada", 1).await;
    let refused = store.continue_batch(&scope("ada"), how(stopped, Some(1))).await;
    assert_eq!(kind(refused), Kind::Limited);
    store.drop_file(&scope("ada"), closed.file).await.unwrap();
    assert_eq!(kind(store.continue_batch(&scope("ada"), how(stopped, None)).await), Kind::Conflict);
    assert_eq!(batch(store, stopped).await.state, State::Cancelled);
}
