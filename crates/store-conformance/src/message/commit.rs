//! Committing: fenced, whole or not at all, and counted.

use bytes::Bytes;
use windrow_domain::Expected;
use windrow_store::error::Kind;
use windrow_store::event::Append;
use windrow_store::message::{
    Commit, Committed, Done, ERROR_BYTES_MAX, FailedAttempt, MessageRef, NewMessage, SEND_MAX,
    Started,
};
use windrow_store::object::{PutState, STATE_BYTES_MAX};
use windrow_store::partition::Fence;
use windrow_store::{Members, MessageStore, Messages, Objects, Partitions};

use super::MessageWorld;
use super::fixture::*;

/// A commit with one effect of every kind beside ending a message.
fn everything<S: MessageStore + Clone>(runner: &Runner<S>, ended: MessageRef) -> Commit {
    Commit {
        states: vec![put("wallet/1", "state")],
        events: vec![append("wallet/1", Expected::Any, &["e1"])],
        messages: vec![outbox("news", "n1"), inbox("todo", "t1")],
        ..runner.ending(&[ended])
    }
}

/// Nothing of [`everything`] is there, and these messages are all that waits.
async fn assert_nothing(store: &impl MessageStore, left: &[&str]) {
    assert_eq!(store.states(&[key("wallet/1")]).await.unwrap(), [None]);
    assert_eq!(version(store, "wallet/1").await, 0);
    assert_eq!(sorted(ids(&waiting(store).await)), sorted(left.iter().copied()));
}

/// What is done is read no more, and the rest of its stream stays in order.
pub async fn what_is_done_is_gone(world: &impl MessageWorld) {
    let runner = ready(world).await;
    let sent = send_all(world.store(), several("a", 5)).await;
    runner.finish(&[sent[0].at, sent[1].at]).await;
    assert_eq!(ids(&runner.messages().await), ["a-3", "a-4", "a-5"]);
    // The engine ends them in order; the store does not mind.
    runner.finish(&[sent[3].at]).await;
    assert_eq!(ids(&runner.messages().await), ["a-3", "a-5"]);
    runner.finish(&[sent[4].at, sent[2].at]).await;
    assert!(runner.messages().await.is_empty());
    let next = send(world.store(), inbox("a", "a-6")).await;
    assert_eq!(next.stream_no, sent[0].at.stream_no);
    assert!(next.position > sent[4].at.position, "a place is never used again");
}

/// What an owner commits under an old epoch changes nothing at all, also when it is the owner again.
pub async fn an_old_epoch_commits_nothing(world: &impl MessageWorld) {
    let mut first = ready(world).await;
    let store = world.store();
    let at = send(store, inbox("a", "1")).await;
    let stale = everything(&first, at);
    store.release_partitions(first.instance, &first.fences).await.unwrap();
    assert_eq!(kind(store.commit(stale.clone()).await), Kind::LeaseLost, "it is free");
    let second = Runner::owning(store, &all()).await;
    assert_eq!(kind(store.commit(stale.clone()).await), Kind::LeaseLost, "it is another's");
    store.release_partitions(second.instance, &second.fences).await.unwrap();
    first.take(&all()).await;
    assert_eq!(kind(store.commit(stale).await), Kind::LeaseLost, "its epoch has passed");
    let future = Fence { epoch: first.fences[0].epoch + 1, ..first.fences[0] };
    let future = Commit { fences: vec![future], ..Commit::new(first.instance) };
    assert_eq!(kind(store.commit(future).await), Kind::LeaseLost);
    assert_nothing(store, &["1"]).await;
    store.commit(everything(&first, at)).await.unwrap();
    assert_eq!(sorted(ids(&first.messages().await)), ["n1", "t1"]);
}

/// A tombstoned instance commits nothing, though nobody has taken its partitions yet.
pub async fn a_tombstoned_instance_commits_nothing(world: &impl MessageWorld) {
    let runner = ready(world).await;
    let store = world.store();
    let at = send(store, inbox("a", "1")).await;
    store.tombstone(runner.instance).await.unwrap();
    assert_eq!(kind(store.commit(everything(&runner, at)).await), Kind::LeaseLost);
    let only_sends = Commit { messages: vec![inbox("b", "2")], ..Commit::new(runner.instance) };
    assert_eq!(kind(store.commit(only_sends).await), Kind::LeaseLost);
    assert_nothing(store, &["1"]).await;
}

/// One fence that is not the instance's any more refuses the whole commit.
pub async fn one_stale_fence_refuses_the_whole_commit(world: &impl MessageWorld) {
    let runner = ready(world).await;
    let store = world.store();
    let at = send(store, inbox("a", "1")).await;
    let lost = (at.partition + 1) % PARTITIONS;
    store.release_partitions(runner.instance, &[runner.fence(lost)]).await.unwrap();
    assert_eq!(kind(store.commit(everything(&runner, at)).await), Kind::LeaseLost);
    let unknown = Fence { partition: PARTITIONS, epoch: 0 };
    let mut commit = everything(&runner, at);
    commit.fences.retain(|fence| fence.partition != lost);
    commit.fences.push(unknown);
    assert_eq!(kind(store.commit(commit).await), Kind::LeaseLost);
    let mut both = everything(&runner, at);
    both.fences.retain(|fence| fence.partition != lost);
    both.fences.push(Fence { epoch: 7, ..runner.fence(at.partition) });
    let refused = kind(store.commit(both).await);
    assert!(matches!(refused, Kind::LeaseLost | Kind::Invalid), "two epochs: {refused:?}");
    assert_nothing(store, &["1"]).await;
    let one = Commit { fences: vec![runner.fence(at.partition)], ..runner.ending(&[at]) };
    store.commit(one).await.unwrap();
}

/// A message that is not there any more cannot be ended, failed, begun or given up on: not a second
/// time, and not by a commit that is sent twice.
pub async fn a_message_that_ended_before_is_a_conflict(world: &impl MessageWorld) {
    let runner = ready(world).await;
    let store = world.store();
    let sent = send_all(store, several("a", 2)).await;
    let at = sent[0].at;
    let commit = everything(&runner, at);
    store.commit(commit.clone()).await.unwrap();
    assert_eq!(kind(store.commit(commit).await), Kind::Conflict, "a repeat is told apart");
    let never = MessageRef { position: at.position + 1000, ..at };
    for gone in [at, never] {
        for commit in [
            runner.ending(&[gone]),
            runner.ending(&[sent[1].at, gone]),
            Commit { failed: vec![failed(gone, "no", now(world))], ..runner.effects() },
            Commit { started: vec![Started { at: gone }], ..runner.effects() },
            Commit { dead: vec![dead(gone, "no")], ..runner.effects() },
        ] {
            assert_eq!(kind(store.commit(commit).await), Kind::Conflict);
        }
    }
    assert_eq!(version(store, "wallet/1").await, 1, "once");
    assert_eq!(sorted(ids(&runner.messages().await)), ["a-2", "n1", "t1"]);
    let untouched = runner.head("a").await;
    assert_eq!((untouched.attempts, untouched.started), (0, None));
}

/// Whatever makes a commit a conflict, nothing of it stays.
pub async fn a_conflict_leaves_nothing_of_a_commit(world: &impl MessageWorld) {
    let runner = ready(world).await;
    let store = world.store();
    let sent = send_all(store, vec![inbox("a", "1"), inbox("b", "2"), inbox("c", "3")]).await;
    runner.finish(&[sent[2].at]).await;
    let other = NewMessage { payload: Bytes::new(), ..inbox("a", "1") };
    let mut ended_twice = everything(&runner, sent[0].at);
    ended_twice.done.push(done(sent[2].at));
    let mut wrong_version = everything(&runner, sent[0].at);
    wrong_version.events.push(append("ledger", Expected::Version(5), &["e2"]));
    let mut known_id = everything(&runner, sent[0].at);
    known_id.messages.push(other);
    for commit in [ended_twice, wrong_version, known_id] {
        let failing = failed(sent[1].at, "no", later(world, 1000));
        let commit = Commit { failed: vec![failing], ..commit };
        assert_eq!(kind(store.commit(commit).await), Kind::Conflict);
        assert_nothing(store, &["1", "2"]).await;
        assert_eq!(runner.head("b").await.attempts, 0);
    }
    store.commit(everything(&runner, sent[0].at)).await.unwrap();
}

/// Effects of many handlers, of many partitions, come together in one commit.
pub async fn effects_of_many_handlers_come_together(world: &impl MessageWorld) {
    let runner = ready(world).await;
    let store = world.store();
    let names: Vec<_> = (0..30).map(|no| format!("wallet/{no}")).collect();
    let messages = names.iter().map(|name| inbox(name, &format!("{name}-in")));
    send_all(store, messages.collect()).await;
    let work = runner.messages().await;
    assert_eq!(work.len(), 30);
    let mut commit = runner.effects();
    for (no, message) in work.iter().enumerate() {
        match no % 3 {
            0 => commit.failed.push(failed(message.at, "not yet", later(world, 1000))),
            _ => commit.done.push(done(message.at)),
        }
        let name = message.stream.as_str();
        commit.states.push(put(name, &format!("after {}", message.id)));
        commit.events.push(append(name, Expected::Version(0), &[&format!("{name}-event")]));
        commit.messages.push(outbox(name, &format!("{name}-out")));
    }
    let committed = store.commit(commit).await.unwrap();
    assert_eq!((committed.sent.len(), committed.appended.len()), (30, 30));
    assert!(committed.appended.iter().all(|one| (one.first, one.last) == (1, 1)));
    let keys: Vec<_> = work.iter().map(|message| key(message.stream.as_str())).collect();
    let states = store.states(&keys).await.unwrap();
    for (message, state) in work.iter().zip(states) {
        assert_eq!(state, Some(Bytes::from(format!("after {}", message.id))));
        assert_eq!(version(store, message.stream.as_str()).await, 1);
    }
    let next = runner.messages().await;
    assert_eq!(next.len(), 30);
    for (message, sent) in work.iter().zip(committed.sent) {
        let found = next.iter().find(|next| next.at == sent.at).expect("it was sent");
        assert_eq!((&found.stream, sent.is_duplicate), (&message.stream, false));
    }
    pass(world, 1000);
    assert_eq!(runner.messages().await.len(), 40, "those that failed are due again");
}

/// What a commit sends is in its order, behind what was there; a repeat in it is told.
pub async fn what_a_commit_sends_is_read_in_order(world: &impl MessageWorld) {
    let runner = ready(world).await;
    let store = world.store();
    let at = send(store, inbox("a", "1")).await;
    let messages = vec![inbox("a", "3"), inbox("b", "4"), inbox("a", "1"), inbox("a", "2")];
    let committed = store.commit(Commit { messages, ..runner.ending(&[at]) }).await.unwrap();
    let duplicates: Vec<_> = committed.sent.iter().map(|sent| sent.is_duplicate).collect();
    assert_eq!(duplicates, [false, false, true, false]);
    assert_eq!(committed.sent[2].at, at);
    let next = runner.messages().await;
    assert_eq!((ids_of(&next, "a"), ids_of(&next, "b")), (vec!["3", "2"], vec!["4"]));
}

/// A message that has consumers is done when all of them are, in any order; until then the others
/// see who is left. One that ends it for everybody does.
pub async fn a_message_waits_for_all_its_consumers(world: &impl MessageWorld) {
    let runner = ready(world).await;
    let store = world.store();
    let two = |id: &str| NewMessage {
        consumers: vec!["handler".to_owned(), "projection".to_owned()],
        ..inbox("a", id)
    };
    let sent = send_all(store, vec![two("1"), two("2"), two("3")]).await;
    let by = |at: MessageRef, name: &str| Commit {
        done: vec![Done { at, consumer: Some(name.to_owned()) }],
        ..runner.effects()
    };
    runner.fail(failed(sent[0].at, "no", now(world))).await;
    let begun = Commit { started: vec![Started { at: sent[0].at }], ..runner.effects() };
    store.commit(begun).await.unwrap();
    store.commit(by(sent[0].at, "projection")).await.unwrap();
    let first = runner.head("a").await;
    assert_eq!((first.id.as_str(), first.waiting), ("1", vec!["handler".to_owned()]));
    assert_eq!((first.attempts, first.started), (0, None), "the tries were the other one's");
    store.commit(by(sent[0].at, "handler")).await.unwrap();
    assert_eq!(ids(&runner.messages().await), ["2", "3"]);
    let mut both = by(sent[1].at, "handler");
    both.done.extend(by(sent[1].at, "projection").done);
    store.commit(both).await.unwrap();
    assert_eq!(ids(&runner.messages().await), ["3"], "both in one commit");
    runner.finish(&[sent[2].at]).await;
    assert!(runner.messages().await.is_empty(), "ended whoever else it waits for");
}

/// A consumer that is done already, or was never waited for, ends nothing.
pub async fn a_consumer_that_is_not_waited_for_is_a_conflict(world: &impl MessageWorld) {
    let runner = ready(world).await;
    let store = world.store();
    let two = NewMessage {
        consumers: vec!["handler".to_owned(), "projection".to_owned()],
        ..inbox("a", "1")
    };
    let at = send(store, two).await;
    let plain = send(store, inbox("b", "2")).await;
    let by = |at: MessageRef, name: &str| Commit {
        done: vec![Done { at, consumer: Some(name.to_owned()) }],
        messages: vec![inbox("never", "never")],
        ..runner.effects()
    };
    assert_eq!(kind(store.commit(by(at, "nobody")).await), Kind::Conflict);
    assert_eq!(kind(store.commit(by(plain, "handler")).await), Kind::Conflict);
    let once = Commit { messages: Vec::new(), ..by(at, "handler") };
    store.commit(once).await.unwrap();
    assert_eq!(kind(store.commit(by(at, "handler")).await), Kind::Conflict);
    assert_eq!(sorted(ids(&runner.messages().await)), ["1", "2"]);
    assert_eq!(runner.head("a").await.waiting, ["projection"]);
}

/// A message that failed waits, says why, and holds up what is behind it in its stream only.
pub async fn a_failed_message_waits_and_blocks_its_stream(world: &impl MessageWorld) {
    let runner = ready(world).await;
    let store = world.store();
    send_all(store, several("a", 3)).await;
    send_all(store, several("b", 2)).await;
    for attempt in 1..=3_u32 {
        let head = runner.head("a").await;
        assert_eq!((head.id.as_str(), head.attempts), ("a-1", attempt - 1));
        let error = format!("try {attempt}");
        runner.fail(failed(head.at, &error, later(world, 1000))).await;
        let work = runner.work().await;
        assert_eq!(ids(&work.messages), ["b-1", "b-2"]);
        assert_eq!(work.next_due, Some(later(world, 1000)));
        pass(world, 1000);
        let head = runner.head("a").await;
        assert_eq!((head.attempts, head.error), (attempt, Some(error)));
        assert_eq!((head.started, head.not_before), (None, Some(now(world))));
    }
    assert_eq!(ids_of(&runner.messages().await, "a"), ["a-1", "a-2", "a-3"]);
}

/// Whoever says beforehand that it begins has the try counted then, and not again when it fails; the
/// epoch is there for whoever comes after a crash.
pub async fn a_started_try_counts_once(world: &impl MessageWorld) {
    let first = ready(world).await;
    let store = world.store();
    let at = send(store, inbox("a", "1")).await;
    let begin = |runner: &Runner<_>| Commit { started: vec![Started { at }], ..runner.effects() };
    store.commit(begin(&first)).await.unwrap();
    let head = first.head("a").await;
    assert_eq!((head.attempts, head.started), (1, Some(1)));
    first.fail(failed(at, "no", now(world))).await;
    let head = first.head("a").await;
    assert_eq!((head.attempts, head.started), (1, None));
    first.fail(failed(at, "no", now(world))).await;
    assert_eq!(first.head("a").await.attempts, 2, "that try had not been counted");
    store.commit(begin(&first)).await.unwrap();
    store.tombstone(first.instance).await.unwrap();
    let second = Runner::owning(store, &all()).await;
    let head = second.head("a").await;
    assert_eq!((head.attempts, head.started), (3, Some(1)), "the crash left its mark");
    store.commit(begin(&second)).await.unwrap();
    let head = second.head("a").await;
    assert_eq!((head.attempts, head.started), (4, Some(2)));
    second.finish(&[at]).await;
}

/// A try that is not the message's fault does not count; one that was counted beforehand is taken back.
pub async fn a_try_may_fail_without_counting(world: &impl MessageWorld) {
    let runner = ready(world).await;
    let at = send(world.store(), inbox("a", "1")).await;
    let shut = |error: &str| FailedAttempt { counts: false, ..failed(at, error, now(world)) };
    for no in 0..3 {
        runner.fail(shut(&no.to_string())).await;
    }
    let head = runner.head("a").await;
    assert_eq!((head.attempts, head.error.as_deref()), (0, Some("2")));
    let begin = Commit { started: vec![Started { at }], ..runner.effects() };
    world.store().commit(begin).await.unwrap();
    assert_eq!(runner.head("a").await.attempts, 1);
    runner.fail(shut("x")).await;
    let head = runner.head("a").await;
    assert_eq!((head.attempts, head.started), (0, None));
}

/// A failure may say who is waited for from now on; an empty list changes nothing.
pub async fn a_failure_may_change_who_is_waited_for(world: &impl MessageWorld) {
    let runner = ready(world).await;
    let store = world.store();
    let three = ["a", "b", "c"].map(str::to_owned).to_vec();
    let at = send(store, NewMessage { consumers: three.clone(), ..inbox("a", "1") }).await;
    runner.fail(failed(at, "no", now(world))).await;
    assert_eq!(sorted(runner.head("a").await.waiting), three);
    let fewer = FailedAttempt { waiting: vec!["b".to_owned()], ..failed(at, "no", now(world)) };
    runner.fail(fewer).await;
    assert_eq!(runner.head("a").await.waiting, ["b"]);
    let last = Done { at, consumer: Some("b".to_owned()) };
    store.commit(Commit { done: vec![last], ..runner.effects() }).await.unwrap();
    assert!(runner.messages().await.is_empty());
}

/// Of two consumers one may be done and the other have failed, in one commit: the message is tried
/// again for the one that is left.
pub async fn one_consumer_may_be_done_while_another_failed(world: &impl MessageWorld) {
    let runner = ready(world).await;
    let store = world.store();
    let consumers = vec!["handler".to_owned(), "projection".to_owned()];
    let at = send(store, NewMessage { consumers, ..inbox("a", "1") }).await;
    let by = |name: &str| Commit {
        done: vec![Done { at, consumer: Some(name.to_owned()) }],
        failed: vec![failed(at, "no", now(world))],
        ..runner.effects()
    };
    store.commit(by("handler")).await.unwrap();
    let head = runner.head("a").await;
    assert_eq!((head.attempts, head.waiting), (1, vec!["projection".to_owned()]));
    assert_eq!(
        kind(store.commit(by("projection")).await),
        Kind::Conflict,
        "nobody is left to fail"
    );
    assert_eq!(runner.head("a").await.attempts, 1);
}

/// A long error is cut, at a whole character; one with a zero character is kept all the same.
pub async fn an_error_is_cut_and_kept(world: &impl MessageWorld) {
    let runner = ready(world).await;
    let at = send(world.store(), inbox("a", "1")).await;
    let long = format!("x{}", "ü".repeat(ERROR_BYTES_MAX));
    runner.fail(failed(at, &long, now(world))).await;
    let kept = runner.head("a").await.error.expect("the error is kept");
    assert!(kept.len() <= ERROR_BYTES_MAX && kept.len() > ERROR_BYTES_MAX - 8, "{}", kept.len());
    assert!(long.starts_with(kept.trim_end_matches('…')));
    runner.fail(failed(at, "bad \0 byte", now(world))).await;
    let kept = runner.head("a").await.error.expect("the error is kept");
    assert!(kept.starts_with("bad ") && kept.ends_with(" byte"), "{kept:?}");
    runner.fail(failed(at, "", now(world))).await;
    assert_eq!(runner.head("a").await.attempts, 3);
}

/// A commit that names a message twice, lacks a fence, or is too large is invalid and changes nothing.
pub async fn a_commit_out_of_bounds_is_invalid(world: &impl MessageWorld) {
    let runner = ready(world).await;
    let store = world.store();
    let at = send(store, inbox("a", "1")).await;
    let elsewhere: Vec<_> =
        runner.fences.iter().copied().filter(|fence| fence.partition != at.partition).collect();
    let failing = failed(at, "no", now(world));
    let huge =
        PutState { key: key("wallet/1"), state: Some(Bytes::from(vec![0; STATE_BYTES_MAX + 1])) };
    let no_events = Append { events: Vec::new(), ..append("wallet/1", Expected::Any, &["e"]) };
    let many = (0..=SEND_MAX as u64).map(|no| MessageRef { position: no, ..at });
    for bad in [
        runner.ending(&[at, at]),
        Commit { failed: vec![failing.clone()], ..runner.ending(&[at]) },
        Commit { failed: vec![failing.clone(), failing], ..runner.effects() },
        Commit { fences: elsewhere.clone(), ..runner.ending(&[at]) },
        Commit { fences: elsewhere.clone(), started: vec![Started { at }], ..runner.effects() },
        Commit { fences: Vec::new(), ..runner.ending(&[at]) },
        Commit { states: vec![huge], ..runner.ending(&[at]) },
        Commit { events: vec![no_events], ..runner.ending(&[at]) },
        Commit { messages: several("z", SEND_MAX + 1), ..runner.ending(&[at]) },
        runner.ending(&many.collect::<Vec<_>>()),
    ] {
        assert_eq!(kind(store.commit(bad).await), Kind::Invalid);
    }
    let state_of = stream("wallet/1");
    let partition = windrow_domain::partition::partition_of(&ada(), &state_of, PARTITIONS);
    let mut unfenced = Commit { states: vec![put("wallet/1", "x")], ..runner.effects() };
    unfenced.fences.retain(|fence| fence.partition != partition);
    assert_eq!(kind(store.commit(unfenced).await), Kind::Invalid, "a state has a fence, too");
    assert_nothing(store, &["1"]).await;
    assert_eq!(runner.head("a").await.attempts, 0);
}

/// A commit without effects does nothing, and is still checked.
pub async fn a_commit_without_effects_does_nothing(world: &impl MessageWorld) {
    let runner = ready(world).await;
    let store = world.store();
    assert_eq!(store.commit(runner.effects()).await.unwrap(), Committed::default());
    let bare = Commit::new(runner.instance);
    assert_eq!(store.commit(bare.clone()).await.unwrap(), Committed::default());
    store.tombstone(runner.instance).await.unwrap();
    assert_eq!(kind(store.commit(bare).await), Kind::LeaseLost);
}
