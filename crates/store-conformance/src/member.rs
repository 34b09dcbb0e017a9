//! Members: who is alive, who left, and that a tombstone is for ever.

use tokio::task::JoinSet;
use windrow_domain::InstanceId;
use windrow_store::claim::LEASE_MS_MAX;
use windrow_store::error::Kind;
use windrow_store::inspect::Holder;
use windrow_store::member::{
    BOOT_ID_BYTES_MAX, DUTY_BYTES_MAX, Evidence, LOCK_PATH_BYTES_MAX, Member, NewMember,
    ProcessLock,
};
use windrow_store::{Batches, Claim, Finalise, Inspect, Members, Scope, Store, Sweep};

use crate::World;
use crate::fixture::*;

fn new_member(instance: InstanceId) -> NewMember {
    NewMember {
        instance,
        service: "windrow".to_owned(),
        host: "host-ü".to_owned(),
        pid: u32::MAX,
        metadata: "{\"zone\":\"a\"}".to_owned(),
        lock: Some(ProcessLock {
            boot_id: "5f0c1ad4-0000-4000-8000-0123456789ab".to_owned(),
            device: u64::MAX,
            inode: u64::MAX - 1,
            path: "/var/lib/windrow/ü-live/1.lock".to_owned(),
        }),
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
    assert_eq!(member.lock, new.lock);
    let without = NewMember { lock: None, ..new_member(InstanceId::new()) };
    store.register(without.clone()).await.unwrap();
    assert_eq!(seen(store, without.instance).await.lock, None);
    assert_eq!((member.joined_at, member.heartbeat_at), (joined_at, joined_at));
    assert_eq!(member.tombstoned_at, None);
    pass(world, 1000);
    assert_eq!(seen(store, instance).await.silent_ms, 1000, "by the clock of the database");
    store.heartbeat(instance).await.unwrap();
    let member = seen(store, instance).await;
    assert_eq!((member.heartbeat_at, member.silent_ms), (now(world), 0));
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

/// A tombstoned instance is given no lines: not when it left, not when it was buried, and not the
/// lease again that it held when it was buried.
pub async fn a_tombstoned_instance_is_given_no_lines(world: &impl World) {
    let store = world.store();
    let batch = batch_of(store, "ada", 6).await;
    let (left, buried) = (join(store).await, join(store).await);
    store.tombstone(left).await.unwrap();
    let held = request(&[MODEL], 2);
    store.lease_tranche(buried, held.clone()).await.unwrap().expect("two lines");
    pass(world, 1000);
    assert!(store.bury(buried, Evidence::LockGot).await.unwrap());
    let new = request(&[MODEL], 2);
    for (instance, asked) in [(left, new.clone()), (buried, new), (buried, held)] {
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

/// Who is buried is tombstoned, once; its leases are lost at once, long before their time, and the crash
/// counts: a process that died in the middle of a line has tried it, and one that left has not.
pub async fn who_is_buried_loses_its_leases(world: &impl World) {
    let store = world.store();
    let batch = batch_of(store, "ada", 10).await;
    let dead = Worker { store: store.clone(), instance: join(store).await };
    let loud = Worker { store: store.clone(), instance: join(store).await };
    let held = dead.take(4).await;
    let theirs = loud.take(2).await;
    assert!(store.bury(dead.instance, Evidence::LockGot).await.unwrap());
    let buried_at = seen(store, dead.instance).await.tombstoned_at;
    assert_eq!(buried_at, Some(now(world)));
    assert_eq!(counts(store, batch).await.leased, 6, "burying itself moves no line");
    pass(world, 1);
    assert!(store.bury(dead.instance, Evidence::LockGot).await.unwrap(), "a repeat says the same");
    assert_eq!(seen(store, dead.instance).await.tombstoned_at, buried_at);

    let lost = store.return_lost(10, 3).await.unwrap();
    assert_eq!((lost.leases, lost.returned), (1, 4));
    check(store, batch).await;
    assert!(is_lost(&dead.complete(&held).await));
    assert!(!is_lost(&loud.complete(&theirs).await));
    assert_eq!(kind(store.heartbeat(dead.instance).await), Kind::LeaseLost);
    let again = loud.take(10).await;
    assert_eq!((again.lease.crashes, again.lines.len()), (1, 2), "it did crash, and half is next");
    check(store, batch).await;
}

/// One who was silent is buried for the heartbeat that was seen, and not when it sent another one since.
pub async fn a_heartbeat_in_time_saves_a_silent_member(world: &impl World) {
    let store = world.store();
    let instance = join(store).await;
    let silent = Evidence::Silent { heartbeat_at: seen(store, instance).await.heartbeat_at };
    pass(world, 60_000);
    store.heartbeat(instance).await.unwrap();
    assert!(!store.bury(instance, silent).await.unwrap());
    assert_eq!(seen(store, instance).await.tombstoned_at, None);
    let silent = Evidence::Silent { heartbeat_at: seen(store, instance).await.heartbeat_at };
    assert!(store.bury(instance, silent).await.unwrap());
    pass(world, 1);
    assert!(store.bury(instance, silent).await.unwrap(), "a repeat says the same");
    assert_eq!(kind(store.heartbeat(instance).await), Kind::LeaseLost);
}

/// Of many who bury at once, all are told that it is done.
pub async fn many_may_bury_at_once(world: &impl World) {
    let instance = join(world.store()).await;
    let mut asked = JoinSet::new();
    for _ in 0..8 {
        let store = world.another().await;
        asked.spawn(async move { store.bury(instance, Evidence::LockGot).await });
    }
    assert!(asked.join_all().await.into_iter().all(|buried| buried.unwrap()));
}

/// A batch tells who holds lines of it, how many, until when, and since when each is silent.
pub async fn who_holds_lines_is_told_and_until_when(world: &impl World) {
    let store = world.store();
    let id = batch_of(store, "ada", 10).await;
    assert_eq!(store.holders(&Scope::All, id).await.unwrap(), []);
    let known = Worker { store: store.clone(), instance: join(store).await };
    let stranger = Worker::on(store);
    known.take(2).await;
    pass(world, 1000);
    known.take(1).await;
    stranger.take(4).await;
    pass(world, 500);
    let mut held = store.holders(&Scope::Owner(owner("ada")), id).await.unwrap();
    held.sort_by_key(|holder| holder.lines);
    let process = Some(("host-ü".to_owned(), u32::MAX));
    let lost_in_ms = LEASE_MS - 500;
    let expected = [
        Holder { instance: known.instance, process, lines: 3, lost_in_ms, silent_ms: Some(1500) },
        Holder {
            instance: stranger.instance,
            process: None,
            lines: 4,
            lost_in_ms,
            silent_ms: None,
        },
    ];
    assert_eq!(held, expected);
    assert_eq!(kind(store.holders(&Scope::Owner(owner("bob")), id).await), Kind::Missing);
    pass(world, 2 * LEASE_MS);
    assert!(store.holders(&Scope::All, id).await.unwrap().iter().all(|one| one.lost_in_ms == 0));
}

/// A lock without a boot, or with a path beyond its bound, is refused.
pub async fn a_lock_out_of_bounds_is_invalid(world: &impl World) {
    let store = world.store();
    let lock = new_member(InstanceId::new()).lock.unwrap();
    let refused = [
        ProcessLock { boot_id: String::new(), ..lock.clone() },
        ProcessLock { boot_id: "b".repeat(BOOT_ID_BYTES_MAX + 1), ..lock.clone() },
        ProcessLock { path: "p".repeat(LOCK_PATH_BYTES_MAX + 1), ..lock },
    ];
    for lock in refused {
        let new = NewMember { lock: Some(lock), ..new_member(InstanceId::new()) };
        assert_eq!(kind(store.register(new).await), Kind::Invalid);
    }
    assert!(store.members().await.unwrap().is_empty());
}

/// An instance that never registered cannot be buried: its leases live until their time.
pub async fn an_unregistered_instance_keeps_its_leases(world: &impl World) {
    let store = world.store();
    let batch = batch_of(store, "ada", 2).await;
    let worker = Worker::on(store);
    let held = worker.take(2).await;
    assert_eq!(kind(store.bury(worker.instance, Evidence::LockGot).await), Kind::Missing);
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

/// The duties of one who left or was buried are free at once, and it gets none again.
pub async fn a_tombstone_frees_duties(world: &impl World) {
    let store = world.store();
    let other = InstanceId::new();
    for buried in [false, true] {
        let instance = join(store).await;
        assert!(store.take_duty(instance, "sweep", LEASE_MS).await.unwrap());
        assert!(!store.take_duty(other, "sweep", 1).await.unwrap());
        if buried {
            assert!(store.bury(instance, Evidence::LockGot).await.unwrap());
        } else {
            store.tombstone(instance).await.unwrap();
        }
        assert!(!store.take_duty(instance, "sweep", 1).await.unwrap());
        assert!(!store.take_duty(instance, "prune", 1).await.unwrap());
        assert!(store.take_duty(other, "sweep", 1).await.unwrap());
        pass(world, 1);
    }
}

/// What one who left or was buried was closing is found at once, and is somebody else's to close,
/// long before its time has passed.
pub async fn a_tombstone_frees_finalisations(world: &impl World) {
    let store = world.store();
    for buried in [false, true] {
        let id = batch_of(store, "ada", 2).await;
        assert_eq!(Worker::on(store).drain(id, &[MODEL]).await, [id]);
        let (gone, other) = (join(store).await, join(store).await);
        let held = store.take_finalisation(id, gone, 10 * LEASE_MS).await.unwrap();
        assert_eq!(kind(store.take_finalisation(id, other, LEASE_MS).await), Kind::Contended);
        assert_eq!(store.find_unclosed(10).await.unwrap(), []);
        if buried {
            assert!(store.bury(gone, Evidence::LockGot).await.unwrap());
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
