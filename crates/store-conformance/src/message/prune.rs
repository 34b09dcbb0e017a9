//! Pruning: old events go as far as a snapshot stands for them, where somebody asked for it.
//!
//! Holds throughout: versions and the feed go on as if nothing had gone. The last event of all may
//! stay, so each case appends one more behind those it counts.

use bytes::Bytes;
use tokio::task::JoinSet;
use windrow_domain::Expected;
use windrow_store::error::Kind;
use windrow_store::event::{Event, Snapshot};
use windrow_store::message::{MessageRetention, PrunedMessages};
use windrow_store::{Error, Events, Messages, Scope};

use super::MessageWorld;
use super::fixture::*;

const DAY_MS: u64 = 24 * 3_600_000;

/// Prunes events that are older than this.
fn after(event_ms: u64) -> MessageRetention {
    MessageRetention { event_ms: Some(event_ms), ..keep() }
}

/// One step; nothing but events is old in these cases.
async fn prune(store: &impl Messages, retention: MessageRetention, limit: u32) -> u64 {
    let tidied = store.prune_messages(retention, limit).await.expect("old events are pruned");
    assert_eq!(tidied, PrunedMessages { events: tidied.events, ..PrunedMessages::default() });
    tidied.events
}

async fn put_snapshot(store: &impl Events, name: &str, version: u64) {
    let snapshot = snapshot(name, version);
    store.put_snapshot(snapshot).await.expect("a stream may have a snapshot");
}

fn snapshot(name: &str, version: u64) -> Snapshot {
    let state = Bytes::from(format!("{name} at {version}"));
    Snapshot { owner: ada(), stream: stream(name), version, state }
}

/// Appends so many events, one after another, whatever the version is.
async fn happen(store: &impl Events, name: &str, count: u64) {
    for _ in 0..count {
        let id = format!("{name}-{}", version(store, name).await + 1);
        store.append(vec![append(name, Expected::Any, &[&id])]).await.unwrap();
    }
}

fn versions(events: &[Event]) -> Vec<u64> {
    events.iter().map(|event| event.version).collect()
}

async fn read(store: &impl Events, name: &str, from: u64) -> Vec<u64> {
    let read = store.read_stream(&ada(), &stream(name), from, 100).await;
    versions(&read.expect("what was not pruned is read"))
}

/// What is told to somebody who reads from a version that is gone: where the stream begins, and where
/// its snapshot is.
async fn gone(store: &impl Events, name: &str, from: u64) -> (u64, u64) {
    let error: Error = store.read_stream(&ada(), &stream(name), from, 2).await.unwrap_err();
    assert_eq!(error.kind, Kind::Missing);
    let pruned = error.pruned().expect("it says what is left");
    assert_eq!(pruned.stream, name);
    (pruned.first, pruned.snapshot)
}

/// Events stay for ever unless somebody says otherwise, and without a snapshot even then: nothing
/// could tell what they came to.
pub async fn events_stay_unless_a_snapshot_stands_for_them(world: &impl MessageWorld) {
    let store = world.store();
    happen(store, "kept", 3).await;
    happen(store, "summed up", 3).await;
    put_snapshot(store, "summed up", 3).await;
    happen(store, "last", 1).await;
    pass(world, 100 * DAY_MS);
    assert_eq!(prune(store, keep(), 1000).await, 0, "nobody asked for it");
    assert_eq!(prune(store, after(u64::MAX), 1000).await, 0, "nothing is that old");
    assert_eq!(read(store, "summed up", 1).await, [1, 2, 3]);
    assert_eq!(prune(store, after(DAY_MS), 1000).await, 3);
    assert_eq!(read(store, "kept", 1).await, [1, 2, 3]);
    assert_eq!(gone(store, "summed up", 1).await, (4, 3));
    assert_eq!(prune(store, after(DAY_MS), 1000).await, 0);
}

/// Only what is older than was said goes, and nothing behind the snapshot. Who reads from what is
/// gone is told where the stream begins.
pub async fn only_old_events_before_the_snapshot_go(world: &impl MessageWorld) {
    let store = world.store();
    happen(store, "a", 2).await;
    pass(world, DAY_MS);
    happen(store, "a", 3).await;
    put_snapshot(store, "a", 4).await;
    happen(store, "last", 1).await;
    assert_eq!(prune(store, after(DAY_MS + 1), 1000).await, 0, "not yet");
    assert_eq!(prune(store, after(DAY_MS), 1000).await, 2);
    for from in [0, 1, 2] {
        assert_eq!(gone(store, "a", from).await, (3, 4));
    }
    assert_eq!(read(store, "a", 3).await, [3, 4, 5]);
    pass(world, DAY_MS);
    assert_eq!(prune(store, after(DAY_MS), 1000).await, 2);
    assert_eq!(gone(store, "a", 4).await, (5, 4));
    assert_eq!(read(store, "a", 5).await, [5]);
    assert!(read(store, "a", 6).await.is_empty(), "what comes later may be waited for");
    assert_eq!(store.snapshot(&ada(), &stream("a")).await.unwrap(), Some(snapshot("a", 4)));
    let bobs = store.read_stream(&owner("bob"), &stream("a"), 1, 10).await.unwrap();
    assert!(bobs.is_empty(), "another owner's stream of that name is another");
}

/// A snapshot that moves lets more go, and one of long ago changes nothing.
pub async fn a_snapshot_that_moves_lets_more_go(world: &impl MessageWorld) {
    let store = world.store();
    happen(store, "a", 6).await;
    happen(store, "last", 1).await;
    pass(world, DAY_MS);
    for (at, goes, first) in [(2, 2, 3), (2, 0, 3), (1, 0, 3), (5, 3, 6), (6, 1, 7), (6, 0, 7)] {
        put_snapshot(store, "a", at).await;
        assert_eq!(prune(store, after(DAY_MS), 1000).await, goes);
        assert_eq!(gone(store, "a", 1).await.0, first);
    }
    // Events that come when all before them are gone have their own age.
    happen(store, "a", 2).await;
    put_snapshot(store, "a", 8).await;
    happen(store, "last", 1).await;
    assert_eq!(prune(store, after(DAY_MS), 1000).await, 0);
    pass(world, DAY_MS);
    assert_eq!(prune(store, after(DAY_MS), 1000).await, 2);
    assert_eq!(gone(store, "a", 8).await, (9, 8));
}

/// A stream without events goes on where it was: versions neither restart nor skip.
pub async fn an_emptied_stream_goes_on(world: &impl MessageWorld) {
    let store = world.store();
    happen(store, "a", 3).await;
    put_snapshot(store, "a", 3).await;
    happen(store, "last", 1).await;
    pass(world, DAY_MS);
    assert_eq!(prune(store, after(1), 1000).await, 3);
    assert_eq!(version(store, "a").await, 3);
    assert!(read(store, "a", 4).await.is_empty());
    let late = append("a", Expected::Version(0), &["x"]);
    let error = store.append(vec![late]).await.unwrap_err();
    assert_eq!(error.version_conflict().map(|both| (both.expected, both.actual)), Some((0, 3)));
    let next = append("a", Expected::Version(3), &["a-4"]);
    for _ in 0..2 {
        let appended = store.append(vec![next.clone()]).await.unwrap();
        assert_eq!((appended[0].first, appended[0].last), (4, 4));
    }
    assert_eq!(read(store, "a", 4).await, [4]);
    assert_eq!(gone(store, "a", 3).await, (4, 3));
    assert_eq!(kind(store.put_snapshot(snapshot("a", 5)).await), Kind::Invalid);
    put_snapshot(store, "a", 4).await;
}

/// A step prunes no more events than it may, and the next goes on where it ended.
pub async fn a_step_of_pruning_is_bounded(world: &impl MessageWorld) {
    let store = world.store();
    for (name, count) in [("a", 5), ("b", 1), ("c", 3)] {
        happen(store, name, count).await;
        put_snapshot(store, name, count).await;
        pass(world, 1000);
    }
    happen(store, "last", 1).await;
    pass(world, DAY_MS);
    let mut steps = Vec::new();
    for _ in 0..6 {
        steps.push(prune(store, after(DAY_MS), 2).await);
    }
    assert!(steps.iter().all(|events| *events <= 2), "{steps:?}");
    assert_eq!(steps.iter().sum::<u64>(), 9, "{steps:?}");
    for (name, count) in [("a", 5), ("b", 1), ("c", 3)] {
        assert_eq!(gone(store, name, 1).await, (count + 1, count));
    }
}

/// The feed goes on from every place it ever gave, whatever is gone, and misses nothing that comes
/// later: also when the last event there was is gone.
pub async fn the_feed_goes_on_behind_what_was_pruned(world: &impl MessageWorld) {
    let store = world.store();
    let mut places = vec![None];
    for _ in 0..3 {
        for name in ["a", "b"] {
            happen(store, name, 1).await;
            let behind = places.last().cloned().flatten();
            let (found, next) = feed(store, behind.as_deref(), 1).await;
            assert_eq!(found.len(), 1);
            places.push(next);
        }
    }
    put_snapshot(store, "b", 3).await;
    pass(world, DAY_MS);
    let gone = prune(store, after(1), 1000).await;
    assert!((2..=3).contains(&gone), "the last of all may stay");
    for place in &places {
        let (found, _) = feed(store, place.as_deref(), 0).await;
        assert!(found.iter().filter(|event| event.stream.as_str() == "b").count() <= 1);
    }
    let (whole, _) = feed(store, None, 3).await;
    let kept = whole.iter().filter(|event| event.stream.as_str() == "a");
    assert_eq!(kept.count(), 3);
    for at in 4..7 {
        happen(store, "b", 1).await;
        let end = places.last().cloned().flatten();
        let (found, next) = feed(store, end.as_deref(), 1).await;
        assert_eq!(versions(&found), [at], "what comes later is behind every place");
        places.push(next);
        put_snapshot(store, "b", at).await;
        pass(world, DAY_MS);
        prune(store, after(1), 1000).await;
    }
}

/// Reads on from a place until at least so many events came; a feed may lag behind others.
async fn feed(
    store: &impl Events,
    after: Option<&str>,
    least: usize,
) -> (Vec<Event>, Option<String>) {
    for _ in 0..20_000 {
        let page = store.read_all(&Scope::All, after, 1000).await.expect("the feed is read");
        if page.rows.len() >= least {
            return (page.rows, page.next);
        }
        a_moment().await;
    }
    panic!("the feed gave fewer than {least} events")
}

/// Pruning that meets appends, snapshots and other pruning takes nothing but what it may: versions
/// stay dense, each expected one is met, and readers see a piece without a gap or are told.
pub async fn pruning_that_meets_appends_loses_nothing(world: &impl MessageWorld) {
    const EACH: u64 = 40;
    let mut writers = JoinSet::new();
    for writer in 0..2_u64 {
        let store = if writer == 0 { world.store().clone() } else { world.another().await };
        writers.spawn(async move {
            let name = format!("s{writer}");
            for at in 0..EACH {
                let id = format!("{name}-{at}");
                let new = append(&name, Expected::Version(at), &[&id]);
                let appended = store.append(vec![new]).await.expect("nobody else appends here");
                assert_eq!(appended[0].last, at + 1);
                if at % 3 == 0 {
                    put_snapshot(&store, &name, at + 1).await;
                }
            }
        });
    }
    let mut others = JoinSet::new();
    for _ in 0..2 {
        let store = world.another().await;
        others.spawn(async move {
            for _ in 0..60 {
                prune(&store, after(0), 3).await;
                for name in ["s0", "s1"] {
                    check_dense(&store, name).await;
                }
            }
        });
    }
    writers.join_all().await;
    others.join_all().await;
    let store = world.store();
    happen(store, "last", 1).await;
    while prune(store, after(0), 1000).await > 0 {}
    for name in ["s0", "s1"] {
        assert_eq!(version(store, name).await, EACH);
        // The last snapshot is at the last multiple of three, and one.
        assert_eq!(gone(store, name, 1).await, (EACH + 1, EACH));
    }
}

/// A read is without a gap, or says where the stream begins.
async fn check_dense(store: &impl Events, name: &str) {
    match store.read_stream(&ada(), &stream(name), 1, 100).await {
        Ok(events) => {
            let wanted: Vec<u64> = (1..=events.len() as u64).collect();
            assert_eq!(versions(&events), wanted);
        }
        Err(error) => {
            let pruned = error.pruned().expect("it says what is left");
            assert!(pruned.first <= pruned.snapshot + 1, "{pruned}");
        }
    }
}
