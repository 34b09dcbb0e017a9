//! Races: two handles at once, many rounds; whatever the machine's order, the promise holds.
//!
//! Holds throughout: a passing run never depends on luck, though a failure may need several runs.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use tokio::task::JoinSet;
use windrow_domain::Expected;
use windrow_store::error::Kind;
use windrow_store::message::{Commit, Message, MessageRef, MessageRetention, NewMessage, Read};
use windrow_store::{Calls, Members, MessageStore, Messages, Partitions};

use super::MessageWorld;
use super::fixture::*;

const ROUNDS: u32 = 30;
const POLLS_MAX: u32 = 20_000;

/// Two handles in turn, as two processes have.
async fn handles<W: MessageWorld>(world: &W, count: usize) -> Vec<W::Store> {
    let other = world.another().await;
    (0..count).map(|no| if no % 2 == 0 { world.store().clone() } else { other.clone() }).collect()
}

/// Many that send to the same streams at once, in any order of streams, lose none of it; what one
/// of them sends stays in its order.
pub async fn sends_at_once_keep_an_order(world: &impl MessageWorld) {
    const SENDERS: usize = 4;
    const EACH: usize = 15;
    let runner = ready(world).await;
    let mut tasks = JoinSet::new();
    for (sender, store) in handles(world, SENDERS).await.into_iter().enumerate() {
        tasks.spawn(async move {
            for no in 0..EACH {
                let one = |name: &str| inbox(name, &format!("{name}-{sender}-{no:03}"));
                let mut messages = vec![one("a"), one("b"), one("c")];
                messages.rotate_left((sender + no) % 3);
                if sender % 2 == 1 {
                    messages.reverse();
                }
                send_all(&store, messages).await;
            }
        });
    }
    tasks.join_all().await;
    let messages = runner.messages().await;
    for name in ["a", "b", "c"] {
        let of: Vec<_> = messages.iter().filter(|one| one.stream.as_str() == name).collect();
        assert_eq!(of.len(), SENDERS * EACH);
        assert!(of.is_sorted_by(|one, next| one.at.position < next.at.position));
        for sender in 0..SENDERS {
            let prefix = format!("{name}-{sender}-");
            let own: Vec<_> = of.iter().filter(|one| one.id.starts_with(&prefix)).collect();
            assert_eq!(own.len(), EACH);
            assert!(own.is_sorted_by(|one, next| one.id < next.id), "in its order");
        }
    }
}

/// A reader that goes on behind what it has sees every message of every stream once, in order, while
/// others send: none appears behind its back.
pub async fn a_reader_skips_nothing_that_appears_later(world: &impl MessageWorld) {
    const SENDERS: usize = 3;
    const EACH: usize = 20;
    let runner = ready(world).await;
    let mut tasks = JoinSet::new();
    for (sender, store) in handles(world, SENDERS).await.into_iter().enumerate() {
        tasks.spawn(async move {
            for no in 0..EACH {
                let one = |name: &str| outbox(name, &format!("{name}-{sender}-{no}"));
                send_all(&store, vec![one("a"), one("b")]).await;
            }
        });
    }
    let (mut held, mut count) = (BTreeMap::new(), 0);
    for _ in 0..POLLS_MAX {
        let read = Read { held: held.clone().into_iter().collect(), ..runner.read() };
        for message in runner.work_of(read).await.messages {
            let last = held.insert(message.at.stream_no, message.at.position);
            assert!(last.is_none_or(|last| last < message.at.position), "a later one is greater");
            count += 1;
        }
        if count == SENDERS * EACH * 2 {
            break;
        }
        a_moment().await;
    }
    tasks.join_all().await;
    assert_eq!(count, SENDERS * EACH * 2);
    assert_eq!(waiting(world.store()).await.len(), count);
}

/// The same message sent by many at once is one message, and all are told its place.
pub async fn repeats_at_once_make_one_message(world: &impl MessageWorld) {
    let runner = ready(world).await;
    for round in 0..ROUNDS / 3 {
        let mut tasks = JoinSet::new();
        for (no, store) in handles(world, 4).await.into_iter().enumerate() {
            tasks.spawn(async move {
                let id = format!("{round}");
                let beside = outbox("beside", &format!("{round}-{no}"));
                let mut messages = vec![inbox("a", &id), beside];
                if no % 2 == 1 {
                    messages.reverse();
                }
                let sent = send_all(&store, messages).await;
                sent[no % 2]
            });
        }
        let sent = tasks.join_all().await;
        assert_eq!(sent.iter().filter(|sent| !sent.is_duplicate).count(), 1);
        assert!(sent.iter().all(|one| one.at == sent[0].at));
    }
    let messages = runner.messages().await;
    assert_eq!(ids_of(&messages, "a").len(), ROUNDS as usize / 3);
    assert_eq!(ids_of(&messages, "beside").len(), ROUNDS as usize / 3 * 4);
}

/// Of two messages with one id and other content that are sent at once, one is sent and the other is a
/// conflict.
pub async fn two_contents_at_once_are_a_conflict(world: &impl MessageWorld) {
    let runner = ready(world).await;
    for round in 0..ROUNDS / 3 {
        let mut tasks = JoinSet::new();
        for (no, store) in handles(world, 2).await.into_iter().enumerate() {
            tasks.spawn(async move {
                let payload = Bytes::from(no.to_string());
                let new = NewMessage { payload, ..inbox("a", &round.to_string()) };
                store.send(vec![new]).await.map_err(|error| error.kind)
            });
        }
        let answers = tasks.join_all().await;
        assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 1);
        assert!(answers.iter().flat_map(|one| one.as_ref().err()).all(|k| *k == Kind::Conflict));
    }
    assert_eq!(runner.messages().await.len(), ROUNDS as usize / 3);
}

/// Ends a message with an effect that would show if it came twice.
fn pay<S: MessageStore + Clone>(runner: &Runner<S>, at: MessageRef, id: &str) -> Commit {
    Commit {
        events: vec![append(id, Expected::Any, &[id])],
        messages: vec![outbox("paid", id)],
        ..runner.ending(&[at])
    }
}

/// An owner that commits while it is declared dead and its partitions are taken: its effects are there
/// once, by one of the two, never by both and never by none.
pub async fn a_commit_that_meets_a_take_counts_once(world: &impl MessageWorld) {
    world.store().set_up(setup()).await.unwrap();
    let other = world.another().await;
    let (mut firsts, mut seconds) = (0, 0);
    for round in 0..ROUNDS {
        let first = Runner::owning(world.store(), &all()).await;
        let id = format!("m{round}");
        let at = send(world.store(), inbox("a", &id)).await;
        let mut second = Runner::join(&other).await;
        let mut tasks = JoinSet::new();
        let commit = pay(&first, at, &id);
        let store = first.store.clone();
        tasks.spawn(async move {
            let is_done = store.commit(commit).await.map(drop).map_err(|error| error.kind);
            (true, is_done)
        });
        let name = id.clone();
        let dying = first.instance;
        tasks.spawn(async move {
            second.store.tombstone(dying).await.unwrap();
            assert_eq!(second.take(&all()).await.len(), usize::from(PARTITIONS));
            let left = second.messages().await;
            let left: Vec<&Message> = left.iter().filter(|one| one.at == at).collect();
            let mut is_done = Err(Kind::Missing);
            if let [left] = left[..] {
                let commit = pay(&second, left.at, &name);
                second.store.commit(commit).await.expect("what it reads is its own");
                is_done = Ok(());
            }
            second.store.release_partitions(second.instance, &second.fences).await.unwrap();
            (false, is_done)
        });
        for (is_first, is_done) in tasks.join_all().await {
            match (is_first, is_done) {
                (true, Ok(())) => firsts += 1,
                (true, Err(kind)) => assert_eq!(kind, Kind::LeaseLost),
                (false, Ok(())) => seconds += 1,
                (false, Err(_)) => {}
            }
        }
        assert_eq!(firsts + seconds, round + 1, "once in each round");
        assert_eq!(version(world.store(), &id).await, 1);
    }
    assert_eq!(waiting(world.store()).await.len(), ROUNDS as usize, "each paid once");
}

/// An owner that commits while it gives the partition back: what it is told is what happened.
pub async fn a_commit_that_meets_a_release_is_told(world: &impl MessageWorld) {
    world.store().set_up(setup()).await.unwrap();
    let other = world.another().await;
    let mut done = 0;
    for round in 0..ROUNDS {
        let runner = Runner::owning(world.store(), &all()).await;
        let id = format!("m{round}");
        let at = send(world.store(), inbox(&id, &id)).await;
        let (commit, fences) = (pay(&runner, at, &id), runner.fences.clone());
        let (store, other) = (runner.store.clone(), other.clone());
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            match store.commit(commit).await {
                Ok(_) => 1,
                Err(error) => {
                    assert_eq!(error.kind, Kind::LeaseLost);
                    0
                }
            }
        });
        let instance = runner.instance;
        tasks.spawn(async move {
            let freed = other.release_partitions(instance, &fences).await.unwrap();
            assert_eq!(freed, u64::from(PARTITIONS));
            0
        });
        let committed: u64 = tasks.join_all().await.into_iter().sum();
        assert_eq!(version(world.store(), &id).await, committed);
        done += committed;
    }
    assert_eq!(waiting(world.store()).await.len() as u64, u64::from(ROUNDS), "{done} were paid");
}

/// Commits of many owners whose effects meet in the same streams, objects of any order, never deadlock
/// and lose nothing.
pub async fn commits_at_once_never_deadlock(world: &impl MessageWorld) {
    const EACH: usize = 12;
    world.store().set_up(setup()).await.unwrap();
    let mut runners = Vec::new();
    for (no, store) in handles(world, 4).await.into_iter().enumerate() {
        let wanted: Vec<_> = all().into_iter().filter(|one| usize::from(*one) % 4 == no).collect();
        runners.push(Runner::owning(&store, &wanted).await);
    }
    let mut tasks = JoinSet::new();
    for (no, runner) in runners.into_iter().enumerate() {
        tasks.spawn(async move {
            let mut dice = Dice::seeded(no as u64);
            for round in 0..EACH {
                let mut names = ["a", "b", "c", "d"];
                dice.shuffle(&mut names);
                let id = |name: &str| format!("{name}-{no}-{round}");
                let mut commit = runner.effects();
                for name in names {
                    commit.messages.push(inbox(name, &id(name)));
                    commit.events.push(append(name, Expected::Any, &[&id(name)]));
                }
                dice.shuffle(&mut names);
                commit.submits.extend(names.map(|name| call(name, &id(name))));
                runner.store.commit(commit).await.expect("nothing is in its way");
            }
        });
    }
    tasks.join_all().await;
    for name in ["a", "b", "c", "d"] {
        assert_eq!(version(world.store(), name).await, 4 * EACH as u64);
    }
    assert_eq!(waiting(world.store()).await.len(), 4 * EACH * 4 * 2);
}

/// The same question asked by many at once is one call, and the others count as retries.
pub async fn questions_at_once_make_one_call(world: &impl MessageWorld) {
    let runner = ready(world).await;
    for round in 0..ROUNDS / 3 {
        let mut tasks = JoinSet::new();
        for store in handles(world, 4).await {
            let new = call("1", &format!("r{round}"));
            tasks.spawn(async move { store.submit_call(new).await.expect("the same question") });
        }
        let answers = tasks.join_all().await;
        assert_eq!(answers.iter().filter(|one| one.at.is_some()).count(), 1);
        assert_eq!(seen_call(world.store(), &format!("r{round}")).await.retry_count, 3);
    }
    assert_eq!(runner.messages().await.len(), ROUNDS as usize / 3);
}

/// A stream that is forgotten while somebody sends to it loses nothing, and no place is used twice.
pub async fn pruning_that_meets_a_send_loses_nothing(world: &impl MessageWorld) {
    let runner = ready(world).await;
    let other = world.another().await;
    let mut places = BTreeSet::new();
    for round in 0..ROUNDS {
        pass(world, 10_000);
        let store = other.clone();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let retention = MessageRetention { stream_ms: 1000, dedupe_ms: 1000, ..keep() };
            store.prune_messages(retention, 100).await.expect("old things are tidied away");
        });
        let id = format!("m{round}");
        let at = send(world.store(), inbox("a", &id)).await;
        tasks.join_all().await;
        assert!(places.insert(at), "no place is used twice");
        let messages = runner.messages().await;
        assert_eq!((ids(&messages), messages[0].at), (vec![id.as_str()], at));
        let repeat = send_all(world.store(), vec![inbox("a", &id)]).await;
        assert!(repeat[0].is_duplicate, "its id is known while it is on its way");
        runner.finish(&[at]).await;
    }
}

/// Members come, go and take while others do: every partition has one owner at most, and no epoch falls.
pub async fn epochs_only_rise_while_members_come_and_go(world: &impl MessageWorld) {
    world.store().set_up(setup()).await.unwrap();
    let mut tasks = JoinSet::new();
    for (no, store) in handles(world, 4).await.into_iter().enumerate() {
        tasks.spawn(async move {
            let mut dice = Dice::seeded(no as u64 + 40);
            let mut taken = Vec::new();
            for _ in 0..ROUNDS / 3 {
                let mut runner = Runner::join(&store).await;
                let mut wanted = all();
                dice.shuffle(&mut wanted);
                let got = runner.take(&wanted[..4]).await;
                taken.extend(got.iter().map(|taken| taken.fence));
                if dice.percent(50) {
                    store.tombstone(runner.instance).await.unwrap();
                } else {
                    let freed = store.release_partitions(runner.instance, &runner.fences).await;
                    assert_eq!(freed.unwrap(), runner.fences.len() as u64);
                }
            }
            taken
        });
    }
    let taken: Vec<_> = tasks.join_all().await.into_iter().flatten().collect();
    let once: BTreeSet<_> = taken.iter().copied().collect();
    assert_eq!(once.len(), taken.len(), "an epoch is one instance's");
    for partition in world.store().partitions().await.unwrap() {
        let takes = taken.iter().filter(|fence| fence.partition == partition.no).count();
        assert_eq!(partition.epoch, takes as u64, "every take raised it by one");
    }
}
