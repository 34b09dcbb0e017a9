//! NATS JetStream: a real server, stopped and started again.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod support;

use std::collections::BTreeMap;
use std::sync::Arc;

use async_nats::jetstream::consumer::{AckPolicy, pull};
use async_nats::jetstream::{self, stream};
use futures_util::StreamExt;
use support::{Memory, by_stream, in_time, insist, outgoing, publish_during};
use tokio::task::{JoinSet, spawn_blocking};
use windrow_brokers::nats::{
    ConsumerOptions, NatsConsumer, NatsPublisher, PublisherOptions, Server,
};
use windrow_domain::Owner;
use windrow_domain::attempt::Class;
use windrow_engine::clock::Clock;
use windrow_engine::deliver::{OutgoingMessage, Publisher};
use windrow_engine::signal::Stop;
use windrow_testkit::broker::{self, Broker};
use windrow_testkit::required;

fn start() -> Option<Broker> {
    required("nats-server", broker::nats_server())?;
    Some(Broker::nats().unwrap())
}

fn server(url: &str) -> Server {
    Server::default().url(url.into())
}

fn publisher(broker: &Broker) -> NatsPublisher {
    let options = PublisherOptions::default()
        .server(server(&broker.url()))
        .stream(Some("OUT".to_owned()))
        .create(true)
        .ack_ms_max(2_000);
    NatsPublisher::new("nats", options).unwrap()
}

fn consumer(url: &str, inbox: &Arc<Memory>) -> NatsConsumer {
    let options = ConsumerOptions::default()
        .server(server(url))
        .stream("OUT".to_owned())
        .durable("inbox".to_owned())
        .ack_secs_max(2)
        .payload_bytes_max(100)
        .backoff_ms_max(200);
    NatsConsumer::new("from-nats", options, inbox.clone(), Clock::machine()).unwrap()
}

/// What is in the stream: subject, headers that matter, payload.
async fn stored(broker: &Broker, count: usize) -> Vec<async_nats::jetstream::Message> {
    let client = async_nats::connect(broker.url()).await.unwrap();
    let stream = jetstream::new(client).get_stream("OUT").await.unwrap();
    let info = stream.get_info().await.unwrap();
    assert_eq!(info.state.messages, count as u64);
    let config = pull::Config { ack_policy: AckPolicy::None, ..pull::Config::default() };
    let consumer = stream.create_consumer(config).await.unwrap();
    let messages = consumer.messages().await.unwrap().take(count);
    in_time(messages.map(Result::unwrap).collect()).await
}

fn pairs(messages: &[async_nats::jetstream::Message]) -> Vec<(String, String)> {
    let header = |m: &async_nats::jetstream::Message| {
        m.headers.as_ref().unwrap().get("Windrow-Stream").unwrap().to_string()
    };
    let text = |m: &async_nats::jetstream::Message| String::from_utf8(m.payload.to_vec()).unwrap();
    messages.iter().map(|message| (header(message), text(message))).collect()
}

fn numbers(count: usize) -> Vec<usize> {
    (0..count).collect()
}

#[tokio::test]
async fn messages_are_stored_in_order_and_repeats_only_once() {
    let Some(broker) = start() else { return };
    let publisher = publisher(&broker);
    for n in 0..30 {
        for stream in ["a", "b.c"] {
            publisher.publish(&outgoing(stream, n)).await.unwrap();
        }
        // The answer was lost, say, and the runner tries again.
        publisher.publish(&outgoing("a", n)).await.unwrap();
    }
    // Another owner's message of the same id is another message.
    let other = OutgoingMessage {
        owner: Owner::new("other").unwrap(),
        stream: "c".into(),
        ..outgoing("a", 0)
    };
    publisher.publish(&other).await.unwrap();
    let messages = stored(&broker, 61).await;
    let streams = by_stream(&pairs(&messages));
    assert_eq!(
        streams,
        BTreeMap::from([
            ("a".to_owned(), numbers(30)),
            ("b.c".to_owned(), numbers(30)),
            ("c".to_owned(), vec![0]),
        ])
    );
    assert_eq!(messages[1].subject.as_str(), "windrow.b%2Ec.order.placed");
    let headers = messages[1].headers.as_ref().unwrap();
    for (name, value) in [
        ("Nats-Msg-Id", "acme:b.c-0"),
        ("Windrow-Id", "b.c-0"),
        ("Windrow-Owner", "acme"),
        ("Windrow-Kind", "order.placed"),
        ("Windrow-Sent-At", "2026-11-16T01:24:45Z"),
        ("traceparent", "00-1"),
    ] {
        assert_eq!(headers.get(name).unwrap().as_str(), value, "{name}");
    }
}

#[tokio::test]
async fn what_no_stream_takes_is_a_failure() {
    let Some(broker) = start() else { return };
    let options = PublisherOptions::default().server(server(&broker.url()));
    let publisher = NatsPublisher::new("nats", options).unwrap();
    let failure = publisher.publish(&outgoing("a", 0)).await.unwrap_err();
    assert_eq!((failure.class, failure.code.as_str()), (Class::NotFound, "nats_no_stream"));
    let large = OutgoingMessage { payload: vec![b'x'; 2 << 20].into(), ..outgoing("a", 1) };
    let failure = publisher.publish(&large).await.unwrap_err();
    assert_eq!((failure.class, failure.code.as_str()), (Class::Permanent, "payload_too_large"));
}

#[tokio::test]
async fn headers_that_cannot_be_sent_do_not_stop_a_message() {
    let Some(broker) = start() else { return };
    let mut odd = outgoing("a", 0);
    for (name, value) in [("no: name", "x"), ("Nats-Rollup", "all"), ("", "x"), ("note", "a\r\nb")]
    {
        odd.headers.insert(name.to_owned(), value.to_owned());
    }
    publisher(&broker).publish(&odd).await.unwrap();
    let messages = stored(&broker, 1).await;
    let headers = messages[0].headers.as_ref().unwrap();
    assert_eq!(headers.get("note").unwrap().as_str(), "a%0D%0Ab");
    assert!(headers.get("Nats-Rollup").is_none());
}

#[tokio::test]
async fn a_server_that_is_not_there_is_a_failure_of_the_network() {
    let server = server("nats://me:hush@127.0.0.1:1");
    let options = PublisherOptions::default().server(server);
    let publisher = NatsPublisher::new("nats", options).unwrap();
    let failure = publisher.publish(&outgoing("a", 0)).await.unwrap_err();
    assert_eq!(failure.class, Class::Network, "{failure:?}");
    assert!(!format!("{failure:?} {publisher:?}").contains("hush"));
}

#[tokio::test]
async fn all_arrive_once_though_the_server_is_killed_in_between() {
    let Some(mut broker) = start() else { return };
    let publisher = Arc::new(publisher(&broker));
    let work = move || {
        for round in 0..3 {
            if round == 1 {
                broker.kill();
            } else {
                broker.stop();
            }
            broker.start_again().unwrap();
        }
        broker
    };
    let (count, broker) = publish_during(publisher, work).await;
    // As many as there are messages: no repeat was stored.
    let messages = stored(&broker, count).await;
    assert_eq!(by_stream(&pairs(&messages))["s"], numbers(count));
}

#[tokio::test]
async fn a_consumer_brings_everything_though_store_and_server_go_away() {
    let Some(mut broker) = start() else { return };
    let publisher = publisher(&broker);
    for n in 0..100 {
        publisher.publish(&outgoing(if n % 2 == 0 { "even" } else { "odd" }, n)).await.unwrap();
    }
    let inbox = Arc::new(Memory::default());
    inbox.fail(3);
    let stop = Stop::new();
    let (consumer, stopped) = (consumer(&broker.url(), &inbox), stop.clone());
    let mut tasks = JoinSet::new();
    tasks.spawn(async move { consumer.run(&stopped).await });
    inbox.has(100).await;
    assert_eq!(inbox.failed(), 3);
    let broker = spawn_blocking(move || {
        broker.kill();
        broker.start_again().unwrap();
        broker
    });
    let broker = broker.await.unwrap();
    for n in 100..200 {
        insist(&publisher, &outgoing(if n % 2 == 0 { "even" } else { "odd" }, n)).await;
    }
    inbox.has(200).await;
    stop.give();
    in_time(tasks.join_next()).await.unwrap().unwrap();
    let evens: Vec<usize> = numbers(200).into_iter().filter(|n| n % 2 == 0).collect();
    let streams = by_stream(&inbox.pairs());
    assert_eq!((streams.len(), &streams["even"]), (2, &evens));
    let first = &inbox.taken()[0];
    assert_eq!((first.id.as_str(), first.kind.as_str()), ("acme:even-0", "order.placed"));
    assert_eq!(first.headers, BTreeMap::from([("traceparent".to_owned(), "00-1".to_owned())]));
    drop(broker);
}

#[tokio::test]
async fn what_was_not_taken_comes_again_and_what_never_can_be_does_not() {
    let Some(broker) = start() else { return };
    let client = async_nats::connect(broker.url()).await.unwrap();
    let context = jetstream::new(client);
    let config = stream::Config {
        name: "OUT".to_owned(),
        subjects: vec!["shop.>".to_owned()],
        ..stream::Config::default()
    };
    context.create_stream(config).await.unwrap();
    let put = async |subject: &str, header: Option<(&'static str, &'static str)>, text: String| {
        let mut headers = async_nats::HeaderMap::new();
        if let Some((name, value)) = header {
            headers.insert(name, value);
        }
        let sent = context.publish_with_headers(subject.to_owned(), headers, text.into()).await;
        sent.unwrap().await.unwrap();
    };
    put("shop.order.placed", None, "0".to_owned()).await;
    put("shop.order", Some(("refused", "yes")), "1".to_owned()).await;
    put("shop.large", None, "x".repeat(101)).await;
    put("shop.order", Some(("Nats-Msg-Id", "mine")), "2".to_owned()).await;

    // The first instance never gets it stored, and goes.
    let broken = Arc::new(Memory::default());
    broken.fail(usize::MAX);
    let stop = Stop::new();
    let (first, stopped) = (consumer(&broker.url(), &broken), stop.clone());
    let mut tasks = JoinSet::new();
    tasks.spawn(async move { first.run(&stopped).await });
    broken.has_failed(2).await;
    stop.give();
    in_time(tasks.join_next()).await.unwrap().unwrap();

    let inbox = Arc::new(Memory::default());
    let stop = Stop::new();
    let (second, stopped) = (consumer(&broker.url(), &inbox), stop.clone());
    tasks.spawn(async move { second.run(&stopped).await });
    inbox.has(2).await;
    // In any order: what was under way to the first instance comes again later.
    let mut taken = inbox.taken();
    taken.sort_by(|a, b| a.id.cmp(&b.id));
    let ids: Vec<&str> = taken.iter().map(|message| message.id.as_str()).collect();
    assert_eq!(ids, ["OUT:1", "mine"]);
    let first = &taken[0];
    assert_eq!((first.stream.as_str(), first.kind.as_str()), ("shop", "order.placed"));
    // In the end nothing waits at the server: all of them were acknowledged or ended.
    let stream = context.get_stream("OUT").await.unwrap();
    let clock = Clock::machine();
    let settled = async {
        loop {
            let info = stream.consumer_info("inbox").await.unwrap();
            if (info.num_ack_pending, info.num_pending) == (0, 0) {
                return;
            }
            clock.sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    in_time(settled).await;
    stop.give();
    in_time(tasks.join_next()).await.unwrap().unwrap();
    assert_eq!(inbox.taken().len(), 2);
}
