//! Calls that end without their handler, calls that are asked many at once, and calls that are asked again
//! and again.

use bytes::Bytes;
use windrow_domain::CallState;
use windrow_domain::call::{EXPIRED, expired_error};
use windrow_store::call::{LATE_ANSWER_MS, NewCall, RETRIES_ABOVE, RetriesQuery};
use windrow_store::error::Kind;
use windrow_store::message::{Commit, FailedAttempt, MessageRetention};
use windrow_store::{Calls, Messages, Scope};

use super::MessageWorld;
use super::fixture::*;

const LIFE_MS: u64 = 1000;

fn mortal(world: &impl MessageWorld, object: &str, id: &str) -> NewCall {
    NewCall { expires_at: Some(later(world, LIFE_MS)), ..call(object, id) }
}

/// A call whose time is over while it waits fails, with what went wrong the last time. A repeat gets the same
/// for a day; it is never run.
pub async fn a_call_that_waits_too_long_fails(world: &impl MessageWorld) {
    let runner = ready(world).await;
    let store = world.store();
    submit(store, mortal(world, "1", "fresh")).await;
    let tried = submit(store, mortal(world, "2", "tried")).await;
    submit(store, call("3", "immortal")).await;
    let failed = FailedAttempt { counts: false, ..failed(tried, "no route", later(world, 50_000)) };
    let put_off = Commit { failed: vec![failed], ..runner.effects() };
    runner.store.commit(put_off).await.unwrap();
    pass(world, LIFE_MS - 1);
    assert!(store.expire_calls(100).await.unwrap().is_empty());
    pass(world, 1);
    let ended = store.expire_calls(100).await.unwrap();
    assert_eq!(sorted(ended.into_iter()), [call_key("fresh"), call_key("tried")]);
    assert!(store.expire_calls(100).await.unwrap().is_empty());
    let fresh = seen_call(store, "fresh").await;
    assert_eq!((fresh.state, fresh.error.as_deref()), (CallState::Failed, Some(EXPIRED)));
    assert_eq!((fresh.processed_at, fresh.instance), (Some(now(world)), None));
    assert_eq!(fresh.expires_at, Some(later(world, LATE_ANSWER_MS)));
    let tried = seen_call(store, "tried").await;
    assert_eq!(tried.error, Some(expired_error(Some("no route"))));
    assert_eq!(ids(&waiting(store).await), ["immortal"]);
    let retention = MessageRetention { archive_ms: LATE_ANSWER_MS, ..keep() };
    store.prune_messages(retention, 100).await.unwrap();
    let again = store.submit_call(mortal(world, "1", "fresh")).await.unwrap();
    assert_eq!((again.at, again.call.error.as_deref()), (None, Some(EXPIRED)));
    pass(world, LATE_ANSWER_MS);
    store.prune_messages(retention, 100).await.unwrap();
    assert_eq!(seen_call(store, "fresh").await.state, CallState::Expired);
}

/// A call that waits behind others of its object expires, too, and the others go on in their order. A step
/// ends the oldest, and no more than it may.
pub async fn a_call_behind_others_expires(world: &impl MessageWorld) {
    let runner = ready(world).await;
    let store = world.store();
    let first = submit(store, call("1", "first")).await;
    for no in 0..5 {
        submit(store, mortal(world, "1", &format!("m{no}"))).await;
        pass(world, 1);
    }
    let last = submit(store, call("1", "last")).await;
    pass(world, LIFE_MS);
    let ended = store.expire_calls(2).await.unwrap();
    assert_eq!(sorted(ended.into_iter()), [call_key("m0"), call_key("m1")]);
    assert_eq!(store.expire_calls(100).await.unwrap().len(), 3);
    assert_eq!(ids(&runner.messages().await), ["first", "last"]);
    runner.answer(reply(first, "first", "ok")).await;
    runner.answer(reply(last, "last", "ok")).await;
}

/// A call that runs may still end well.
pub async fn a_call_that_runs_does_not_expire(world: &impl MessageWorld) {
    let runner = ready(world).await;
    let store = world.store();
    let at = submit(store, mortal(world, "1", "runs")).await;
    runner.begin(at).await;
    pass(world, LIFE_MS * 10);
    assert!(store.expire_calls(100).await.unwrap().is_empty());
    runner.answer(reply(at, "runs", "ok")).await;
    assert_eq!(seen_call(store, "runs").await.state, CallState::Completed);
}

/// A call that is cancelled fails with the reason, whether it waits or runs. What its handler returns is
/// refused as a whole; a repeat of question or cancellation changes nothing.
pub async fn a_cancelled_call_fails_and_its_handler_is_refused(world: &impl MessageWorld) {
    let runner = ready(world).await;
    let store = world.store();
    for (id, begins) in [("waits", false), ("runs", true)] {
        let at = submit(store, call("1", id)).await;
        if begins {
            runner.begin(at).await;
        }
        let told = store.cancel_call(&call_key(id), Some("a typo".to_owned())).await.unwrap();
        assert_eq!(
            (told.state, told.error.as_deref()),
            (CallState::Failed, Some("cancelled: a typo"))
        );
        assert_eq!(told.processed_at, Some(now(world)));
        assert_eq!(told.instance, begins.then_some(runner.instance));
        assert_eq!(seen_call(store, id).await, told);
        let effects = Commit {
            calls: vec![reply(at, id, "late")],
            messages: vec![outbox("news", "never")],
            ..runner.effects()
        };
        assert_eq!(kind(store.commit(effects).await), Kind::Conflict);
        let again = Commit { failed: vec![failed(at, "again", now(world))], ..runner.effects() };
        assert_eq!(kind(store.commit(again).await), Kind::Conflict);
        assert_eq!(store.cancel_call(&call_key(id), None).await.unwrap(), told);
        let repeated = store.submit_call(call("1", id)).await.unwrap();
        assert_eq!((repeated.at, repeated.call.error), (None, told.error));
    }
    assert!(waiting(store).await.is_empty(), "nothing was sent");
    let next = submit(store, call("1", "next")).await;
    runner.answer(reply(next, "next", "ok")).await;
}

/// A call that has its answer keeps it, also in the archive; another owner's is not there.
pub async fn a_call_with_an_answer_cannot_be_cancelled(world: &impl MessageWorld) {
    let runner = ready(world).await;
    let store = world.store();
    for (no, archived) in [("1", false), ("2", true)] {
        let at = submit(store, call(no, no)).await;
        runner.answer(reply(at, no, "ok")).await;
        if archived {
            let retention = MessageRetention { archive_ms: 0, ..keep() };
            store.prune_messages(retention, 100).await.unwrap();
        }
        assert_eq!(kind(store.cancel_call(&call_key(no), None).await), Kind::Conflict);
        assert_eq!(seen_call(store, no).await.reply, Some(Bytes::from_static(b"ok")));
    }
    assert_eq!(kind(store.cancel_call(&call_key("never"), None).await), Kind::Missing);
    let at = submit(store, call("3", "mine")).await;
    let theirs = windrow_store::call::CallKey { owner: owner("bob"), ..call_key("mine") };
    assert_eq!(kind(store.cancel_call(&theirs, None).await), Kind::Missing);
    let long = Some("x".repeat(windrow_store::call::REASON_BYTES_MAX + 1));
    assert_eq!(kind(store.cancel_call(&call_key("mine"), long).await), Kind::Invalid);
    runner.answer(reply(at, "mine", "ok")).await;
}

/// Calls that are submitted together are as if each had been submitted by itself, in their order; repeats
/// among them count as such.
pub async fn many_calls_are_submitted_at_once(world: &impl MessageWorld) {
    let runner = ready(world).await;
    let store = world.store();
    let known = submit(store, call("9", "known")).await;
    runner.answer(reply(known, "known", "ok")).await;
    let calls = vec![
        call("2", "a"),
        call("9", "known"),
        call("1", "b"),
        mortal(world, "2", "c"),
        call("2", "a"),
    ];
    let submitted = store.submit_calls(calls).await.unwrap();
    let told: Vec<_> = submitted
        .iter()
        .map(|one| (one.call.key.request_id.to_string(), one.at.is_some(), one.call.state))
        .collect();
    let (new, done) = (CallState::Pending, CallState::Completed);
    let expected = [("a", true, new), ("known", false, done), ("b", true, new), ("c", true, new)];
    for (told, (id, is_new, state)) in told.iter().zip(expected) {
        assert_eq!(*told, (id.to_owned(), is_new, state));
    }
    assert_eq!((told[4].0.as_str(), told[4].1), ("a", false));
    assert_eq!(submitted[1].call.reply, Some(Bytes::from_static(b"ok")));
    assert_eq!(seen_call(store, "a").await.retry_count, 1);
    assert_eq!(seen_call(store, "known").await.retry_count, 1);
    assert_eq!(submitted[3].call, seen_call(store, "c").await);
    let read = runner.messages().await;
    let of_two = read.iter().filter(|message| message.stream.as_str() == "wallet/2");
    assert_eq!(of_two.map(|message| message.id.as_str()).collect::<Vec<_>>(), ["a", "c"]);
    for (one, id) in [(0, "a"), (2, "b"), (3, "c")] {
        runner.answer(reply(submitted[one].at.unwrap(), id, "ok")).await;
    }
}

/// When one of them is another question under a known id, or too many come at once, none is asked.
pub async fn of_many_calls_all_or_none_are_submitted(world: &impl MessageWorld) {
    let store = world.store();
    assert_eq!(kind(store.submit_calls(vec![call("1", "a")]).await), Kind::Refused);
    ready(world).await;
    submit(store, call("1", "known")).await;
    let calls = vec![call("1", "a"), call("2", "known"), call("3", "b")];
    assert_eq!(kind(store.submit_calls(calls).await), Kind::Conflict);
    assert_eq!(kind(store.call(&call_key("a")).await), Kind::Missing);
    assert_eq!(ids(&waiting(store).await), ["known"]);
    assert_eq!(kind(store.submit_calls(Vec::new()).await), Kind::Invalid);
    let many = (0..=windrow_store::message::SEND_MAX).map(|no| call("1", &format!("m{no}")));
    assert_eq!(kind(store.submit_calls(many.collect()).await), Kind::Invalid);
}

/// Lists that name the same calls and objects in any order wait for each other and never crosswise.
pub async fn many_submits_at_once_never_deadlock(world: &impl MessageWorld) {
    let runner = ready(world).await;
    let mut tasks = tokio::task::JoinSet::new();
    for writer in 0..6_u32 {
        let store = runner.store.clone();
        tasks.spawn(async move {
            for round in 0..10 {
                let mut calls: Vec<NewCall> = (0..8)
                    .map(|no| call(&format!("{}", no % 4), &format!("r{round}-{no}")))
                    .collect();
                calls.rotate_left(writer as usize);
                if writer % 2 == 0 {
                    calls.reverse();
                }
                store.submit_calls(calls).await.expect("they are the same questions");
            }
        });
    }
    tasks.join_all().await;
    assert_eq!(waiting(world.store()).await.len(), 80, "each was asked once");
}

/// Calls that were repeated more often than a threshold are told by object and method, the most repeated
/// first, also from the archive; others are not, nor other owners'.
pub async fn calls_repeated_again_and_again_are_told_by_object(world: &impl MessageWorld) {
    let runner = ready(world).await;
    let store = world.store();
    for (object, id, repeats) in [("1", "a", 3), ("2", "b", 4), ("2", "c", 6), ("3", "d", 9)] {
        let at = submit(store, call(object, id)).await;
        for _ in 0..repeats {
            store.submit_call(call(object, id)).await.unwrap();
        }
        if id == "d" {
            runner.answer(reply(at, id, "ok")).await;
        }
    }
    let retention = MessageRetention { archive_ms: 0, ..keep() };
    assert_eq!(store.prune_messages(retention, 100).await.unwrap().archived, 1);
    let query = RetriesQuery::new(60_000);
    assert_eq!(query.above, RETRIES_ABOVE);
    let told = store.call_retries(&Scope::All, query).await.unwrap();
    let shown = |told: &[windrow_store::call::ObjectRetries]| -> Vec<(String, u64, u32)> {
        told.iter().map(|one| (one.object_id.clone(), one.calls, one.retries_max)).collect()
    };
    assert_eq!(shown(&told), [("3".to_owned(), 1, 9), ("2".to_owned(), 2, 6)]);
    assert!((told[1].retries_mean - 5.0).abs() < 0.001, "{told:?}");
    let query = RetriesQuery { above: 2, ..query };
    assert_eq!(store.call_retries(&scope(ADA), query).await.unwrap().len(), 3);
    assert!(store.call_retries(&scope("bob"), query).await.unwrap().is_empty());
    pass(world, 120_000);
    assert!(store.call_retries(&Scope::All, query).await.unwrap().is_empty(), "it is long ago");
}
