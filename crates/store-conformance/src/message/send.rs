//! Sending and reading: order per stream, repeats, waiting, and reads that reach everything.

use std::collections::BTreeMap;

use bytes::Bytes;
use windrow_domain::message::{
    CONSUMERS_MAX, HEADERS_BYTES_MAX, KIND_BYTES_MAX, MESSAGE_ID_BYTES_MAX, PAYLOAD_BYTES_MAX,
};
use windrow_domain::partition::partition_of;
use windrow_domain::{InstanceId, Queue};
use windrow_store::error::Kind;
use windrow_store::message::{Commit, HELD_MAX, NewMessage, READ_MAX, Read, ReadFrom, SEND_MAX};
use windrow_store::partition::Fence;
use windrow_store::{Messages, Partitions};

use super::MessageWorld;
use super::fixture::*;

/// A message is read with everything that was sent, bytes included.
pub async fn messages_are_read_as_they_were_sent(world: &impl MessageWorld) {
    let runner = ready(world).await;
    let headers = [("trace", "ü\"\n"), ("", "")].map(|(k, v)| (k.to_owned(), v.to_owned()));
    let new = NewMessage {
        kind: "order.plaçéd".to_owned(),
        payload: Bytes::from_static(&[0, 255, 0, b'\'']),
        headers: headers.into(),
        consumers: vec!["handler".to_owned(), "projection".to_owned()],
        ..inbox("orders/ä%' ", "ü-1")
    };
    let bare = NewMessage { payload: Bytes::new(), ..outbox("plain", "1") };
    let sent = send_all(world.store(), vec![new.clone(), bare.clone()]).await;
    let sent_at = now(world);
    pass(world, 1000);
    let messages = world.another().await.read_owned(runner.read()).await.unwrap().messages;
    assert_eq!(messages.len(), 2);
    for (sent, new) in sent.iter().zip([&new, &bare]) {
        let found = messages.iter().find(|message| message.at == sent.at).expect("it was sent");
        assert_eq!(
            (found.queue, &found.owner, &found.stream),
            (new.queue, &new.owner, &new.stream)
        );
        assert_eq!((&found.id, &found.kind), (&new.id, &new.kind));
        assert_eq!((&found.payload, &found.headers), (&new.payload, &new.headers));
        assert_eq!(sorted(found.waiting.clone()), sorted(new.consumers.clone()));
        assert_eq!((found.attempts, found.started, &found.error), (0, None, &None));
        assert_eq!((found.not_before, found.sent_at), (None, sent_at));
    }
}

/// Messages of a stream are read in the order they were sent, over many sends.
pub async fn a_stream_is_read_in_its_order(world: &impl MessageWorld) {
    let runner = ready(world).await;
    let mut sent = Vec::new();
    let mut expected: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for round in 0..10 {
        let mut messages = Vec::new();
        for no in 0..5 {
            let name = ["a", "b", "c"][(round * 3 + no) % 3];
            // Ids that sort otherwise than they are sent.
            let id = format!("{}-{name}", 1000 - round * 10 - no);
            expected.entry(name).or_default().push(id.clone());
            messages.push(inbox(name, &id));
        }
        sent.extend(send_all(world.store(), messages).await);
    }
    let messages = runner.messages().await;
    assert_eq!(messages.len(), 50);
    for (name, ids) in expected {
        assert_eq!(ids_of(&messages, name), ids);
        let of = messages.iter().filter(|message| message.stream.as_str() == name);
        let places: Vec<_> = of.map(|message| message.at).collect();
        assert!(places.is_sorted_by(|a, b| a.position < b.position));
        assert!(places.iter().all(|at| at.stream_no == places[0].stream_no));
    }
    let read_at = sorted(messages.iter().map(|message| message.at));
    assert_eq!(sorted(sent.iter().map(|sent| sent.at)), read_at);
}

/// A stream's partition is what the domain computes from its owner and its name.
pub async fn a_streams_partition_is_the_domains(world: &impl MessageWorld) {
    let runner = ready(world).await;
    for name in ["wallet/1", "wallet/2", "ü", "x y"] {
        for owner_name in [ADA, "bob"] {
            for queue in [Queue::Inbox, Queue::Outbox] {
                let id = format!("{name}-{owner_name}-{queue}");
                let new = NewMessage { queue, owner: owner(owner_name), ..inbox(name, &id) };
                let expected = partition_of(&new.owner, &new.stream, PARTITIONS);
                let at = send(world.store(), new).await;
                assert_eq!(at.partition, expected);
            }
        }
    }
    assert!(runner.messages().await.iter().all(|message| {
        message.at.partition == partition_of(&message.owner, &message.stream, PARTITIONS)
    }));
}

/// A send with one bad message, or one conflict, sends none of its messages.
pub async fn a_send_happens_whole_or_not_at_all(world: &impl MessageWorld) {
    let runner = ready(world).await;
    let store = world.store();
    let first = send(store, inbox("a", "known")).await;
    let other = NewMessage { payload: Bytes::from_static(b"other"), ..inbox("a", "known") };
    for bad in [other, inbox("a", "")] {
        for at in 0..3 {
            let mut messages = vec![inbox("b", "1"), inbox("c", "2")];
            messages.insert(at, bad.clone());
            store.send(messages).await.unwrap_err();
        }
    }
    assert_eq!(ids(&runner.messages().await), ["known"]);
    assert!(store.send(Vec::new()).await.unwrap().is_empty());
    let sent = send_all(store, vec![inbox("b", "1"), inbox("a", "2")]).await;
    assert!(sent.iter().all(|sent| !sent.is_duplicate), "nothing of it was remembered");
    assert!(sent[1].at.position > first.position, "a later one is greater");
}

/// The same stream is another one in another queue: what waits in one holds nothing up in the other.
pub async fn queues_of_one_stream_are_independent(world: &impl MessageWorld) {
    let runner = ready(world).await;
    let store = world.store();
    let waits = NewMessage { not_before: Some(later(world, 1000)), ..outbox("a", "out-1") };
    let messages = vec![waits, inbox("a", "in-1"), outbox("a", "out-2"), inbox("a", "in-2")];
    let sent = send_all(store, messages).await;
    assert_ne!(sent[0].at.stream_no, sent[1].at.stream_no);
    assert_eq!(sent[0].at.partition, sent[1].at.partition);
    assert_eq!(ids(&runner.messages().await), ["in-1", "in-2"]);
    pass(world, 1000);
    let messages = runner.messages().await;
    let of = |queue: Queue| -> Vec<_> {
        messages.iter().filter(|one| one.queue == queue).map(|one| one.id.as_str()).collect()
    };
    assert_eq!(
        (of(Queue::Inbox), of(Queue::Outbox)),
        (vec!["in-1", "in-2"], vec!["out-1", "out-2"])
    );
}

/// Streams and ids belong to their owner.
pub async fn owners_do_not_share_streams(world: &impl MessageWorld) {
    let runner = ready(world).await;
    let store = world.store();
    let of = |name: &str, payload: &'static str| NewMessage {
        owner: owner(name),
        payload: Bytes::from_static(payload.as_bytes()),
        ..inbox("a", "1")
    };
    let ada = send(store, of(ADA, "x")).await;
    let bob = send(store, of("bob", "y")).await;
    assert_ne!(ada.stream_no, bob.stream_no);
    runner.fail(failed(ada, "no", later(world, 1000))).await;
    let messages = runner.messages().await;
    assert_eq!(messages.len(), 1);
    assert_eq!((messages[0].at, messages[0].owner.as_str()), (bob, "bob"));
}

/// A message sent again under its id counts once, and the answer says where the first one is.
pub async fn a_repeated_message_counts_once(world: &impl MessageWorld) {
    let runner = ready(world).await;
    let store = world.store();
    let first = send(store, inbox("a", "1")).await;
    send(store, inbox("a", "2")).await;
    // What is not its content may differ: when it was to be run, what travels with it.
    let again = NewMessage { not_before: Some(later(world, 1000)), ..inbox("a", "1") };
    let sent = send_all(&world.another().await, vec![again, inbox("a", "3")]).await;
    assert_eq!((sent[0].at, sent[0].is_duplicate), (first, true));
    assert!(!sent[1].is_duplicate);
    assert_eq!(ids(&runner.messages().await), ["1", "2", "3"]);
}

/// The same id with another stream, kind or payload is a conflict for the whole send.
pub async fn one_id_with_other_content_is_a_conflict(world: &impl MessageWorld) {
    let runner = ready(world).await;
    let store = world.store();
    let at = send(store, inbox("a", "1")).await;
    let others = [
        NewMessage { stream: stream("b"), ..inbox("a", "1") },
        NewMessage { kind: "order.cancelled".to_owned(), ..inbox("a", "1") },
        NewMessage { payload: Bytes::new(), ..inbox("a", "1") },
    ];
    for other in others {
        let messages = vec![inbox("z", "9"), other.clone()];
        assert_eq!(kind(store.send(messages).await), Kind::Conflict);
        let within = vec![NewMessage { id: "new".to_owned(), ..other }, inbox("a", "new")];
        assert_eq!(kind(store.send(within).await), Kind::Conflict);
    }
    assert_eq!(ids(&runner.messages().await), ["1"]);
    runner.finish(&[at]).await;
    let other = NewMessage { payload: Bytes::new(), ..inbox("a", "1") };
    assert_eq!(kind(store.send(vec![other]).await), Kind::Conflict);
}

/// What came in under an id may go out under the same: each queue has ids of its own.
pub async fn an_id_counts_once_in_each_queue(world: &impl MessageWorld) {
    let runner = ready(world).await;
    let store = world.store();
    let out = NewMessage { dedupe: true, ..outbox("a", "1") };
    let sent = send_all(store, vec![inbox("a", "1"), out.clone()]).await;
    assert_eq!([sent[0].is_duplicate, sent[1].is_duplicate], [false, false]);
    assert_eq!(ids(&runner.messages().await), ["1", "1"]);
    let again = send_all(store, vec![inbox("a", "1"), out.clone()]).await;
    assert_eq!([again[0].is_duplicate, again[1].is_duplicate], [true, true]);
    assert_eq!([again[0].at, again[1].at], [sent[0].at, sent[1].at]);
    // A dead letter of one queue keeps its own id, and a replay takes its own along.
    let gone = dead(sent[1].at, "gave up");
    runner.give_up(gone.clone()).await;
    assert!(send_all(store, vec![inbox("a", "1")]).await[0].is_duplicate);
    let moved = store.replay_dead(&scope(ADA), &[gone.id]).await.unwrap()[0].at;
    assert_eq!(send_all(store, vec![out]).await[0].at, moved);
    assert_eq!(send_all(store, vec![inbox("a", "1")]).await[0].at, sent[0].at);
}

/// A message that is twice in one send counts once.
pub async fn a_repeat_within_one_send_counts_once(world: &impl MessageWorld) {
    let runner = ready(world).await;
    let messages = vec![inbox("a", "1"), inbox("a", "2"), inbox("a", "1"), inbox("b", "3")];
    let sent = send_all(world.store(), messages).await;
    let duplicates: Vec<_> = sent.iter().map(|sent| sent.is_duplicate).collect();
    assert_eq!(duplicates, [false, false, true, false]);
    assert_eq!(sent[2].at, sent[0].at);
    assert_eq!(sorted(ids(&runner.messages().await)), ["1", "2", "3"]);
}

/// A message that is done is still remembered.
pub async fn a_repeat_after_it_is_done_counts_once(world: &impl MessageWorld) {
    let runner = ready(world).await;
    let store = world.store();
    let at = send(store, inbox("a", "1")).await;
    runner.finish(&[at]).await;
    let sent = send_all(store, vec![inbox("a", "1")]).await;
    assert_eq!((sent[0].at, sent[0].is_duplicate), (at, true));
    assert!(runner.messages().await.is_empty());
}

/// In the outbox an id counts once only where that is asked for.
pub async fn only_deduped_messages_of_the_outbox_count_once(world: &impl MessageWorld) {
    let runner = ready(world).await;
    let store = world.store();
    for _ in 0..2 {
        send(store, outbox("a", "1")).await;
    }
    let once = NewMessage { dedupe: true, ..outbox("a", "once") };
    let sent = send_all(store, vec![once.clone(), once.clone()]).await;
    assert_eq!([sent[0].is_duplicate, sent[1].is_duplicate], [false, true]);
    assert!(send_all(store, vec![once]).await[0].is_duplicate);
    assert_eq!(ids(&runner.messages().await), ["1", "1", "once"]);
}

/// A message that must wait holds up what is behind it in its stream, and nothing else.
pub async fn a_message_that_waits_holds_up_its_own_stream_only(world: &impl MessageWorld) {
    let runner = ready(world).await;
    let store = world.store();
    let waits = |name: &str, id: &str, ms| NewMessage {
        not_before: Some(later(world, ms)),
        ..inbox(name, id)
    };
    // Enough streams that some share a partition with the one that waits.
    let mut messages = vec![waits("slow", "slow-1", 1000), inbox("slow", "slow-2")];
    messages.extend((0..20).map(|no| inbox(&format!("s{no}"), &format!("m{no}"))));
    messages.extend([inbox("tail", "tail-1"), waits("tail", "tail-2", 500)]);
    send_all(store, messages).await;
    let found = runner.messages().await;
    assert_eq!(ids_of(&found, "slow"), Vec::<&str>::new());
    assert_eq!(ids_of(&found, "tail")[0], "tail-1");
    let tail = found.iter().find(|message| message.id == "tail-2");
    assert!(tail.is_none_or(|tail| tail.not_before == Some(later(world, 500))));
    assert_eq!(found.iter().filter(|message| message.id.starts_with('m')).count(), 20);
    runner
        .finish(
            &found.iter().filter(|one| one.id != "tail-2").map(|one| one.at).collect::<Vec<_>>(),
        )
        .await;
    assert!(runner.messages().await.is_empty());
    pass(world, 500);
    assert_eq!(ids(&runner.messages().await), ["tail-2"]);
    pass(world, 499);
    assert_eq!(ids(&runner.messages().await), ["tail-2"]);
    pass(world, 1);
    assert_eq!(ids_of(&runner.messages().await, "slow"), ["slow-1", "slow-2"]);
}

/// A read tells when something that must wait may be due.
pub async fn a_read_tells_when_the_next_is_due(world: &impl MessageWorld) {
    let runner = ready(world).await;
    assert_eq!(runner.work().await.next_due, None);
    let waits =
        |name: &str, ms| NewMessage { not_before: Some(later(world, ms)), ..inbox(name, name) };
    let due = [later(world, 700), later(world, 900)];
    send_all(world.store(), vec![waits("a", 900), waits("b", 700)]).await;
    let work = runner.work().await;
    assert!(work.messages.is_empty());
    assert_eq!(work.next_due, Some(due[0]));
    pass(world, 700);
    let work = runner.work().await;
    assert_eq!(ids(&work.messages), ["b"]);
    assert_eq!(work.next_due, Some(due[1]));
    pass(world, 200);
    assert_eq!(runner.work().await.messages.len(), 2);
}

/// One stream gives no more messages than it may, so that the others have room.
pub async fn one_stream_cannot_fill_a_read(world: &impl MessageWorld) {
    let runner = ready(world).await;
    send_all(world.store(), several("a", 50)).await;
    send_all(world.store(), vec![inbox("b", "b-1"), inbox("c", "c-1")]).await;
    let read = Read { messages_max: 10, stream_messages_max: 3, ..runner.read() };
    let messages = runner.work_of(read).await.messages;
    assert_eq!(ids_of(&messages, "a"), ["a-1", "a-2", "a-3"]);
    assert_eq!((ids_of(&messages, "b"), ids_of(&messages, "c")), (vec!["b-1"], vec!["c-1"]));
    let read = Read { messages_max: 2, stream_messages_max: 1000, ..runner.read() };
    assert_eq!(runner.work_of(read).await.messages.len(), 2);
}

/// Reads that go on where the last one ended come to every stream, however many there are, and round
/// to the first again; each message once in a round.
pub async fn a_read_walks_round_all_streams(world: &impl MessageWorld) {
    let runner = ready(world).await;
    for no in 0..60 {
        send_all(world.store(), several(&format!("s{no}"), 2)).await;
    }
    let mut read = Read { messages_max: 7, stream_messages_max: 2, ..runner.read() };
    for _ in 0..2 {
        let mut seen = Vec::new();
        let mut open = read.from.clone();
        for _ in 0..200 {
            let work = runner.work_of(Read { from: open.clone(), ..read.clone() }).await;
            assert!(work.messages.len() <= 7 && work.lost.is_empty());
            seen.extend(work.messages.iter().map(|message| message.at));
            for mark in &work.marks {
                let at = open.iter().position(|from| from.fence.partition == mark.partition);
                let at = at.expect("only partitions that were asked for have marks");
                match mark.after_stream {
                    0 => drop(open.remove(at)),
                    on => {
                        assert!(on > open[at].after_stream, "the walk goes on");
                        open[at].after_stream = on;
                    }
                }
            }
            assert!(!work.marks.is_empty(), "every read comes to a partition");
            if open.is_empty() {
                break;
            }
        }
        assert!(open.is_empty(), "the walk ends");
        let streams = sorted(seen.iter().map(|at| at.stream_no));
        let mut once = streams.clone();
        once.dedup();
        assert_eq!(once.len(), 60, "no stream starves");
        let places = sorted(seen.iter().copied());
        assert!(places.is_sorted_by(|a, b| a < b), "none is read twice in a round");
        read.from.reverse();
    }
}

/// Of a stream that the reader holds messages of, only later ones are given: also when what it holds
/// must wait, and also those that come later.
pub async fn held_streams_go_on_behind_their_position(world: &impl MessageWorld) {
    let runner = ready(world).await;
    let store = world.store();
    let sent = send_all(store, several("a", 6)).await;
    let b = send(store, inbox("b", "b-1")).await;
    let stream_no = sent[0].at.stream_no;
    let held = |no: usize| vec![(stream_no, sent[no - 1].at.position), (b.stream_no, b.position)];
    let read = |no| Read { held: held(no), stream_messages_max: 2, ..runner.read() };
    assert_eq!(ids(&runner.work_of(read(2)).await.messages), ["a-3", "a-4"]);
    assert_eq!(ids(&runner.work_of(read(5)).await.messages), ["a-6"]);
    assert!(runner.work_of(read(6)).await.messages.is_empty());
    send(store, inbox("a", "a-7")).await;
    assert_eq!(ids(&runner.work_of(read(6)).await.messages), ["a-7"]);
    runner.fail(failed(sent[0].at, "later", later(world, 1000))).await;
    assert_eq!(ids(&runner.work_of(read(2)).await.messages), ["a-3", "a-4"]);
    assert_eq!(ids(&runner.messages().await), ["b-1"], "who holds nothing waits");
    runner.finish(&[sent[0].at, sent[1].at]).await;
    assert_eq!(ids(&runner.work_of(read(2)).await.messages), ["a-3", "a-4"]);
    let unknown = Read { held: vec![(u64::from(u32::MAX), 1)], ..runner.read() };
    assert_eq!(runner.work_of(unknown).await.messages.len(), 6);
}

/// Reading writes nothing: the same read gives the same, and nothing counts as tried.
pub async fn reading_writes_nothing(world: &impl MessageWorld) {
    let runner = ready(world).await;
    send_all(world.store(), several("a", 3)).await;
    let first = runner.work().await;
    for _ in 0..3 {
        assert_eq!(runner.work().await, first);
    }
    assert!(first.messages.iter().all(|one| one.attempts == 0 && one.started.is_none()));
}

/// Who reads a partition that is no longer its own is told, and gets the rest.
pub async fn a_lost_partition_is_reported(world: &impl MessageWorld) {
    let first = ready(world).await;
    let store = world.store();
    let messages = (0..30).map(|no| inbox(&format!("s{no}"), &format!("m{no}")));
    send_all(store, messages.collect()).await;
    let before = first.messages().await;
    store.release_partitions(first.instance, &[first.fence(2), first.fence(5)]).await.unwrap();
    let second = Runner::owning(store, &[2]).await;
    let work = first.work().await;
    assert_eq!(sorted(work.lost), [2, 5]);
    let kept = before.iter().filter(|message| ![2, 5].contains(&message.at.partition));
    assert_eq!(work.messages, kept.cloned().collect::<Vec<_>>());
    assert!(work.marks.iter().all(|mark| ![2, 5].contains(&mark.partition)));
    let theirs = before.iter().filter(|message| message.at.partition == 2);
    assert_eq!(second.messages().await, theirs.cloned().collect::<Vec<_>>());
    let stale = Fence { partition: 2, epoch: 1 };
    let from = vec![ReadFrom { fence: stale, after_stream: 0 }];
    let work = second.work_of(Read { from, ..second.read() }).await;
    assert_eq!((work.messages, work.lost), (Vec::new(), vec![2]));
    let stranger = Read { instance: InstanceId::new(), ..first.read() };
    match store.read_owned(stranger).await {
        Ok(work) => assert_eq!((work.messages, sorted(work.lost)), (Vec::new(), all())),
        Err(error) => assert!(matches!(error.kind, Kind::Missing | Kind::LeaseLost)),
    }
}

/// A read gives the partitions that are asked for, in the order asked, and no others.
pub async fn a_read_keeps_to_the_partitions_asked_for(world: &impl MessageWorld) {
    let runner = ready(world).await;
    let messages = (0..40).map(|no| inbox(&format!("s{no}"), &format!("m{no}")));
    send_all(world.store(), messages.collect()).await;
    let from: Vec<_> =
        [6, 1, 3].map(|no| ReadFrom { fence: runner.fence(no), after_stream: 0 }).into();
    let work = runner.work_of(Read { from, ..runner.read() }).await;
    let mut order: Vec<_> = work.messages.iter().map(|message| message.at.partition).collect();
    order.dedup();
    let mut expected: Vec<u16> = vec![6, 1, 3];
    let everything = runner.messages().await;
    expected.retain(|no| everything.iter().any(|message| message.at.partition == *no));
    assert_eq!(order, expected);
    assert!(work.messages.len() < everything.len());
    let nothing = Read { from: Vec::new(), ..runner.read() };
    assert!(runner.work_of(nothing).await.messages.is_empty());
}

/// Messages out of bounds are invalid, and nothing is sent.
pub async fn a_message_out_of_bounds_is_invalid(world: &impl MessageWorld) {
    let runner = ready(world).await;
    let store = world.store();
    let long = |bytes: usize| "x".repeat(bytes);
    let good = || inbox("a", "1");
    let headers = [("name".to_owned(), long(HEADERS_BYTES_MAX))].into();
    for bad in [
        NewMessage { id: String::new(), ..good() },
        NewMessage { id: long(MESSAGE_ID_BYTES_MAX + 1), ..good() },
        NewMessage { id: "a\0b".to_owned(), ..good() },
        NewMessage { kind: String::new(), ..good() },
        NewMessage { kind: long(KIND_BYTES_MAX + 1), ..good() },
        NewMessage { payload: Bytes::from(vec![0; PAYLOAD_BYTES_MAX + 1]), ..good() },
        NewMessage { headers, ..good() },
        NewMessage { headers: [("a".to_owned(), "\0".to_owned())].into(), ..good() },
        NewMessage { consumers: vec![String::new()], ..good() },
        NewMessage { consumers: vec!["a".to_owned(), "b".to_owned(), "a".to_owned()], ..good() },
        NewMessage { consumers: (0..=CONSUMERS_MAX).map(|no| no.to_string()).collect(), ..good() },
        NewMessage { queue: Queue::Calls, ..good() },
    ] {
        assert_eq!(kind(store.send(vec![bad.clone()]).await), Kind::Invalid, "{}", bad.kind);
        let commit = Commit { messages: vec![bad], ..runner.effects() };
        assert_eq!(kind(store.commit(commit).await), Kind::Invalid);
    }
    assert_eq!(kind(store.send(several("a", SEND_MAX + 1)).await), Kind::Invalid);
    let heavy = |id: usize| NewMessage {
        payload: Bytes::from(vec![7; PAYLOAD_BYTES_MAX]),
        ..inbox("a", &id.to_string())
    };
    assert_eq!(kind(store.send((0..17).map(heavy).collect()).await), Kind::Invalid);
    assert!(runner.messages().await.is_empty());
    let most = NewMessage {
        id: long(MESSAGE_ID_BYTES_MAX),
        kind: long(KIND_BYTES_MAX),
        payload: Bytes::from(vec![255; PAYLOAD_BYTES_MAX]),
        consumers: (0..CONSUMERS_MAX).map(|no| no.to_string()).collect(),
        ..good()
    };
    send(store, most.clone()).await;
    let found = runner.messages().await.remove(0);
    assert_eq!((found.id, found.payload == most.payload), (most.id, true));
    assert_eq!(send_all(store, several("full", SEND_MAX)).await.len(), SEND_MAX);
    let read = Read { messages_max: READ_MAX, stream_messages_max: READ_MAX, ..runner.read() };
    assert_eq!(runner.work_of(read).await.messages.len(), SEND_MAX + 1);
}

/// A read of nothing, or of too much, is invalid.
pub async fn a_read_out_of_bounds_is_invalid(world: &impl MessageWorld) {
    let runner = ready(world).await;
    let store = world.store();
    let good = || runner.read();
    for bad in [
        Read { messages_max: 0, ..good() },
        Read { messages_max: READ_MAX + 1, ..good() },
        Read { stream_messages_max: 0, ..good() },
        Read { stream_messages_max: READ_MAX + 1, ..good() },
        Read { held: vec![(1, 1); HELD_MAX + 1], ..good() },
    ] {
        assert_eq!(kind(store.read_owned(bad).await), Kind::Invalid);
    }
}
