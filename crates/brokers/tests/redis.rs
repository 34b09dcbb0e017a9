//! Redis Streams: a real server, stopped and started again.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod support;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use redis::streams::StreamRangeReply;
use redis::{AsyncCommands, Client};
use support::{by_stream, outgoing, publish_during};
use windrow_brokers::redis::{Options, RedisPublisher};
use windrow_domain::attempt::Class;
use windrow_engine::deliver::{OutgoingMessage, Publisher};
use windrow_testkit::broker::{self, Broker};
use windrow_testkit::required;

fn start() -> Option<Broker> {
    required("redis-server", broker::redis_server())?;
    Some(Broker::redis().unwrap())
}

fn options(broker: &Broker) -> Options {
    Options::default().url(broker.url().into()).answer_ms_max(2_000)
}

fn publisher(options: Options) -> RedisPublisher {
    RedisPublisher::new("redis", options).unwrap()
}

/// The entries below a key, oldest first.
async fn stored(broker: &Broker, key: &str) -> Vec<HashMap<String, String>> {
    let client = Client::open(broker.url()).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let entries: StreamRangeReply = connection.xrange_all(key).await.unwrap();
    let text = |value| redis::from_redis_value(value).unwrap();
    let fields = |map: HashMap<String, redis::Value>| {
        map.into_iter().map(|(name, value)| (name, text(value))).collect()
    };
    entries.ids.into_iter().map(|entry| fields(entry.map)).collect()
}

fn pairs(entries: &[HashMap<String, String>]) -> Vec<(String, String)> {
    entries.iter().map(|entry| (entry["stream"].clone(), entry["payload"].clone())).collect()
}

#[tokio::test]
async fn messages_are_entries_in_order_with_all_they_say() {
    let Some(broker) = start() else { return };
    let publisher = publisher(options(&broker));
    for n in 0..30 {
        for stream in ["a", "b"] {
            publisher.publish(&outgoing(stream, n)).await.unwrap();
        }
    }
    let entries = stored(&broker, "windrow:messages").await;
    let numbers: Vec<usize> = (0..30).collect();
    let wanted = BTreeMap::from([("a".to_owned(), numbers.clone()), ("b".to_owned(), numbers)]);
    assert_eq!((entries.len(), by_stream(&pairs(&entries))), (60, wanted));
    let text = |name: &str| entries[1][name].as_str();
    assert_eq!((text("id"), text("owner"), text("kind")), ("b-0", "acme", "order.placed"));
    assert_eq!((text("sent_at"), text("header:traceparent")), ("2026-11-16T01:24:45Z", "00-1"));
}

#[tokio::test]
async fn a_stream_keeps_no_more_than_it_may_and_keys_are_made_of_places() {
    let Some(broker) = start() else { return };
    let publisher = publisher(
        options(&broker)
            .key("out:{owner}:{stream}:{x}".to_owned())
            .entries_max(Some(10))
            .entries_exact(true),
    );
    for n in 0..25 {
        publisher.publish(&outgoing("{kind}", n)).await.unwrap();
    }
    let entries = stored(&broker, "out:acme:{kind}:{x}").await;
    assert_eq!(by_stream(&pairs(&entries))["{kind}"], (15..25).collect::<Vec<_>>());
}

#[tokio::test]
async fn refusals_and_missing_replicas_are_failures() {
    let Some(broker) = start() else { return };
    let lonely = publisher(options(&broker).replicas_min(1));
    let failure = lonely.publish(&outgoing("a", 0)).await.unwrap_err();
    assert_eq!((failure.class, failure.code.as_str()), (Class::Server, "redis_replicas"));
    let client = Client::open(broker.url()).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let _: () = connection.set("taken", "text").await.unwrap();
    let wrong = publisher(options(&broker).key("taken".to_owned()));
    let failure = wrong.publish(&outgoing("a", 0)).await.unwrap_err();
    assert_eq!((failure.class, failure.code.as_str()), (Class::Server, "redis_wrongtype"));
    let large = OutgoingMessage { payload: vec![b'x'; 5 << 20].into(), ..outgoing("a", 1) };
    assert_eq!(wrong.publish(&large).await.unwrap_err().class, Class::Permanent);
}

#[tokio::test]
async fn a_server_that_is_not_there_is_a_failure_of_the_network() {
    let url = "redis://me:hush@127.0.0.1:1".into();
    let publisher = publisher(Options::default().url(url));
    let failure = publisher.publish(&outgoing("a", 0)).await.unwrap_err();
    assert_eq!(failure.class, Class::Network, "{failure:?}");
    assert!(!format!("{failure:?} {publisher:?}").contains("hush"), "{publisher:?}");
}

#[tokio::test]
async fn all_arrive_in_order_though_the_server_is_killed_in_between() {
    let Some(mut broker) = start() else { return };
    let publisher = Arc::new(publisher(options(&broker)));
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
    let entries = stored(&broker, "windrow:messages").await;
    assert_eq!(by_stream(&pairs(&entries))["s"], (0..count).collect::<Vec<_>>());
}
