//! Recording: outcomes become results or returned lines, and only the lease's holder may say so.

use bytes::Bytes;
use windrow_domain::attempt::{Class, Status};
use windrow_domain::{BatchId, InstanceId, LeaseId, LeaseProof, LineSet, State};
use windrow_store::claim::Request;
use windrow_store::error::Kind;
use windrow_store::inspect::{FinishedLine, FinishedQuery, Page};
use windrow_store::record::{Again, Finished, Fold, Outcomes, TURN_LEASES_MAX, Turn, bucket};
use windrow_store::{Batches, Claim, Inspect, Record, Scope, Sweep};

use crate::World;
use crate::fixture::*;

/// A result with everything in it.
fn full_result(seq: u64, line: u64, status: Status) -> Finished {
    Finished {
        custom_id: Some(format!("r-{line}")),
        http_status: Some(503),
        response: Some(Bytes::from_static(b"\x00\xff{\"answer\": 42}\r\n")),
        shaped: Some("{\"size\":\"größer\"}".to_owned()),
        normalised: Some("{\"in\":1}".to_owned()),
        error_code: Some("http_503".to_owned()),
        error: Some("the target is resting — 休".to_owned()),
        ..Finished::bare(seq, line, status, 3)
    }
}

/// A result reads back as it was written; its bodies only when they are asked for.
pub async fn a_result_reads_back_as_it_was_written(world: &impl World) {
    let store = world.store();
    let batch = batch_of(store, "ada", 2).await;
    let worker = Worker::on(store);
    let tranche = worker.take(2).await;
    pass(world, 1234);
    let full = full_result(0, 1, Status::Failed);
    let bare = Finished::bare(1, 2, Status::Completed, 1);
    let outcomes = Outcomes {
        finished: vec![full.clone(), bare.clone()],
        ..Outcomes::of(tranche.lease.held.clone())
    };
    worker.record(outcomes).await;

    let rows = results(store, batch).await;
    assert_eq!((&rows[0].result, &rows[1].result), (&full, &bare));
    for row in &rows {
        assert_eq!((row.batch, row.lane, row.generation), (batch, 0, 0));
        assert_eq!(row.finished_at, now(world));
    }
    let query = FinishedQuery { batch: Some(batch), limit: 10, ..FinishedQuery::default() };
    let slim = all_finished(store, &scope("ada"), query).await;
    assert_eq!(slim[0].result, Finished { response: None, normalised: None, ..full });
}

/// A body of a megabyte, and one of nothing, read back exactly.
pub async fn large_and_empty_bodies_read_back_exactly(world: &impl World) {
    let store = world.store();
    let batch = batch_of(store, "ada", 2).await;
    let worker = Worker::on(store);
    let tranche = worker.take(2).await;
    let large: Vec<u8> =
        (0..1_000_000_u32).map(|n| n.to_le_bytes()[0] ^ n.to_le_bytes()[1]).collect();
    let mut outcomes = finished(&tranche, Status::Completed);
    outcomes.finished[0].response = Some(Bytes::from(large.clone()));
    outcomes.finished[1].response = Some(Bytes::new());
    outcomes.finished[1].error = Some(String::new());
    worker.record(outcomes).await;
    let rows = results(store, batch).await;
    assert!(rows[0].result.response.as_deref() == Some(large.as_slice()));
    assert_eq!(rows[1].result.response, Some(Bytes::new()), "empty is not none");
    assert_eq!(rows[1].result.error.as_deref(), Some(""));
}

/// An upstream's words may hold a zero character: it is kept, or replaced where the database has
/// none, and never refuses the turn.
pub async fn a_zero_character_in_a_text_refuses_no_turn(world: &impl World) {
    const GIVEN: &str = "\0before\0after";
    let store = world.store();
    let batch = batch_of(store, "ada", 2).await;
    let worker = Worker::on(store);
    let tranche = worker.take(2).await;
    let given = Some(GIVEN.to_owned());
    let mut outcomes = finished_some(&tranche, Status::Failed, |seq| seq == 0);
    let line = &mut outcomes.finished[0];
    (line.custom_id, line.error) = (given.clone(), given.clone());
    (line.shaped, line.normalised) = (given.clone(), given.clone());
    line.error_code = given;
    outcomes.again = again_some(&tranche, now(world), |seq| seq == 1).again;
    (outcomes.again[0].error, outcomes.again[0].error_code) = (GIVEN.to_owned(), GIVEN.to_owned());
    assert_eq!(kept(&worker.record(outcomes).await), (None, LineSet::new()));

    let result = results(store, batch).await.remove(0).result;
    let attempts = store.attempts(&Scope::All, batch, 2).await.unwrap();
    let texts =
        [result.custom_id, result.error, result.shaped, result.normalised].into_iter().chain([
            result.error_code,
            Some(attempts[0].error.clone()),
            Some(attempts[0].error_code.clone()),
        ]);
    for text in texts.map(|text| text.expect("it was given")) {
        assert!(text == GIVEN || text == GIVEN.replace('\0', "\u{FFFD}"), "{text:?}");
    }
    check(store, batch).await;
}

/// What has no outcome stays leased; the reply says what is left, with a higher version.
pub async fn lines_without_an_outcome_stay_leased(world: &impl World) {
    let store = world.store();
    let batch = batch_of(store, "ada", 6).await;
    let worker = Worker::on(store);
    let tranche = worker.take(6).await;
    let before = tranche.lease.held.clone();
    let reply = worker.record(finished_some(&tranche, Status::Completed, |seq| seq % 2 == 0)).await;
    let (held, ignored) = kept(&reply);
    let held = held.expect("three are left");
    assert_eq!((held.id, held.token), (before.id, before.token));
    assert!(held.version > before.version);
    assert_eq!((held.outstanding.to_string(), ignored), ("1,3,5".to_owned(), LineSet::new()));
    assert!(reply.finalizing.is_empty() && reply.claimed.is_none());
    check(store, batch).await;

    let rest = Outcomes {
        finished: [1, 3, 5].map(|seq| Finished::bare(seq, seq + 1, Status::Skipped, 1)).into(),
        ..Outcomes::of(held)
    };
    let reply = worker.record(rest.clone()).await;
    assert_eq!(kept(&reply), (None, LineSet::new()), "nothing is outstanding: the lease is gone");
    assert_eq!(reply.finalizing, [batch]);
    assert!(is_lost(&worker.record(rest).await), "it ended already");
    check(store, batch).await;
}

/// Each of the four outcomes is counted as itself.
pub async fn each_status_is_counted(world: &impl World) {
    let store = world.store();
    let batch = batch_of(store, "ada", 10).await;
    let worker = Worker::on(store);
    for (lines, status) in (1..).zip(Status::ALL) {
        let tranche = worker.take(lines).await;
        worker.finish(&tranche, status).await;
        check(store, batch).await;
    }
    let counts = counts(store, batch).await;
    let each = (counts.completed, counts.failed, counts.not_found, counts.skipped);
    assert_eq!(each, (1, 2, 3, 4));
}

/// A result sent with a token that was taken back is refused and changes nothing.
pub async fn a_stale_token_cannot_record(world: &impl World) {
    let store = world.store();
    let batch = batch_of(store, "ada", 4).await;
    let (zombie, heir) = (Worker::on(store), Worker::on(&world.another().await));
    let old = zombie.take(4).await;
    pass(world, LEASE_MS);
    assert_eq!(store.return_lost(10, 3).await.unwrap().returned, 4);
    let new = heir.take(2).await;
    let before = store.verify(batch).await.unwrap();

    for outcomes in [
        finished(&old, Status::Failed),
        again(&old, now(world)),
        released(&old, seqs(&old)),
        Outcomes::of(old.lease.held.clone()),
    ] {
        let reply = zombie.record(outcomes).await;
        assert_eq!(reply.folds, [Fold::Lost { lease: old.lease.held.id }]);
        assert_eq!(store.verify(batch).await.unwrap(), before, "nothing was recorded");
    }
    assert!(results(store, batch).await.is_empty());
    assert!(store.attempts(&Scope::All, batch, 1).await.unwrap().is_empty());
    heir.complete(&new).await;
    check(store, batch).await;
}

/// A lease is its holder's: another instance with the same proof, a wrong token, and a lease that
/// never was are all lost.
pub async fn only_the_holder_can_record(world: &impl World) {
    let store = world.store();
    let batch = batch_of(store, "ada", 2).await;
    let worker = Worker::on(store);
    let tranche = worker.take(2).await;
    let good = finished(&tranche, Status::Completed);
    let reply = store.record(InstanceId::new(), vec![good.clone()]).await.unwrap();
    assert!(is_lost(&reply), "another instance");
    for edit in [
        |held: &mut LeaseProof| held.token += 1,
        |held: &mut LeaseProof| held.token = held.token.saturating_sub(1),
        |held: &mut LeaseProof| held.id = LeaseId::new(),
    ] {
        let mut wrong = good.clone();
        edit(&mut wrong.held);
        assert!(is_lost(&worker.record(wrong).await));
    }
    assert_eq!(counts(store, batch).await.leased, 2);
    check(store, batch).await;
    assert!(!is_lost(&worker.record(good).await));
}

/// The same turn again changes nothing: not a row, not a count, not a version.
pub async fn a_repeated_record_changes_nothing(world: &impl World) {
    let store = world.store();
    let batch = batch_of(store, "ada", 6).await;
    let worker = Worker::on(store);
    let tranche = worker.take(6).await;
    let mut outcomes = finished_some(&tranche, Status::Completed, |seq| seq < 2);
    outcomes.again = again_some(&tranche, later(world, 9000), |seq| seq == 2).again;
    outcomes.released = LineSet::range(3, 3);
    let (first, _) = kept(&worker.record(outcomes.clone()).await);
    let (rows, places) = (results(store, batch).await, store.verify(batch).await.unwrap());
    pass(world, 1000);
    for _ in 0..2 {
        let (again, ignored) = kept(&worker.record(outcomes.clone()).await);
        assert_eq!(again, first, "the same lease, the same version");
        assert_eq!(ignored.to_string(), "0-3");
    }
    assert_eq!(results(store, batch).await, rows);
    assert_eq!(store.verify(batch).await.unwrap(), places);
    assert_eq!(store.attempts(&Scope::All, batch, 3).await.unwrap().len(), 1);
    check(store, batch).await;
}

/// Outcomes for lines that are not outstanding are dropped and named; the others count.
pub async fn lines_that_are_not_outstanding_are_ignored(world: &impl World) {
    let store = world.store();
    let batch = batch_of(store, "ada", 10).await;
    let worker = Worker::on(store);
    let tranche = worker.take(3).await;
    let mut outcomes = finished(&tranche, Status::Completed);
    outcomes.finished.push(Finished::bare(7, 8, Status::Failed, 1));
    outcomes.released = LineSet::range(9, 12);
    let (held, ignored) = kept(&worker.record(outcomes).await);
    assert_eq!((held, ignored.to_string()), (None, "7,9-12".to_owned()));
    let counts = counts(store, batch).await;
    assert_eq!((counts.completed, counts.failed, counts.untouched), (3, 0, 7));
    check(store, batch).await;
}

/// An old version with the right token counts for what is still outstanding, and only for that.
pub async fn an_old_version_counts_for_what_is_outstanding(world: &impl World) {
    let store = world.store();
    let batch = batch_of(store, "ada", 6).await;
    let worker = Worker::on(store);
    let tranche = worker.take(6).await;
    worker.record(finished_some(&tranche, Status::Completed, |seq| seq < 3)).await;
    let late = finished_some(&tranche, Status::Failed, |seq| (1..5).contains(&seq));
    let (held, ignored) = kept(&worker.record(late).await);
    assert_eq!(held.expect("one is left").outstanding.to_string(), "5");
    assert_eq!(ignored.to_string(), "1-2");
    let counts = counts(store, batch).await;
    assert_eq!((counts.completed, counts.failed, counts.leased), (3, 2, 1));
    check(store, batch).await;
}

/// What the caller believes to be outstanding decides nothing.
pub async fn the_callers_belief_decides_nothing(world: &impl World) {
    let store = world.store();
    let batch = batch_of(store, "ada", 8).await;
    let worker = Worker::on(store);
    let tranche = worker.take(4).await;
    let mut outcomes = finished_some(&tranche, Status::Completed, |seq| seq == 0);
    outcomes.held.outstanding = LineSet::range(0, 7);
    let (held, _) = kept(&worker.record(outcomes).await);
    assert_eq!(held.expect("three are left").outstanding.to_string(), "1-3");
    check(store, batch).await;
    let mut outcomes = finished_some(&tranche, Status::Completed, |seq| seq == 1);
    outcomes.held.outstanding = LineSet::new();
    let (held, _) = kept(&worker.record(outcomes).await);
    assert_eq!(held.expect("two are left").outstanding.to_string(), "2-3");
    check(store, batch).await;
}

/// One line cannot have two outcomes in a turn; nothing of such a turn is recorded.
pub async fn a_line_with_two_outcomes_is_invalid(world: &impl World) {
    let store = world.store();
    let batch = batch_of(store, "ada", 8).await;
    let worker = Worker::on(store);
    let (tranche, other) = (worker.take(4).await, worker.take(4).await);
    let done = finished(&tranche, Status::Completed);
    let mut twice = done.clone();
    twice.finished.push(Finished::bare(0, 1, Status::Failed, 1));
    let mut also_again = done.clone();
    also_again.again = again_some(&tranche, now(world), |seq| seq == 2).again;
    let mut also_released = done.clone();
    also_released.released = LineSet::range(3, 3);
    let mut again_twice = again(&tranche, now(world));
    again_twice.again.extend(again_some(&tranche, now(world), |seq| seq == 1).again);
    for wrong in [twice, also_again, also_released, again_twice] {
        let turn = vec![finished(&other, Status::Completed), wrong];
        let refused = store.record(worker.instance, turn).await;
        assert_eq!(kind(refused), Kind::Invalid);
        assert_eq!(counts(store, batch).await.leased, 8, "nothing half-written");
        check(store, batch).await;
    }
}

/// One number of a line for two of its lease, for lines of two leases, or for a line after another
/// one has it: a conflict, and nothing of the turn is recorded.
pub async fn one_line_number_for_two_lines_is_a_conflict(world: &impl World) {
    let store = world.store();
    let batch = batch_of(store, "ada", 6).await;
    let worker = Worker::on(store);
    let (one, two) = (worker.take(3).await, worker.take(3).await);
    let [first, second] = [&one, &two].map(|tranche| finished(tranche, Status::Completed));
    let mut double = first.clone();
    double.finished[1].line = 1;
    let refused = store.record(worker.instance, vec![second.clone(), double]).await;
    assert_eq!(kind(refused), Kind::Conflict, "twice in a lease");
    let mut foreign = second.clone();
    foreign.finished[2].line = 1;
    let refused = store.record(worker.instance, vec![first.clone(), foreign.clone()]).await;
    assert_eq!(kind(refused), Kind::Conflict, "in two leases");
    assert_eq!(counts(store, batch).await.leased, 6, "nothing was recorded");
    assert!(results(store, batch).await.is_empty());
    check(store, batch).await;

    worker.record(first).await;
    let refused = store.record(worker.instance, vec![foreign]).await;
    assert_eq!(kind(refused), Kind::Conflict, "after another one has it");
    assert_eq!(counts(store, batch).await.leased, 3);
    assert_eq!(worker.record(second).await.finalizing, [batch], "the right numbers are taken");
    has_one_result_per_line(store, batch, 6).await;
    check(store, batch).await;
}

/// A turn names each lease once, and no more leases than the bound.
pub async fn a_turn_names_each_lease_once_and_not_too_many(world: &impl World) {
    let store = world.store();
    let batch = batch_of(store, "ada", 100).await;
    let worker = Worker::on(store);
    let mut tranches = Vec::new();
    for _ in 0..=TURN_LEASES_MAX {
        tranches.push(worker.take(1).await);
    }
    let all: Vec<_> = tranches.iter().map(|held| finished(held, Status::Completed)).collect();
    let double = vec![all[0].clone(), all[1].clone(), all[0].clone()];
    assert_eq!(kind(store.record(worker.instance, double).await), Kind::Invalid);
    assert_eq!(kind(store.record(worker.instance, all.clone()).await), Kind::Invalid);
    assert_eq!(counts(store, batch).await.completed, 0);
    let reply = worker.record_all(all[..TURN_LEASES_MAX].to_vec()).await;
    assert_eq!(reply.folds.len(), TURN_LEASES_MAX);
    assert_eq!(counts(store, batch).await.completed, TURN_LEASES_MAX as u64);
    check(store, batch).await;
}

/// A turn happens whole or not at all: a claim out of bounds takes the outcomes with it.
pub async fn a_turn_with_a_bad_claim_records_nothing(world: &impl World) {
    let store = world.store();
    let batch = batch_of(store, "ada", 8).await;
    let worker = Worker::on(store);
    let tranche = worker.take(4).await;
    let done = finished(&tranche, Status::Completed);
    let bad = Request { lines_max: 0, ..request(&[MODEL], 1) };
    let refused = store.turn(turn(worker.instance, done.clone(), bad)).await;
    assert_eq!(kind(refused), Kind::Invalid);
    assert_eq!(counts(store, batch).await.leased, 4);
    let theirs = request(&[MODEL], 1);
    Worker::on(store).ask(theirs.clone()).await.expect("a line");
    let refused = store.turn(turn(worker.instance, done, theirs)).await;
    assert_eq!(kind(refused), Kind::Conflict, "a lease id that is another's");
    assert_eq!(counts(store, batch).await.completed, 0);
    check(store, batch).await;
}

/// A turn records and claims in one; what it gave back it may claim again at once.
pub async fn a_turn_records_and_claims(world: &impl World) {
    let store = world.store();
    let batch = batch_of(store, "ada", 8).await;
    let worker = Worker::on(store);
    let tranche = worker.take(4).await;
    let mut outcomes = finished_some(&tranche, Status::Completed, |seq| seq < 3);
    outcomes.released = LineSet::range(3, 3);
    let next = request(&[MODEL], 10);
    let reply = store.turn(turn(worker.instance, outcomes, next.clone())).await.unwrap();
    assert_eq!(kept(&reply), (None, LineSet::new()));
    let claimed = reply.claimed.expect("lines are left");
    assert_eq!((claimed.lease.held.id, seqs(&claimed).to_string()), (next.lease, "3".to_owned()));
    assert_eq!(claimed.lease.attempts, 0);
    check(store, batch).await;
    let done = finished(&claimed, Status::Completed);
    let reply = store.turn(turn(worker.instance, done, request(&[MODEL], 10))).await.unwrap();
    assert_eq!(seqs(&reply.claimed.expect("untouched lines")).to_string(), "4-7");
    check(store, batch).await;
}

/// One turn folds several leases of several batches and lanes, answers in the order asked, and a
/// lost one among them takes nothing with it.
pub async fn a_turn_folds_many_leases_in_order(world: &impl World) {
    let store = world.store();
    let sheet = Sheet::of("ada").rounds(&[MODEL, "model-b"], 4);
    let file = sheet.seal(store).await;
    let one = store.create_batch(run_over(file, "ada")).await.unwrap().id;
    let two = store.create_batch(run_over(file, "ada")).await.unwrap().id;
    let worker = Worker::on(store);
    let mut held = Vec::new();
    while let Some(tranche) = worker.ask(request(&[MODEL, "model-b"], 3)).await {
        held.push(tranche);
    }
    assert_eq!(held.len(), 8);
    Dice::seeded(7).shuffle(&mut held);
    let lost = held[3].lease.held.id;
    store.release_leases(worker.instance, vec![lost]).await.unwrap();

    let outcomes = held.iter().map(|tranche| finished(tranche, Status::Completed)).collect();
    let reply = worker.record_all(outcomes).await;
    for (fold, tranche) in reply.folds.iter().zip(&held) {
        let id = tranche.lease.held.id;
        match fold {
            Fold::Lost { lease } => assert!(*lease == id && id == lost, "{fold:?}"),
            Fold::Kept { lease, held, ignored } => {
                assert!(*lease == id && held.is_none() && ignored.is_empty(), "{fold:?}");
            }
        }
    }
    assert_eq!(reply.folds.len(), 8);
    let (whole, part) = if held[3].lease.batch == one { (two, one) } else { (one, two) };
    assert_eq!(reply.finalizing, [whole], "the other one has released lines left");
    check(store, one).await;
    check(store, two).await;
    let finalizing = worker.drain(part, &[MODEL, "model-b"]).await;
    assert_eq!(finalizing, [part]);
    check(store, part).await;
}

/// A line to try again waits in its bucket, never less than asked, with one more try behind it and
/// a row of history.
pub async fn a_retry_is_kept_in_the_history(world: &impl World) {
    let store = world.store();
    let batch = batch_of(store, "ada", 1).await;
    let worker = Worker::on(store);
    let mut told = Vec::new();
    for (attempt, class) in (1..).zip(Class::ALL) {
        let tranche = worker.take(1).await;
        assert_eq!(tranche.lease.attempts, attempt - 1);
        let not_before = later(world, 1001);
        let line = Again {
            seq: 0,
            line: 1,
            not_before,
            class,
            error_code: format!("code_{attempt}"),
            error: format!("sentence {attempt} — ü"),
        };
        let outcomes =
            Outcomes { again: vec![line.clone()], ..Outcomes::of(tranche.lease.held.clone()) };
        let (held, ignored) = kept(&worker.record(outcomes).await);
        assert!(held.is_none() && ignored.is_empty());
        told.push((line, now(world)));
        check(store, batch).await;
        pass(world, 1000);
        assert_eq!(worker.claim(1).await, None, "never earlier than asked");
        pass(world, 251);
        assert!(now(world) >= bucket(not_before));
    }
    let attempts = store.attempts(&scope("ada"), batch, 1).await.unwrap();
    assert_eq!(attempts.len(), Class::ALL.len());
    for ((attempt, row), (line, at)) in (1..).zip(&attempts).zip(&told) {
        assert_eq!((row.generation, row.attempt, row.class), (0, attempt, line.class));
        assert_eq!((&row.error_code, &row.error), (&line.error_code, &line.error));
        assert!(row.not_before >= line.not_before && row.not_before <= bucket(line.not_before));
        assert_eq!(row.created_at, *at);
    }
}

/// A line that the batch does not have is missing; one without history has an empty one, wherever it is.
pub async fn the_history_of_a_line_that_is_not_there_is_missing(world: &impl World) {
    let store = world.store();
    let batch = batch_of(store, "ada", 5).await;
    let worker = Worker::on(store);
    let tranche = worker.take(2).await;
    worker.finish(&tranche, Status::Completed).await;
    for line in 1..=5 {
        assert_eq!(store.attempts(&scope("ada"), batch, line).await.unwrap(), [], "{line}");
    }
    for line in [0, 6, 9_999, u64::MAX] {
        assert_eq!(kind(store.attempts(&scope("ada"), batch, line).await), Kind::Missing, "{line}");
    }
    let query = FinishedQuery { batch: Some(batch), limit: 10, ..FinishedQuery::default() };
    let lines = |page: Page<FinishedLine>| -> Vec<u64> {
        page.rows.iter().map(|line| line.result.line).collect()
    };
    for (line, wanted) in [(1, vec![1]), (2, vec![2]), (3, vec![]), (u64::MAX, vec![])] {
        let query = FinishedQuery { line: Some(line), ..query.clone() };
        assert_eq!(lines(store.finished(&scope("ada"), query).await.unwrap()), wanted);
    }
    let query = FinishedQuery { custom_id: Some("nobody".to_owned()), ..query };
    assert_eq!(lines(store.finished(&scope("ada"), query).await.unwrap()), [0; 0]);
}

/// Releasing a line counts no try; retrying one does; they are not mixed in one tranche.
pub async fn a_released_line_has_no_try_counted(world: &impl World) {
    let store = world.store();
    let batch = batch_of(store, "ada", 4).await;
    let worker = Worker::on(store);
    let tranche = worker.take(4).await;
    let mut outcomes = again_some(&tranche, now(world), |seq| seq < 2);
    outcomes.released = LineSet::range(2, 3);
    worker.record(outcomes).await;
    pass(world, 1000);
    let mut got = Vec::new();
    while let Some(tranche) = worker.claim(4).await {
        got.push((seqs(&tranche).to_string(), tranche.lease.attempts));
    }
    got.sort();
    assert_eq!(got, [("0-1".to_owned(), 1), ("2-3".to_owned(), 0)]);
    assert!(store.attempts(&Scope::All, batch, 3).await.unwrap().is_empty());
    check(store, batch).await;
}

/// A batch is reported as finalizing by the turn that made its last lane done, and by no other.
pub async fn the_last_line_reports_finalizing_once(world: &impl World) {
    let store = world.store();
    let batch = Sheet::of("ada").lines(MODEL, 2).lines("model-b", 1).run(store).await;
    let worker = Worker::on(store);
    let (first, second) = (worker.take(1).await, worker.take(1).await);
    let third = worker.ask(request(&["model-b"], 1)).await.expect("a line");
    assert!(worker.complete(&third).await.finalizing.is_empty());
    assert!(worker.complete(&first).await.finalizing.is_empty());
    let last = finished(&second, Status::Failed);
    assert_eq!(worker.record(last.clone()).await.finalizing, [batch]);
    assert!(worker.record(last).await.finalizing.is_empty(), "a repeat reports nothing");
    let state = store.batch(&Scope::All, batch).await.unwrap().state;
    assert_eq!(state, State::Finalizing(windrow_domain::Ending::Completed));
    check(store, batch).await;
}

/// An empty turn is a turn: nothing happens.
pub async fn an_empty_turn_does_nothing(world: &impl World) {
    let store = world.store();
    let worker = Worker::on(store);
    let empty = Turn { instance: worker.instance, outcomes: Vec::new(), claim: None };
    let reply = store.turn(empty).await.unwrap();
    assert!(reply.folds.is_empty() && reply.claimed.is_none() && reply.finalizing.is_empty());
    let batch = batch_of(store, "ada", 2).await;
    let tranche = worker.take(2).await;
    let (held, ignored) = kept(&worker.record(Outcomes::of(tranche.lease.held.clone())).await);
    assert_eq!((held, ignored), (Some(tranche.lease.held), LineSet::new()));
    check(store, batch).await;
}

/// Two batches of one file run side by side: a result of one is none of the other.
pub async fn two_batches_of_one_file_do_not_mix(world: &impl World) {
    let store = world.store();
    let file = Sheet::of("ada").lines(MODEL, 5).seal(store).await;
    let worker = Worker::on(store);
    let mut ids: Vec<BatchId> = Vec::new();
    for _ in 0..2 {
        ids.push(store.create_batch(run_over(file, "ada")).await.unwrap().id);
    }
    let first = worker.claim_only(ids[0], &[MODEL], 5).await.expect("five lines");
    let second = worker.claim_only(ids[1], &[MODEL], 5).await.expect("the same five lines");
    assert_eq!(seqs(&first), seqs(&second));
    worker.finish(&first, Status::Failed).await;
    assert!(results(store, ids[1]).await.is_empty());
    worker.finish(&second, Status::Completed).await;
    for (id, status) in ids.iter().zip([Status::Failed, Status::Completed]) {
        let rows = results(store, *id).await;
        assert!(rows.len() == 5 && rows.iter().all(|row| row.result.status == status));
        check(store, *id).await;
    }
}
