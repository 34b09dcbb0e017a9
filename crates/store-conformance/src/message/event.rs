//! Events: dense versions, expected or not, and a feed that gives each once.

use std::collections::BTreeMap;

use bytes::Bytes;
use tokio::task::JoinSet;
use windrow_domain::message::PAYLOAD_BYTES_MAX;
use windrow_domain::{Expected, Owner};
use windrow_store::error::Kind;
use windrow_store::event::{Append, Appended, Event, NewEvent, Snapshot};
use windrow_store::inspect::PAGE_MAX;
use windrow_store::message::SEND_MAX;
use windrow_store::{Events, Scope};

use super::MessageWorld;
use super::fixture::*;

const FEED_POLLS_MAX: u32 = 20_000;

async fn append_one(store: &impl Events, append: Append) -> Appended {
    let appended = store.append(vec![append]).await.expect("a good append happens");
    assert_eq!(appended.len(), 1);
    appended[0]
}

async fn read(store: &impl Events, name: &str, from: u64, limit: u32) -> Vec<Event> {
    store.read_stream(&ada(), &stream(name), from, limit).await.expect("a stream is read")
}

fn names(events: &[Event]) -> Vec<&str> {
    events.iter().map(|event| event.id.as_str()).collect()
}

/// Reads on from a cursor until so many events came. A feed may lag behind transactions of others.
async fn feed(
    store: &impl Events,
    scope: &Scope,
    after: &mut Option<String>,
    (limit, count): (u32, usize),
) -> Vec<Event> {
    let mut events = Vec::new();
    for _ in 0..FEED_POLLS_MAX {
        let page = store.read_all(scope, after.as_deref(), limit).await.expect("the feed is read");
        assert!(page.rows.len() <= limit as usize);
        assert!(page.next.is_some(), "the feed always leads on");
        *after = page.next;
        let is_empty = page.rows.is_empty();
        events.extend(page.rows);
        if events.len() >= count {
            assert_eq!(events.len(), count);
            return events;
        }
        if is_empty {
            a_moment().await;
        }
    }
    panic!("the feed gave {} events of {count}", events.len());
}

/// Every event is there once, and a stream's own are in their order without a gap.
fn assert_in_order(events: &[Event]) {
    let mut last: BTreeMap<(&Owner, &str), u64> = BTreeMap::new();
    for event in events {
        let version = last.entry((&event.owner, event.stream.as_str())).or_default();
        assert_eq!(event.version, *version + 1, "{} of {}", event.id, event.stream);
        *version = event.version;
    }
}

/// Events get dense versions from one, and read back as they were appended.
pub async fn versions_are_dense(world: &impl MessageWorld) {
    let store = world.store();
    assert_eq!(version(store, "a").await, 0);
    assert!(read(store, "a", 1, 10).await.is_empty());
    let headers = [("trace", "ü"), ("", "x")].map(|(k, v)| (k.to_owned(), v.to_owned())).into();
    let odd = NewEvent { headers, payload: Bytes::from_static(&[0, 255]), ..event("e1") };
    let first = Append { events: vec![odd.clone()], ..append("a", Expected::Any, &[]) };
    assert_eq!(append_one(store, first).await, Appended { first: 1, last: 1 });
    pass(world, 1000);
    let more = append("a", Expected::Version(1), &["e2", "e3"]);
    assert_eq!(append_one(store, more).await, Appended { first: 2, last: 3 });
    assert_eq!(append_one(store, append("b", Expected::Any, &["x"])).await.last, 1);
    let events = read(&world.another().await, "a", 1, 10).await;
    assert_eq!(names(&events), ["e1", "e2", "e3"]);
    assert_eq!(events.iter().map(|event| event.version).collect::<Vec<_>>(), [1, 2, 3]);
    let first = &events[0];
    assert_eq!((&first.owner, &first.stream), (&ada(), &stream("a")));
    assert_eq!(
        (&first.kind, &first.payload, &first.headers),
        (&odd.kind, &odd.payload, &odd.headers)
    );
    assert!(first.at < now(world));
    assert_eq!(events[1].at, now(world));
    assert_eq!(version(store, "a").await, 3);
    assert_eq!(names(&read(store, "a", 0, 2).await), ["e1", "e2"]);
    assert_eq!(names(&read(store, "a", 2, 1).await), ["e2"]);
    assert!(read(store, "a", 4, 10).await.is_empty());
}

/// Streams of two owners are two streams.
pub async fn event_streams_belong_to_their_owner(world: &impl MessageWorld) {
    let store = world.store();
    append_one(store, append("a", Expected::Version(0), &["e1"])).await;
    let bobs = Append { owner: owner("bob"), ..append("a", Expected::Version(0), &["e1"]) };
    assert_eq!(append_one(store, bobs).await.last, 1);
    assert_eq!(version(store, "a").await, 1);
    assert_eq!(store.stream_version(&owner("eve"), &stream("a")).await.unwrap(), 0);
    assert!(store.read_stream(&owner("eve"), &stream("a"), 1, 10).await.unwrap().is_empty());
}

/// An append that meets another version is refused and names both; nothing is appended.
pub async fn another_version_is_a_conflict_that_names_both(world: &impl MessageWorld) {
    let store = world.store();
    append_one(store, append("a", Expected::Any, &["e1", "e2", "e3"])).await;
    for (expected, ids) in [(0, &["x"][..]), (2, &["x"]), (4, &["x"]), (9, &["x", "y"])] {
        let bad = append("a", Expected::Version(expected), ids);
        let error = store.append(vec![append("b", Expected::Any, &["b1"]), bad]).await.unwrap_err();
        assert_eq!(error.kind, Kind::Conflict);
        let conflict = error.version_conflict().expect("it says which versions");
        assert_eq!((conflict.expected, conflict.actual), (expected, 3));
        assert_eq!(conflict.stream, "a");
    }
    let error = store.append(vec![append("new", Expected::Version(1), &["x"])]).await.unwrap_err();
    assert_eq!(error.version_conflict().map(|both| (both.expected, both.actual)), Some((1, 0)));
    assert_eq!((version(store, "a").await, version(store, "b").await), (3, 0));
    append_one(store, append("a", Expected::Version(3), &["e4"])).await;
}

/// An append that is sent again is answered as the first time, also when others followed it; one
/// with other ids, or fewer or more of them, is another append.
pub async fn a_repeated_append_gives_the_same_answer(world: &impl MessageWorld) {
    let store = world.store();
    append_one(store, append("a", Expected::Any, &["e1"])).await;
    let twice = append("a", Expected::Version(1), &["e2", "e3"]);
    let first = append_one(store, twice.clone()).await;
    assert_eq!(append_one(store, twice.clone()).await, first);
    append_one(store, append("a", Expected::Any, &["e4"])).await;
    assert_eq!(append_one(store, twice).await, first);
    assert_eq!(version(store, "a").await, 4);
    for ids in [&["e2", "x"][..], &["e3", "e2"], &["e2", "e3", "e4", "e5"]] {
        let refused = store.append(vec![append("a", Expected::Version(1), ids)]).await;
        assert_eq!(kind(refused), Kind::Conflict);
    }
    append_one(store, append("a", Expected::Any, &["e1"])).await;
    assert_eq!(version(store, "a").await, 5, "without a version it is never a repeat");
}

/// Appends of one call happen all or none, and those to the same stream follow one another.
pub async fn appends_of_one_call_follow_one_another(world: &impl MessageWorld) {
    let store = world.store();
    let appends = vec![
        append("b", Expected::Version(0), &["b1"]),
        append("a", Expected::Version(0), &["a1", "a2"]),
        append("b", Expected::Version(1), &["b2"]),
        append("a", Expected::Any, &["a3"]),
    ];
    let appended = store.append(appends).await.unwrap();
    let versions: Vec<_> = appended.iter().map(|one| (one.first, one.last)).collect();
    assert_eq!(versions, [(1, 1), (1, 2), (2, 2), (3, 3)]);
    assert_eq!(names(&read(store, "a", 1, 10).await), ["a1", "a2", "a3"]);
    assert_eq!(names(&read(store, "b", 1, 10).await), ["b1", "b2"]);
    let late = vec![
        append("c", Expected::Any, &["c1"]),
        append("a", Expected::Version(3), &["a4"]),
        append("a", Expected::Version(3), &["a5"]),
    ];
    let error = store.append(late).await.unwrap_err();
    assert_eq!(error.version_conflict().map(|both| (both.expected, both.actual)), Some((3, 4)));
    assert_eq!((version(store, "a").await, version(store, "c").await), (3, 0));
    assert!(store.append(Vec::new()).await.unwrap().is_empty());
}

/// Of writers that race for a version exactly one wins, and the others are told.
pub async fn one_of_many_writers_wins_a_version(world: &impl MessageWorld) {
    const ROUNDS: u64 = 8;
    let mut tasks = JoinSet::new();
    for writer in 0..4 {
        let store = if writer % 2 == 0 { world.store().clone() } else { world.another().await };
        tasks.spawn(async move {
            let mut won = 0;
            for round in 0..ROUNDS {
                // The other stream first, half of the time: no order of locks is asked of a caller.
                let id = format!("w{writer}-{round}");
                let mut appends = vec![
                    append("race", Expected::Version(round), &[&id]),
                    append("beside", Expected::Any, &[&id]),
                ];
                if writer % 2 == 1 {
                    appends.reverse();
                }
                match store.append(appends).await {
                    Ok(_) => won += 1,
                    Err(error) => {
                        let both = error.version_conflict().expect("it lost to another");
                        assert_eq!(both.expected, round);
                        assert!(both.actual != round, "{both}");
                    }
                }
                while version(&store, "race").await <= round {
                    tokio::task::yield_now().await;
                }
            }
            won
        });
    }
    let won: u64 = tasks.join_all().await.into_iter().sum();
    assert_eq!(won, ROUNDS, "one for each version");
    let store = world.store();
    let race = read(store, "race", 1, 100).await;
    let beside = read(store, "beside", 1, 100).await;
    assert_eq!(race.len() as u64, ROUNDS);
    assert_eq!(names(&race), names(&beside), "each with what came with it");
}

/// The feed gives every event once, a stream's own in their order, page by page, and goes on from
/// its end.
pub async fn the_feed_gives_every_event_once(world: &impl MessageWorld) {
    let store = world.store();
    assert_eq!(store.read_all(&Scope::All, None, 10).await.unwrap().rows, []);
    for no in 0..12 {
        let name = ["a", "b", "c"][no % 3];
        let whose = if no % 4 == 3 { "bob" } else { ADA };
        let ids = [format!("{no}-1"), format!("{no}-2")];
        let new = append(name, Expected::Any, &[&ids[0], &ids[1]]);
        append_one(store, Append { owner: owner(whose), ..new }).await;
    }
    let whole = feed(store, &Scope::All, &mut None, (1000, 24)).await;
    assert_in_order(&whole);
    for limit in [1, 5] {
        assert_eq!(feed(store, &Scope::All, &mut None, (limit, 24)).await, whole);
    }
    let bobs: Vec<_> = whole.iter().filter(|one| one.owner.as_str() == "bob").cloned().collect();
    let mut after = None;
    assert_eq!(feed(store, &scope("bob"), &mut after, (2, bobs.len())).await, bobs);
    for round in 0..3 {
        let page = store.read_all(&scope("bob"), after.as_deref(), 10).await.unwrap();
        assert_eq!(page.rows, []);
        after = page.next;
        let id = format!("later-{round}");
        let new = Append { owner: owner("bob"), ..append("d", Expected::Any, &[&id]) };
        append_one(store, new).await;
        let next = feed(store, &scope("bob"), &mut after, (10, 1)).await;
        assert_eq!(names(&next), [id]);
    }
    assert_eq!(read(store, "a", 1, 1).await, whole[..1], "a whole event");
}

/// A feed that is read while many write misses nothing and doubles nothing.
pub async fn a_feed_read_while_others_write_misses_nothing(world: &impl MessageWorld) {
    const WRITERS: usize = 4;
    const EACH: usize = 25;
    let mut tasks = JoinSet::new();
    for writer in 0..WRITERS {
        let store = if writer % 2 == 0 { world.store().clone() } else { world.another().await };
        tasks.spawn(async move {
            for no in 0..EACH {
                let (mine, shared) = (format!("w{writer}-{no}"), format!("s{writer}-{no}"));
                let own = format!("own-{writer}");
                let mut appends = vec![
                    append(&own, Expected::Any, &[&mine]),
                    append("shared", Expected::Any, &[&shared]),
                ];
                if no % 2 == 0 {
                    appends.reverse();
                }
                store.append(appends).await.expect("any version will do");
            }
        });
    }
    let count = WRITERS * EACH * 2;
    let events = feed(&world.another().await, &Scope::All, &mut None, (7, count)).await;
    tasks.join_all().await;
    assert_in_order(&events);
    assert_eq!(feed(world.store(), &Scope::All, &mut None, (1000, count)).await.len(), count);
}

/// A cursor of the feed fits its own scope, and nothing that was changed.
pub async fn a_feeds_cursor_is_bound_to_its_scope(world: &impl MessageWorld) {
    let store = world.store();
    append_one(store, append("a", Expected::Any, &["e1", "e2"])).await;
    let mut after = None;
    feed(store, &scope(ADA), &mut after, (1, 2)).await;
    let after = after.expect("the feed leads on");
    for other in [scope("bob"), Scope::All] {
        assert_eq!(kind(store.read_all(&other, Some(&after), 10).await), Kind::Invalid);
    }
    for text in ["", "x", "bm90aGluZw"] {
        assert_eq!(kind(store.read_all(&scope(ADA), Some(text), 10).await), Kind::Invalid);
    }
    assert_eq!(store.read_all(&scope(ADA), Some(&after), 99).await.unwrap().rows, []);
}

/// A newer snapshot replaces an older one, never the other way round; one of a version that is not
/// there is invalid.
pub async fn a_snapshot_never_goes_back(world: &impl MessageWorld) {
    let store = world.store();
    let snapshot = |version: u64, state: &'static str| Snapshot {
        owner: ada(),
        stream: stream("a"),
        version,
        state: Bytes::from_static(state.as_bytes()),
    };
    assert_eq!(store.snapshot(&ada(), &stream("a")).await.unwrap(), None);
    assert_eq!(kind(store.put_snapshot(snapshot(1, "x")).await), Kind::Invalid);
    append_one(store, append("a", Expected::Any, &["e1", "e2", "e3"])).await;
    store.put_snapshot(snapshot(2, "two")).await.unwrap();
    store.put_snapshot(snapshot(1, "one")).await.unwrap();
    assert_eq!(store.snapshot(&ada(), &stream("a")).await.unwrap(), Some(snapshot(2, "two")));
    store.put_snapshot(snapshot(3, "")).await.unwrap();
    assert_eq!(kind(store.put_snapshot(snapshot(4, "four")).await), Kind::Invalid);
    assert_eq!(store.snapshot(&ada(), &stream("a")).await.unwrap(), Some(snapshot(3, "")));
    assert_eq!(store.snapshot(&owner("bob"), &stream("a")).await.unwrap(), None);
    assert_eq!(store.snapshot(&ada(), &stream("b")).await.unwrap(), None);
}

/// Appends and reads out of bounds are invalid, and nothing is appended.
pub async fn an_append_out_of_bounds_is_invalid(world: &impl MessageWorld) {
    let store = world.store();
    let with = |event: NewEvent| Append { events: vec![event], ..append("a", Expected::Any, &[]) };
    for bad in [
        append("a", Expected::Any, &[]),
        with(event("")),
        with(NewEvent { kind: String::new(), ..event("e") }),
        with(NewEvent { kind: "\0".to_owned(), ..event("e") }),
        with(NewEvent { payload: Bytes::from(vec![0; PAYLOAD_BYTES_MAX + 1]), ..event("e") }),
        Append { events: vec![event("e"); SEND_MAX + 1], ..append("a", Expected::Any, &[]) },
    ] {
        let appends = vec![append("b", Expected::Any, &["b1"]), bad];
        assert_eq!(kind(store.append(appends).await), Kind::Invalid);
    }
    assert_eq!((version(store, "a").await, version(store, "b").await), (0, 0));
    for limit in [0, PAGE_MAX + 1] {
        assert_eq!(kind(store.read_stream(&ada(), &stream("a"), 1, limit).await), Kind::Invalid);
        assert_eq!(kind(store.read_all(&Scope::All, None, limit).await), Kind::Invalid);
    }
    let huge = store.append(vec![append("a", Expected::Version(u64::MAX), &["x"])]).await;
    let refused = kind(huge);
    assert!(matches!(refused, Kind::Conflict | Kind::Invalid), "{refused:?}");
    assert!(read(store, "a", u64::MAX, 10).await.is_empty());
}
