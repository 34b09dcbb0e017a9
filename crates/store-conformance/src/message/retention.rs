//! Tidying: what is old enough goes, what may still be needed stays, and no step is too large.

use bytes::Bytes;
use windrow_domain::CallState;
use windrow_store::call::{Call, CallsQuery, LATE_ANSWER_MS, NewCall, StatsQuery};
use windrow_store::error::Kind;
use windrow_store::message::{Commit, Done, MessageRetention, NewMessage, PrunedMessages};
use windrow_store::{Calls, Messages, Scope};

use super::MessageWorld;
use super::fixture::*;

async fn prune(store: &impl Messages, retention: MessageRetention) -> PrunedMessages {
    store.prune_messages(retention, 1000).await.expect("old things are pruned away")
}

/// An id may be used again when its window has passed, and not before.
pub async fn ids_are_forgotten_after_their_window(world: &impl MessageWorld) {
    let runner = ready(world).await;
    let store = world.store();
    let at = send(store, inbox("a", "1")).await;
    runner.finish(&[at]).await;
    let retention = MessageRetention { dedupe_ms: 10_000, ..keep() };
    pass(world, 9000);
    assert_eq!(prune(store, retention).await, PrunedMessages::default());
    assert!(send_all(store, vec![inbox("a", "1")]).await[0].is_duplicate);
    pass(world, 2000);
    assert_eq!(
        prune(store, retention).await,
        PrunedMessages { ids: 1, ..PrunedMessages::default() }
    );
    let other = NewMessage { payload: Bytes::new(), ..inbox("b", "1") };
    send(store, other).await;
    assert_eq!(ids(&runner.messages().await), ["1"]);
}

/// The id of a message that is on its way, or dead, is remembered however old it is.
pub async fn ids_outlive_their_messages(world: &impl MessageWorld) {
    let runner = ready(world).await;
    let store = world.store();
    let waits = NewMessage { dedupe: true, ..outbox("a", "waits") };
    send(store, waits.clone()).await;
    let at = send(store, inbox("a", "dead")).await;
    let failing = send(store, inbox("b", "failing")).await;
    let letter = dead(at, "no");
    runner.give_up(letter.clone()).await;
    runner.fail(failed(failing, "no", later(world, 500_000))).await;
    let retention = MessageRetention { dedupe_ms: 1000, stream_ms: 1000, ..keep() };
    pass(world, 100_000);
    assert_eq!(prune(store, retention).await.ids, 0);
    for again in [waits, inbox("a", "dead"), inbox("b", "failing")] {
        assert!(send_all(store, vec![again]).await[0].is_duplicate);
    }
    let sent = store.replay_dead(&scope(ADA), &[letter.id]).await.unwrap();
    assert_eq!(prune(store, retention).await.ids, 0, "it is on its way again");
    assert!(send_all(store, vec![inbox("a", "dead")]).await[0].is_duplicate);
    runner.finish(&[sent[0].at]).await;
    pass(world, 2000);
    assert_eq!(prune(store, retention).await.ids, 1);
    send(store, inbox("a", "dead")).await;
}

/// A dead letter stays for ever, or as long as is said; then its id goes, too.
pub async fn dead_letters_stay_as_long_as_is_said(world: &impl MessageWorld) {
    let runner = ready(world).await;
    let store = world.store();
    for no in 0..3 {
        let at = send(store, inbox("a", &no.to_string())).await;
        runner.give_up(dead(at, "no")).await;
        pass(world, 10_000);
    }
    assert_eq!(prune(store, keep()).await, PrunedMessages::default());
    let retention = MessageRetention { dead_ms: Some(15_000), ..keep() };
    assert_eq!(
        prune(store, retention).await,
        PrunedMessages { dead: 2, ..PrunedMessages::default() }
    );
    let left = store.dead_letters(&Scope::All, query(10)).await.unwrap().rows;
    assert_eq!(left.iter().map(|letter| letter.message.id.as_str()).collect::<Vec<_>>(), ["2"]);
    let ids = MessageRetention { dedupe_ms: 1, ..keep() };
    assert_eq!(prune(store, ids).await.ids, 2);
}

/// A stream without messages is forgotten after a while. It may come back, and nothing that named an
/// old message names a new one.
pub async fn empty_streams_are_forgotten(world: &impl MessageWorld) {
    let runner = ready(world).await;
    let store = world.store();
    let old = send_all(store, several("a", 3)).await;
    let stays = send(store, inbox("b", "b-1")).await;
    runner.finish(&old.iter().map(|sent| sent.at).collect::<Vec<_>>()).await;
    let retention = MessageRetention { stream_ms: 10_000, ..keep() };
    pass(world, 5000);
    let at = send(store, inbox("c", "c-1")).await;
    runner.finish(&[at]).await;
    assert_eq!(prune(store, retention).await, PrunedMessages::default());
    pass(world, 6000);
    let pruned = prune(store, retention).await;
    assert_eq!(pruned, PrunedMessages { streams: 1, ..PrunedMessages::default() });
    assert_eq!(prune(store, retention).await, PrunedMessages::default());
    let new = send_all(store, vec![inbox("a", "a-4"), inbox("a", "a-5"), inbox("b", "b-2")]).await;
    assert!(old.iter().all(|sent| sent.at != new[0].at && sent.at != new[1].at));
    assert_eq!(new[0].at.partition, old[0].at.partition);
    assert_eq!(new[2].at.stream_no, stays.stream_no);
    for sent in &old {
        assert_eq!(kind(runner.try_finish(sent.at).await), Kind::Conflict);
    }
    let messages = runner.messages().await;
    assert_eq!(ids_of(&messages, "a"), ["a-4", "a-5"]);
    assert_eq!(ids_of(&messages, "b"), ["b-1", "b-2"]);
    // The same for what a handler sends.
    assert_eq!(prune(store, retention).await.streams, 0);
    pass(world, 6000);
    assert_eq!(prune(store, retention).await.streams, 1);
    let done = vec![Done { at: new[0].at, consumer: None }];
    let messages = vec![inbox("c", "c-2"), inbox("b", "b-3")];
    store.commit(Commit { done, messages, ..runner.effects() }).await.unwrap();
    assert_eq!(ids_of(&runner.messages().await, "c"), ["c-2"]);
}

/// A dead letter can be replayed though its stream was forgotten.
pub async fn a_replay_brings_its_stream_back(world: &impl MessageWorld) {
    let runner = ready(world).await;
    let store = world.store();
    let at = send(store, inbox("a", "a-1")).await;
    let letter = dead(at, "no");
    runner.give_up(letter.clone()).await;
    pass(world, 10_000);
    assert_eq!(prune(store, MessageRetention { stream_ms: 1000, ..keep() }).await.streams, 1);
    let sent = store.replay_dead(&scope(ADA), &[letter.id]).await.unwrap();
    let found = runner.head("a").await;
    assert_eq!((found.at, found.id.as_str()), (sent[0].at, "a-1"));
    send(store, inbox("a", "a-2")).await;
    assert_eq!(ids(&runner.messages().await), ["a-1", "a-2"]);
    runner.finish(&[sent[0].at]).await;
}

/// An answered call moves to the archive after a while: it is found there, answers as before, refuses
/// other questions, and is listed no more.
pub async fn answered_calls_are_archived(world: &impl MessageWorld) {
    let runner = ready(world).await;
    let store = world.store();
    let (one, two) = (submit(store, call("1", "r1")).await, submit(store, call("2", "r2")).await);
    submit(store, call("3", "pending")).await;
    runner.answer(reply(one, "r1", "ok")).await;
    runner.answer(refusal(two, "r2", "no")).await;
    let retention = MessageRetention { archive_ms: 10_000, ..keep() };
    pass(world, 9000);
    assert_eq!(prune(store, retention).await, PrunedMessages::default());
    let before = seen_call(store, "r1").await;
    pass(world, 2000);
    assert_eq!(
        prune(store, retention).await,
        PrunedMessages { archived: 2, ..PrunedMessages::default() }
    );
    let told = seen_call(store, "r1").await;
    assert_eq!(told, Call { is_archived: true, ..before });
    let failed = seen_call(store, "r2").await;
    assert_eq!((failed.state, failed.error.as_deref()), (CallState::Failed, Some("no")));
    let again = store.submit_call(call("1", "r1")).await.unwrap();
    assert_eq!((again.at, again.call.reply), (None, Some(Bytes::from_static(b"ok"))));
    assert_eq!(again.call.retry_count, 1);
    assert_eq!(seen_call(store, "r1").await.retry_count, 1);
    assert_eq!(kind(store.submit_call(call("9", "r1")).await), Kind::Conflict);
    let query = CallsQuery { limit: 10, ..Default::default() };
    let listed = store.calls(&Scope::All, query).await.unwrap().rows;
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].state, CallState::Pending);
    let asked = StatsQuery { window_ms: 1000, old_ms: 1000 };
    let stats = store.call_stats(&Scope::All, asked).await.unwrap();
    assert_eq!((stats.rows, stats.archived_rows), (1, 2));
    assert_eq!(ids(&runner.messages().await), ["pending"]);
}

/// An answer is kept as long as was wanted; then a tombstone refuses to run the call again, until it
/// goes, too.
pub async fn an_expired_call_is_never_run_again(world: &impl MessageWorld) {
    let runner = ready(world).await;
    let store = world.store();
    for archive_ms in [keep().archive_ms, 1000] {
        let id = format!("r{archive_ms}");
        let expires_at = Some(later(world, 10_000));
        let new = NewCall { expires_at, ..call("1", &id) };
        let at = submit(store, new.clone()).await;
        runner.answer(reply(at, &id, "ok")).await;
        let retention = MessageRetention { archive_ms, tombstone_ms: 30_000, ..keep() };
        pass(world, 9000);
        prune(store, retention).await;
        assert_eq!(seen_call(store, &id).await.reply, Some(Bytes::from_static(b"ok")));
        pass(world, 2000);
        assert_eq!(prune(store, retention).await.expired, 1);
        let told = seen_call(store, &id).await;
        assert_eq!((told.state, told.reply, told.error), (CallState::Expired, None, None));
        assert_eq!((told.args, told.updated_at), (Bytes::new(), now(world)));
        let again = store.submit_call(new.clone()).await.unwrap();
        assert_eq!((again.at, again.call.state), (None, CallState::Expired));
        assert_eq!(again.call.retry_count, 1);
        let other = NewCall { args: Bytes::new(), ..new.clone() };
        assert_eq!(kind(store.submit_call(other).await), Kind::Conflict);
        assert!(waiting(store).await.is_empty());
        pass(world, 29_000);
        assert_eq!(prune(store, retention).await.tombstones, 0);
        pass(world, 2000);
        assert_eq!(prune(store, retention).await.tombstones, 1);
        assert_eq!(kind(store.call(&call_key(&id)).await), Kind::Missing);
        let at = submit(store, call("1", &id)).await;
        runner.answer(reply(at, &id, "anew")).await;
    }
}

/// A call without an answer is neither forgotten nor archived, whatever its time: what prunes answers leaves
/// it alone. An answer that comes late is kept for a day all the same.
pub async fn a_call_without_an_answer_is_not_pruned(world: &impl MessageWorld) {
    let runner = ready(world).await;
    let store = world.store();
    let expires_at = Some(later(world, 1000));
    let mut places = Vec::new();
    for id in ["pending", "begun"] {
        let new = NewCall { expires_at, ..call(id, id) };
        places.push(submit(store, new).await);
    }
    runner.begin(places[1]).await;
    pass(world, 100_000);
    let retention = MessageRetention { archive_ms: 1000, ..keep() };
    assert_eq!(prune(store, retention).await, PrunedMessages::default());
    assert_eq!(runner.messages().await.len(), 2);
    runner.answer(reply(places[0], "pending", "ok")).await;
    assert_eq!(prune(store, retention).await, PrunedMessages::default());
    let told = seen_call(store, "pending").await;
    assert_eq!(told.state, CallState::Completed);
    assert_eq!(told.expires_at, Some(later(world, LATE_ANSWER_MS)));
    pass(world, LATE_ANSWER_MS);
    assert_eq!(prune(store, retention).await.expired, 1);
    assert_eq!(seen_call(store, "pending").await.state, CallState::Expired);
    assert_eq!(seen_call(store, "begun").await.state, CallState::Processing);
}

/// The archive keeps answers as long as it is told to: then a tombstone is left, which refuses to run the
/// call again. What is not said is kept.
pub async fn the_archive_keeps_answers_as_long_as_it_is_told(world: &impl MessageWorld) {
    let runner = ready(world).await;
    let store = world.store();
    for id in ["r1", "r2"] {
        let at = submit(store, call("1", id)).await;
        runner.answer(reply(at, id, "ok")).await;
        pass(world, 5_000);
    }
    let archive = MessageRetention { archive_ms: 0, ..keep() };
    assert_eq!(prune(store, archive).await.archived, 2);
    pass(world, 1_000_000);
    assert_eq!(prune(store, keep()).await, PrunedMessages::default(), "for ever by itself");
    let retention = MessageRetention { archived_ms: Some(1_007_000), ..keep() };
    assert_eq!(
        prune(store, retention).await,
        PrunedMessages { expired: 1, ..PrunedMessages::default() }
    );
    assert_eq!(prune(store, retention).await, PrunedMessages::default());
    let told = seen_call(store, "r1").await;
    assert_eq!((told.state, told.reply, told.args), (CallState::Expired, None, Bytes::new()));
    assert_eq!(seen_call(store, "r2").await.state, CallState::Completed);
    let again = store.submit_call(call("1", "r1")).await.unwrap();
    assert_eq!((again.at, again.call.state), (None, CallState::Expired), "it is not run again");
}

/// A step tidies no more of each kind than it may, and the next goes on.
pub async fn a_step_of_pruning_is_bounded(world: &impl MessageWorld) {
    let runner = ready(world).await;
    let store = world.store();
    for no in 0..5 {
        let (name, id) = (format!("s{no}"), format!("m{no}"));
        let done = send(store, inbox(&name, &id)).await;
        runner.finish(&[done]).await;
        let gone = send(store, outbox(&name, &id)).await;
        runner.give_up(dead(gone, "no")).await;
        let at = submit(store, call(&id, &id)).await;
        runner.answer(reply(at, &id, "ok")).await;
        let expires_at = Some(later(world, 1));
        let short = format!("x{no}");
        let new = NewCall { expires_at, ..call(&short, &short) };
        let at = submit(store, new).await;
        runner.answer(reply(at, &short, "ok")).await;
    }
    let stays = send(store, inbox("stays", "stays")).await;
    pass(world, 100_000);
    let retention = MessageRetention {
        dedupe_ms: 1000,
        archive_ms: 1000,
        archived_ms: None,
        tombstone_ms: keep().tombstone_ms,
        dead_ms: Some(1000),
        stream_ms: 1000,
        event_ms: None,
    };
    let mut total = PrunedMessages::default();
    for step in 0..50 {
        let pruned = store.prune_messages(retention, 2).await.unwrap();
        let PrunedMessages { ids, archived, expired, tombstones, dead, streams, events: _ } =
            pruned;
        assert!([ids, archived, expired, tombstones, dead, streams].iter().all(|n| *n <= 2));
        if pruned.total() == 0 {
            break;
        }
        assert!(step < 49, "it ends");
        total.ids += ids;
        total.expired += expired;
        total.dead += dead;
        total.streams += streams;
    }
    // Of each of five: two streams of messages, and two of calls.
    assert_eq!((total.ids, total.expired, total.dead, total.streams), (5, 5, 5, 20));
    for no in 0..5 {
        assert!(seen_call(store, &format!("m{no}")).await.is_archived);
        assert_eq!(seen_call(store, &format!("x{no}")).await.state, CallState::Expired);
    }
    runner.finish(&[stays]).await;
}

/// Times that never end are answered like long ones.
pub async fn endless_times_are_answered(world: &impl MessageWorld) {
    let runner = ready(world).await;
    let store = world.store();
    let gone = send(store, inbox("a", "1")).await;
    runner.give_up(dead(gone, "no")).await;
    let at = submit(store, call("1", "r1")).await;
    runner.answer(reply(at, "r1", "ok")).await;
    let begun = submit(store, call("2", "r2")).await;
    runner.begin(begun).await;
    pass(world, 1000);
    let endless = MessageRetention {
        dedupe_ms: u64::MAX,
        archive_ms: u64::MAX,
        archived_ms: Some(u64::MAX),
        tombstone_ms: u64::MAX,
        dead_ms: Some(u64::MAX),
        stream_ms: u64::MAX,
        event_ms: Some(u64::MAX),
    };
    assert_eq!(prune(store, endless).await, PrunedMessages::default());
    let asked = StatsQuery { window_ms: u64::MAX, old_ms: u64::MAX };
    let stats = store.call_stats(&Scope::All, asked).await.unwrap();
    assert_eq!((stats.stuck, stats.failure_rate, stats.rows), (0, Some(0.0), 2));
    let stuck = CallsQuery { stuck_ms: Some(u64::MAX), limit: 10, ..CallsQuery::default() };
    assert!(store.calls(&Scope::All, stuck).await.unwrap().rows.is_empty());
}
