//! Upstreams: a lane is claimed for its own and for no other, is bound once when it had none, and can be
//! moved; what is registered of one stays until a person changes it.

use tokio::task::JoinSet;
use windrow_domain::{AuditEntryId, BatchId, UpstreamId};
use windrow_store::audit_log::NewAuditEntry;
use windrow_store::batch::{LaneUpstreams, NewBatch};
use windrow_store::claim::{Poll, Waiting};
use windrow_store::error::Kind;
use windrow_store::upstream::Upstream;
use windrow_store::{Batches, Claim, Inspect, Scope, Store, Upstreams};

use crate::World;
use crate::fixture::*;

/// A batch of some lines of [`MODEL`] for that upstream.
async fn batch_for(store: &impl Store, name: &str, lines: u64) -> BatchId {
    let file = Sheet::of("ada").lines(MODEL, lines).seal(store).await;
    let new = NewBatch { upstreams: upstream(name).into(), ..run_over(file, "ada") };
    store.create_batch(new).await.expect("a batch is created").id
}

fn entry(action: &str) -> NewAuditEntry {
    let (actor, action) = ("ada".to_owned(), action.to_owned());
    NewAuditEntry { id: AuditEntryId::new(), actor, address: None, action }
}

async fn lane_upstreams(store: &impl Store, batch: BatchId) -> Vec<UpstreamId> {
    let lanes = store.lanes(&Scope::All, batch).await.expect("lanes are read");
    lanes.into_iter().map(|lane| lane.upstream).collect()
}

async fn actions(store: &impl Store, batch: BatchId) -> Vec<String> {
    let entries = store.audit_log(&Scope::All, batch).await.expect("the audit log is read");
    entries.into_iter().map(|entry| entry.action).collect()
}

/// A claim for another upstream gets nothing, though the target is the same. Without it a worker sends
/// the lines of a batch to whatever host it knows, with that host's key.
pub async fn a_lane_is_claimed_by_its_upstream_only(world: &impl World) {
    let store = world.store();
    let batch = batch_for(store, "http://a:80", 4).await;
    let worker = Worker::on(store);
    for (other, binds) in [("http://b:80", true), ("", true), ("http://a:80/v1", false)] {
        assert_eq!(worker.ask(request_of(other, &[MODEL], 2, binds)).await, None, "{other}");
        let mut only = request_of(other, &[MODEL], 2, binds);
        only.only = Some(batch);
        assert_eq!(worker.ask(only).await, None, "{other}");
    }
    let asked = request_of("http://a:80", &[MODEL], 4, false);
    let held = worker.ask(asked).await.expect("its own lines");
    assert_eq!((held.lease.upstream.as_str(), held.lines.len()), ("http://a:80", 4));
    let shown = store.batch(&Scope::All, batch).await.unwrap();
    assert_eq!(shown.upstreams, [upstream("http://a:80")]);
    check(store, batch).await;
}

/// A server sends each target where its configuration says.
pub async fn lanes_of_one_batch_may_go_to_several_upstreams(world: &impl World) {
    let store = world.store();
    let file = Sheet::of("ada").rounds(&[MODEL, "model-b", "model-c"], 2).seal(store).await;
    let upstreams = LaneUpstreams {
        by_target: [(target("model-b"), upstream("b")), (target("no-lane"), upstream("d"))].into(),
        others: upstream("a"),
    };
    let new = NewBatch { upstreams, ..run_over(file, "ada") };
    let batch = store.create_batch(new).await.unwrap();
    assert_eq!(batch.upstreams, [upstream("a"), upstream("b")]);
    let expected = ["a", "b", "a"].map(upstream);
    assert_eq!(lane_upstreams(store, batch.id).await, expected);
    let worker = Worker::on(store);
    let all = [MODEL, "model-b", "model-c"];
    let held = worker.ask(request_of("b", &all, 10, false)).await.expect("one lane");
    assert_eq!(held.lease.target, target("model-b"));
    assert_eq!(worker.ask(request_of("b", &all, 10, false)).await, None);
}

/// A poll names the upstreams that the process serves; those of others are not told.
pub async fn what_waits_is_told_of_the_upstreams_asked_for(world: &impl World) {
    let store = world.store();
    let one = batch_for(store, "a", 1).await;
    batch_for(store, "b", 1).await;
    batch_for(store, "?", 1).await;
    let told = async |names: &[&str], only| {
        let upstreams = names.iter().map(|name| upstream(name)).collect();
        let told = store.waiting(Poll { upstreams, only, ..Poll::targets(10) }).await.unwrap();
        let name = |waiting: Waiting| waiting.route.upstream.as_str().to_owned();
        told.waiting.into_iter().map(name).collect::<Vec<_>>()
    };
    assert_eq!(told(&["a"], None).await, ["a"]);
    assert_eq!(told(&["b", "a", "?"], None).await, ["?", "a", "b"]);
    assert_eq!(told(&[""], None).await, [""; 0]);
    assert_eq!(told(&["a", "b"], Some(one)).await, ["a"]);
    assert_eq!(told(&["b"], Some(one)).await, [""; 0]);
    let none = Poll { upstreams: Vec::new(), ..Poll::targets(10) };
    assert_eq!(kind(store.waiting(none).await), Kind::Invalid);
}

/// The first claim says where the lane goes, for good, and the audit log says so once.
pub async fn an_unknown_upstream_is_bound_by_the_first_claim(world: &impl World) {
    let store = world.store();
    let file = Sheet::of("ada").rounds(&[MODEL, "model-b"], 4).seal(store).await;
    let new = NewBatch { upstreams: UpstreamId::unknown().into(), ..run_over(file, "ada") };
    let batch = store.create_batch(new).await.unwrap().id;
    let worker = Worker::on(store);
    let asked = request_of("a", &[MODEL], 2, true);
    let held = worker.ask(asked.clone()).await.expect("lines of nobody's upstream");
    assert_eq!(held.lease.upstream, upstream("a"));
    assert_eq!(worker.ask(asked).await.as_ref(), Some(&held), "a repeat finds its lease");
    assert_eq!(lane_upstreams(store, batch).await, ["a", "?"].map(upstream));
    assert_eq!(worker.ask(request_of("b", &[MODEL], 2, true)).await, None, "it is bound");
    let second = worker.ask(request_of("a", &[MODEL, "model-b"], 2, true)).await.unwrap();
    assert_eq!(second.lease.target, target(MODEL));
    worker.ask(request_of("a", &["model-b"], 2, true)).await.expect("the other lane");
    assert_eq!(lane_upstreams(store, batch).await, ["a", "a"].map(upstream));
    assert_eq!(actions(store, batch).await, ["bind to a"], "once for all lanes");
    check(store, batch).await;
}

/// Of claims for different upstreams that meet at an unknown lane, one binds it and the others get
/// nothing of it: judged on the locked row, not on what a read before said.
pub async fn racing_claims_bind_a_lane_once(world: &impl World) {
    let store = world.store();
    for _ in 0..10 {
        let batch = batch_for(store, "?", 40).await;
        let mut tasks = JoinSet::new();
        for no in 0..4 {
            let worker = Worker::on(&world.another().await);
            let mut asked = request_of(["a", "b"][no % 2], &[MODEL], 5, true);
            asked.only = Some(batch);
            tasks.spawn(async move {
                patiently(|| worker.store.lease_tranche(worker.instance, asked.clone())).await
            });
        }
        let claimed: Vec<_> =
            tasks.join_all().await.into_iter().filter_map(|claim| claim.unwrap()).collect();
        let bound = lane_upstreams(store, batch).await;
        assert!(!claimed.is_empty() && !bound[0].is_unknown());
        assert!(claimed.iter().all(|held| held.lease.upstream == bound[0]), "{claimed:?}");
        assert_eq!(actions(store, batch).await, [format!("bind to {}", bound[0])]);
        check(store, batch).await;
    }
}

/// A process that does not know where an unknown target would go leaves it to others.
pub async fn a_claim_that_may_not_bind_leaves_an_unknown_lane(world: &impl World) {
    let store = world.store();
    let batch = batch_for(store, "?", 2).await;
    let worker = Worker::on(store);
    assert_eq!(worker.ask(request_of("a", &[MODEL], 2, false)).await, None);
    assert_eq!(worker.ask(request_of("a", &["model-b"], 2, true)).await, None);
    assert_eq!(lane_upstreams(store, batch).await, [UpstreamId::unknown()]);
    assert_eq!(actions(store, batch).await, [""; 0]);
}

/// What was sent already counts; what comes back and what was untouched goes to the new upstream.
pub async fn a_batch_moved_while_it_is_claimed_goes_on_elsewhere(world: &impl World) {
    let store = world.store();
    let batch = batch_for(store, "a", 6).await;
    let worker = Worker::on(store);
    let held = worker.ask(request_of("a", &[MODEL], 4, false)).await.unwrap();
    let moved = store.move_batch(&scope("ada"), batch, upstream("b"), entry("move to b")).await;
    assert_eq!(moved.unwrap().upstreams, [upstream("b")]);
    check(store, batch).await;
    let poll = Poll { held: vec![held.lease.held.id], ..Poll::targets(1) };
    let told = store.waiting(poll).await.unwrap().stopped;
    assert_eq!(told, [held.lease.held.id], "its holder is told");
    assert_eq!(worker.ask(request_of("a", &[MODEL], 4, true)).await, None);
    worker
        .record(finished_some(&held, windrow_domain::attempt::Status::Completed, |seq| seq < 2))
        .await;
    assert_eq!(counts(store, batch).await.completed, 2);
    worker.store.release_leases(worker.instance, vec![held.lease.held.id]).await.unwrap();
    let mut got = 0;
    while let Some(tranche) = worker.ask(request_of("b", &[MODEL], 10, false)).await {
        assert_eq!(tranche.lease.upstream, upstream("b"));
        got += tranche.lines.len();
    }
    assert_eq!(got, 4, "two that came back and two untouched ones");
    check(store, batch).await;
}

/// After a move has returned, no claim of the old upstream gets a line, whatever it had read before.
pub async fn no_claim_of_the_old_upstream_slips_past_a_move(world: &impl World) {
    let store = world.store();
    for _ in 0..10 {
        let batch = batch_for(store, "a", 30).await;
        let mut tasks = JoinSet::new();
        for _ in 0..3 {
            let worker = Worker::on(&world.another().await);
            tasks.spawn(async move {
                let mut asked = request_of("a", &[MODEL], 1, true);
                asked.only = Some(batch);
                patiently(|| worker.store.lease_tranche(worker.instance, asked.clone())).await
            });
        }
        let act = entry("move to b");
        patiently(|| store.move_batch(&Scope::All, batch, upstream("b"), act.clone()))
            .await
            .unwrap();
        let leased = counts(store, batch).await.leased;
        let mut late = request_of("a", &[MODEL], 1, true);
        late.only = Some(batch);
        assert_eq!(Worker::on(store).ask(late).await, None);
        tasks.join_all().await;
        assert_eq!(counts(store, batch).await.leased, leased, "nothing was claimed after the move");
        check(store, batch).await;
    }
}

/// A move is in the audit log, once however often it is repeated; to others the batch is missing.
pub async fn moving_is_noted_and_is_the_owners_alone(world: &impl World) {
    let store = world.store();
    let batch = batch_for(store, "a", 2).await;
    let act = entry("move to b");
    let other = store.move_batch(&scope("bob"), batch, upstream("b"), act.clone()).await;
    assert_eq!(kind(other), Kind::Missing);
    let unknown = store.move_batch(&scope("ada"), batch, UpstreamId::unknown(), act.clone()).await;
    assert_eq!(kind(unknown), Kind::Invalid);
    assert_eq!(lane_upstreams(store, batch).await, [upstream("a")]);
    for _ in 0..2 {
        store.move_batch(&scope("ada"), batch, upstream("b"), act.clone()).await.unwrap();
    }
    assert_eq!(actions(store, batch).await, ["move to b"]);
    assert_eq!(lane_upstreams(store, batch).await, [upstream("b")]);
}

/// A process that means another host or key by the same name is told what the database knows, and
/// changes nothing; a person's word does.
pub async fn what_is_registered_first_stays_until_it_is_set(world: &impl World) {
    let store = world.store();
    let known = |base_url: &str, key_mark: &str| Upstream {
        upstream: upstream("main"),
        base_url: base_url.to_owned(),
        key_mark: key_mark.to_owned(),
    };
    let first = known("http://a", "m1");
    assert_eq!(store.register_upstream(first.clone()).await.unwrap(), first);
    for other in [known("http://b", "m1"), known("http://a", "m2"), first.clone()] {
        assert_eq!(store.register_upstream(other).await.unwrap(), first);
    }
    let second = known("http://b", "m2");
    store.set_upstream(second.clone()).await.unwrap();
    assert_eq!(store.register_upstream(first).await.unwrap(), second);
    let other = Upstream { upstream: upstream("extra"), ..second.clone() };
    store.set_upstream(other.clone()).await.unwrap();
    assert_eq!(store.upstreams().await.unwrap(), [other, second.clone()]);
    for name in ["", "?"] {
        let nobody = Upstream { upstream: upstream(name), ..second.clone() };
        assert_eq!(kind(store.register_upstream(nobody.clone()).await), Kind::Invalid);
        assert_eq!(kind(store.set_upstream(nobody).await), Kind::Invalid);
    }
}

/// Marks of keys can be compared for as long as the database lives, from every process.
pub async fn the_secret_of_marks_stays_the_same(world: &impl World) {
    let secret = world.store().mark_secret().await.unwrap();
    assert_eq!(world.another().await.mark_secret().await.unwrap(), secret);
    assert_ne!(secret.0, [0; 32]);
}
