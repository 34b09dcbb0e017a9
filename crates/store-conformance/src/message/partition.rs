//! Partitions: set up once, one owner each, and epochs that only rise.

use tokio::task::JoinSet;
use windrow_domain::partition::{PARTITIONS_MAX, Sharer, share};
use windrow_domain::{InstanceId, PartitionNo};
use windrow_store::error::Kind;
use windrow_store::member::{Evidence, NewMember};
use windrow_store::partition::{
    Fence, OBJECT_TYPES_MAX, Partition, SERVICE_BYTES_MAX, Serving, Setup,
};
use windrow_store::sweep::Retention;
use windrow_store::{Members, Messages, Partitions, Sweep};

use super::MessageWorld;
use super::fixture::*;

async fn seen(store: &impl Partitions, no: PartitionNo) -> Partition {
    let partitions = store.partitions().await.expect("partitions are listed");
    partitions.into_iter().find(|partition| partition.no == no).expect("there is such a partition")
}

/// The first set-up fixes service and partitions; a repeat has no effect; object types and the
/// lifecycle may change.
pub async fn the_first_set_up_fixes_the_partitions(world: &impl MessageWorld) {
    let store = world.store();
    assert_eq!(store.setup().await.unwrap(), None);
    assert!(store.partitions().await.unwrap().is_empty());
    assert_eq!(store.set_up(setup()).await.unwrap(), setup());
    assert_eq!(store.set_up(setup()).await.unwrap(), setup());
    let other = world.another().await;
    assert_eq!(other.setup().await.unwrap(), Some(setup()));
    let changed = Setup { object_types: vec!["cart".to_owned()], lifecycle: true, ..setup() };
    assert_eq!(other.set_up(changed.clone()).await.unwrap(), changed);
    assert_eq!(store.setup().await.unwrap(), Some(changed));
    let none = Setup { object_types: Vec::new(), ..setup() };
    assert_eq!(store.set_up(none.clone()).await.unwrap(), none);
    let partitions = store.partitions().await.unwrap();
    assert_eq!(partitions.iter().map(|partition| partition.no).collect::<Vec<_>>(), all());
    for partition in partitions {
        assert_eq!((partition.epoch, partition.instance, partition.taken_at), (0, None, None));
        assert!(!partition.is_owner_live && !partition.is_suspect);
    }
}

/// Another service, or another number of partitions, is a conflict that names both; nothing changes.
pub async fn another_service_or_number_of_partitions_is_a_conflict(world: &impl MessageWorld) {
    let runner = ready(world).await;
    let store = world.store();
    let before = store.partitions().await.unwrap();
    for count in [PARTITIONS - 1, PARTITIONS * 2 + 1] {
        let other = Setup { partitions: count, lifecycle: true, ..setup() };
        let error = store.set_up(other).await.unwrap_err();
        assert_eq!(error.kind, Kind::Conflict);
        let text = whole_text(&error);
        assert!(text.contains(&count.to_string()), "{text}");
        assert!(text.contains(&PARTITIONS.to_string()), "{text}");
    }
    let other = Setup { service: "billing".to_owned(), ..setup() };
    let error = store.set_up(other).await.unwrap_err();
    assert_eq!(error.kind, Kind::Conflict);
    let text = whole_text(&error);
    assert!(text.contains("billing") && text.contains("orders"), "{text}");
    assert_eq!(store.setup().await.unwrap(), Some(setup()));
    assert_eq!(store.partitions().await.unwrap(), before);
    assert_eq!(runner.partitions(), all());
}

/// A member of that service that says of itself what the metadata say.
async fn announce(store: &impl Members, service: &str, metadata: &str) -> InstanceId {
    let instance = InstanceId::new();
    let (service, host, metadata) = (service.to_owned(), "here".to_owned(), metadata.to_owned());
    let member = NewMember { instance, service, host, pid: 1, metadata, lock: None };
    store.register(member).await.expect("a new member joins");
    instance
}

fn serving(types: &[&str], lifecycle: bool) -> Serving {
    let object_types = types.iter().map(|&name| name.to_owned()).collect();
    Serving { object_types, lifecycle, own_max: 4, consumers: Vec::new(), publishers: Vec::new() }
}

/// What the members serve, as a set-up of the suite's service.
fn serves(types: &[&str], lifecycle: bool) -> Setup {
    Setup { object_types: serving(types, lifecycle).object_types, lifecycle, ..setup() }
}

/// One who starts with fewer types, or without publishers, takes nothing from those who live; what
/// nobody serves any more is gone with the next set-up.
pub async fn a_set_up_keeps_what_live_members_serve(world: &impl MessageWorld) {
    let store = world.store();
    let new = announce(store, "orders", &serving(&["cart", "order"], true).to_metadata()).await;
    let set_up = |setup| store.set_up(setup);
    assert_eq!(
        set_up(serves(&["cart", "order"], true)).await.unwrap(),
        serves(&["cart", "order"], true)
    );
    let old = announce(store, "orders", &serving(&["wallet", "order"], false).to_metadata()).await;
    let both = serves(&["cart", "order", "wallet"], true);
    let other = world.another().await;
    assert_eq!(other.set_up(serves(&["wallet", "order"], false)).await.unwrap(), both);
    assert_eq!(store.setup().await.unwrap(), Some(both.clone()));
    assert_eq!(set_up(serves(&[], false)).await.unwrap(), both, "who serves nothing takes nothing");

    store.tombstone(new).await.unwrap();
    assert_eq!(store.setup().await.unwrap(), Some(both), "until the next set-up");
    assert_eq!(
        set_up(serves(&["Zoo"], false)).await.unwrap(),
        serves(&["Zoo", "order", "wallet"], false)
    );
    store.tombstone(old).await.unwrap();
    assert_eq!(set_up(serves(&[], false)).await.unwrap(), serves(&[], false));
}

/// What members of other services and members that run no messages say of themselves sets nothing up,
/// whatever it is.
pub async fn only_members_that_run_messages_of_the_service_count(world: &impl MessageWorld) {
    let store = world.store();
    announce(store, "billing", &serving(&["bill"], true).to_metadata()).await;
    for metadata in [
        "",
        "{",
        "null",
        "[1]",
        r#""messages""#,
        r#"{"object_types":["bill"],"lifecycle":true}"#,
        r#"{"role":"batches","object_types":["bill"],"lifecycle":true}"#,
        r#"{"role":"messages"}"#,
        r#"{"role":"messages","lifecycle":false,"more":{"a":1}}"#,
    ] {
        announce(store, "orders", metadata).await;
    }
    assert_eq!(store.set_up(setup()).await.unwrap(), setup());
    assert_eq!(store.set_up(serves(&["cart"], false)).await.unwrap(), serves(&["cart"], false));
}

/// Whoever registers and then sets up stays set up, however many do so at once.
pub async fn nobody_is_lost_of_many_who_set_up_at_once(world: &impl MessageWorld) {
    let mut tasks = JoinSet::new();
    for no in 0..8 {
        let store = if no % 2 == 0 { world.store().clone() } else { world.another().await };
        tasks.spawn(async move {
            let (name, lifecycle) = (format!("type-{no}"), no == 3);
            announce(&store, "orders", &serving(&[&name], lifecycle).to_metadata()).await;
            store.set_up(serves(&[&name], lifecycle)).await.expect("all of them agree");
        });
    }
    tasks.join_all().await;
    let types: Vec<_> = (0..8).map(|no| format!("type-{no}")).collect();
    let types: Vec<_> = types.iter().map(String::as_str).collect();
    assert_eq!(world.store().setup().await.unwrap(), Some(serves(&types, true)));
}

/// Of many first set-ups at once one wins; who said the same agrees, who said otherwise is told.
pub async fn one_of_many_first_set_ups_wins(world: &impl MessageWorld) {
    let mut tasks = JoinSet::new();
    for no in 0..6 {
        let store = if no % 2 == 0 { world.store().clone() } else { world.another().await };
        let count = if no < 3 { 4 } else { 9 };
        tasks.spawn(
            async move { (count, store.set_up(Setup { partitions: count, ..setup() }).await) },
        );
    }
    let answers = tasks.join_all().await;
    let fixed = world.store().setup().await.unwrap().expect("one of them won").partitions;
    for (count, answer) in answers {
        match answer {
            Ok(setup) => assert_eq!((count, setup.partitions), (fixed, fixed)),
            Err(error) => assert_eq!((error.kind, count == fixed), (Kind::Conflict, false)),
        }
    }
    assert_eq!(world.store().partitions().await.unwrap().len(), usize::from(fixed));
}

/// Before the set-up there are no partitions, and nothing can be sent.
pub async fn nothing_is_sent_before_the_set_up(world: &impl MessageWorld) {
    let store = world.store();
    assert_eq!(kind(store.send(vec![inbox("a", "1")]).await), Kind::Refused);
    let mut runner = Runner::join(store).await;
    assert!(runner.take(&all()).await.is_empty());
    let runner = ready(world).await;
    assert!(runner.messages().await.is_empty());
    send(store, inbox("a", "1")).await;
    assert_eq!(ids(&runner.messages().await), ["1"]);
}

/// Free partitions are taken, those of a live owner are left alone, own ones are given again as they
/// are, and those that are not wanted stay free.
pub async fn only_free_partitions_are_taken(world: &impl MessageWorld) {
    let store = world.store();
    store.set_up(setup()).await.unwrap();
    let first = Runner::owning(store, &[1, 3, 5]).await;
    let mut second = Runner::join(&world.another().await).await;
    let taken = second.take(&[0, 1, 2, 3]).await;
    assert_eq!(second.partitions(), [0, 2]);
    assert!(taken.iter().all(|taken| taken.fence.epoch == 1 && !taken.is_suspect));
    let again = second.take(&[0, 1, 2]).await;
    assert_eq!(again.iter().map(|taken| taken.fence).collect::<Vec<_>>(), second.fences);
    assert!(second.take(&[]).await.is_empty());
    let owned = |partition: &Partition| partition.instance;
    let owners: Vec<_> = store.partitions().await.unwrap().iter().map(owned).collect();
    let (one, two) = (Some(first.instance), Some(second.instance));
    assert_eq!(owners, [two, one, two, one, None, one, None, None]);
    let partition = seen(store, 1).await;
    assert_eq!((partition.epoch, partition.taken_at), (1, Some(now(world))));
    assert!(partition.is_owner_live && !partition.is_suspect);
}

/// Every take raises the epoch by one; nothing lowers it.
pub async fn epochs_rise_with_every_take(world: &impl MessageWorld) {
    let store = world.store();
    store.set_up(setup()).await.unwrap();
    let mut epoch = 0;
    for round in 0..6 {
        let mut runner = Runner::join(store).await;
        let taken = runner.take(&[4]).await;
        epoch += 1;
        assert_eq!(taken[0].fence, Fence { partition: 4, epoch });
        match round % 2 {
            0 => assert_eq!(
                store.release_partitions(runner.instance, &runner.fences).await.unwrap(),
                1
            ),
            _ => drop(store.tombstone(runner.instance).await.unwrap()),
        }
        assert_eq!(seen(store, 4).await.epoch, epoch);
        store.set_up(setup()).await.unwrap();
        assert_eq!(seen(store, 4).await.epoch, epoch);
    }
}

/// Who drained a partition gives it back; then anybody may take it, and it is no suspect.
pub async fn a_released_partition_is_free(world: &impl MessageWorld) {
    let mut first = ready(world).await;
    let store = world.store();
    let given = [first.fence(2), first.fence(6)];
    assert_eq!(store.release_partitions(first.instance, &given).await.unwrap(), 2);
    assert_eq!(store.release_partitions(first.instance, &given).await.unwrap(), 0);
    let partition = seen(store, 2).await;
    assert_eq!((partition.instance, partition.epoch), (None, 1));
    assert!(!partition.is_owner_live && !partition.is_suspect);
    let mut second = Runner::join(store).await;
    let taken = second.take(&all()).await;
    assert_eq!(second.partitions(), [2, 6]);
    assert!(taken.iter().all(|taken| !taken.is_suspect && taken.fence.epoch == 2));
    assert!(first.take(&[2, 6]).await.is_empty());
}

/// A partition is given back by its owner under its epoch, and by nobody else.
pub async fn only_its_owner_releases_a_partition(world: &impl MessageWorld) {
    let first = ready(world).await;
    let store = world.store();
    let stranger = join(store).await;
    assert_eq!(store.release_partitions(stranger, &first.fences).await.unwrap(), 0);
    let wrong = Fence { partition: 3, epoch: 7 };
    assert_eq!(store.release_partitions(first.instance, &[wrong]).await.unwrap(), 0);
    store.release_partitions(first.instance, &[first.fence(3)]).await.unwrap();
    let mut again = first.clone();
    again.take(&[3]).await;
    assert_eq!(again.fence(3).epoch, 2);
    assert_eq!(store.release_partitions(first.instance, &[first.fence(3)]).await.unwrap(), 0);
    let owners = store.partitions().await.unwrap();
    assert!(owners.iter().all(|partition| partition.instance == Some(first.instance)));
}

/// A dead owner's partitions are taken by others, who are told that its heads are suspects; a
/// partition that the dead one tries to give back afterwards is a suspect all the same.
pub async fn a_dead_owners_partitions_are_taken_as_suspects(world: &impl MessageWorld) {
    let first = ready(world).await;
    let store = world.store();
    store.release_partitions(first.instance, &[first.fence(0)]).await.unwrap();
    pass(world, 60_000);
    let mut second = Runner::join(store).await;
    assert_eq!(second.take(&all()).await.len(), 1, "a silent owner is still one");
    assert!(store.bury(first.instance, Evidence::LockGot).await.unwrap());
    let partition = seen(store, 1).await;
    assert!(!partition.is_owner_live);
    match store.release_partitions(first.instance, &[first.fence(1)]).await {
        Ok(freed) => assert_eq!(freed, 0, "a tombstoned instance has nothing to give back"),
        Err(error) => assert_eq!(error.kind, Kind::LeaseLost),
    }
    let taken = second.take(&all()).await;
    assert_eq!(taken.len(), usize::from(PARTITIONS));
    for taken in taken {
        let is_dead_ones = taken.fence.partition != 0;
        assert_eq!(taken.is_suspect, is_dead_ones, "{taken:?}");
        assert_eq!(seen(store, taken.fence.partition).await.is_suspect, is_dead_ones);
    }
}

/// A suspect stays one through further takes, until its owner has gone through it.
pub async fn suspects_stay_until_they_are_cleared(world: &impl MessageWorld) {
    let first = ready(world).await;
    let store = world.store();
    pass(world, 60_000);
    let mut second = Runner::join(store).await;
    assert!(store.bury(first.instance, Evidence::LockGot).await.unwrap());
    second.take(&[1, 2]).await;
    let again = second.take(&[1]).await;
    assert!(again[0].is_suspect, "asked for again, it is what it was");
    store.release_partitions(second.instance, &second.fences).await.unwrap();
    let mut third = Runner::join(store).await;
    assert!(third.take(&[1, 2]).await.iter().all(|taken| taken.is_suspect));
    for old in [&first, &second] {
        let cleared = store.clear_suspects(old.instance, &[old.fence(1)]).await;
        assert_eq!(kind(cleared), Kind::LeaseLost);
    }
    let stale = Fence { partition: 1, epoch: 1 };
    let mixed = store.clear_suspects(third.instance, &[third.fence(2), stale]).await;
    assert_eq!(kind(mixed), Kind::LeaseLost);
    assert!(seen(store, 2).await.is_suspect, "all or none");
    store.clear_suspects(third.instance, &[third.fence(1)]).await.unwrap();
    store.clear_suspects(third.instance, &[third.fence(1)]).await.unwrap();
    assert!(!seen(store, 1).await.is_suspect && seen(store, 2).await.is_suspect);
    store.release_partitions(third.instance, &third.fences).await.unwrap();
    let taken = Runner::join(store).await.take(&[1, 2]).await;
    assert_eq!(taken.iter().map(|taken| taken.is_suspect).collect::<Vec<_>>(), [false, true]);
}

/// An owner that nobody remembers any more is as good as dead: it commits nothing, and what it had
/// is taken.
pub async fn a_forgotten_owners_partitions_are_taken(world: &impl MessageWorld) {
    let first = ready(world).await;
    let store = world.store();
    let at = send(store, inbox("a", "1")).await;
    store.tombstone(first.instance).await.unwrap();
    pass(world, 120_000);
    let retention =
        Retention { closed_batch_secs: None, open_file_secs: 1_000_000, member_secs: 60 };
    assert_eq!(store.prune(retention, 10).await.unwrap().members, 1);
    let partition = seen(store, 1).await;
    assert!(!partition.is_owner_live);
    let refused = kind(first.try_finish(at).await);
    assert!(matches!(refused, Kind::LeaseLost | Kind::Missing), "{refused:?}");
    let second = Runner::owning(store, &all()).await;
    assert_eq!(second.fence(1).epoch, 2);
    assert_eq!(ids(&second.messages().await), ["1"]);
}

/// A tombstoned instance takes nothing, clears nothing and is heard of no more.
pub async fn a_tombstoned_instance_is_refused(world: &impl MessageWorld) {
    let first = ready(world).await;
    let store = world.store();
    store.release_partitions(first.instance, &[first.fence(7)]).await.unwrap();
    store.tombstone(first.instance).await.unwrap();
    for wanted in [&[7_u16][..], &[1], &all()] {
        assert_eq!(kind(store.take_partitions(first.instance, wanted).await), Kind::LeaseLost);
    }
    let cleared = store.clear_suspects(first.instance, &[first.fence(1)]).await;
    assert_eq!(kind(cleared), Kind::LeaseLost);
    assert_eq!(seen(store, 7).await.instance, None);
    assert_eq!(seen(store, 7).await.epoch, 1);
    let second = Runner::owning(store, &all()).await;
    assert_eq!(second.fences.len(), usize::from(PARTITIONS));
}

/// Who never registered takes nothing.
pub async fn a_stranger_takes_nothing(world: &impl MessageWorld) {
    let store = world.store();
    store.set_up(setup()).await.unwrap();
    assert_eq!(kind(store.take_partitions(InstanceId::new(), &[1]).await), Kind::Missing);
    let partition = seen(store, 1).await;
    assert_eq!((partition.instance, partition.epoch), (None, 0));
}

/// Instances that each take their share have every partition between them, each once.
pub async fn shares_cover_every_partition(world: &impl MessageWorld) {
    let store = world.store();
    store.set_up(Setup { partitions: 50, ..setup() }).await.unwrap();
    let mut runners = Vec::new();
    for _ in 0..3 {
        runners.push(Runner::join(store).await);
    }
    let sharer = |runner: &Runner<_>| Sharer { instance: runner.instance, own_max: 20 };
    let live: Vec<_> = runners.iter().map(sharer).collect();
    for runner in &mut runners {
        let share = share(50, &live, runner.instance);
        assert_eq!(share.unowned, 0);
        assert_eq!(runner.take(&share.mine).await.len(), share.mine.len());
    }
    let owned = sorted(runners.iter().flat_map(Runner::partitions));
    assert_eq!(owned, (0..50).collect::<Vec<_>>());
    let partitions = store.partitions().await.unwrap();
    assert!(partitions.iter().all(|one| one.is_owner_live && one.epoch == 1));
}

/// Of many that want the same partitions at once, one gets each.
pub async fn one_of_many_takes_a_partition(world: &impl MessageWorld) {
    let store = world.store();
    store.set_up(setup()).await.unwrap();
    let mut tasks = JoinSet::new();
    for no in 0..6_u64 {
        let store = if no % 2 == 0 { store.clone() } else { world.another().await };
        tasks.spawn(async move {
            let mut runner = Runner::join(&store).await;
            let mut wanted = all();
            Dice::seeded(no).shuffle(&mut wanted);
            runner.take(&wanted).await;
            runner
        });
    }
    let runners = tasks.join_all().await;
    assert_eq!(sorted(runners.iter().flat_map(Runner::partitions)), all());
    for runner in &runners {
        for fence in &runner.fences {
            let partition = seen(store, fence.partition).await;
            assert_eq!((partition.instance, partition.epoch), (Some(runner.instance), 1));
        }
    }
}

/// A set-up whose numbers or names are out of bounds is invalid, and fixes nothing.
pub async fn a_set_up_out_of_bounds_is_invalid(world: &impl MessageWorld) {
    let store = world.store();
    let types = |count: usize| (0..count).map(|no| format!("type-{no:04}")).collect::<Vec<_>>();
    for bad in [
        Setup { partitions: 0, ..setup() },
        Setup { partitions: PARTITIONS_MAX + 1, ..setup() },
        Setup { service: String::new(), ..setup() },
        Setup { service: "x".repeat(SERVICE_BYTES_MAX + 1), ..setup() },
        Setup { object_types: types(OBJECT_TYPES_MAX + 1), ..setup() },
    ] {
        assert_eq!(kind(store.set_up(bad).await), Kind::Invalid);
    }
    assert_eq!(store.setup().await.unwrap(), None);
    let most = Setup {
        partitions: PARTITIONS_MAX,
        service: "x".repeat(SERVICE_BYTES_MAX),
        object_types: types(OBJECT_TYPES_MAX),
        lifecycle: true,
    };
    assert_eq!(store.set_up(most.clone()).await.unwrap(), most);
    assert_eq!(store.partitions().await.unwrap().len(), usize::from(PARTITIONS_MAX));
}
