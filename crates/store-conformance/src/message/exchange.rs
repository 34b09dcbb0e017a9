//! Exchanging: a commit, a heartbeat and a read that belong together.

use windrow_store::error::Kind;
use windrow_store::message::{Commit, Committed, Exchange, Exchanged, Read, Work};
use windrow_store::{Members, MessageStore, Messages, Partitions};

use super::MessageWorld;
use super::fixture::*;

fn exchange<S: MessageStore + Clone>(runner: &Runner<S>, commit: Commit) -> Exchange {
    Exchange { commit, heartbeat: false, read: Some(runner.read()) }
}

/// An exchange gives nothing that it just ended, and what it sent comes behind what was there.
pub async fn an_exchange_gives_what_is_next(world: &impl MessageWorld) {
    let runner = ready(world).await;
    let store = world.store();
    for name in ["a", "b", "c"] {
        send_all(store, several(name, 4)).await;
    }
    let first = runner.messages().await;
    let ended: Vec<_> =
        first.iter().filter(|one| !one.id.ends_with("-4")).map(|one| one.at).collect();
    let messages = vec![inbox("a", "a-5"), inbox("d", "d-1")];
    let commit = Commit { messages, ..runner.ending(&ended) };
    let Exchanged { committed, work } = store.exchange(exchange(&runner, commit)).await.unwrap();
    assert_eq!(committed.sent.len(), 2);
    assert_eq!(sorted(ids(&work.messages)), ["a-4", "a-5", "b-4", "c-4", "d-1"]);
    assert_eq!(ids_of(&work.messages, "a"), ["a-4", "a-5"]);
    assert_eq!(work, runner.work().await, "as a read afterwards");
    let places: Vec<_> = work.messages.iter().map(|message| message.at).collect();
    assert!(places.is_sorted(), "by partition, as asked, stream and position");
}

/// Exchange by exchange, every message of every stream is given once, in the order of its stream.
pub async fn exchanges_give_every_message_once(world: &impl MessageWorld) {
    let runner = ready(world).await;
    let store = world.store();
    for no in 0..12 {
        send_all(store, several(&format!("s{no}"), 9)).await;
    }
    let read = Read { messages_max: 10, stream_messages_max: 4, ..runner.read() };
    let (mut commit, mut seen) = (runner.effects(), Vec::new());
    for _ in 0..200 {
        let asked = Exchange { commit, heartbeat: true, read: Some(read.clone()) };
        let work = store.exchange(asked).await.unwrap().work;
        if work.messages.is_empty() {
            break;
        }
        let places: Vec<_> = work.messages.iter().map(|message| message.at).collect();
        assert!(places.iter().all(|at| !seen.contains(at)), "none twice");
        commit = runner.ending(&places);
        seen.extend(places);
    }
    assert_eq!(seen.len(), 12 * 9);
    let mut last = std::collections::BTreeMap::new();
    for at in seen {
        assert!(last.insert(at.stream_no, at.position) < Some(at.position), "in order");
    }
    assert!(waiting(store).await.is_empty());
}

/// An exchange counts as a heartbeat when that is asked for.
pub async fn an_exchange_counts_as_a_heartbeat(world: &impl MessageWorld) {
    let runner = ready(world).await;
    let store = world.store();
    let joined_at = now(world);
    pass(world, 5000);
    for (heartbeat, heard_at) in [(false, joined_at), (true, now(world))] {
        let asked = Exchange { heartbeat, ..exchange(&runner, runner.effects()) };
        store.exchange(asked).await.unwrap();
        assert_eq!(store.members().await.unwrap()[0].heartbeat_at, heard_at);
    }
}

/// An exchange whose commit is refused does nothing; nor does one whose read is wrong.
pub async fn a_refused_exchange_does_nothing(world: &impl MessageWorld) {
    let runner = ready(world).await;
    let store = world.store();
    let sent = send_all(store, several("a", 2)).await;
    let wrong = Read { messages_max: 0, ..runner.read() };
    let asked = Exchange { read: Some(wrong), ..exchange(&runner, runner.ending(&[sent[0].at])) };
    assert_eq!(kind(store.exchange(asked).await), Kind::Invalid);
    let twice = exchange(&runner, runner.ending(&[sent[0].at, sent[0].at]));
    assert_eq!(kind(store.exchange(twice).await), Kind::Invalid);
    runner.finish(&[sent[0].at]).await;
    let again = exchange(&runner, runner.ending(&[sent[1].at, sent[0].at]));
    assert_eq!(kind(store.exchange(again).await), Kind::Conflict);
    assert_eq!(ids(&waiting(store).await), ["a-2"]);
    store.tombstone(runner.instance).await.unwrap();
    for heartbeat in [true, false] {
        let asked = Exchange { heartbeat, ..exchange(&runner, runner.ending(&[sent[1].at])) };
        assert_eq!(kind(store.exchange(asked).await), Kind::LeaseLost);
        let empty = Exchange { heartbeat, ..exchange(&runner, Commit::new(runner.instance)) };
        assert_eq!(kind(store.exchange(empty).await), Kind::LeaseLost);
    }
    assert_eq!(ids(&waiting(store).await), ["a-2"]);
}

/// An exchange without a read gives no work; one that reads a lost partition is told so.
pub async fn an_exchange_reads_what_it_asks_for(world: &impl MessageWorld) {
    let runner = ready(world).await;
    let store = world.store();
    let sent = send_all(store, several("a", 2)).await;
    let asked = Exchange { read: None, ..exchange(&runner, runner.ending(&[sent[0].at])) };
    let exchanged = store.exchange(asked).await.unwrap();
    assert_eq!(exchanged, Exchanged { committed: Committed::default(), work: Work::default() });
    let lost = (sent[0].at.partition + 1) % PARTITIONS;
    store.release_partitions(runner.instance, &[runner.fence(lost)]).await.unwrap();
    let commit = Commit { fences: Vec::new(), ..runner.effects() };
    let work = store.exchange(exchange(&runner, commit)).await.unwrap().work;
    assert_eq!((ids(&work.messages), work.lost), (vec!["a-2"], vec![lost]));
    let failing = failed(sent[1].at, "no", later(world, 1000));
    let fences = vec![runner.fence(sent[1].at.partition)];
    let commit = Commit { fences, failed: vec![failing], ..runner.effects() };
    let work = store.exchange(exchange(&runner, commit)).await.unwrap().work;
    assert!(work.messages.is_empty());
    assert_eq!(work.next_due, Some(later(world, 1000)));
}
