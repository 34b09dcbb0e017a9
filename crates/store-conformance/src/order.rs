//! The order of claims: owners share, then priority, then deadline; and limits of targets hold.

use std::collections::BTreeMap;

use tokio::task::JoinSet;
use windrow_domain::attempt::Status;
use windrow_domain::{BatchId, FileId};
use windrow_store::batch::NewBatch;
use windrow_store::claim::{Request, Tranche};
use windrow_store::record::Outcomes;
use windrow_store::{Batches, Claim, Members, Scope, Store, Sweep};

use crate::World;
use crate::fixture::*;

/// An owner with thousands of lines does not starve one with ten.
pub async fn a_large_owner_does_not_starve_a_small_one(world: &impl World) {
    let store = world.store();
    batch_of(store, "large", 5000).await;
    let worker = Worker::on(store);
    let mut held = vec![worker.take(100).await, worker.take(100).await];
    let small = batch_of(store, "small", 10).await;
    let mut claims = 0;
    while counts(store, small).await.untouched > 0 {
        held.push(worker.take(5).await);
        claims += 1;
        assert!(claims <= 2, "the small owner comes first while it has less in flight");
    }
    for tranche in &held {
        worker.complete(tranche).await;
    }
    assert_eq!(counts(store, small).await.completed, 10);
}

/// Two owners with as much to do each get every other tranche, whoever came first and however
/// many batches one of them has.
pub async fn owners_take_turns(world: &impl World) {
    let store = world.store();
    for _ in 0..5 {
        batch_of(store, "many", 100).await;
    }
    batch_of(store, "one", 100).await;
    let owners = owners_of_batches(store).await;
    let worker = Worker::on(store);
    let mut share = BTreeMap::<String, u32>::new();
    for _ in 0..10 {
        let tranche = worker.take(10).await;
        *share.entry(owners[&tranche.lease.batch].clone()).or_default() += 1;
    }
    assert_eq!(share, BTreeMap::from([("many".to_owned(), 5), ("one".to_owned(), 5)]));
}

async fn owners_of_batches(store: &impl Store) -> BTreeMap<BatchId, String> {
    let query = windrow_store::inspect::BatchesQuery { limit: 100, ..Default::default() };
    let rows = store.batches(&Scope::All, query).await.expect("a page comes").rows;
    rows.into_iter().map(|batch| (batch.id, batch.owner.to_string())).collect()
}

/// What an owner has in flight for one target counts when it asks for another.
pub async fn what_is_in_flight_counts_over_all_targets(world: &impl World) {
    let store = world.store();
    let busy = Sheet::of("busy").lines("model-b", 10).lines(MODEL, 10).run(store).await;
    let idle = batch_of(store, "idle", 10).await;
    let worker = Worker::on(store);
    let elsewhere = worker.claim_only(busy, &["model-b"], 5).await.expect("five lines");
    assert_eq!(worker.take(2).await.lease.batch, idle);
    worker.complete(&elsewhere).await;
    assert_eq!(worker.take(1).await.lease.batch, busy, "nothing of its is in flight now");
}

async fn create(store: &impl Store, file: FileId, edit: impl FnOnce(&mut NewBatch)) -> BatchId {
    let mut new = run_over(file, "ada");
    edit(&mut new);
    store.create_batch(new).await.expect("a batch is created").id
}

/// Within an owner, higher priority goes first, then the earlier deadline, then none at all.
pub async fn priority_then_deadline_decide_within_an_owner(world: &impl World) {
    let store = world.store();
    let file = Sheet::of("ada").lines(MODEL, 2).seal(store).await;
    let never = create(store, file, |_| {}).await;
    let late = create(store, file, |new| new.window_secs = Some(7200)).await;
    let soon = create(store, file, |new| new.window_secs = Some(3600)).await;
    let low = create(store, file, |new| {
        (new.priority, new.window_secs) = (-1, Some(60));
    })
    .await;
    let high = create(store, file, |new| new.priority = 5).await;

    let worker = Worker::on(store);
    let mut order = Vec::new();
    while let Some(tranche) = worker.claim(100).await {
        order.push(tranche.lease.batch);
        worker.complete(&tranche).await;
    }
    assert_eq!(order, [high, soon, late, never, low]);
}

/// Between owners with as much in flight, priority decides; with less in flight, it does not.
pub async fn fairness_comes_before_priority(world: &impl World) {
    let store = world.store();
    let worker = Worker::on(store);
    let plain = batch_of(store, "plain", 10).await;
    let file = Sheet::of("urgent").lines(MODEL, 10).seal(store).await;
    let new = NewBatch { priority: 100, ..run_over(file, "urgent") };
    let urgent = store.create_batch(new).await.unwrap().id;
    assert_eq!(worker.take(2).await.lease.batch, urgent, "nobody has anything in flight");
    assert_eq!(worker.take(1).await.lease.batch, plain, "the urgent owner has two in flight");
    assert_eq!(worker.take(2).await.lease.batch, plain, "one against two");
    assert_eq!(worker.take(1).await.lease.batch, urgent, "three against two");
}

pub(crate) async fn leased_of(store: &impl Store, target_name: &str) -> u64 {
    let query = windrow_store::inspect::BatchesQuery { limit: 100, ..Default::default() };
    let batches = store.batches(&Scope::All, query).await.expect("a page comes").rows;
    let mut leased = 0;
    for batch in batches {
        let lanes = store.lanes(&Scope::All, batch.id).await.expect("lanes");
        leased += lanes
            .iter()
            .filter(|lane| lane.target.as_str() == target_name)
            .map(|lane| lane.counts.leased)
            .sum::<u64>();
    }
    leased
}

/// No more lines of a target are in flight than its limit, however many instances ask; other
/// targets are free.
pub async fn a_limit_holds_across_instances(world: &impl World) {
    let store = world.store();
    let batch = Sheet::of("ada").lines(MODEL, 100).lines("model-b", 100).run(store).await;
    store.set_limit(&target(MODEL), Some(10)).await.unwrap();
    let workers =
        [Worker::on(store), Worker::on(&world.another().await), Worker::on(&world.another().await)];
    let mut held = Vec::new();
    for turn in 0..30 {
        let worker = &workers[turn % 3];
        if let Some(tranche) = worker.claim(4).await {
            held.push((turn % 3, tranche));
        }
        assert!(leased_of(store, MODEL).await <= 10);
        check(store, batch).await;
    }
    assert_eq!(leased_of(store, MODEL).await, 10, "the limit is used up");
    let free = workers[0].ask(request(&[MODEL, "model-b"], 50)).await.expect("another target");
    assert_eq!((free.lease.target, free.lines.len()), (target("model-b"), 50));

    let (at, tranche) = held.remove(0);
    let room = tranche.lines.len();
    workers[at].complete(&tranche).await;
    let other = &workers[(at + 1) % 3];
    let mut got = 0;
    while let Some(tranche) = other.claim(4).await {
        got += tranche.lines.len();
    }
    assert_eq!(got, room, "what one instance finished another may claim");
    assert_eq!(leased_of(store, MODEL).await, 10);
}

/// Every way out of a lease makes room again: finishing, retrying, releasing, losing, leaving.
pub async fn every_way_out_makes_room_under_a_limit(world: &impl World) {
    let store = world.store();
    let batch = batch_of(store, "ada", 200).await;
    store.set_limit(&target(MODEL), Some(8)).await.unwrap();
    for way in 0..7 {
        let worker = Worker::on(store);
        worker.store.register(member(worker.instance)).await.unwrap();
        let mut held = Vec::new();
        while let Some(tranche) = worker.claim(8).await {
            held.push(tranche);
        }
        assert_eq!(leased_of(store, MODEL).await, 8, "all permits can be had before way {way}");
        let ids: Vec<_> = held.iter().map(|tranche| tranche.lease.held.id).collect();
        let outcomes = |of: &dyn Fn(&Tranche) -> Outcomes| held.iter().map(of).collect::<Vec<_>>();
        match way {
            0 => drop(worker.record_all(outcomes(&|t| finished(t, Status::Completed))).await),
            1 => drop(worker.record_all(outcomes(&|t| again(t, now(world)))).await),
            2 => drop(worker.record_all(outcomes(&|t| released(t, seqs(t)))).await),
            3 => drop(store.release_leases(worker.instance, ids).await.unwrap()),
            4 => drop(store.extend_leases(worker.instance, vec![], LEASE_MS).await.unwrap()),
            5 => {
                pass(world, LEASE_MS);
                store.return_lost(100, 100).await.unwrap();
            }
            _ => drop(store.tombstone(worker.instance).await.unwrap()),
        }
        assert_eq!(leased_of(store, MODEL).await, 0);
        check(store, batch).await;
    }
}

fn member(instance: windrow_domain::InstanceId) -> windrow_store::member::NewMember {
    windrow_store::member::NewMember {
        instance,
        service: "suite".to_owned(),
        host: "here".to_owned(),
        pid: 1,
        metadata: "{}".to_owned(),
        lock: None,
    }
}

/// Raising, lowering and removing a limit hold from the next claim on; what is in flight counts.
pub async fn a_limit_can_be_moved_and_removed(world: &impl World) {
    let store = world.store();
    batch_of(store, "ada", 100).await;
    let (worker, other) = (Worker::on(store), Worker::on(store));
    let before = worker.take(6).await;
    store.set_limit(&target(MODEL), Some(8)).await.unwrap();
    let mut more = Vec::new();
    while let Some(tranche) = other.claim(10).await {
        more.push(tranche);
    }
    assert_eq!(leased_of(store, MODEL).await, 8, "what was in flight before counts");

    store.set_limit(&target(MODEL), Some(4)).await.unwrap();
    assert_eq!(leased_of(store, MODEL).await, 8, "lowering takes nothing back");
    assert_eq!(worker.claim(10).await, None);
    for tranche in &more {
        other.complete(tranche).await;
    }
    assert_eq!(worker.claim(10).await, None, "six are still more than four");
    worker.complete(&before).await;
    let mut held = Vec::new();
    while let Some(tranche) = worker.claim(10).await {
        held.push(tranche);
    }
    assert_eq!(leased_of(store, MODEL).await, 4);
    store.set_limit(&target(MODEL), Some(9)).await.unwrap();
    while let Some(tranche) = other.claim(10).await {
        held.push(tranche);
    }
    assert_eq!(leased_of(store, MODEL).await, 9);
    store.set_limit(&target(MODEL), Some(9)).await.unwrap();
    assert_eq!(other.claim(10).await, None, "setting it again changes nothing");
    store.set_limit(&target(MODEL), None).await.unwrap();
    assert_eq!(other.take(20).await.lines.len(), 20, "no limit any more");
    store.set_limit(&target(MODEL), Some(0)).await.unwrap();
    assert_eq!(worker.claim(1).await, None, "a limit of none is a stop");
    store.set_limit(&target(MODEL), None).await.unwrap();
    assert_eq!(worker.take(1).await.lines.len(), 1);
}

/// An instance that sits on permits it does not use does not keep another from working.
pub async fn idle_permits_do_not_starve_another_instance(world: &impl World) {
    let store = world.store();
    batch_of(store, "ada", 500).await;
    store.set_limit(&target(MODEL), Some(16)).await.unwrap();
    // Each of these takes a block of permits, uses one line of it, and goes quiet.
    let mut quiet = Vec::new();
    for _ in 0..8 {
        let worker = Worker::on(store);
        quiet.push((worker.take(1).await, worker));
    }
    for (tranche, worker) in quiet.iter().take(4) {
        worker.complete(tranche).await;
    }
    let busy = Worker::on(&world.another().await);
    let mut got = 0;
    while let Some(tranche) = busy.claim(4).await {
        got += tranche.lines.len();
    }
    assert_eq!(got, 12, "sixteen less the four that are in flight");
    assert_eq!(leased_of(store, MODEL).await, 16);
}

/// After a limit was lowered below what is in flight, whoever frees first and however they meet,
/// all of the new limit can be had, and no more.
pub async fn a_lowered_limit_recovers_whoever_frees_first(world: &impl World) {
    let store = world.store();
    let (a, b) = (batch_of(store, "ada", 400).await, batch_of(store, "bob", 400).await);
    let (one, two) = (Worker::on(store), Worker::on(&world.another().await));
    let model = target(MODEL);
    for round in 0..20 {
        // Known to the limit from the beginning, or only counted when it is set.
        store.set_limit(&model, (round % 4 < 2).then_some(20)).await.unwrap();
        let first = one.claim_only(a, &[MODEL], 10).await.expect("ten lines");
        let second = two.claim_only(b, &[MODEL], 10).await.expect("ten lines");
        assert_eq!((first.lines.len(), second.lines.len()), (10, 10), "round {round}");
        store.set_limit(&model, Some(4)).await.unwrap();
        let holders = [(one.clone(), first), (two.clone(), second)];
        let leave = |(worker, tranche)| leave(worker, tranche, round % 2 == 0);
        holders.into_iter().map(leave).collect::<JoinSet<_>>().join_all().await;
        let third = Worker::on(store);
        assert_eq!(third.take(10).await.lines.len(), 4, "round {round}");
        assert_eq!(third.claim(10).await, None, "round {round}: it is used up");
        store.extend_leases(third.instance, Vec::new(), LEASE_MS).await.unwrap();
        // What came back in parts would make the next tranches smaller.
        store.set_limit(&model, None).await.unwrap();
        for batch in [a, b] {
            while counts(store, batch).await.returned > 0 {
                let back = third.claim_only(batch, &[MODEL], 100).await.expect("returned lines");
                third.complete(&back).await;
            }
        }
    }
    check(store, a).await;
    check(store, b).await;
}

async fn leave<S: Store + Clone>(worker: Worker<S>, tranche: Tranche, untried: bool) {
    let ids = vec![tranche.lease.held.id];
    if untried {
        let release = || worker.store.release_leases(worker.instance, ids.clone());
        assert_eq!(patiently(release).await.expect("a release is answered"), 10);
    } else {
        let outcomes = vec![finished(&tranche, Status::Completed)];
        let record = || worker.store.record(worker.instance, outcomes.clone());
        patiently(record).await.expect("a turn is answered");
    }
}

/// A limit that is set while a batch arrives and is claimed from counts what got in before it,
/// and lets nothing in after.
pub async fn a_limit_set_while_batches_arrive_holds(world: &impl World) {
    let (store, other) = (world.store(), world.another().await);
    let model = target(MODEL);
    let file = Sheet::of("ada").lines(MODEL, 30).seal(store).await;
    for round in 0..16 {
        let (early, late) = (Worker::on(&other), Worker::on(store));
        let arrive = JoinSet::from_iter([arrive_and_claim(early.clone(), file)]);
        for _ in 0..round % 8 {
            tokio::task::yield_now().await;
        }
        patiently(|| store.set_limit(&model, Some(4))).await.expect("a limit is set");
        let [batch] = arrive.join_all().await.try_into().expect("a batch arrived");
        let before = leased_of(store, MODEL).await;
        late.claim(10).await;
        let leased = leased_of(store, MODEL).await;
        assert!(leased <= before.max(4), "round {round}: {before} became {leased}");

        // What got in was counted, so that all of the limit can be had when it is out again.
        for worker in [&early, &late] {
            store.extend_leases(worker.instance, Vec::new(), LEASE_MS).await.unwrap();
        }
        while late.claim(10).await.is_some() {}
        assert_eq!(leased_of(store, MODEL).await, 4, "round {round}");
        check(store, batch).await;
        store.extend_leases(late.instance, Vec::new(), LEASE_MS).await.unwrap();
        store.set_limit(&model, None).await.unwrap();
        store.cancel_batch(&Scope::All, batch).await.unwrap();
    }
}

async fn arrive_and_claim<S: Store + Clone>(worker: Worker<S>, file: FileId) -> BatchId {
    let new = run_over(file, "ada");
    patiently(|| worker.store.create_batch(new.clone())).await.expect("a batch is created");
    let asked = Request { only: Some(new.id), ..request(&[MODEL], 10) };
    let claim = || worker.store.lease_tranche(worker.instance, asked.clone());
    patiently(claim).await.expect("a claim is answered");
    new.id
}

/// A claim that names hundreds of targets at their limit finds the one that is free, and several
/// that do so at the same moment all come to an end.
pub async fn many_targets_at_their_limit_cost_little(world: &impl World) {
    const FULL: usize = 200;
    const WORKERS: usize = 4;
    let store = world.store();
    let names: Vec<_> = (0..=FULL).map(|no| format!("model-{no:03}")).collect();
    let mut sheet = Sheet::of("ada");
    for name in &names[..FULL] {
        sheet = sheet.lines(name, 2);
    }
    let free = names[FULL].as_str();
    let batch = sheet.lines(free, 2 * WORKERS as u64).run(store).await;
    let first = Worker::on(store);
    for name in &names[..FULL] {
        first.ask(request(&[name], 1)).await.expect("a line");
        store.set_limit(&target(name), Some(1)).await.unwrap();
    }
    let all: Vec<_> = names.iter().map(String::as_str).collect();
    let mut tasks = JoinSet::new();
    for _ in 0..WORKERS {
        let worker = Worker::on(&world.another().await);
        let asked = request(&all, 2);
        tasks.spawn(async move {
            patiently(|| worker.store.lease_tranche(worker.instance, asked.clone())).await
        });
    }
    for claimed in tasks.join_all().await {
        let tranche = claimed.expect("a claim is answered").expect("the free target has lines");
        assert_eq!((tranche.lease.target.as_str(), tranche.lines.len()), (free, 2));
    }
    assert_eq!(first.ask(request(&all, 2)).await, None, "nothing is free any more");
    check(store, batch).await;
}
