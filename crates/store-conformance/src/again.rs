//! Running again, by the rules of people: guards of a reprocess, trying now, showing anew, and what a line
//! that waits says of its last attempt.

use windrow_domain::attempt::{Class, Status};
use windrow_domain::{BatchId, LineSet, State};
use windrow_store::batch::{
    LeftAlone, RESHAPE_LINES_MAX, Reprocess, Reprocessed, Reshaped, Select, TRY_NOW_RANGES_MAX,
    TriedNow,
};
use windrow_store::claim::Tranche;
use windrow_store::error::Kind;
use windrow_store::inspect::{AttemptCounts, FinishedQuery, PendingQuery, Place};
use windrow_store::record::{Finished, Outcomes};
use windrow_store::{Batches, Inspect, Scope, Store};

use crate::World;
use crate::fixture::*;

const MINUTE_MS: u64 = 60_000;

fn all(batch: BatchId) -> Reprocess {
    Reprocess::first(batch, Select::Statuses(Status::ALL.to_vec()))
}

async fn reprocess(store: &impl Store, step: Reprocess) -> Reprocessed {
    store.reprocess(&scope("ada"), step).await.expect("a step is made")
}

fn lines(text: &str) -> LineSet {
    text.parse().expect("a set")
}

/// Ends every line of a tranche as failed, with that class and word.
fn failed(tranche: &Tranche, class: Class) -> Outcomes {
    let status = if class == Class::NotFound { Status::NotFound } else { Status::Failed };
    let mut outcomes = finished(tranche, status);
    for line in &mut outcomes.finished {
        line.attempts = tranche.lease.attempts + 1;
        line.class = Some(class);
        line.error_code = Some(format!("code_{class}"));
        line.error = Some("It went wrong.".to_owned());
    }
    outcomes
}

/// Tries every line of a tranche again, as failed with that class.
fn tried(world: &impl World, tranche: &Tranche, class: Class) -> Outcomes {
    let mut outcomes = again(tranche, now(world));
    outcomes.again.iter_mut().for_each(|line| line.class = class);
    outcomes
}

/// Without it, a line's last miss would be no miss after a reprocess.
pub async fn a_result_that_is_put_back_keeps_its_class(world: &impl World) {
    let store = world.store();
    let id = batch_of(store, "ada", 4).await;
    let worker = Worker::on(store);
    let classes = [Class::NotFound, Class::Permanent, Class::Server];
    for class in classes {
        worker.record(failed(&worker.take(1).await, class)).await;
    }
    worker.complete(&worker.take(1).await).await;
    let kept: Vec<_> = results(store, id).await.iter().map(|row| row.result.class).collect();
    let [missed, permanent, server] = classes.map(Some);
    assert_eq!(kept, [missed, permanent, server, None]);
    reprocess(store, all(id)).await;
    for (line, class) in (1..).zip([Class::NotFound, Class::Permanent, Class::Server]) {
        let attempts = store.attempts(&scope("ada"), id, line).await.unwrap();
        let [old] = attempts.as_slice() else { panic!("one entry: {attempts:?}") };
        assert_eq!((old.class, old.put_back), (class, true));
        assert_eq!(old.error_code, format!("code_{class}"));
    }
    let well = store.attempts(&scope("ada"), id, 4).await.unwrap();
    assert_eq!((well[0].class, well[0].put_back), (Class::Reprocessed, true));
    let earlier =
        FinishedQuery { batch: Some(id), earlier: true, limit: 10, ..FinishedQuery::default() };
    let earlier = all_finished(store, &scope("ada"), earlier).await;
    let classes: Vec<_> = earlier.iter().map(|row| row.result.class).collect();
    assert_eq!(classes, [missed, permanent, server, None], "results of before keep it, too");
    check(store, id).await;
}

/// Which strategy a line is at, and how often it was tried with it: misses of all generations count, and what
/// came before the last miss, or before attempts began anew, is not of the present one.
pub async fn misses_are_counted_over_generations(world: &impl World) {
    let store = world.store();
    let id = batch_of(store, "ada", 1).await;
    let worker = Worker::on(store);
    let next = |class| {
        let worker = &worker;
        async move {
            pass(world, 1000);
            worker.record(tried(world, &worker.take(1).await, class)).await;
        }
    };
    let counts = || async { store.attempt_counts(id, &[1]).await.unwrap()[0] };
    let of = |tried, missed, since_miss, unaccepted| AttemptCounts {
        tried,
        answered: tried,
        missed,
        since_miss,
        unaccepted,
        ..AttemptCounts::none(1)
    };
    next(Class::Server).await;
    assert_eq!(counts().await, of(1, 0, 1, 0));
    next(Class::NotFound).await;
    assert_eq!(counts().await, of(2, 1, 0, 0));
    next(Class::Unacceptable).await;
    next(Class::Server).await;
    assert_eq!(counts().await, of(4, 1, 2, 1));
    next(Class::Throttled).await;
    assert_eq!(counts().await, AttemptCounts { uncounted: 1, ..of(5, 1, 2, 1) });
    pass(world, 1000);
    worker.record(failed(&worker.take(1).await, Class::NotFound)).await;
    reprocess(store, all(id)).await;
    assert_eq!(counts().await, of(6, 2, 0, 0), "the last miss of a generation is a miss");
    next(Class::Server).await;
    assert_eq!(counts().await, of(7, 2, 1, 0));
    pass(world, 1000);
    worker.record(failed(&worker.take(1).await, Class::Server)).await;
    reprocess(store, all(id)).await;
    assert_eq!(counts().await, of(8, 2, 0, 0), "attempts begin anew");
    check(store, id).await;
}

/// A reprocess may leave a line its attempts: then those before it count, as if it had never ended.
pub async fn attempts_that_are_kept_go_on(world: &impl World) {
    let store = world.store();
    let id = batch_of(store, "ada", 2).await;
    let worker = Worker::on(store);
    worker.record(tried(world, &worker.take(1).await, Class::Throttled)).await;
    pass(world, 1000);
    worker.record(tried(world, &worker.take(1).await, Class::Server)).await;
    pass(world, 1000);
    let tranche = worker.take(1).await;
    assert_eq!(tranche.lease.attempts, 2);
    worker.record(failed(&tranche, Class::Server)).await;
    worker.record(failed(&worker.take(1).await, Class::Server)).await;
    let kept = Reprocess { reset_attempts: false, ..all(id) };
    assert_eq!(reprocess(store, kept).await.moved, 2);
    let counts = store.attempt_counts(id, &[1]).await.unwrap()[0];
    assert_eq!((counts.uncounted, counts.since_miss), (1, 2));
    let mut attempts: Vec<_> = [worker.take(2).await, worker.take(2).await]
        .iter()
        .map(|tranche| (tranche.lease.attempts, seqs(tranche).to_string()))
        .collect();
    attempts.sort_unstable();
    assert_eq!(attempts, [(1, "1".to_owned()), (3, "0".to_owned())]);
    check(store, id).await;
}

/// Trying again cannot help a request that is wrong, so a guard leaves it alone and says so.
pub async fn permanent_failures_are_left_alone_unless_asked_for(world: &impl World) {
    let store = world.store();
    let id = batch_of(store, "ada", 3).await;
    let worker = Worker::on(store);
    for class in [Class::Permanent, Class::Server, Class::Permanent] {
        worker.record(failed(&worker.take(1).await, class)).await;
    }
    let guarded = all(id).guarded(20);
    let done = reprocess(store, guarded.clone()).await;
    assert_eq!((done.moved, done.more), (1, false));
    assert_eq!(done.left_alone, LeftAlone { permanent: 2, ..LeftAlone::default() });
    check(store, id).await;
    let nothing = reprocess(store, guarded.clone()).await;
    assert_eq!((nothing.moved, nothing.generation, nothing.left_alone.permanent), (0, 1, 2));
    assert_eq!(batch(store, id).await.generation, 1, "nothing changed");
    let asked = Reprocess { permanent: true, ..guarded };
    assert_eq!(reprocess(store, asked).await.moved, 2);
    check(store, id).await;
}

/// The guard counts tries over all generations: those that made the line fail are some of them.
pub async fn a_line_that_was_tried_too_often_is_left_alone(world: &impl World) {
    let store = world.store();
    let id = batch_of(store, "ada", 2).await;
    let worker = Worker::on(store);
    let often = worker.take(1).await;
    worker.complete(&worker.take(1).await).await;
    worker.record(tried(world, &often, Class::Throttled)).await;
    for _ in 0..3 {
        pass(world, 60 * MINUTE_MS);
        worker.record(failed(&worker.take(1).await, Class::Server)).await;
        let named = Reprocess::first(id, Select::Lines(lines("1")));
        assert_eq!(reprocess(store, named.guarded(4)).await.moved, 1, "tried fewer than 4 times");
    }
    pass(world, 60 * MINUTE_MS);
    worker.record(failed(&worker.take(1).await, Class::Server)).await;
    let done = reprocess(store, all(id).guarded(4)).await;
    assert_eq!((done.moved, done.left_alone.too_often), (1, 1), "the other one was tried once");
    let done = reprocess(store, all(id)).await;
    assert_eq!((done.moved, done.left_alone), (1, LeftAlone::default()), "no guard holds");
    check(store, id).await;
}

/// The first time a line is due at once; then it waits two minutes, four, and so on; after an hour, or when it
/// is forced, it does not.
pub async fn a_line_that_is_put_back_again_within_the_hour_waits(world: &impl World) {
    let store = world.store();
    let id = batch_of(store, "ada", 1).await;
    let worker = Worker::on(store);
    let fails = || async {
        worker.record(failed(&worker.take(1).await, Class::Server)).await;
    };
    fails().await;
    for minutes in [0, 2, 4] {
        assert_eq!(reprocess(store, all(id).guarded(100)).await.moved, 1);
        if minutes > 0 {
            pass(world, minutes * MINUTE_MS - 1000);
            assert_eq!(worker.claim(1).await, None, "it waits {minutes} minutes");
            let last = store.attempts(&scope("ada"), id, 1).await.unwrap().pop().unwrap();
            assert_eq!(last.not_before, later(world, 1000), "and says so");
            pass(world, 1000);
        }
        fails().await;
    }
    reprocess(store, all(id)).await;
    fails().await;
    pass(world, 60 * MINUTE_MS);
    assert_eq!(reprocess(store, all(id).guarded(100)).await.moved, 1);
    fails().await;
    check(store, id).await;
}

/// A named line that an instance holds is left to it; one that waits is not held.
pub async fn named_lines_that_are_held_are_counted(world: &impl World) {
    let store = world.store();
    let id = Sheet::of("ada").rounds(&[MODEL, "model-b"], 5).run(store).await;
    let worker = Worker::on(store);
    worker.complete(&worker.take(1).await).await;
    let held = worker.take(2).await;
    let named = held.lines.iter().map(|line| line.line).chain([1, 9, 10, 4000]);
    let step = Reprocess::first(id, Select::Lines(named.collect()));
    let done = reprocess(store, step).await;
    assert_eq!((done.moved, done.left_alone.running), (1, 2));
    check(store, id).await;
}

/// A step looks at a bounded number of lines, whatever a guard says of them.
pub async fn guarded_steps_get_past_what_they_leave_alone(world: &impl World) {
    let store = world.store();
    let id = batch_of(store, "ada", 9).await;
    let worker = Worker::on(store);
    worker.record(failed(&worker.take(7).await, Class::Permanent)).await;
    worker.record(failed(&worker.take(2).await, Class::Server)).await;
    worker.close(id).await;
    let mut step = Some(Reprocess { lines_max: 3, ..all(id).guarded(20) });
    let (mut steps, mut moved, mut left_alone) = (0, 0, LeftAlone::default());
    while let Some(now) = step {
        let done = reprocess(store, now.clone()).await;
        moved += done.moved;
        left_alone += done.left_alone;
        steps += 1;
        check(store, id).await;
        step = now.next(&done);
    }
    assert_eq!((steps, moved, left_alone.permanent), (3, 2, 7));
    assert_eq!(batch(store, id).await.generation, 1);
    assert_eq!(seqs(&worker.take(9).await).to_string(), "7-8");
}

/// A row that waits an hour for its time can be sent now.
pub async fn a_waiting_line_can_be_tried_now(world: &impl World) {
    let store = world.store();
    let id = batch_of(store, "ada", 5).await;
    let worker = Worker::on(store);
    let at = later(world, 60 * MINUTE_MS);
    worker.record(again(&worker.take(5).await, at)).await;
    assert_eq!(worker.claim(5).await, None);
    let done = store.try_now(&scope("ada"), id, lines("2-3,5,77")).await.unwrap();
    assert_eq!(done, TriedNow { due: 3, leased: 0 });
    check(store, id).await;
    let repeat = store.try_now(&scope("ada"), id, lines("2-3,5,77")).await.unwrap();
    assert_eq!(repeat, TriedNow::default());
    let tranche = worker.take(5).await;
    assert_eq!((seqs(&tranche).to_string(), tranche.lease.attempts), ("1-2,4".to_owned(), 1));
    assert_eq!(worker.claim(5).await, None, "the others wait on");
    let held = store.try_now(&scope("ada"), id, lines("1-2")).await.unwrap();
    assert_eq!(held, TriedNow { due: 1, leased: 1 }, "the holder keeps its line");
    assert_eq!(seqs(&worker.take(5).await).to_string(), "0");
    worker.complete(&tranche).await;
    let done = store.try_now(&scope("ada"), id, lines("2-3")).await.unwrap();
    assert_eq!(done, TriedNow::default(), "a line with a result is not tried");
    check(store, id).await;
    let bob = store.try_now(&scope("bob"), id, lines("1")).await;
    assert_eq!(kind(bob), Kind::Missing);
    let many: LineSet = (0..=TRY_NOW_RANGES_MAX as u64).map(|no| no * 2).collect();
    assert_eq!(kind(store.try_now(&scope("ada"), id, many).await), Kind::Invalid);
}

/// Lines are named by their numbers in the file, whichever lane they are in; untouched ones stay so.
pub async fn only_waiting_lines_of_the_named_are_tried_now(world: &impl World) {
    let store = world.store();
    let id = Sheet::of("ada").rounds(&[MODEL, "model-b"], 4).run(store).await;
    let worker = Worker::on(store);
    let at = later(world, MINUTE_MS);
    for target in [MODEL, "model-b"] {
        let tranche = worker.ask(request(&[target], 3)).await.unwrap();
        worker.record(again(&tranche, at)).await;
    }
    let done = store.try_now(&Scope::All, id, lines("1-2,4,7-8")).await.unwrap();
    assert_eq!(done, TriedNow { due: 3, leased: 0 });
    check(store, id).await;
    let of_b = worker.ask(request(&["model-b"], 9)).await.unwrap();
    assert_eq!(seqs(&of_b).to_string(), "0-1");
    let of_a = worker.ask(request(&[MODEL], 9)).await.unwrap();
    assert_eq!(seqs(&of_a).to_string(), "0");
    check(store, id).await;
}

/// Nothing is claimed of a paused batch; what stops never runs.
pub async fn a_paused_batch_tries_its_lines_when_it_goes_on(world: &impl World) {
    let store = world.store();
    let id = batch_of(store, "ada", 2).await;
    let worker = Worker::on(store);
    worker.record(again(&worker.take(2).await, later(world, MINUTE_MS))).await;
    store.pause_batch(&scope("ada"), id, None).await.unwrap();
    assert_eq!(store.try_now(&scope("ada"), id, lines("1")).await.unwrap().due, 1);
    assert_eq!(worker.claim(2).await, None);
    check(store, id).await;
    store.resume_batch(&scope("ada"), id, None).await.unwrap();
    let tranche = worker.take(2).await;
    assert_eq!(seqs(&tranche).to_string(), "0");
    store.cancel_batch(&scope("ada"), id).await.unwrap();
    let stopping = store.try_now(&scope("ada"), id, lines("1-2")).await.unwrap();
    assert_eq!(stopping, TriedNow::default());
    worker.complete(&tranche).await;
    assert_eq!(worker.close(id).await.state, State::Cancelled);
    assert_eq!(store.try_now(&scope("ada"), id, lines("1-2")).await.unwrap(), TriedNow::default());
    check(store, id).await;
}

/// "I forgot a column": what is shown changes, and nothing else of a result.
pub async fn shaped_rows_are_written_anew(world: &impl World) {
    let store = world.store();
    let id = batch_of(store, "ada", 4).await;
    let worker = Worker::on(store);
    let tranche = worker.take(3).await;
    let mut outcomes = finished(&tranche, Status::Completed);
    outcomes.finished.iter_mut().for_each(|line| line.shaped = Some("{}".to_owned()));
    worker.record(outcomes).await;
    worker.complete(&worker.take(1).await).await;
    reprocess(store, Reprocess::first(id, Select::Lines(lines("2-3")))).await;
    worker.complete(&worker.claim_only(id, &[MODEL], 1).await.unwrap()).await;
    let before = results(store, id).await;

    let row = |line, generation| {
        let shaped = format!("{{\"line\":{line},\"currency\":\"€\"}}");
        Reshaped { line, generation, shaped }
    };
    // Line 2 has a result of generation 1, line 3 has none, and there is no line 9.
    let rows = vec![row(1, 0), row(2, 0), row(3, 0), row(4, 0), row(9, 0)];
    assert_eq!(store.reshape(&scope("ada"), id, rows.clone()).await.unwrap(), 2);
    assert_eq!(store.reshape(&scope("ada"), id, rows.clone()).await.unwrap(), 2, "a repeat");
    let after = results(store, id).await;
    let shaped: Vec<_> = after.iter().map(|row| row.result.shaped.clone()).collect();
    assert_eq!(shaped, [Some(row(1, 0).shaped), None, Some(row(4, 0).shaped)]);
    for (mut old, new) in before.into_iter().zip(after) {
        old.result.shaped.clone_from(&new.result.shaped);
        assert_eq!(old, new, "nothing else changes");
    }
    assert_eq!(store.reshape(&scope("ada"), id, vec![row(2, 1)]).await.unwrap(), 1);
    assert_eq!(kind(store.reshape(&scope("bob"), id, rows).await), Kind::Missing);
    check(store, id).await;
}

/// A reshape goes in bounded steps.
pub async fn a_reshape_out_of_bounds_is_invalid(world: &impl World) {
    let store = world.store();
    let id = batch_of(store, "ada", 1).await;
    let row = |line| Reshaped { line, generation: 0, shaped: "{}".to_owned() };
    let most = RESHAPE_LINES_MAX as u64;
    assert_eq!(store.reshape(&scope("ada"), id, (0..most).map(row).collect()).await.unwrap(), 0);
    let many = store.reshape(&scope("ada"), id, (0..=most).map(row).collect()).await;
    assert_eq!(kind(many), Kind::Invalid);
    let twice = store.reshape(&scope("ada"), id, vec![row(1), row(1)]).await;
    assert_eq!(kind(twice), Kind::Invalid);
}

/// Whoever looks at a row that waits sees why.
pub async fn a_waiting_line_says_what_went_wrong(world: &impl World) {
    let store = world.store();
    let id = batch_of(store, "ada", 4).await;
    let worker = Worker::on(store);
    worker.record(again(&worker.take(1).await, now(world))).await;
    pass(world, 1000);
    let mut second = again(&worker.take(1).await, later(world, MINUTE_MS));
    second.again[0].error_code = "http_500".to_owned();
    second.again[0].error = "It broke.".to_owned();
    worker.record(second).await;
    worker.record(failed(&worker.take(1).await, Class::Server)).await;
    worker.complete(&worker.take(1).await).await;
    reprocess(store, all(id)).await;
    let query = PendingQuery { limit: 10, ..PendingQuery::default() };
    let mut rows = all_pending(store, &scope("ada"), query).await;
    rows.sort_unstable_by_key(|row| row.line);
    let told: Vec<_> = rows
        .iter()
        .map(|row| (row.place, row.last_error_code.as_deref(), row.last_error.as_deref()))
        .collect();
    let expected = [
        (Place::Returned, Some("http_500"), Some("It broke.")),
        (Place::Returned, Some("code_server"), Some("It went wrong.")),
        (Place::Returned, None, None),
        (Place::Untouched, None, None),
    ];
    assert_eq!(told, expected);
}

/// A rare word among many failures; completed lines have none.
pub async fn failures_are_listed_by_their_word(world: &impl World) {
    let store = world.store();
    let id = batch_of(store, "ada", 12).await;
    let worker = Worker::on(store);
    for (count, class) in [(5, Class::Server), (1, Class::Timeout), (2, Class::NotFound)] {
        worker.record(failed(&worker.take(count).await, class)).await;
    }
    let mut odd = finished(&worker.take(1).await, Status::Completed);
    odd.finished[0] =
        Finished { error_code: Some("code_timeout".to_owned()), ..odd.finished[0].clone() };
    worker.record(odd).await;
    worker.record(failed(&worker.take(3).await, Class::Timeout)).await;
    let query = |batch, code: &str, statuses: &[Status]| FinishedQuery {
        batch,
        error_code: Some(code.to_owned()),
        statuses: statuses.to_vec(),
        limit: 2,
        ..FinishedQuery::default()
    };
    let found = |query| async {
        let rows = all_finished(store, &scope("ada"), query).await;
        rows.iter().map(|row| row.result.line).collect::<Vec<_>>()
    };
    for batch in [Some(id), None] {
        assert_eq!(found(query(batch, "code_timeout", &[])).await, [6, 10, 11, 12]);
        assert_eq!(found(query(batch, "code_timeout", &[Status::Failed])).await, [6, 10, 11, 12]);
        assert_eq!(found(query(batch, "code_timeout", &[Status::NotFound])).await, [0_u64; 0]);
        assert_eq!(found(query(batch, "code_not_found", &Status::ALL)).await, [7, 8]);
        assert_eq!(found(query(batch, "code", &[])).await, [0_u64; 0]);
    }
}
