//! Members: who is alive, who left, and that a tombstone is for ever.

use tokio::task::JoinSet;
use windrow_domain::InstanceId;
use windrow_store::claim::LEASE_MS_MAX;
use windrow_store::error::Kind;
use windrow_store::member::{DUTY_BYTES_MAX, Member, NewMember};
use windrow_store::{Batches, Claim, Finalise, Members, Scope, Store, Sweep};

use crate::World;
use crate::fixture::*;

fn new_member(instance: InstanceId) -> NewMember {
    NewMember {
        instance,
        service: "windrow".to_owned(),
        host: "host-ü".to_owned(),
        pid: u32::MAX,
        metadata: "{\"zone\":\"a\"}".to_owned(),
    }
}

async fn join(store: &impl Store) -> InstanceId {
    let instance = InstanceId::new();
    store.register(new_member(instance)).await.expect("anybody may join");
    instance
}

async fn seen(store: &impl Store, instance: InstanceId) -> Member {
    let members = store.members().await.expect("members are listed");
    let found = members.into_iter().find(|member| member.instance == instance);
    found.expect("a member is listed")
}

/// A member is listed as it registered; a heartbeat moves its time; registering again is one.
pub async fn a_member_is_heard_of(world: &impl World) {
    let store = world.store();
    let joined_at = now(world);
    let instance = join(store).await;
    let member = seen(store, instance).await;
    let new = new_member(instance);
    assert_eq!((&member.service, &member.host, member.pid), (&new.service, &new.host, new.pid));
    assert!(member.metadata.contains("zone"), "{}", member.metadata);
    assert_eq!((member.joined_at, member.heartbeat_at), (joined_at, joined_at));
    assert_eq!(member.tombstoned_at, None);
    pass(world, 1000);
    store.heartbeat(instance).await.unwrap();
    assert_eq!(seen(store, instance).await.heartbeat_at, now(world));
    pass(world, 1000);
    store.register(new).await.unwrap();
    let member = seen(store, instance).await;
    assert_eq!((member.joined_at, member.heartbeat_at), (joined_at, now(world)));
}

/// Who never registered cannot be heard of.
pub async fn a_stranger_has_no_heartbeat(world: &impl World) {
    assert_eq!(kind(world.store().heartbeat(InstanceId::new()).await), Kind::Missing);
    assert!(world.store().members().await.unwrap().is_empty());
}

/// Members are listed by the time they joined, the tombstoned ones too.
pub async fn members_are_listed_by_the_time_they_joined(world: &impl World) {
    let store = world.store();
    let mut joined = Vec::new();
    for _ in 0..4 {
        joined.push(join(store).await);
        pass(world, 10);
    }
    store.tombstone(joined[1]).await.unwrap();
    store.heartbeat(joined[0]).await.unwrap();
    let listed = world.another().await.members().await.unwrap();
    assert_eq!(listed.iter().map(|member| member.instance).collect::<Vec<_>>(), joined);
    assert_eq!(listed[1].tombstoned_at, Some(now(world)));
}

/// Who leaves gives its leases back, with no attempt and no crash counted.
pub async fn who_leaves_gives_its_leases_back(world: &impl World) {
    let store = world.store();
    let batch = Sheet::of("ada").lines(MODEL, 6).lines("model-b", 4).run(store).await;
    let worker = Worker { store: store.clone(), instance: join(store).await };
    let other = Worker::on(store);
    let first = worker.take(3).await;
    worker.ask(request(&["model-b"], 4)).await.expect("four lines");
    let theirs = other.take(2).await;
    let went = store.tombstone(worker.instance).await.unwrap();
    assert_eq!(went, 7);
    check(store, batch).await;
    assert!(is_lost(&worker.complete(&first).await));
    assert!(!is_lost(&other.complete(&theirs).await));
    let back = other.take(6).await;
    assert_eq!(seqs(&back), seqs(&first));
    assert_eq!((back.lease.attempts, back.lease.crashes), (0, 0));
    assert_eq!(store.tombstone(worker.instance).await.unwrap(), 0, "a repeat changes nothing");
    check(store, batch).await;
}

/// A tombstoned instance is refused and must come back under a new id.
pub async fn a_tombstone_is_for_ever(world: &impl World) {
    let store = world.store();
    let instance = join(store).await;
    store.tombstone(instance).await.unwrap();
    assert_eq!(kind(store.heartbeat(instance).await), Kind::LeaseLost);
    assert_eq!(kind(store.register(new_member(instance)).await), Kind::LeaseLost);
    pass(world, 60_000);
    assert_eq!(kind(store.heartbeat(instance).await), Kind::LeaseLost);
    assert!(seen(store, instance).await.tombstoned_at < Some(now(world)));
    join(store).await;
    assert_eq!(store.members().await.unwrap().len(), 2);
}

/// A tombstoned instance is given no lines: not when it left, not when it was reaped, and not the
/// lease again that it held when it was reaped.
pub async fn a_tombstoned_instance_is_given_no_lines(world: &impl World) {
    let store = world.store();
    let batch = batch_of(store, "ada", 6).await;
    let (left, reaped) = (join(store).await, join(store).await);
    store.tombstone(left).await.unwrap();
    let held = request(&[MODEL], 2);
    store.lease_tranche(reaped, held.clone()).await.unwrap().expect("two lines");
    pass(world, 1000);
    assert_eq!(store.reap_members(1000, 10).await.unwrap(), [reaped]);
    let new = request(&[MODEL], 2);
    for (instance, asked) in [(left, new.clone()), (reaped, new), (reaped, held)] {
        match store.lease_tranche(instance, asked).await {
            Err(error) => assert_eq!(error.kind, Kind::LeaseLost),
            Ok(tranche) => assert_eq!(tranche, None, "a tombstone is final"),
        }
    }
    assert_eq!(counts(store, batch).await.leased, 2);
    assert_eq!(store.return_lost(10, 3).await.unwrap().leases, 1);
    assert_eq!(counts(store, batch).await.leased, 0);
    check(store, batch).await;
}

/// Who never registered cannot be tombstoned, and trying takes nothing from it.
pub async fn a_stranger_cannot_be_tombstoned(world: &impl World) {
    let store = world.store();
    let batch = batch_of(store, "ada", 4).await;
    let worker = Worker::on(store);
    let held = worker.take(2).await;
    assert_eq!(kind(store.tombstone(worker.instance).await), Kind::Missing);
    assert_eq!(counts(store, batch).await.leased, 2, "its leases are its own");
    assert!(!is_lost(&worker.complete(&held).await));
    assert_eq!(worker.take(2).await.lines.len(), 2, "and it may claim");
    assert!(store.members().await.unwrap().is_empty());
    check(store, batch).await;
}

/// However long a silence is asked for, it is answered, and nobody was silent for ages.
pub async fn a_silence_of_ages_reaps_nobody(world: &impl World) {
    let store = world.store();
    let instance = join(store).await;
    for stale_ms in [u64::MAX, u64::MAX / 1000, i64::MAX.unsigned_abs(), 1 << 53] {
        pass(world, 1000);
        assert_eq!(store.reap_members(stale_ms, 10).await.unwrap(), [], "{stale_ms} ms");
    }
    assert_eq!(seen(store, instance).await.tombstoned_at, None);
}

/// Instances not heard of are tombstoned, at most so many, each once; their leases are lost at
/// once, long before their time.
pub async fn silent_members_are_reaped(world: &impl World) {
    let store = world.store();
    let batch = batch_of(store, "ada", 10).await;
    let silent = [join(store).await, join(store).await, join(store).await];
    let loud = Worker { store: store.clone(), instance: join(store).await };
    for instance in silent {
        Worker { store: store.clone(), instance }.take(2).await;
    }
    let theirs = loud.take(2).await;
    pass(world, 9_999);
    assert!(store.reap_members(10_000, 10).await.unwrap().is_empty());
    store.heartbeat(loud.instance).await.unwrap();
    pass(world, 10);
    let mut reaped = store.reap_members(10_000, 2).await.unwrap();
    assert_eq!(reaped.len(), 2);
    assert_eq!(counts(store, batch).await.leased, 8, "reaping itself moves no line");
    reaped.extend(store.reap_members(10_000, 10).await.unwrap());
    reaped.sort();
    let mut expected = silent.to_vec();
    expected.sort();
    assert_eq!(reaped, expected);
    assert!(store.reap_members(10_000, 10).await.unwrap().is_empty());

    let lost = store.return_lost(10, 3).await.unwrap();
    assert_eq!((lost.leases, lost.returned), (3, 6));
    check(store, batch).await;
    assert!(!is_lost(&loud.complete(&theirs).await));
    assert_eq!(kind(store.heartbeat(silent[0]).await), Kind::LeaseLost);
    let again = loud.take(10).await;
    assert_eq!(again.lease.crashes, 1, "they did crash");
    check(store, batch).await;
}

/// An instance that never registered is not tombstoned: its leases live until their time.
pub async fn an_unregistered_instance_keeps_its_leases(world: &impl World) {
    let store = world.store();
    let batch = batch_of(store, "ada", 2).await;
    let worker = Worker::on(store);
    let held = worker.take(2).await;
    store.reap_members(0, 10).await.unwrap();
    assert_eq!(store.return_lost(10, 3).await.unwrap().leases, 0);
    assert!(!is_lost(&worker.complete(&held).await));
    check(store, batch).await;
}

/// Leaving may be what settles a batch that is being cancelled.
pub async fn leaving_may_settle_a_batch(world: &impl World) {
    let store = world.store();
    let id = batch_of(store, "ada", 4).await;
    let worker = Worker { store: store.clone(), instance: join(store).await };
    worker.take(2).await;
    store.cancel_batch(&Scope::All, id).await.unwrap();
    store.tombstone(worker.instance).await.unwrap();
    assert!(!batch(store, id).await.state.is_running(), "it waits to be closed");
    check(store, id).await;
}

/// One instance at a time has a duty; others get it when its time has passed.
pub async fn a_duty_is_one_instances_at_a_time(world: &impl World) {
    let store = world.store();
    let (one, two) = (join(store).await, InstanceId::new());
    let other = world.another().await;
    assert!(store.take_duty(one, "sweep", 1000).await.unwrap());
    assert!(!other.take_duty(two, "sweep", 1000).await.unwrap());
    assert!(other.take_duty(two, "prune", 1000).await.unwrap(), "another duty");
    pass(world, 600);
    assert!(store.take_duty(one, "sweep", 1000).await.unwrap(), "its own is renewed");
    pass(world, 600);
    assert!(!other.take_duty(two, "sweep", 1000).await.unwrap());
    assert!(store.take_duty(one, "prune", 1000).await.unwrap(), "the other's time has passed");
    pass(world, 400);
    assert!(other.take_duty(two, "sweep", 1000).await.unwrap());
    assert!(!store.take_duty(one, "sweep", 1000).await.unwrap());
}

/// Of many that ask at once for a duty, one gets it.
pub async fn one_of_many_takes_a_duty(world: &impl World) {
    let mut asked = JoinSet::new();
    for _ in 0..16 {
        let store = world.another().await;
        asked.spawn(async move { store.take_duty(InstanceId::new(), "sweep", 1000).await });
    }
    let answers = asked.join_all().await;
    assert_eq!(answers.into_iter().filter(|got| *got.as_ref().unwrap()).count(), 1);
}

/// The duties of one who left or was reaped are free at once, and it gets none again.
pub async fn a_tombstone_frees_duties(world: &impl World) {
    let store = world.store();
    let other = InstanceId::new();
    for reaped in [false, true] {
        let instance = join(store).await;
        assert!(store.take_duty(instance, "sweep", LEASE_MS).await.unwrap());
        assert!(!store.take_duty(other, "sweep", 1).await.unwrap());
        if reaped {
            pass(world, 1000);
            assert_eq!(store.reap_members(1000, 10).await.unwrap(), [instance]);
        } else {
            store.tombstone(instance).await.unwrap();
        }
        assert!(!store.take_duty(instance, "sweep", 1).await.unwrap());
        assert!(!store.take_duty(instance, "prune", 1).await.unwrap());
        assert!(store.take_duty(other, "sweep", 1).await.unwrap());
        pass(world, 1);
    }
}

/// What one who left or was reaped was closing is found at once, and is somebody else's to close,
/// long before its time has passed.
pub async fn a_tombstone_frees_finalisations(world: &impl World) {
    let store = world.store();
    for reaped in [false, true] {
        let id = batch_of(store, "ada", 2).await;
        assert_eq!(Worker::on(store).drain(id, &[MODEL]).await, [id]);
        let (gone, other) = (join(store).await, join(store).await);
        let held = store.take_finalisation(id, gone, 10 * LEASE_MS).await.unwrap();
        assert_eq!(kind(store.take_finalisation(id, other, LEASE_MS).await), Kind::Contended);
        assert_eq!(store.find_unclosed(10).await.unwrap(), []);
        if reaped {
            pass(world, 1000);
            store.heartbeat(other).await.unwrap();
            assert!(store.reap_members(1000, 10).await.unwrap().contains(&gone));
        } else {
            store.tombstone(gone).await.unwrap();
        }
        assert_eq!(store.find_unclosed(10).await.unwrap(), [id]);
        let taken = store.take_finalisation(id, other, LEASE_MS).await.unwrap();
        assert!(taken.token > held.token, "tokens rise with every taking");
        assert_eq!(store.find_unclosed(10).await.unwrap(), [], "the living keep theirs");
        assert_eq!(kind(store.take_finalisation(id, gone, LEASE_MS).await), Kind::Contended);
        let late = store.close_batch(&held, rows(&held.counts), "{}", &[]).await;
        assert_eq!(kind(late), Kind::LeaseLost, "the slow loser closes nothing");
        store.close_batch(&taken, rows(&taken.counts), "{}", &[]).await.unwrap();
        check(store, id).await;
    }
}

/// A duty has a name of bounded length and is held for a bounded time.
pub async fn a_duty_out_of_bounds_is_invalid(world: &impl World) {
    let store = world.store();
    let me = InstanceId::new();
    let (long, longest) = ("d".repeat(DUTY_BYTES_MAX + 1), "d".repeat(DUTY_BYTES_MAX));
    for (duty, lease_ms) in [("", 1), (long.as_str(), 1), ("sweep", 0), ("sweep", LEASE_MS_MAX + 1)]
    {
        assert_eq!(kind(store.take_duty(me, duty, lease_ms).await), Kind::Invalid);
    }
    assert!(store.take_duty(me, &longest, LEASE_MS_MAX).await.unwrap());
}
