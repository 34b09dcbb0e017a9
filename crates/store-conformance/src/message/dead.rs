//! Dead letters and lists: what was given up on is kept, replayed or discarded; what waits is listed.

use windrow_domain::{DeadLetterId, Queue};
use windrow_store::error::Kind;
use windrow_store::inspect::PAGE_MAX;
use windrow_store::message::{
    Commit, Dead, DeadLetter, Done, ERROR_BYTES_MAX, HISTORY_MAX, Message, MessagesQuery,
    NewMessage, Started,
};
use windrow_store::{Messages, Scope};

use super::MessageWorld;
use super::fixture::*;

async fn letters(store: &impl Messages, scope: &Scope) -> Vec<DeadLetter> {
    store.dead_letters(scope, query(1000)).await.expect("dead letters are listed").rows
}

/// The last attempt of a message is one of its attempts, unless it found its target unavailable; one whose
/// beginning was stored was counted then, and only once.
pub async fn the_last_attempt_of_a_dead_letter_counts_unless_it_is_not_to(
    world: &impl MessageWorld,
) {
    let runner = ready(world).await;
    let store = world.store();
    for (name, begins, counts, attempts) in [
        ("counted", false, true, 2),
        ("unavailable", false, false, 1),
        ("begun", true, true, 2),
        ("begun-unavailable", true, false, 1),
    ] {
        let at = send(store, inbox(name, name)).await;
        runner.fail(failed(at, "first", now(world))).await;
        if begins {
            runner.begin(at).await;
        }
        runner.give_up(Dead { counts, ..dead(at, "gave up") }).await;
        let letter = letters(store, &scope(ADA)).await.remove(0);
        assert_eq!((letter.message.id.as_str(), letter.message.attempts), (name, attempts));
        pass(world, 1000);
    }
}

/// A message that is given up on makes room for the next, and is kept as it was, with its history.
pub async fn a_dead_letter_keeps_what_happened(world: &impl MessageWorld) {
    let runner = ready(world).await;
    let store = world.store();
    let headers = [("trace".to_owned(), "ü".to_owned())].into();
    let consumers = vec!["handler".to_owned(), "projection".to_owned()];
    let new = NewMessage { headers, consumers, ..inbox("a", "a-1") };
    let at = send(store, new.clone()).await;
    send(store, inbox("a", "a-2")).await;
    let sent_at = now(world);
    let by = Done { at, consumer: Some("handler".to_owned()) };
    store.commit(Commit { done: vec![by], ..runner.effects() }).await.unwrap();
    let mut failed_at = Vec::new();
    for error in ["first", "second"] {
        pass(world, 1000);
        runner.fail(failed(at, error, now(world))).await;
        failed_at.push(now(world));
    }
    pass(world, 1000);
    let gone = dead(at, "gave up");
    runner.give_up(gone.clone()).await;
    assert_eq!(ids(&runner.messages().await), ["a-2"]);
    let letter = letters(store, &scope(ADA)).await.remove(0);
    assert_eq!((letter.id, letter.error.as_str()), (gone.id, "gave up"));
    assert_eq!(letter.dead_at, now(world));
    let attempts: Vec<_> = letter.history.iter().map(|one| (one.at, one.error.as_str())).collect();
    assert_eq!(attempts, [(failed_at[0], "first"), (failed_at[1], "second")]);
    let message = letter.message;
    assert_eq!((message.at, message.queue, message.attempts), (at, Queue::Inbox, 2));
    assert_eq!((message.owner, message.stream), (new.owner, new.stream));
    assert_eq!((message.id, message.kind), (new.id, new.kind));
    assert_eq!((message.payload, message.headers), (new.payload, new.headers));
    assert_eq!((message.sent_at, message.waiting), (sent_at, vec!["projection".to_owned()]));
    assert_eq!(kind(runner.try_finish(at).await), Kind::Conflict);
}

/// The history holds the last failures, however many there were; errors are cut.
pub async fn the_history_is_bounded(world: &impl MessageWorld) {
    let runner = ready(world).await;
    let at = send(world.store(), inbox("a", "1")).await;
    let attempts = HISTORY_MAX + 5;
    for no in 1..=attempts {
        runner.fail(failed(at, &format!("try {no}"), now(world))).await;
    }
    assert_eq!(runner.head("a").await.attempts as usize, attempts);
    runner.give_up(dead(at, &"x".repeat(ERROR_BYTES_MAX * 3))).await;
    let letter = letters(world.store(), &Scope::All).await.remove(0);
    assert!((1..=ERROR_BYTES_MAX).contains(&letter.error.len()));
    let kept: Vec<_> = letter.history.iter().map(|one| one.error.clone()).collect();
    let expected: Vec<_> = (6..=attempts).map(|no| format!("try {no}")).collect();
    assert_eq!(kept, expected);
}

/// A replayed message goes to the end of its stream with no tries behind it, and is dead no more.
pub async fn a_replay_goes_to_the_end_of_its_stream(world: &impl MessageWorld) {
    let runner = ready(world).await;
    let store = world.store();
    let consumers = vec!["handler".to_owned(), "projection".to_owned()];
    let at = send(store, NewMessage { consumers, ..inbox("a", "a-1") }).await;
    send(store, inbox("a", "a-2")).await;
    runner.fail(failed(at, "no", now(world))).await;
    let begin = Commit { started: vec![Started { at }], ..runner.effects() };
    store.commit(begin).await.unwrap();
    let first = dead(at, "gave up");
    runner.give_up(first.clone()).await;
    pass(world, 1000);
    let sent = store.replay_dead(&scope(ADA), &[first.id]).await.unwrap();
    assert_eq!((sent.len(), sent[0].is_duplicate), (1, false));
    assert!(letters(store, &Scope::All).await.is_empty());
    assert_eq!(kind(store.replay_dead(&Scope::All, &[first.id]).await), Kind::Missing);
    let messages = runner.messages().await;
    assert_eq!(ids(&messages), ["a-2", "a-1"]);
    let again = &messages[1];
    assert_eq!((again.at, again.attempts, again.started), (sent[0].at, 0, None));
    assert_eq!((&again.error, again.not_before), (&None, None));
    assert_eq!(sorted(again.waiting.clone()), ["handler", "projection"]);
    let repeat = send_all(store, vec![inbox("a", "a-1")]).await;
    assert!(repeat[0].is_duplicate, "its id is still known");
    let second = dead(again.at, "again");
    runner.give_up(second.clone()).await;
    let letter = letters(store, &Scope::All).await.remove(0);
    assert_eq!((letter.id, letter.history), (second.id, Vec::new()));
    assert_eq!(ids(&runner.messages().await), ["a-2"]);
}

/// A replay happens for all of them or for none; another owner's dead letters are missing.
pub async fn another_owners_dead_letters_are_missing(world: &impl MessageWorld) {
    let runner = ready(world).await;
    let store = world.store();
    let mut gone = Vec::new();
    for whose in [ADA, ADA, "bob"] {
        let id = format!("m{}", gone.len());
        let at = send(store, NewMessage { owner: owner(whose), ..outbox("a", &id) }).await;
        gone.push(dead(at, "no"));
    }
    store.commit(Commit { dead: gone.clone(), ..runner.effects() }).await.unwrap();
    let [one, two, bobs] = [gone[0].id, gone[1].id, gone[2].id];
    for (who, asked) in [
        (scope(ADA), vec![one, bobs]),
        (scope("bob"), vec![one]),
        (Scope::All, vec![one, DeadLetterId::new()]),
    ] {
        assert_eq!(kind(store.replay_dead(&who, &asked).await), Kind::Missing);
    }
    assert!(runner.messages().await.is_empty());
    assert_eq!(letters(store, &scope("bob")).await[0].id, bobs);
    assert_eq!(letters(store, &scope("eve")).await, []);
    assert_eq!(store.discard_dead(&scope(ADA), &[bobs]).await.unwrap(), 0);
    assert_eq!(store.discard_dead(&scope(ADA), &[one, bobs]).await.unwrap(), 1);
    assert_eq!(store.discard_dead(&scope(ADA), &[one]).await.unwrap(), 0);
    assert_eq!(store.replay_dead(&Scope::All, &[two, bobs]).await.unwrap().len(), 2);
    assert_eq!(sorted(ids(&runner.messages().await)), ["m1", "m2"]);
    assert_eq!(letters(store, &Scope::All).await, []);
    assert!(store.replay_dead(&scope(ADA), &[]).await.unwrap().is_empty());
}

/// Dead letters are listed newest first, page by page, by queue and by stream.
pub async fn dead_letters_are_listed_newest_first(world: &impl MessageWorld) {
    let runner = ready(world).await;
    let store = world.store();
    let mut gone = Vec::new();
    for no in 0..9 {
        let name = ["a", "b"][no % 2];
        let id = format!("m{no}");
        let new = if no % 3 == 0 { outbox(name, &id) } else { inbox(name, &id) };
        let at = send(store, new).await;
        let one = dead(at, &id);
        gone.push(one.id);
        runner.give_up(one).await;
        pass(world, if no % 4 == 0 { 0 } else { 10 });
    }
    let listed = async |asked: MessagesQuery| -> Vec<DeadLetter> {
        let (mut rows, mut asked) = (Vec::new(), asked);
        loop {
            let page = store.dead_letters(&scope(ADA), asked.clone()).await.unwrap();
            assert!(page.rows.len() <= asked.limit as usize);
            rows.extend(page.rows);
            match page.next {
                Some(next) => asked.after = Some(next),
                None => return rows,
            }
        }
    };
    let whole = listed(query(1000)).await;
    assert_eq!(sorted(whole.iter().map(|one| one.id)), sorted(gone));
    assert!(whole.is_sorted_by(|a, b| a.dead_at >= b.dead_at));
    for limit in [1, 4, 9] {
        assert_eq!(listed(query(limit)).await, whole);
    }
    let some = |asked: &MessagesQuery| -> Vec<DeadLetter> {
        let fits = |one: &&DeadLetter| fits(asked, &one.message);
        whole.iter().filter(fits).cloned().collect()
    };
    for asked in filters() {
        assert_eq!(listed(asked.clone()).await, some(&asked));
    }
}

fn filters() -> Vec<MessagesQuery> {
    let both = || MessagesQuery { queue: Some(Queue::Inbox), ..query(2) };
    vec![
        both(),
        MessagesQuery { queue: Some(Queue::Outbox), ..query(2) },
        MessagesQuery { queue: Some(Queue::Calls), ..query(2) },
        MessagesQuery { stream: Some(stream("a")), ..query(2) },
        MessagesQuery { stream: Some(stream("b")), ..both() },
        MessagesQuery { stream: Some(stream("none")), ..query(2) },
    ]
}

fn fits(asked: &MessagesQuery, message: &Message) -> bool {
    asked.queue.is_none_or(|queue| queue == message.queue)
        && asked.stream.as_ref().is_none_or(|stream| *stream == message.stream)
}

/// Messages that wait are listed by partition, stream and position, with their payload, also those
/// that nobody may run yet; each owner sees its own.
pub async fn messages_that_wait_are_listed(world: &impl MessageWorld) {
    let runner = ready(world).await;
    let store = world.store();
    let mut count = 0;
    for name in ["a", "b", "c", "d"] {
        for whose in [ADA, "bob"] {
            for no in 0..3 {
                count += 1;
                let id = format!("{name}-{no}");
                let not_before = (no == 1).then(|| later(world, 1000));
                let new = if no == 2 { outbox(name, &id) } else { inbox(name, &id) };
                send(store, NewMessage { owner: owner(whose), not_before, ..new }).await;
            }
        }
    }
    let listed = async |who: Scope, asked: MessagesQuery| -> Vec<Message> {
        let (mut rows, mut asked) = (Vec::new(), asked);
        loop {
            let page = store.messages(&who, asked.clone()).await.unwrap();
            assert!(page.rows.len() <= asked.limit as usize);
            rows.extend(page.rows);
            match page.next {
                Some(next) => asked.after = Some(next),
                None => return rows,
            }
        }
    };
    let whole = listed(Scope::All, query(1000)).await;
    assert_eq!(whole.len(), count);
    assert!(whole.is_sorted_by(|a, b| a.at < b.at));
    assert_eq!(listed(Scope::All, query(5)).await, whole);
    let read = runner.messages().await;
    assert!(read.iter().all(|message| whole.contains(message)), "as its owner reads it");
    for who in [scope(ADA), scope("bob"), scope("eve")] {
        for asked in filters() {
            let is_theirs = |one: &&Message| Some(one.owner.as_str()) == who.owner();
            let expected: Vec<_> =
                whole.iter().filter(is_theirs).filter(|one| fits(&asked, one)).cloned().collect();
            assert_eq!(listed(who.clone(), asked).await, expected);
        }
    }
}

/// A page out of bounds, or with a cursor of another query or owner, is invalid.
pub async fn a_list_of_messages_out_of_bounds_is_invalid(world: &impl MessageWorld) {
    let runner = ready(world).await;
    let store = world.store();
    let sent = send_all(store, several("a", 6)).await;
    for one in &sent[..3] {
        runner.give_up(dead(one.at, "no")).await;
    }
    let messages = store.messages(&scope(ADA), query(1)).await.unwrap().next;
    let letters = store.dead_letters(&scope(ADA), query(1)).await.unwrap().next;
    let (messages, letters) = (messages.expect("more"), letters.expect("more"));
    let after =
        |text: &str, asked: MessagesQuery| MessagesQuery { after: Some(text.to_owned()), ..asked };
    let filtered = || MessagesQuery { queue: Some(Queue::Inbox), ..query(1) };
    for (who, text, asked) in [
        (scope("bob"), &messages, query(1)),
        (Scope::All, &messages, query(1)),
        (scope(ADA), &messages, filtered()),
        (scope(ADA), &letters, query(1)),
    ] {
        assert_eq!(kind(store.messages(&who, after(text, asked)).await), Kind::Invalid);
    }
    let wrong = after(&messages, query(1));
    assert_eq!(kind(store.dead_letters(&scope(ADA), wrong).await), Kind::Invalid);
    let theirs = after(&letters, query(1));
    assert_eq!(kind(store.dead_letters(&scope("bob"), theirs).await), Kind::Invalid);
    assert_eq!(
        store.messages(&scope(ADA), after(&messages, query(9))).await.unwrap().rows.len(),
        2
    );
    for limit in [0, PAGE_MAX + 1] {
        assert_eq!(kind(store.messages(&Scope::All, query(limit)).await), Kind::Invalid);
        assert_eq!(kind(store.dead_letters(&Scope::All, query(limit)).await), Kind::Invalid);
    }
}

/// The backlog tells for every queue how much waits, since when, and how much is dead.
pub async fn the_backlog_tells_every_queue(world: &impl MessageWorld) {
    let runner = ready(world).await;
    let store = world.store();
    let told = async || -> Vec<_> {
        let mut backlog = store.backlog().await.unwrap();
        backlog.sort_by_key(|one| one.queue);
        let told = |one: &windrow_store::message::Backlog| {
            (one.queue, one.messages, one.oldest_sent_at, one.dead)
        };
        backlog.iter().map(told).collect()
    };
    let empty = [Queue::Inbox, Queue::Outbox, Queue::Calls].map(|queue| (queue, 0, None, 0));
    assert_eq!(told().await, empty);
    let first = now(world);
    let at = send(store, inbox("a", "1")).await;
    pass(world, 1000);
    let second = now(world);
    let new = NewMessage { not_before: Some(later(world, 9000)), ..inbox("b", "2") };
    send_all(store, vec![new, outbox("b", "3")]).await;
    let waits =
        |count, since| [(Queue::Inbox, count, Some(since)), (Queue::Outbox, 1, Some(second))];
    let with = |dead, waits: [(Queue, u64, Option<jiff::Timestamp>); 2]| {
        [
            (waits[0].0, waits[0].1, waits[0].2, dead),
            (waits[1].0, waits[1].1, waits[1].2, 0),
            (Queue::Calls, 0, None, 0),
        ]
    };
    assert_eq!(told().await, with(0, waits(2, first)));
    runner.give_up(dead(at, "no")).await;
    assert_eq!(told().await, with(1, waits(1, second)));
}
