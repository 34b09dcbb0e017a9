//! Calls: asked for once, answered once, and the answer kept.

use bytes::Bytes;
use windrow_domain::message::{KIND_BYTES_MAX, PAYLOAD_BYTES_MAX};
use windrow_domain::partition::partition_of;
use windrow_domain::{CallState, CrashPolicy, InstanceId, Queue};
use windrow_store::call::{Answer, CALLER_BYTES_MAX, CallKey, NewCall, headers};
use windrow_store::error::Kind;
use windrow_store::message::{Commit, FailedAttempt, MessageRef, ProcessingReport, SEND_MAX};
use windrow_store::{Calls, Members, Messages};

use super::MessageWorld;
use super::fixture::*;

/// A call that is asked for is read as a message of its object, and is told as it was asked for.
pub async fn a_call_is_read_as_a_message(world: &impl MessageWorld) {
    let runner = ready(world).await;
    let store = world.store();
    let new = NewCall {
        args: Bytes::from_static(&[0, 255]),
        policy: CrashPolicy::Fail,
        caller_object: Some("order/7".to_owned()),
        caller_client: Some("ü".to_owned()),
        expires_at: Some(later(world, 60_000)),
        waiter: Some(runner.instance),
        ..call("a/b", "r1")
    };
    let submitted = store.submit_call(new.clone()).await.unwrap();
    let told = &submitted.call;
    assert_eq!((&told.key, told.state, told.retry_count), (&new.key, CallState::Pending, 0));
    assert_eq!((&told.object_type, &told.object_id), (&new.object_type, &new.object_id));
    assert_eq!((&told.method, &told.args, told.policy), (&new.method, &new.args, new.policy));
    assert_eq!((&told.reply, &told.error, told.instance), (&None, &None, None));
    assert_eq!(told.caller_object, new.caller_object);
    assert_eq!(told.caller_client, new.caller_client);
    assert_eq!((told.created_at, told.updated_at), (now(world), now(world)));
    assert_eq!((told.processed_at, told.expires_at), (None, new.expires_at));
    assert!(!told.is_archived);
    assert_eq!(&seen_call(&world.another().await, "r1").await, told);
    let message = runner.messages().await.remove(0);
    assert_eq!((Some(message.at), message.queue), (submitted.at, Queue::Calls));
    assert_eq!((message.owner, message.stream.as_str()), (ada(), "wallet/a/b"));
    assert_eq!((message.id.as_str(), &message.kind), ("r1", &new.method));
    assert_eq!((&message.payload, &message.headers), (&new.args, &new.headers()));
    assert_eq!(message.headers[headers::POLICY], "fail");
    assert_eq!(message.at.partition, partition_of(&ada(), &stream("wallet/a/b"), PARTITIONS));
}

/// Nothing is asked before the set-up; nobody knows of what was never asked.
pub async fn an_unknown_call_is_missing(world: &impl MessageWorld) {
    let store = world.store();
    assert_eq!(kind(store.submit_call(call("1", "r1")).await), Kind::Refused);
    assert_eq!(kind(store.call(&call_key("r1")).await), Kind::Missing);
    ready(world).await;
    submit(store, call("1", "r1")).await;
    let theirs = CallKey { owner: owner("bob"), ..call_key("r1") };
    assert_eq!(kind(store.call(&theirs).await), Kind::Missing);
    let own = NewCall { key: theirs.clone(), method: "other".to_owned(), ..call("1", "r1") };
    let bobs = store.submit_call(own).await.unwrap();
    assert!(bobs.at.is_some(), "an id belongs to its owner");
    assert_eq!(store.call(&theirs).await.unwrap(), bobs.call);
}

/// Calls of one object are read in the order they were asked for, and apart from its messages.
pub async fn calls_of_an_object_are_in_order(world: &impl MessageWorld) {
    let runner = ready(world).await;
    let store = world.store();
    let mut expected = Vec::new();
    for no in 0..10 {
        let id = format!("r{}", 100 - no);
        submit(store, call("1", &id)).await;
        expected.push(id);
    }
    let waits = windrow_store::message::NewMessage {
        not_before: Some(later(world, 1000)),
        ..inbox("wallet/1", "m1")
    };
    send(store, waits).await;
    assert_eq!(ids(&runner.messages().await), expected);
}

/// The question, asked again, gives the call as it is: waiting, begun, answered. It counts as a retry
/// and is not run again.
pub async fn a_repeated_question_gives_the_answer(world: &impl MessageWorld) {
    let runner = ready(world).await;
    let store = world.store();
    let at = submit(store, call("1", "r1")).await;
    let ask = async |retries: u32, state: CallState| {
        let again = store.submit_call(call("1", "r1")).await.unwrap();
        assert_eq!((again.at, again.call.retry_count, again.call.state), (None, retries, state));
        assert_eq!(seen_call(store, "r1").await, again.call);
        again.call
    };
    ask(1, CallState::Pending).await;
    runner.begin(at).await;
    let begun = ask(2, CallState::Processing).await;
    assert_eq!((begun.instance, begun.processed_at), (Some(runner.instance), None));
    pass(world, 1000);
    runner.answer(reply(at, "r1", "paid")).await;
    let told = ask(3, CallState::Completed).await;
    assert_eq!((told.reply, told.error), (Some(Bytes::from_static(b"paid")), None));
    assert_eq!(told.processed_at, Some(now(world)));
    // Who calls, and how it is told, is no part of the question.
    let other = NewCall {
        caller_client: Some("another".to_owned()),
        waiter: Some(InstanceId::new()),
        ..call("1", "r1")
    };
    assert_eq!(store.submit_call(other).await.unwrap().call.caller_client, None);
    assert!(runner.messages().await.is_empty());
}

/// Another question under the same id is refused, and changes nothing.
pub async fn another_question_under_the_id_is_a_conflict(world: &impl MessageWorld) {
    let runner = ready(world).await;
    let store = world.store();
    let at = submit(store, call("1", "r1")).await;
    let refused = async || {
        for other in [
            NewCall { args: Bytes::new(), ..call("1", "r1") },
            NewCall { method: "withdraw".to_owned(), ..call("1", "r1") },
            call("2", "r1"),
            NewCall { object_type: "order".to_owned(), ..call("1", "r1") },
        ] {
            assert_eq!(kind(store.submit_call(other).await), Kind::Conflict);
        }
    };
    refused().await;
    assert_eq!(seen_call(store, "r1").await.retry_count, 0);
    assert_eq!(waiting(store).await.len(), 1);
    runner.answer(reply(at, "r1", "paid")).await;
    refused().await;
    assert_eq!(seen_call(store, "r1").await.reply, Some(Bytes::from_static(b"paid")));
}

/// A call that failed has its error, and keeps it.
pub async fn a_failed_call_keeps_its_error(world: &impl MessageWorld) {
    let runner = ready(world).await;
    let store = world.store();
    let at = submit(store, call("1", "r1")).await;
    runner.answer(refusal(at, "r1", "no \0 funds")).await;
    let told = seen_call(store, "r1").await;
    assert_eq!((told.state, told.reply), (CallState::Failed, None));
    let error = told.error.expect("it says why");
    assert!(error.starts_with("no ") && error.ends_with(" funds"), "{error:?}");
    assert_eq!(store.submit_call(call("1", "r1")).await.unwrap().at, None);
    assert!(waiting(store).await.is_empty());
    let at = submit(store, call("1", "r2")).await;
    runner.answer(reply(at, "r2", "")).await;
    let told = seen_call(store, "r2").await;
    assert_eq!((told.state, told.reply), (CallState::Completed, Some(Bytes::new())));
}

/// An answer is never replaced: a second one is a conflict, and so is one for a call that is not there.
pub async fn an_answer_is_never_replaced(world: &impl MessageWorld) {
    let runner = ready(world).await;
    let store = world.store();
    let (at, other) = (submit(store, call("1", "r1")).await, submit(store, call("1", "r2")).await);
    runner.answer(reply(at, "r1", "first")).await;
    for result in [
        reply(at, "r1", "second"),
        refusal(at, "r1", "second"),
        reply(other, "r1", "second"),
        reply(other, "unknown", "second"),
        reply(at, "r2", "second"),
    ] {
        let commit = Commit {
            calls: vec![result],
            messages: vec![inbox("never", "never")],
            ..runner.effects()
        };
        assert_eq!(kind(store.commit(commit).await), Kind::Conflict);
    }
    assert_eq!(seen_call(store, "r1").await.reply, Some(Bytes::from_static(b"first")));
    assert_eq!(seen_call(store, "r2").await.state, CallState::Pending);
    assert_eq!(ids(&waiting(store).await), ["r2"]);
}

/// Under an old epoch nobody answers or begins.
pub async fn an_old_epoch_answers_nothing(world: &impl MessageWorld) {
    let first = ready(world).await;
    let store = world.store();
    let at = submit(store, call("1", "r1")).await;
    first.begin(at).await;
    store.tombstone(first.instance).await.unwrap();
    let second = Runner::owning(store, &all()).await;
    let commit = Commit { calls: vec![reply(at, "r1", "late")], ..first.effects() };
    assert_eq!(kind(store.commit(commit).await), Kind::LeaseLost);
    let told = seen_call(store, "r1").await;
    assert_eq!((told.state, told.instance), (CallState::Processing, Some(first.instance)));
    let message = second.head("wallet/1").await;
    assert_eq!((message.started, message.attempts), (Some(1), 1), "the mark outlives its instance");
    second.begin(at).await;
    assert_eq!(seen_call(store, "r1").await.instance, Some(second.instance));
    second.answer(reply(at, "r1", "in time")).await;
    assert_eq!(seen_call(store, "r1").await.reply, Some(Bytes::from_static(b"in time")));
}

/// A call whose try failed goes back, waits, and holds up its object only.
pub async fn a_call_that_is_tried_again_is_pending(world: &impl MessageWorld) {
    let runner = ready(world).await;
    let store = world.store();
    let at = submit(store, call("1", "r1")).await;
    submit(store, call("1", "r2")).await;
    submit(store, call("2", "r3")).await;
    runner.begin(at).await;
    assert_eq!(seen_call(store, "r1").await.state, CallState::Processing);
    runner.fail(failed(at, "busy", later(world, 1000))).await;
    assert_eq!(seen_call(store, "r1").await.state, CallState::Pending);
    assert_eq!(ids(&runner.messages().await), ["r3"]);
    pass(world, 1000);
    let head = runner.head("wallet/1").await;
    assert_eq!((head.id.as_str(), head.attempts), ("r1", 1));
    runner.answer(reply(at, "r1", "ok")).await;
    assert_eq!(runner.head("wallet/1").await.id, "r2");
}

/// A call that runs for long is shown with who runs it, and since when; no try counts by it, and it is
/// not taken for one that was begun.
pub async fn a_call_that_runs_for_long_is_processing(world: &impl MessageWorld) {
    let runner = ready(world).await;
    let store = world.store();
    for (object, id) in [("1", "r1"), ("2", "r2"), ("3", "r3")] {
        submit(store, call(object, id)).await;
    }
    let messages = runner.messages().await;
    pass(world, 1000);
    // With others, and more than one at once.
    let ended = send(store, inbox("a", "a-1")).await;
    let running = messages.iter().filter(|one| one.id != "r3").map(ProcessingReport::of).collect();
    store.commit(Commit { running, ..runner.ending(&[ended]) }).await.unwrap();
    for id in ["r1", "r2"] {
        let told = seen_call(store, id).await;
        assert_eq!((told.state, told.instance), (CallState::Processing, Some(runner.instance)));
        assert_eq!((told.updated_at, told.processed_at), (now(world), None));
    }
    assert_eq!(seen_call(store, "r3").await.state, CallState::Pending);
    let mut after = runner.messages().await;
    after.retain(|one| one.queue == Queue::Calls);
    assert_eq!(after, messages, "what is read is as before");
    let at = |id: &str| messages.iter().find(|one| one.id == id).expect("it was read").at;
    runner.answer(reply(at("r1"), "r1", "ok")).await;
    assert_eq!(seen_call(store, "r1").await.state, CallState::Completed);
    runner.fail(failed(at("r2"), "busy", now(world))).await;
    let told = seen_call(store, "r2").await;
    assert_eq!(told.state, CallState::Pending);
    // Another try of it may run for long, too; another instance says so, too.
    let again = runner.head("wallet/2").await;
    assert_eq!((again.attempts, again.started), (1, None));
    runner.run_on(&again).await;
    store.tombstone(runner.instance).await.unwrap();
    let second = Runner::owning(store, &all()).await;
    assert_eq!(second.head("wallet/2").await.started, None, "the crash policy is as before");
    second.run_on(&again).await;
    let told = seen_call(store, "r2").await;
    assert_eq!((told.state, told.instance), (CallState::Processing, Some(second.instance)));
}

/// Whoever tells late that a call runs, after its answer or its failure, changes nothing and hurts
/// nobody in the same commit.
pub async fn what_is_told_late_of_a_call_changes_nothing(world: &impl MessageWorld) {
    let runner = ready(world).await;
    let store = world.store();
    for (object, id) in [("1", "answered"), ("2", "failed"), ("3", "kept"), ("4", "put off")] {
        submit(store, call(object, id)).await;
    }
    send(store, inbox("a", "a-1")).await;
    let messages = runner.messages().await;
    let at = |id: &str| messages.iter().find(|one| one.id == id).expect("it was read").at;
    runner.answer(reply(at("answered"), "answered", "ok")).await;
    runner.answer(refusal(at("failed"), "failed", "no")).await;
    runner.fail(failed(at("kept"), "busy", now(world))).await;
    let counts_not = FailedAttempt { counts: false, ..failed(at("put off"), "away", now(world)) };
    runner.fail(counts_not).await;
    let ids = ["answered", "failed", "kept", "put off"];
    let mut before = Vec::new();
    for id in ids {
        before.push(seen_call(store, id).await);
    }
    pass(world, 1000);
    let mut running: Vec<_> = messages.iter().map(ProcessingReport::of).collect();
    let nowhere = MessageRef { position: 1 << 40, ..at("kept") };
    running.push(ProcessingReport { at: nowhere, ..running[0].clone() });
    let commit = Commit { running, ..runner.ending(&[at("a-1")]) };
    store.commit(commit).await.expect("what is late is no conflict");
    for (id, before) in ids.into_iter().zip(before) {
        assert_eq!(seen_call(store, id).await, before);
    }
    assert_eq!(sorted(self::ids(&waiting(store).await)), ["kept", "put off"]);
}

/// Under an old epoch nobody says what runs, nor without a fence.
pub async fn an_old_epoch_tells_of_no_call(world: &impl MessageWorld) {
    let first = ready(world).await;
    let store = world.store();
    submit(store, call("1", "r1")).await;
    let message = first.head("wallet/1").await;
    let running = || vec![ProcessingReport::of(&message)];
    let bare = Commit { running: running(), ..Commit::new(first.instance) };
    assert_eq!(kind(store.commit(bare).await), Kind::Invalid);
    let many = vec![ProcessingReport::of(&message); SEND_MAX + 1];
    let many = Commit { running: many, ..first.effects() };
    assert_eq!(kind(store.commit(many).await), Kind::Invalid);
    store.tombstone(first.instance).await.unwrap();
    Runner::owning(store, &all()).await;
    let late = Commit { running: running(), ..first.effects() };
    assert_eq!(kind(store.commit(late).await), Kind::LeaseLost);
    let told = seen_call(store, "r1").await;
    assert_eq!((told.state, told.instance), (CallState::Pending, None));
}

/// A call is not given up on like a message: it fails.
pub async fn a_call_is_no_dead_letter(world: &impl MessageWorld) {
    let runner = ready(world).await;
    let store = world.store();
    let at = submit(store, call("1", "r1")).await;
    let commit = Commit { dead: vec![dead(at, "no")], ..runner.effects() };
    let refused = kind(store.commit(commit).await);
    assert!(matches!(refused, Kind::Invalid | Kind::Conflict), "{refused:?}");
    assert_eq!(ids(&runner.messages().await), ["r1"]);
    let page = store.dead_letters(&windrow_store::Scope::All, query(10)).await.unwrap();
    assert!(page.rows.is_empty());
}

/// A commit may ask objects: what is new is read next, a repeat counts as a retry, and another
/// question under a known id refuses the whole commit.
pub async fn a_commit_may_ask_objects(world: &impl MessageWorld) {
    let runner = ready(world).await;
    let store = world.store();
    let at = submit(store, call("1", "r1")).await;
    submit(store, call("2", "known")).await;
    let other = NewCall { args: Bytes::new(), ..call("2", "known") };
    let effects = |submits: Vec<NewCall>| Commit {
        submits,
        calls: vec![reply(at, "r1", "ok")],
        ..runner.effects()
    };
    let refused = store.commit(effects(vec![call("3", "new"), other])).await;
    assert_eq!(kind(refused), Kind::Conflict);
    assert_eq!(kind(store.call(&call_key("new")).await), Kind::Missing);
    assert_eq!(seen_call(store, "r1").await.state, CallState::Pending);
    let caller = Some("wallet/1".to_owned());
    let new = NewCall { caller_object: caller.clone(), ..call("3", "new") };
    let asked = vec![call("2", "known"), new, call("1", "next"), call("1", "next")];
    let committed = store.commit(effects(asked)).await.unwrap();
    assert_eq!(committed.submitted.len(), 2, "one was there before, and one is named twice");
    assert_eq!(seen_call(store, "known").await.retry_count, 1);
    assert_eq!(seen_call(store, "next").await.retry_count, 1);
    assert_eq!(seen_call(store, "new").await.caller_object, caller);
    let messages = runner.messages().await;
    assert_eq!(sorted(ids(&messages)), ["known", "new", "next"]);
    let places = |id: &str| messages.iter().find(|one| one.id == id).map(|one| one.at);
    let new = [places("new"), places("next")].map(|at| at.expect("it was asked for"));
    assert_eq!(sorted(committed.submitted), sorted(new));
    let bad = Commit { submits: vec![call("", "bad")], ..runner.effects() };
    assert_eq!(kind(store.commit(bad).await), Kind::Invalid);
}

/// Calls and answers out of bounds are invalid.
pub async fn a_call_out_of_bounds_is_invalid(world: &impl MessageWorld) {
    let runner = ready(world).await;
    let store = world.store();
    let good = || call("1", "r1");
    for bad in [
        NewCall { object_type: String::new(), ..good() },
        NewCall { object_type: "a/b".to_owned(), ..good() },
        NewCall { object_id: String::new(), ..good() },
        NewCall { object_id: "x".repeat(300), ..good() },
        NewCall { method: String::new(), ..good() },
        NewCall { method: "x".repeat(KIND_BYTES_MAX + 1), ..good() },
        NewCall { args: Bytes::from(vec![0; PAYLOAD_BYTES_MAX + 1]), ..good() },
        NewCall { caller_client: Some("x".repeat(CALLER_BYTES_MAX + 1)), ..good() },
        NewCall { caller_object: Some("\0".to_owned()), ..good() },
    ] {
        assert_eq!(kind(store.submit_call(bad).await), Kind::Invalid);
    }
    assert!(waiting(store).await.is_empty());
    let at = submit(store, good()).await;
    let long = Bytes::from(vec![0; PAYLOAD_BYTES_MAX + 1]);
    let answer = |reply: Bytes| {
        let result = windrow_store::call::CallResult {
            key: call_key("r1"),
            at,
            answer: Answer::Reply(reply),
        };
        Commit { calls: vec![result], ..runner.effects() }
    };
    assert_eq!(kind(store.commit(answer(long.clone())).await), Kind::Invalid);
    let many = (0..=SEND_MAX).map(|no| call("1", &format!("m{no}"))).collect();
    let many = Commit { submits: many, ..runner.effects() };
    assert_eq!(kind(store.commit(many).await), Kind::Invalid);
    store.commit(answer(long.slice(1..))).await.unwrap();
    assert_eq!(
        seen_call(store, "r1").await.reply.map(|reply| reply.len()),
        Some(PAYLOAD_BYTES_MAX)
    );
}
