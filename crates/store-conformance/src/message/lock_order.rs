//! The order of locks: what meets crosswise at the same moment never deadlocks, and each is told what happened.
//!
//! Holds throughout: as for the races. The suite counts the database's deadlocks after each case; a
//! backend that retries them would still fail here.

use tokio::task::JoinSet;
use windrow_domain::{CallState, Expected};
use windrow_store::error::Kind;
use windrow_store::message::{Commit, Exchange, MessageRetention, ReadFrom};
use windrow_store::{Calls, Messages, Partitions};

use super::MessageWorld;
use super::fixture::*;

const ROUNDS: u32 = 20;

/// Calls that are answered while others ask for them again, in another order and with effects that
/// meet: nobody is in the other's way.
pub async fn answers_that_meet_repeats_never_deadlock(world: &impl MessageWorld) {
    const CALLS: usize = 6;
    let runner = ready(world).await;
    let asking = [Runner::join(world.store()).await, Runner::join(&world.another().await).await];
    for round in 0..ROUNDS {
        // Objects in the other order than requests.
        let id = |no: usize| format!("r{round}-{no}");
        let asked: Vec<_> = (0..CALLS).map(|no| call(&(CALLS - no).to_string(), &id(no))).collect();
        let mut answers = Vec::new();
        for new in &asked {
            let at = submit(world.store(), new.clone()).await;
            answers.push(reply(at, new.key.request_id.as_str(), "ok"));
        }
        let mut tasks = JoinSet::new();
        let events = |who: &str| {
            let id = format!("{who}-{round}");
            ["e", "f"].map(|name| append(name, Expected::Any, &[&id])).to_vec()
        };
        let answer = Commit { calls: answers, events: events("owner"), ..runner.effects() };
        let store = runner.store.clone();
        tasks.spawn(async move { store.commit(answer).await.map(drop) });
        for (no, who) in asking.iter().enumerate() {
            let mut submits = asked.clone();
            if no == 1 {
                submits.reverse();
            }
            let commit = Commit { submits, events: events(&no.to_string()), ..who.effects() };
            let store = who.store.clone();
            tasks.spawn(async move { store.commit(commit).await.map(drop) });
        }
        for done in tasks.join_all().await {
            done.expect("nobody is in its way");
        }
        for no in 0..CALLS {
            let told = seen_call(world.store(), &id(no)).await;
            assert_eq!((told.state, told.retry_count), (CallState::Completed, 2));
        }
    }
    let events = u64::from(ROUNDS) * 3;
    assert_eq!(version(world.store(), "e").await, events);
    assert!(waiting(world.store()).await.is_empty());
}

/// An instance that exchanges for several partitions at once, each time as a heartbeat, while it gives
/// another one back and takes it again.
pub async fn exchanges_that_meet_a_release_never_deadlock(world: &impl MessageWorld) {
    let runner = ready(world).await;
    let kept = [0, 1, 2];
    for round in 0..ROUNDS {
        let mut tasks = JoinSet::new();
        for no in kept {
            let fence = runner.fence(no);
            let from = vec![ReadFrom { fence, after_stream: 0 }];
            let messages = vec![outbox("all", &format!("{round}-{no}"))];
            let asked = Exchange {
                commit: Commit { fences: vec![fence], messages, ..runner.effects() },
                heartbeat: true,
                read: Some(windrow_store::message::Read { from, ..runner.read() }),
            };
            let store = if no == 0 { world.another().await } else { runner.store.clone() };
            tasks.spawn(async move {
                let work = store.exchange(asked).await.expect("it is still its own").work;
                assert!(work.lost.is_empty());
            });
        }
        let mut other = runner.clone();
        let partitions = [5, 6];
        other.take(&partitions).await;
        tasks.spawn(async move {
            for no in partitions {
                let fence = other.fence(no);
                let freed = other.store.release_partitions(other.instance, &[fence]).await;
                assert_eq!(freed.unwrap(), 1);
            }
        });
        tasks.join_all().await;
    }
    assert_eq!(waiting(world.store()).await.len(), ROUNDS as usize * kept.len());
}

/// Of two questions under one id that are asked at once one is asked, and the other is a conflict:
/// alone, or in commits.
pub async fn two_questions_at_once_are_a_conflict(world: &impl MessageWorld) {
    let runner = ready(world).await;
    let other = Runner::join(&world.another().await).await;
    for round in 0..ROUNDS {
        let id = format!("r{round}");
        let mut tasks = JoinSet::new();
        for (no, who) in [&runner, &other].into_iter().enumerate() {
            let (store, new) = (who.store.clone(), call(&format!("{no}-{round}"), &id));
            let commit = Commit { submits: vec![new.clone()], ..who.effects() };
            let is_alone = (round as usize + no).is_multiple_of(3);
            tasks.spawn(async move {
                if is_alone {
                    store.submit_call(new).await.map(drop)
                } else {
                    store.commit(commit).await.map(drop)
                }
            });
        }
        let answers = tasks.join_all().await;
        let refused: Vec<_> =
            answers.into_iter().filter_map(Result::err).map(|error| error.kind).collect();
        assert_eq!(refused, [Kind::Conflict]);
        assert_eq!(seen_call(world.store(), &id).await.retry_count, 0);
    }
    assert_eq!(runner.messages().await.len(), ROUNDS as usize);
}

/// A dead letter that many replay or discard at once goes one way, once.
pub async fn a_dead_letter_is_replayed_once(world: &impl MessageWorld) {
    let runner = ready(world).await;
    let other = world.another().await;
    let mut replayed = 0;
    for round in 0..ROUNDS {
        let mut gone = Vec::new();
        for name in ["a", "b"] {
            let at = send(world.store(), inbox(name, &format!("{name}-{round}"))).await;
            gone.push(dead(at, "no"));
        }
        let commit = Commit { dead: gone.clone(), ..runner.effects() };
        world.store().commit(commit).await.unwrap();
        let mut tasks = JoinSet::new();
        for no in 0..3 {
            let store = if no == 1 { other.clone() } else { world.store().clone() };
            let mut ids: Vec<_> = gone.iter().map(|one| one.id).collect();
            if no % 2 == 1 {
                ids.reverse();
            }
            tasks.spawn(async move {
                match no {
                    2 => store.discard_dead(&scope(ADA), &ids).await.map(|count| (0, count)),
                    _ => store
                        .replay_dead(&scope(ADA), &ids)
                        .await
                        .map(|sent| (sent.len() as u64, 0)),
                }
            });
        }
        let mut ways = Vec::new();
        for answer in tasks.join_all().await {
            match answer {
                Ok(way) => ways.push(way),
                Err(error) => assert_eq!(error.kind, Kind::Missing),
            }
        }
        ways.retain(|way| *way != (0, 0));
        assert!(ways == [(2, 0)] || ways == [(0, 2)], "{ways:?}");
        replayed += ways[0].0;
        let waits = waiting(world.store()).await;
        assert_eq!(waits.len() as u64, replayed);
    }
}

/// A stream that somebody sends to is not forgotten however short streams are kept; nor is a call
/// lost that is archived while somebody asks for it again.
pub async fn pruning_at_once_takes_only_what_is_empty(world: &impl MessageWorld) {
    let runner = ready(world).await;
    let other = world.another().await;
    for round in 0..ROUNDS * 2 {
        let id = format!("m{round}");
        let at = submit(world.store(), call("1", &id)).await;
        runner.answer(reply(at, &id, "ok")).await;
        let mut tasks = JoinSet::new();
        for store in [other.clone(), world.store().clone()] {
            tasks.spawn(async move {
                let retention = MessageRetention { stream_ms: 0, archive_ms: 0, ..keep() };
                store.prune_messages(retention, 100).await.expect("old things are tidied away");
            });
        }
        let sending = other.clone();
        let new = inbox("a", &id);
        tasks.spawn(async move {
            send(&sending, new).await;
        });
        let again = world.store().submit_call(call("1", &id)).await.unwrap();
        assert_eq!((again.at, again.call.state), (None, CallState::Completed));
        tasks.join_all().await;
        let messages = runner.messages().await;
        assert_eq!(ids(&messages), [id.as_str()], "nothing is lost");
        runner.finish(&[messages[0].at]).await;
        assert_eq!(seen_call(world.store(), &id).await.retry_count, 1);
    }
}
