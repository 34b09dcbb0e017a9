//! Reprocessing: finished lines run again, one bounded step at a time.

use windrow_domain::attempt::{Class, Status};
use windrow_domain::{BatchId, LineSet, State};
use windrow_store::batch::{REPROCESS_LINES_MAX, Reprocess, Reprocessed, Select};
use windrow_store::error::Kind;
use windrow_store::inspect::{ATTEMPT_COUNTS_LINES_MAX, AttemptCounts};
use windrow_store::record::{ATTEMPT_ENTRIES_MAX, Again, Finished, Outcomes};
use windrow_store::{Batches, Finalise, Inspect, Store, Sweep};

use crate::World;
use crate::fixture::*;

fn step(batch: BatchId, select: Select) -> Reprocess {
    Reprocess { lines_max: 1000, ..Reprocess::first(batch, select) }
}

fn statuses(statuses: &[Status]) -> Select {
    Select::Statuses(statuses.to_vec())
}

async fn reprocess(store: &impl Store, step: Reprocess) -> Reprocessed {
    store.reprocess(&scope("ada"), step).await.expect("a step is made")
}

/// Six lines: 1 and 2 completed, 3 and 4 failed, 5 not found, 6 skipped.
async fn mixed_batch(world: &impl World) -> BatchId {
    let batch = batch_of(world.store(), "ada", 6).await;
    let worker = Worker::on(world.store());
    for (lines, status) in
        [(2, Status::Completed), (2, Status::Failed), (1, Status::NotFound), (1, Status::Skipped)]
    {
        let tranche = worker.take(lines).await;
        worker.finish(&tranche, status).await;
    }
    batch
}

/// By status: the matching lines go back with no tries behind them, the others stay; run again,
/// the batch settles again with the new results.
pub async fn lines_of_a_status_run_again(world: &impl World) {
    let store = world.store();
    let id = mixed_batch(world).await;
    let worker = Worker::on(store);
    worker.close(id).await;
    pass(world, 1000);
    let done = reprocess(store, step(id, statuses(&[Status::Failed, Status::NotFound]))).await;
    assert_eq!((done.generation, done.moved, done.more), (1, 3, false));

    let open = batch(store, id).await;
    assert_eq!((open.state, open.generation), (State::InProgress, 1));
    assert_eq!((open.finalizing_at, open.closed_at, &open.summary), (None, None, &None));
    let counts = open.counts;
    assert_eq!((counts.completed, counts.skipped, counts.returned), (2, 1, 3));
    assert_eq!((counts.failed, counts.not_found), (0, 0));
    check(store, id).await;
    let lines: Vec<_> = results(store, id).await.iter().map(|row| row.result.line).collect();
    assert_eq!(lines, [1, 2, 6], "their old results are gone");

    let tranche = worker.take(10).await;
    assert_eq!(seqs(&tranche).to_string(), "2-4");
    assert_eq!((tranche.lease.attempts, tranche.lease.generation), (0, 1));
    assert_eq!(worker.complete(&tranche).await.finalizing, [id], "it settles a second time");
    let generations: Vec<_> = results(store, id).await.iter().map(|row| row.generation).collect();
    assert_eq!(generations, [0, 0, 1, 1, 1, 0]);
    let closed = worker.close(id).await;
    assert_eq!((closed.state, closed.counts.completed), (State::Completed, 5));
    check(store, id).await;
}

/// By line: chosen finished lines run again; chosen lines without a result stay where they are.
pub async fn chosen_lines_run_again(world: &impl World) {
    let store = world.store();
    let id = batch_of(store, "ada", 10).await;
    let worker = Worker::on(store);
    worker.complete(&worker.take(4).await).await;
    let held = worker.take(2).await;
    let chosen: LineSet = "2-3,6,8,500".parse().expect("a set");
    let done = reprocess(store, step(id, Select::Lines(chosen))).await;
    assert_eq!((done.moved, done.more), (2, false));
    let counts = counts(store, id).await;
    assert_eq!((counts.completed, counts.returned, counts.leased, counts.untouched), (2, 2, 2, 4));
    check(store, id).await;

    assert_eq!(seqs(&worker.take(10).await).to_string(), "1-2", "line 2 has seq 1");
    let (left, ignored) = kept(&worker.complete(&held).await);
    assert!(left.is_none() && ignored.is_empty(), "what was leased goes on");
    check(store, id).await;
}

/// A batch that still runs can be reprocessed; a paused one stays paused.
pub async fn a_running_batch_can_be_reprocessed(world: &impl World) {
    let store = world.store();
    let id = batch_of(store, "ada", 3).await;
    let worker = Worker::on(store);
    worker.complete(&worker.take(2).await).await;
    store.pause_batch(&scope("ada"), id, None).await.unwrap();
    let done = reprocess(store, step(id, statuses(&[Status::Completed]))).await;
    assert_eq!((done.generation, done.moved), (1, 2));
    assert_eq!(batch(store, id).await.state, State::Paused);
    assert_eq!(worker.claim(5).await, None);
    check(store, id).await;
    store.resume_batch(&scope("ada"), id, None).await.unwrap();
    let done = reprocess(store, step(id, statuses(&[Status::Completed]))).await;
    assert_eq!((done.moved, done.more), (0, false));
    assert_eq!(worker.drain(id, &[MODEL]).await, [id]);
    check(store, id).await;
}

/// When nothing matches, nothing changes: not the generation, not a closed batch.
pub async fn a_reprocess_that_matches_nothing_changes_nothing(world: &impl World) {
    let store = world.store();
    let id = mixed_batch(world).await;
    let worker = Worker::on(store);
    worker.close(id).await;
    let before = batch(store, id).await;
    reprocess(store, step(id, Select::Lines(LineSet::range(100, 200)))).await;
    assert_eq!(batch(store, id).await, before);
    reprocess(store, step(id, Select::Lines(LineSet::new()))).await;
    assert_eq!(batch(store, id).await, before);
    let all_good = batch_of(store, "ada", 2).await;
    worker.drain(all_good, &[MODEL]).await;
    let before = batch(store, all_good).await;
    let done = reprocess(store, step(all_good, statuses(&[Status::Failed]))).await;
    assert_eq!((done.generation, done.moved, done.more), (0, 0, false));
    assert_eq!(batch(store, all_good).await, before);
    check(store, id).await;
}

/// Steps have a bound, go in line order, and the next one continues with the first's generation.
pub async fn steps_continue_with_the_generation_of_the_first(world: &impl World) {
    let store = world.store();
    let id = batch_of(store, "ada", 10).await;
    let worker = Worker::on(store);
    worker.drain(id, &[MODEL]).await;
    worker.close(id).await;

    let all = statuses(&[Status::Completed]);
    let first = Reprocess { lines_max: 4, ..step(id, all.clone()) };
    let done = reprocess(store, first.clone()).await;
    assert_eq!((done.generation, done.moved, done.more, done.next), (1, 4, true, 5));
    check(store, id).await;
    let tranche = worker.take(10).await;
    assert_eq!(seqs(&tranche).to_string(), "0-3", "the lowest lines go first");
    worker.complete(&tranche).await;

    let next = Reprocess { generation: Some(1), ..first };
    let done = reprocess(store, next.clone()).await;
    assert_eq!((done.generation, done.moved), (1, 4), "lines that finished again are not taken");
    check(store, id).await;
    assert_eq!(seqs(&worker.take(10).await).to_string(), "4-7");
    let mut last = reprocess(store, next.clone()).await;
    assert_eq!(last.moved, 2);
    if last.more {
        last = reprocess(store, next.clone()).await;
        assert_eq!(last.moved, 0);
    }
    assert!(!last.more);
    assert_eq!(batch(store, id).await.generation, 1);
    check(store, id).await;

    let second = reprocess(store, step(id, all)).await;
    assert_eq!((second.generation, second.moved), (2, 4), "a new reprocess takes them");
    let old = store.reprocess(&scope("ada"), next).await;
    assert_eq!(kind(old), Kind::Conflict, "the first one's steps are over");
    check(store, id).await;
}

/// A continuation with a generation that never was is a conflict.
pub async fn a_step_of_another_generation_is_a_conflict(world: &impl World) {
    let store = world.store();
    let id = mixed_batch(world).await;
    for generation in [1, 7] {
        let wrong = Reprocess { generation: Some(generation), ..step(id, statuses(&Status::ALL)) };
        assert_eq!(kind(store.reprocess(&scope("ada"), wrong).await), Kind::Conflict);
    }
    assert_eq!(counts(store, id).await.finished(), 6);
    check(store, id).await;
}

/// A step moves between one line and the bound.
pub async fn a_step_out_of_bounds_is_invalid(world: &impl World) {
    let store = world.store();
    let id = mixed_batch(world).await;
    for lines_max in [0, REPROCESS_LINES_MAX + 1, u32::MAX] {
        let wrong = Reprocess { lines_max, ..step(id, statuses(&Status::ALL)) };
        let error = store.reprocess(&scope("ada"), wrong).await.unwrap_err();
        assert_eq!(error.kind, Kind::Invalid);
    }
    let most = Reprocess { lines_max: REPROCESS_LINES_MAX, ..step(id, statuses(&Status::ALL)) };
    assert_eq!(reprocess(store, most).await.moved, 6);
    check(store, id).await;
}

/// The history of a line's tries outlives a reprocess, told apart by generation.
pub async fn reprocessing_keeps_the_history(world: &impl World) {
    let store = world.store();
    let id = batch_of(store, "ada", 1).await;
    let worker = Worker::on(store);
    for generation in 0..2 {
        for attempt in 1..=2 {
            pass(world, 1000);
            let tranche = worker.take(1).await;
            assert_eq!(
                (tranche.lease.generation, tranche.lease.attempts),
                (generation, attempt - 1)
            );
            worker.record(again(&tranche, now(world))).await;
        }
        pass(world, 1000);
        worker.finish(&worker.take(1).await, Status::Failed).await;
        if generation == 0 {
            reprocess(store, step(id, statuses(&[Status::Failed]))).await;
        }
    }
    let attempts = store.attempts(&scope("ada"), id, 1).await.unwrap();
    let told: Vec<_> = attempts.iter().map(|row| (row.generation, row.attempt)).collect();
    assert_eq!(told, [(0, 1), (0, 2), (0, 3), (1, 1), (1, 2)]);
    let put_back: Vec<_> = attempts.iter().map(|row| row.put_back).collect();
    assert_eq!(put_back, [false, false, true, false, false]);
    check(store, id).await;
}

/// Only lanes that got lines back open again; the others stay done.
pub async fn lanes_without_moved_lines_stay_done(world: &impl World) {
    let store = world.store();
    let id = Sheet::of("ada").lines(MODEL, 2).lines("model-b", 2).run(store).await;
    let worker = Worker::on(store);
    worker.drain(id, &[MODEL, "model-b"]).await;
    reprocess(store, step(id, Select::Lines(LineSet::range(1, 1)))).await;
    check(store, id).await;
    assert_eq!(worker.ask(request(&["model-b"], 5)).await, None);
    assert_eq!(worker.drain(id, &[MODEL]).await, [id]);
    check(store, id).await;
}

/// A reprocess in the middle of a finalisation takes the right to close it.
pub async fn a_reprocess_ends_a_finalisation(world: &impl World) {
    let store = world.store();
    let id = mixed_batch(world).await;
    let worker = Worker::on(store);
    let held = store.take_finalisation(id, worker.instance, LEASE_MS).await.unwrap();
    reprocess(store, step(id, statuses(&[Status::Failed]))).await;
    let closing = store.close_batch(&held, rows(&held.counts), "{}", &[]).await;
    assert_eq!(kind(closing), Kind::LeaseLost);
    worker.drain(id, &[MODEL]).await;
    let closing = store.close_batch(&held, rows(&held.counts), "{}", &[]).await;
    assert_eq!(kind(closing), Kind::LeaseLost, "not even when it is finalizing again");
    let other = Worker::on(store);
    let taken = store.take_finalisation(id, other.instance, LEASE_MS).await.unwrap();
    assert!(taken.token > held.token, "tokens rise");
    assert_eq!(taken.generation, 1);
    store.close_batch(&taken, rows(&taken.counts), "{}", &[]).await.unwrap();
    check(store, id).await;
}

/// A result that is put back stays in its line's history: its own error, or a word and a sentence.
pub async fn an_old_result_stays_in_the_history(world: &impl World) {
    let store = world.store();
    let id = mixed_batch(world).await;
    let worker = Worker::on(store);
    pass(world, 1000);
    reprocess(store, step(id, statuses(&Status::ALL))).await;
    let words = ["completed", "completed", "failed", "failed", "not_found", "skipped"];
    for (line, word) in (1..).zip(words) {
        let attempts = store.attempts(&scope("ada"), id, line).await.unwrap();
        let [old] = attempts.as_slice() else { panic!("one entry for line {line}: {attempts:?}") };
        let class = if word == "not_found" { Class::NotFound } else { Class::Reprocessed };
        assert_eq!((old.class, old.put_back), (class, true));
        assert_eq!((old.generation, old.attempt), (0, 1));
        assert_eq!(old.error_code, word);
        assert!(old.error.contains(&word.replace('_', " ")), "{}", old.error);
        assert_eq!(old.created_at, now(world));
    }
    let tranche = worker.take(1).await;
    let line = &tranche.lines[0];
    let bad = Finished {
        error_code: Some("http_400".to_owned()),
        error: Some("The target did not like it.".to_owned()),
        ..Finished::bare(line.seq, line.line, Status::Failed, 1)
    };
    let outcomes = Outcomes { finished: vec![bad], ..Outcomes::of(tranche.lease.held.clone()) };
    worker.record(outcomes).await;
    let chosen = Select::Lines(LineSet::range(line.line, line.line));
    reprocess(store, step(id, chosen)).await;
    let attempts = store.attempts(&scope("ada"), id, line.line).await.unwrap();
    assert_eq!(attempts.len(), 2);
    assert_eq!((attempts[1].generation, attempts[1].error_code.as_str()), (1, "http_400"));
    assert_eq!(attempts[1].error, "The target did not like it.");
    check(store, id).await;
}

/// A line whose worker was lost has a result without a try of its own: its entry gets a number that
/// is free.
pub async fn a_lost_line_that_runs_again_has_both_in_its_history(world: &impl World) {
    let store = world.store();
    let id = batch_of(store, "ada", 1).await;
    let worker = Worker::on(store);
    worker.record(again(&worker.take(1).await, now(world))).await;
    pass(world, 1000);
    assert!(worker.mark(&worker.take(1).await).await);
    pass(world, LEASE_MS);
    assert_eq!(store.return_lost(10, 1).await.unwrap().failed, 1);
    reprocess(store, step(id, statuses(&[Status::Failed]))).await;
    let attempts = store.attempts(&scope("ada"), id, 1).await.unwrap();
    let told: Vec<_> = attempts.iter().map(|old| (old.attempt, old.error_code.as_str())).collect();
    assert_eq!(told, [(1, "http_503"), (2, "worker_lost")]);
    check(store, id).await;
}

/// A line that is throttled for very long has a history of few entries, and nothing that is counted from it is lost.
pub async fn a_line_that_is_throttled_for_long_has_few_entries(world: &impl World) {
    const TIMES: u32 = 60;
    const FAILED: u32 = 40;
    let store = world.store();
    let id = batch_of(store, "ada", 1).await;
    let worker = Worker::on(store);
    for attempt in 1..=TIMES {
        let tranche = worker.take(1).await;
        assert_eq!(tranche.lease.attempts, attempt - 1);
        let mut outcomes = again(&tranche, now(world));
        let class = if attempt == FAILED { Class::Server } else { Class::Throttled };
        outcomes.again[0].class = class;
        worker.record(outcomes.clone()).await;
        // A repeat changes nothing.
        worker.record(outcomes).await;
        pass(world, 1000);
    }
    let entries = store.attempts(&scope("ada"), id, 1).await.unwrap();
    let told: Vec<_> = entries.iter().map(|entry| (entry.attempt, entry.times)).collect();
    let single = (1..ATTEMPT_ENTRIES_MAX).map(|attempt| (attempt, 1));
    let joined = [(FAILED - 1, FAILED - ATTEMPT_ENTRIES_MAX), (FAILED, 1), (TIMES, TIMES - FAILED)];
    assert_eq!(told, single.chain(joined).collect::<Vec<_>>());
    let counts = store.attempt_counts(id, &[1]).await.unwrap()[0];
    assert_eq!((counts.tried, counts.answered, counts.uncounted), (TIMES, TIMES, TIMES - 1));
    check(store, id).await;
}

/// Tries are counted over all generations; those with an answer apart from those without. Those that a line
/// did not use up are counted since its last result.
pub async fn tries_are_counted_for_many_lines_at_once(world: &impl World) {
    let store = world.store();
    let id = batch_of(store, "ada", 4).await;
    let worker = Worker::on(store);
    let classes = [Class::Network, Class::Server, Class::Timeout, Class::Throttled];
    for class in classes {
        let tranche = worker.take(2).await;
        let again = tranche.lines.iter().map(|line| Again {
            seq: line.seq,
            line: line.line,
            not_before: now(world),
            class,
            error_code: "bad".to_owned(),
            error: "It went wrong.".to_owned(),
        });
        let again = again.collect();
        worker.record(Outcomes { again, ..Outcomes::of(tranche.lease.held.clone()) }).await;
        pass(world, 1000);
    }
    let counted = |line, tried, answered, uncounted| AttemptCounts {
        tried,
        answered,
        uncounted,
        since_miss: if uncounted == 0 { 0 } else { 3 },
        ..AttemptCounts::none(line)
    };
    let before = [counted(1, 4, 2, 1), counted(2, 4, 2, 1)];
    assert_eq!(store.attempt_counts(id, &[4, 2, 1, 99, u64::MAX]).await.unwrap(), before);
    worker.drain(id, &[MODEL]).await;
    assert_eq!(
        store.attempt_counts(id, &[1, 2, 3]).await.unwrap(),
        before,
        "a result is no history"
    );
    reprocess(store, step(id, Select::Lines(LineSet::range(2, 3)))).await;
    // What was not counted before a result does not count for the next one either.
    let after = [counted(1, 4, 2, 1), counted(2, 5, 3, 0), counted(3, 1, 1, 0)];
    assert_eq!(store.attempt_counts(id, &[1, 2, 3, 4]).await.unwrap(), after);

    assert_eq!(store.attempt_counts(BatchId::new(), &[1, 2]).await.unwrap(), []);
    assert_eq!(store.attempt_counts(id, &[]).await.unwrap(), []);
    let most: Vec<u64> = (1..).take(ATTEMPT_COUNTS_LINES_MAX + 1).collect();
    assert_eq!(store.attempt_counts(id, &most[1..]).await.unwrap(), after[1..]);
    assert_eq!(kind(store.attempt_counts(id, &most).await), Kind::Invalid);
}
