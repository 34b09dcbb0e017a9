//! Claiming: which lines one instance gets, for how long, and how it gives them back.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::task::JoinSet;
use windrow_domain::attempt::Status;
use windrow_domain::lease::TRANCHE_LINES_MAX;
use windrow_domain::{BatchId, InstanceId, LeaseId, LineSet, Route, State, UpstreamId};
use windrow_store::claim::{LEASE_MS_MAX, Request, TARGETS_MAX, Tranche};
use windrow_store::error::{Kind, Retry};
use windrow_store::{Batches, Claim, Inspect, Store, Sweep, Time};

use crate::World;
use crate::fixture::*;

/// A tranche holds the lowest lines with their numbers and bytes, and a lease that says everything.
pub async fn a_tranche_holds_the_next_lines_with_their_bytes(world: &impl World) {
    let store = world.store();
    let sheet = Sheet::of("ada").lines(MODEL, 5);
    let batch = sheet.run(store).await;
    let worker = Worker::on(store);
    let asked = request(&[MODEL], 3);
    let tranche = worker.ask(asked.clone()).await.expect("three lines");

    let lease = &tranche.lease;
    assert_eq!((lease.held.id, lease.instance), (asked.lease, worker.instance));
    assert_eq!((lease.batch, lease.file, lease.lane), (batch, sheet.id, 0));
    assert_eq!(lease.target, target(MODEL));
    assert_eq!((lease.attempts, lease.crashes, lease.generation), (0, 0, 0));
    assert_eq!(lease.granted_at, now(world));
    assert_eq!(lease.expires_at, later(world, LEASE_MS));
    assert_eq!(lease.held.outstanding, LineSet::range(0, 2));
    let wrote = &sheet.chunks()[0].lines;
    for (line, wrote) in tranche.lines.iter().zip(wrote) {
        assert_eq!((line.seq, line.line, &line.raw), (wrote.seq, wrote.line, &wrote.raw));
    }
    assert_eq!(tranche.lines.len(), 3);
    check(store, batch).await;
}

/// Claims by several instances, one after the other, give every line to exactly one of them.
pub async fn two_instances_never_share_a_line(world: &impl World) {
    let store = world.store();
    let batch = batch_of(store, "ada", 25).await;
    let workers = [Worker::on(store), Worker::on(&world.another().await)];
    let mut seen = BTreeSet::new();
    for turn in 0..9 {
        let tranche = workers[turn % 2].claim(3).await;
        let Some(tranche) = tranche else { panic!("lines are left at turn {turn}") };
        for seq in seqs(&tranche).iter() {
            assert!(seen.insert(seq), "line {seq} was given twice");
        }
        check(store, batch).await;
    }
    assert_eq!(seen.len(), 25);
    assert_eq!(workers[0].claim(3).await, None);
}

/// With nothing to claim the answer is none, not an error.
pub async fn nothing_to_claim_is_none(world: &impl World) {
    let store = world.store();
    let worker = Worker::on(store);
    assert_eq!(worker.claim(10).await, None, "an empty store");
    let batch = batch_of(store, "ada", 2).await;
    assert_eq!(worker.ask(request(&["model-b"], 10)).await, None, "another target");
    assert_eq!(worker.claim_only(BatchId::new(), &[MODEL], 10).await, None, "no such batch");
    let held = worker.take(10).await;
    assert_eq!(worker.claim(10).await, None, "all is leased");
    worker.complete(&held).await;
    assert_eq!(worker.claim(10).await, None, "all is finished");
    assert_eq!(worker.claim_only(batch, &[MODEL], 10).await, None);
}

/// A repeat with the same lease id finds the lease there and takes nothing more.
pub async fn a_repeated_claim_finds_its_lease(world: &impl World) {
    let store = world.store();
    let batch = batch_of(store, "ada", 10).await;
    let worker = Worker::on(store);
    let asked = request(&[MODEL], 4);
    let first = worker.ask(asked.clone()).await.expect("four lines");
    pass(world, 1000);
    let second = worker.ask(asked.clone()).await.expect("the same four");
    assert_eq!((&second.lease.held, &second.lines), (&first.lease.held, &first.lines));
    assert_eq!(second.lease.granted_at, first.lease.granted_at);
    assert_eq!(counts(store, batch).await.leased, 4);

    let reply = worker.record(finished_some(&first, Status::Completed, |seq| seq < 3)).await;
    let third = worker.ask(asked).await.expect("what is outstanding");
    assert_eq!(kept(&reply).0.as_ref(), Some(&third.lease.held));
    assert_eq!(third.lines, first.lines[3..], "only the outstanding line");
    assert_eq!(counts(store, batch).await.untouched, 6);
    check(store, batch).await;
}

/// The same claim sent twice at the same moment gives both the same tranche, or tells one to try
/// again; there is one lease.
pub async fn a_claim_sent_twice_at_once_gives_one_lease(world: &impl World) {
    let (store, other) = (world.store(), world.another().await);
    let batch = batch_of(store, "ada", 200).await;
    let worker = Worker::on(store);
    for round in 0..40 {
        let asked = request(&[MODEL], 4);
        let sent = [store, &other]
            .map(|store| send_claim(store.clone(), worker.instance, asked.clone()))
            .into_iter()
            .collect::<JoinSet<_>>();
        let mut tranches = Vec::new();
        for answer in sent.join_all().await {
            match answer {
                Ok(tranche) => tranches.push(tranche.expect("lines are left")),
                Err(error) => {
                    let again = error.kind.retry() == Retry::AtOnce;
                    assert!(again, "round {round}: {}", whole_text(&error));
                }
            }
        }
        assert!(!tranches.is_empty(), "round {round}: one of them gets it");
        tranches.push(worker.ask(asked).await.expect("a repeat finds it"));
        for tranche in &tranches {
            assert_eq!(tranche.lease.held, tranches[0].lease.held, "round {round}");
            assert_eq!(tranche.lines, tranches[0].lines, "round {round}");
        }
        assert_eq!(counts(store, batch).await.leased, 4, "round {round}: one lease");
        worker.complete(&tranches[0]).await;
        check(store, batch).await;
    }
}

async fn send_claim<S: Store>(
    store: S,
    instance: InstanceId,
    asked: Request,
) -> windrow_store::Result<Option<Tranche>> {
    store.lease_tranche(instance, asked).await
}

/// The lease id of another instance cannot be claimed with.
pub async fn another_instances_lease_id_is_a_conflict(world: &impl World) {
    let store = world.store();
    let batch = batch_of(store, "ada", 10).await;
    let asked = request(&[MODEL], 4);
    Worker::on(store).ask(asked.clone()).await.expect("four lines");
    let stolen = store.lease_tranche(InstanceId::new(), asked).await;
    assert_eq!(kind(stolen), Kind::Conflict);
    assert_eq!(counts(store, batch).await.leased, 4);
    check(store, batch).await;
}

/// Each field of a claim has bounds, and the error names the field.
pub async fn a_claim_out_of_bounds_is_invalid(world: &impl World) {
    let store = world.store();
    let batch = batch_of(store, "ada", 3).await;
    let good = request(&[MODEL], 1);
    let many = vec![target(MODEL).into(); TARGETS_MAX + 1];
    let unknown = vec![Route::new(UpstreamId::unknown(), target(MODEL))];
    let wrong = [
        ("lines_max", Request { lines_max: 0, ..good.clone() }),
        ("lines_max", Request { lines_max: TRANCHE_LINES_MAX + 1, ..good.clone() }),
        ("lines_max", Request { lines_max: u32::MAX, ..good.clone() }),
        ("lease_ms", Request { lease_ms: 0, ..good.clone() }),
        ("lease_ms", Request { lease_ms: LEASE_MS_MAX + 1, ..good.clone() }),
        ("lease_ms", Request { lease_ms: u64::MAX, ..good.clone() }),
        ("routes", Request { routes: Vec::new(), ..good.clone() }),
        ("routes", Request { routes: many, ..good.clone() }),
        ("routes", Request { routes: unknown, ..good.clone() }),
    ];
    for (field, request) in wrong {
        let error = store.lease_tranche(InstanceId::new(), request).await.unwrap_err();
        assert_eq!(error.kind, Kind::Invalid, "{field}");
        let text = whole_text(&error);
        assert!(text.contains(field), "{text:?} names {field}");
    }
    assert_eq!(counts(store, batch).await.untouched, 3);
    let names: Vec<_> = (1..TARGETS_MAX).map(|no| format!("other-{no}")).collect();
    let mut routes: Vec<Route> = names.iter().map(|name| target(name).into()).collect();
    routes.push(target(MODEL).into());
    let most = Request {
        routes,
        lines_max: TRANCHE_LINES_MAX,
        lease_ms: LEASE_MS_MAX,
        ..request(&[MODEL], 1)
    };
    assert_eq!(Worker::on(store).ask(most).await.expect("the bounds are allowed").lines.len(), 3);
    check(store, batch).await;
}

/// A tranche is of one lane: lines of two targets or two batches never share one.
pub async fn a_tranche_is_of_one_lane(world: &impl World) {
    let store = world.store();
    let sheet = Sheet::of("ada").rounds(&[MODEL, "model-b"], 3);
    let file = sheet.seal(store).await;
    let one = store.create_batch(run_over(file, "ada")).await.unwrap().id;
    let two = store.create_batch(run_over(file, "ada")).await.unwrap().id;
    let worker = Worker::on(store);
    let mut lanes = BTreeSet::new();
    while let Some(tranche) = worker.ask(request(&[MODEL, "model-b"], 100)).await {
        assert_eq!(seqs(&tranche), LineSet::range(0, 2));
        let odd = tranche.lease.target == target(MODEL);
        assert!(tranche.lines.iter().all(|line| (line.line % 2 == 1) == odd), "{tranche:?}");
        assert!(lanes.insert((tranche.lease.batch, tranche.lease.lane)));
    }
    assert_eq!(lanes, BTreeSet::from([(one, 0), (one, 1), (two, 0), (two, 1)]));
    check(store, one).await;
    check(store, two).await;
}

/// A claim bound to one batch takes from no other, however urgent.
pub async fn a_claim_for_one_batch_takes_from_no_other(world: &impl World) {
    let store = world.store();
    let first = batch_of(store, "ada", 2).await;
    let second = batch_of(store, "ada", 2).await;
    let worker = Worker::on(store);
    for (batch, left) in [(second, true), (second, false), (first, true), (first, false)] {
        let tranche = worker.claim_only(batch, &[MODEL], 10).await;
        assert_eq!(tranche.is_some(), left);
        assert!(tranche.is_none_or(|tranche| tranche.lease.batch == batch));
    }
}

/// Tokens rise with every grant, over all leases and instances.
pub async fn tokens_rise_with_every_grant(world: &impl World) {
    let store = world.store();
    batch_of(store, "ada", 30).await;
    let workers = [Worker::on(store), Worker::on(&world.another().await)];
    let mut last = None;
    for turn in 0..10 {
        let worker = &workers[turn % 2];
        let tranche = worker.take(2).await;
        let token = Some(tranche.lease.held.token);
        assert!(token > last, "{token:?} after {last:?}");
        last = token;
        if turn % 3 == 0 {
            store.release_leases(worker.instance, vec![tranche.lease.held.id]).await.unwrap();
        }
    }
}

/// A lease id that came back and is granted again has another token, so the old proof is void.
pub async fn a_lease_id_granted_again_has_a_new_token(world: &impl World) {
    let store = world.store();
    let batch = batch_of(store, "ada", 2).await;
    let worker = Worker::on(store);
    let asked = request(&[MODEL], 2);
    let old = worker.ask(asked.clone()).await.expect("two lines");
    pass(world, LEASE_MS);
    store.return_lost(10, 3).await.unwrap();
    let mut fresh = Vec::new();
    while let Some(tranche) = worker.claim_only(batch, &[MODEL], 1).await {
        fresh.push(tranche);
    }
    for tranche in fresh.drain(..) {
        store.release_leases(worker.instance, vec![tranche.lease.held.id]).await.unwrap();
    }
    let new = worker.ask(asked).await.expect("a line");
    assert_eq!(new.lease.held.id, old.lease.held.id);
    assert!(new.lease.held.token > old.lease.held.token);
    assert!(is_lost(&worker.complete(&old).await), "the old proof is void");
    assert_eq!(counts(store, batch).await.completed, 0);
    check(store, batch).await;
}

/// Extending moves the end of the named leases, so that nobody takes them back.
pub async fn an_extended_lease_is_not_taken_back(world: &impl World) {
    let store = world.store();
    let batch = batch_of(store, "ada", 4).await;
    let worker = Worker::on(store);
    let held = worker.take(2).await;
    pass(world, LEASE_MS - 1);
    let ids = vec![held.lease.held.id];
    let extended = store.extend_leases(worker.instance, ids.clone(), LEASE_MS).await.unwrap();
    assert_eq!(
        (extended.extended, extended.lost, extended.released),
        (ids.clone(), vec![], vec![])
    );
    pass(world, LEASE_MS - 1);
    assert_eq!(store.return_lost(10, 3).await.unwrap().leases, 0);
    pass(world, 1);
    let extended = store.extend_leases(worker.instance, ids, LEASE_MS).await.unwrap();
    assert_eq!(extended.extended.len(), 1, "late, but nobody took it");
    assert_eq!(store.return_lost(10, 3).await.unwrap().leases, 0);
    assert!(!is_lost(&worker.complete(&held).await), "extending changed no proof");
    check(store, batch).await;
}

/// Extending says which leases are lost: taken back, finished, another's, or never there.
pub async fn extending_says_what_is_lost(world: &impl World) {
    let store = world.store();
    let batch = batch_of(store, "ada", 8).await;
    let (worker, other) = (Worker::on(store), Worker::on(store));
    let taken_back = worker.take(2).await.lease.held.id;
    pass(world, LEASE_MS);
    store.return_lost(10, 3).await.unwrap();
    let done = worker.take(1).await;
    worker.complete(&done).await;
    let good = worker.take(1).await.lease.held.id;
    let theirs = other.take(1).await.lease.held.id;
    let never = LeaseId::new();

    let known = vec![taken_back, done.lease.held.id, good, theirs, never];
    let said = store.extend_leases(worker.instance, known, LEASE_MS).await.unwrap();
    assert_eq!((said.extended, said.released), (vec![good], vec![]));
    let lost: BTreeSet<_> = said.lost.into_iter().collect();
    assert_eq!(lost, BTreeSet::from([taken_back, done.lease.held.id, theirs, never]));
    assert_eq!(counts(store, batch).await.leased, 2, "another's lease is not touched");
    check(store, batch).await;
}

/// A lease the instance does not know of is released: no attempt, no crash.
pub async fn leases_the_instance_forgot_are_released(world: &impl World) {
    let store = world.store();
    let batch = batch_of(store, "ada", 6).await;
    let (worker, other) = (Worker::on(store), Worker::on(store));
    let known = worker.take(2).await;
    let forgotten = worker.take(2).await;
    let theirs = other.take(2).await;
    let ids = vec![known.lease.held.id];
    let said = store.extend_leases(worker.instance, ids.clone(), LEASE_MS).await.unwrap();
    assert_eq!((said.extended, said.lost), (ids, vec![]));
    assert_eq!(said.released, [forgotten.lease.held.id]);
    check(store, batch).await;

    assert!(is_lost(&worker.complete(&forgotten).await));
    assert!(!is_lost(&other.complete(&theirs).await), "another's lease is not released");
    let again = worker.take(2).await;
    assert_eq!((seqs(&again), again.lease.attempts, again.lease.crashes), (seqs(&forgotten), 0, 0));
    let said = store.extend_leases(other.instance, Vec::new(), LEASE_MS).await.unwrap();
    assert!(said.released.is_empty() && said.extended.is_empty() && said.lost.is_empty());
    check(store, batch).await;
}

/// The time of an extension has bounds.
pub async fn an_extension_out_of_bounds_is_invalid(world: &impl World) {
    let store = world.store();
    let batch = batch_of(store, "ada", 2).await;
    let worker = Worker::on(store);
    let held = worker.take(2).await;
    for lease_ms in [0, LEASE_MS_MAX + 1, u64::MAX] {
        let ids = vec![held.lease.held.id];
        let refused = store.extend_leases(worker.instance, ids, lease_ms).await;
        assert_eq!(kind(refused), Kind::Invalid);
    }
    let ids = vec![held.lease.held.id];
    store.extend_leases(worker.instance, ids, LEASE_MS_MAX).await.unwrap();
    pass(world, LEASE_MS_MAX - 1);
    assert_eq!(store.return_lost(10, 3).await.unwrap().leases, 0);
    check(store, batch).await;
}

/// Released lines go back untried and can be claimed at once; a repeat finds nothing to release.
pub async fn released_leases_go_back_untried(world: &impl World) {
    let store = world.store();
    let batch = batch_of(store, "ada", 10).await;
    let (worker, other) = (Worker::on(store), Worker::on(store));
    let (first, second) = (worker.take(3).await, worker.take(3).await);
    let theirs = other.take(2).await;
    worker.record(finished_some(&first, Status::Completed, |seq| seq == 0)).await;
    let ids: Vec<_> = [&first, &second, &theirs].map(|tranche| tranche.lease.held.id).into();
    let went = store.release_leases(worker.instance, ids.clone()).await.unwrap();
    assert_eq!(went, 5, "what was outstanding of its own two leases");
    check(store, batch).await;
    assert_eq!(store.release_leases(worker.instance, ids).await.unwrap(), 0);
    let unknown = store.release_leases(worker.instance, vec![LeaseId::new()]).await.unwrap();
    assert_eq!(unknown, 0);
    assert!(is_lost(&worker.complete(&second).await));
    assert!(!is_lost(&other.complete(&theirs).await));

    let back = worker.take(10).await;
    assert_eq!(seqs(&back).to_string(), "1-5");
    assert_eq!((back.lease.attempts, back.lease.crashes), (0, 0));
    check(store, batch).await;
}

/// Returned lines wait for their time, go before untouched ones when it has come, and are not
/// mixed with lines that were tried less often.
pub async fn returned_lines_wait_and_then_go_first(world: &impl World) {
    let store = world.store();
    let batch = batch_of(store, "ada", 10).await;
    let worker = Worker::on(store);
    let tranche = worker.take(3).await;
    worker.record(again(&tranche, later(world, 10_000))).await;
    assert_eq!(seqs(&worker.take(2).await).to_string(), "3-4", "not before their time");
    pass(world, 9_000);
    assert_eq!(seqs(&worker.take(2).await).to_string(), "5-6", "not yet");
    pass(world, 1_250);
    let due = worker.take(5).await;
    assert_eq!(seqs(&due).to_string(), "0-2", "now, before the untouched, and alone");
    assert_eq!(due.lease.attempts, 1);
    assert_eq!(seqs(&worker.take(5).await).to_string(), "7-9");
    check(store, batch).await;
}

/// When nothing is untouched any more, a claim finds returned lines as soon as they are due.
pub async fn a_drained_lane_wakes_when_its_retries_are_due(world: &impl World) {
    let store = world.store();
    let batch = batch_of(store, "ada", 2).await;
    let worker = Worker::on(store);
    let tranche = worker.take(2).await;
    let mut both = again_some(&tranche, later(world, 60_000), |seq| seq == 0);
    both.again.extend(again_some(&tranche, later(world, 5_000), |seq| seq == 1).again);
    worker.record(both).await;
    assert_eq!(worker.claim(2).await, None);
    pass(world, 5_250);
    let early = worker.take(2).await;
    assert_eq!(seqs(&early).to_string(), "1");
    assert_eq!(worker.claim(2).await, None);
    worker.complete(&early).await;
    pass(world, 55_000);
    let late = worker.take(2).await;
    assert_eq!(seqs(&late).to_string(), "0");
    assert_eq!(worker.complete(&late).await.finalizing, [batch]);
    check(store, batch).await;
}

/// The rest of a returned set that is larger than the claim stays returned.
pub async fn a_returned_set_is_split_by_the_claim(world: &impl World) {
    let store = world.store();
    let batch = batch_of(store, "ada", 10).await;
    let worker = Worker::on(store);
    let tranche = worker.take(10).await;
    worker.record(again(&tranche, now(world))).await;
    pass(world, 1000);
    for expected in ["0-3", "4-7", "8-9"] {
        let part = worker.take(4).await;
        assert_eq!(seqs(&part).to_string(), expected);
        assert_eq!(part.lease.attempts, 1);
        check(store, batch).await;
    }
    assert_eq!(worker.claim(4).await, None);
}

/// A batch that ended gives no lines, whatever was left of it.
pub async fn an_ended_batch_gives_no_lines(world: &impl World) {
    let store = world.store();
    let batch = batch_of(store, "ada", 4).await;
    let worker = Worker::on(store);
    let held = worker.take(1).await;
    store.cancel_batch(&scope("ada"), batch).await.unwrap();
    assert_eq!(worker.claim(4).await, None, "cancelling");
    worker.complete(&held).await;
    assert_eq!(worker.claim(4).await, None, "finalizing");
    assert_eq!(worker.close(batch).await.state, State::Cancelled);
    assert_eq!(worker.claim(4).await, None, "cancelled");
    store.delete_batch(&scope("ada"), batch).await.unwrap();
    assert_eq!(worker.claim_only(batch, &[MODEL], 4).await, None, "deleted");
}

/// A tranche may be as large as the bound, and its lines are all there.
pub async fn a_tranche_of_the_largest_size_is_whole(world: &impl World) {
    let store = world.store();
    let batch = batch_of(store, "ada", u64::from(TRANCHE_LINES_MAX) + 1).await;
    let worker = Worker::on(store);
    let tranche = worker.take(TRANCHE_LINES_MAX).await;
    assert_eq!(seqs(&tranche), LineSet::span(0, u64::from(TRANCHE_LINES_MAX)));
    // Every second line goes back: a set with as many ranges as there can be.
    let mut outcomes = finished_some(&tranche, Status::Completed, |seq| seq % 2 == 0);
    outcomes.released =
        tranche.lines.iter().map(|line| line.seq).filter(|seq| seq % 2 == 1).collect();
    worker.record(outcomes).await;
    check(store, batch).await;
    let back = worker.take(TRANCHE_LINES_MAX).await;
    assert_eq!(back.lines.len(), TRANCHE_LINES_MAX as usize / 2, "all of them in one tranche");
    let half = finished_some(&back, Status::Failed, |seq| seq % 4 == 1);
    worker.record(half).await;
    check(store, batch).await;
    world.time().advance(Duration::from_millis(LEASE_MS));
    assert_eq!(store.return_lost(10, 3).await.unwrap().returned, 250);
    check(store, batch).await;
}

/// A clock that goes back a little hides no untouched lines, new ones or others.
pub async fn a_clock_that_goes_back_hides_no_untouched_lines(world: &impl World) {
    let store = world.store();
    let Time::Given(clock) = world.time() else { panic!("the suite runs on a given clock") };
    let go_back = || clock.fetch_sub(10_000_000, Ordering::SeqCst);
    let batch = batch_of(store, "ada", 10).await;
    let worker = Worker::on(store);
    go_back();
    let first = worker.take(2).await;
    assert_eq!(seqs(&first).to_string(), "0-1", "a new batch");
    worker.complete(&first).await;
    go_back();
    assert_eq!(seqs(&worker.take(2).await).to_string(), "2-3", "a lane that was folded");
    store.pause_batch(&scope("ada"), batch, None).await.unwrap();
    store.resume_batch(&scope("ada"), batch, None).await.unwrap();
    go_back();
    assert_eq!(seqs(&worker.take(2).await).to_string(), "4-5", "a batch that was resumed");
    check(store, batch).await;
}

/// Leases that are released or lost moments apart make few rows of returned lines, and what came
/// back can be claimed at once.
pub async fn lines_that_come_back_moments_apart_share_a_row(world: &impl World) {
    const LEASES: u64 = 60;
    let store = world.store();
    let worker = Worker::on(store);
    let rows_of = async |batch| store.verify(batch).await.unwrap().lanes[0].returned.len();
    let moment = || world.time().advance(Duration::from_micros(7));

    let batch = batch_of(store, "ada", 2 * LEASES).await;
    let mut held = Vec::new();
    for _ in 0..LEASES {
        held.push(worker.take(2).await.lease.held.id);
    }
    for id in held {
        moment();
        assert_eq!(store.release_leases(worker.instance, vec![id]).await.unwrap(), 2);
    }
    let rows = rows_of(batch).await;
    assert!(rows <= 2, "{LEASES} releases made {rows} rows");
    let back = worker.take(1000).await;
    assert_eq!(back.lines.len() as u64, 2 * LEASES, "one tranche, at once");
    worker.complete(&back).await;

    let batch = batch_of(store, "ada", 2 * LEASES).await;
    for _ in 0..LEASES {
        worker.take(2).await;
    }
    pass(world, LEASE_MS);
    for _ in 0..LEASES {
        moment();
        assert_eq!(store.return_lost(1, 9).await.unwrap().leases, 1);
    }
    let rows = rows_of(batch).await;
    assert!(rows <= 2, "{LEASES} losses made {rows} rows");
    assert_eq!(worker.take(1000).await.lines.len(), 1, "half of what was lost together, at once");
    check(store, batch).await;
}
