//! RabbitMQ: one real server for all tests, since it takes its time; the test that stops it has it
//! alone.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod support;

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use futures_util::StreamExt;
use lapin::options::{
    BasicConsumeOptions, BasicPublishOptions, ExchangeDeclareOptions, QueueBindOptions,
    QueueDeclareOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties, ExchangeKind};
use support::{Memory, by_stream, in_time, insist, outgoing, publish_during};
use tokio::sync::RwLock;
use tokio::task::JoinSet;
use windrow_brokers::rabbitmq::{
    Binding, ConsumerOptions, PublisherOptions, RabbitConsumer, RabbitPublisher, Server,
};
use windrow_domain::attempt::Class;
use windrow_engine::clock::Clock;
use windrow_engine::deliver::{OutgoingMessage, Publisher};
use windrow_engine::signal::Stop;
use windrow_testkit::broker::{self, Broker};
use windrow_testkit::required;

/// Ends with this program: see `windrow_testkit::process::Keeper`.
static BROKER: LazyLock<Option<Arc<RwLock<Broker>>>> = LazyLock::new(|| {
    required("rabbitmq-server", broker::rabbitmq_server())?;
    Some(Arc::new(RwLock::new(Broker::rabbitmq().unwrap())))
});

fn server(url: &str) -> Server {
    Server::default().url(url.into())
}

fn publisher(url: &str, exchange: &str) -> RabbitPublisher {
    let options = PublisherOptions::default()
        .server(server(url))
        .exchange(exchange.to_owned())
        .declare(true)
        .confirm_ms_max(3_000);
    RabbitPublisher::new("rabbit", options).unwrap()
}

fn consumer(url: &str, name: &str, inbox: &Arc<Memory>) -> RabbitConsumer {
    let options = ConsumerOptions::default()
        .server(server(url))
        .queue(name.to_owned())
        .declare(true)
        .bindings(vec![Binding { exchange: name.to_owned(), routing_key: "#".to_owned() }])
        .dead_letter_exchange(Some(format!("{name}-dead")))
        .in_flight_max(20)
        .payload_bytes_max(100)
        .backoff_ms_max(200);
    RabbitConsumer::new("from-rabbit", options, inbox.clone(), Clock::machine()).unwrap()
}

async fn channel(url: &str) -> (Connection, Channel) {
    let connection = Connection::connect(url, ConnectionProperties::default()).await.unwrap();
    let channel = connection.create_channel().await.unwrap();
    (connection, channel)
}

/// A durable queue that gets what the exchange has for `key`.
async fn queue(channel: &Channel, exchange: &str, name: &str, key: &str, dead: Option<&str>) {
    let durable = ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
    let none = FieldTable::default;
    let made = channel.exchange_declare(exchange.into(), ExchangeKind::Topic, durable, none());
    made.await.unwrap();
    let mut arguments = none();
    if let Some(dead) = dead {
        let value = AMQPValue::LongString(dead.into());
        arguments.insert("x-dead-letter-exchange".into(), value);
    }
    let durable = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
    channel.queue_declare(name.into(), durable, arguments).await.unwrap();
    let options = QueueBindOptions::default();
    channel.queue_bind(name.into(), exchange.into(), key.into(), options, none()).await.unwrap();
}

/// The first so many messages of a queue.
async fn stored(url: &str, queue: &str, count: usize) -> Vec<lapin::message::Delivery> {
    let (_connection, channel) = channel(url).await;
    let options = BasicConsumeOptions { no_ack: true, ..BasicConsumeOptions::default() };
    let consuming = channel.basic_consume(queue.into(), "".into(), options, FieldTable::default());
    let deliveries = consuming.await.unwrap().take(count);
    in_time(deliveries.map(Result::unwrap).collect()).await
}

fn header(delivery: &lapin::message::Delivery, name: &str) -> String {
    match delivery.properties.headers().as_ref().unwrap().inner().get(name) {
        Some(AMQPValue::LongString(text)) => text.to_string(),
        other => panic!("{name} is {other:?}"),
    }
}

fn pairs(deliveries: &[lapin::message::Delivery]) -> Vec<(String, String)> {
    let text = |d: &lapin::message::Delivery| String::from_utf8(d.data.clone()).unwrap();
    deliveries.iter().map(|d| (header(d, "Windrow-Stream"), text(d))).collect()
}

#[tokio::test]
async fn messages_are_confirmed_in_order_with_all_they_say() {
    let Some(broker) = BROKER.clone() else { return };
    let broker = broker.read_owned().await;
    let url = broker.url();
    let (_connection, channel) = channel(&url).await;
    queue(&channel, "order", "order", "windrow.*.order.#", None).await;
    let publisher = publisher(&url, "order");
    for n in 0..30 {
        for stream in ["a", "b.c"] {
            publisher.publish(&outgoing(stream, n)).await.unwrap();
        }
    }
    let deliveries = stored(&url, "order", 60).await;
    let numbers: Vec<usize> = (0..30).collect();
    let wanted = BTreeMap::from([("a".to_owned(), numbers.clone()), ("b.c".to_owned(), numbers)]);
    assert_eq!(by_stream(&pairs(&deliveries)), wanted);
    let second = &deliveries[1];
    assert_eq!(second.routing_key.as_str(), "windrow.b%2Ec.order.placed");
    assert_eq!(second.properties.message_id().as_ref().unwrap().as_str(), "b.c-0");
    assert_eq!(*second.properties.delivery_mode(), Some(2));
    assert_eq!(header(second, "Windrow-Owner"), "acme");
    assert_eq!(header(second, "traceparent"), "00-1");
}

#[tokio::test]
async fn what_no_queue_takes_is_a_failure() {
    let Some(broker) = BROKER.clone() else { return };
    let broker = broker.read_owned().await;
    let url = broker.url();
    let publisher = publisher(&url, "nobody");
    let failure = publisher.publish(&outgoing("a", 0)).await.unwrap_err();
    assert_eq!((failure.class, failure.code.as_str()), (Class::NotFound, "rabbitmq_unroutable"));
    let (_connection, channel) = channel(&url).await;
    queue(&channel, "nobody", "somebody", "#", None).await;
    publisher.publish(&outgoing("a", 0)).await.unwrap();
    let long = outgoing(&"s".repeat(256), 0);
    let failure = publisher.publish(&long).await.unwrap_err();
    assert_eq!((failure.class, failure.code.as_str()), (Class::Permanent, "rabbitmq_key_too_long"));
    // An exchange that is not there closes the channel; the next message opens one.
    let options = PublisherOptions::default().server(server(&url)).exchange("missing".to_owned());
    let missing = RabbitPublisher::new("rabbit", options).unwrap();
    for _ in 0..2 {
        let failure = missing.publish(&outgoing("a", 0)).await.unwrap_err();
        assert!(matches!(failure.class, Class::Server | Class::Network), "{failure:?}");
    }
    queue(&channel, "missing", "found", "#", None).await;
    insist(&missing, &outgoing("a", 0)).await;
}

#[tokio::test]
async fn a_server_that_is_not_there_is_a_failure_of_the_network() {
    let options = PublisherOptions::default().server(server("amqp://me:hush@127.0.0.1:1"));
    let publisher = RabbitPublisher::new("rabbit", options).unwrap();
    let failure = publisher.publish(&outgoing("a", 0)).await.unwrap_err();
    assert_eq!(failure.class, Class::Network, "{failure:?}");
    assert!(!format!("{failure:?} {publisher:?}").contains("hush"));
}

#[tokio::test]
async fn what_was_not_taken_comes_again_and_what_never_can_be_is_rejected() {
    let Some(broker) = BROKER.clone() else { return };
    let broker = broker.read_owned().await;
    let url = broker.url();
    let (_connection, channel) = channel(&url).await;
    queue(&channel, "mixed-dead", "mixed-dead", "#", None).await;
    queue(&channel, "mixed", "mixed", "#", Some("mixed-dead")).await;
    let put = async |key: &str, properties: BasicProperties, text: &str| {
        let options = BasicPublishOptions::default();
        let sent =
            channel.basic_publish("mixed".into(), key.into(), options, text.as_bytes(), properties);
        sent.await.unwrap();
    };
    let with_id = |id: &str| BasicProperties::default().with_message_id(id.into());
    let header = |name: &str, value: &str| {
        let mut headers = FieldTable::default();
        headers.insert(name.into(), AMQPValue::LongString(value.into()));
        headers
    };
    put("shop.order.placed", with_id("one").with_content_type("text/plain".into()), "1").await;
    put("shop.order", BasicProperties::default(), "no id").await;
    put("shop.order", with_id("large"), &"x".repeat(101)).await;
    put("shop.order", with_id("bad").with_headers(header("refused", "yes")), "refused").await;
    let by_header = BasicProperties::default().with_headers(header("Windrow-Id", "two"));
    put("shop", by_header, "2").await;

    // The first instance never gets it stored, and goes.
    let broken = Arc::new(Memory::default());
    broken.fail(usize::MAX);
    let stop = Stop::new();
    let (first, stopped) = (consumer(&url, "mixed", &broken), stop.clone());
    let mut tasks = JoinSet::new();
    tasks.spawn(async move { first.run(&stopped).await });
    broken.has_failed(2).await;
    stop.give();
    in_time(tasks.join_next()).await.unwrap().unwrap();

    let inbox = Arc::new(Memory::default());
    let stop = Stop::new();
    let (second, stopped) = (consumer(&url, "mixed", &inbox), stop.clone());
    tasks.spawn(async move { second.run(&stopped).await });
    inbox.has(2).await;
    let taken = inbox.taken();
    let ids: Vec<&str> = taken.iter().map(|message| message.id.as_str()).collect();
    assert_eq!(ids, ["one", "two"]);
    assert_eq!((taken[0].stream.as_str(), taken[0].kind.as_str()), ("shop", "order.placed"));
    assert_eq!(taken[0].headers["content-type"], "text/plain");
    assert_eq!((taken[1].stream.as_str(), taken[1].kind.as_str()), ("shop", "message"));
    let dead = stored(&url, "mixed-dead", 3).await;
    let mut texts: Vec<String> =
        dead.into_iter().map(|d| String::from_utf8(d.data).unwrap()).collect();
    texts.sort();
    assert_eq!(texts, ["no id".to_owned(), "refused".to_owned(), "x".repeat(101)]);
    stop.give();
    in_time(tasks.join_next()).await.unwrap().unwrap();
}

#[tokio::test]
async fn all_arrive_in_order_though_the_server_is_killed_in_between() {
    let Some(broker) = BROKER.clone() else { return };
    // Alone: the others would lose their own connections.
    let mut broker = broker.write_owned().await;
    let url = broker.url();
    let (connection, channel) = channel(&url).await;
    queue(&channel, "storm-dead", "storm-dead", "#", None).await;
    queue(&channel, "storm", "storm", "#", Some("storm-dead")).await;
    drop(connection);
    let inbox = Arc::new(Memory::default());
    inbox.fail(2);
    let stop = Stop::new();
    let (consumer, stopped) = (consumer(&url, "storm", &inbox), stop.clone());
    let mut tasks = JoinSet::new();
    tasks.spawn(async move { consumer.run(&stopped).await });
    let work = move || {
        broker.kill();
        broker.start_again().unwrap();
        broker
    };
    let (count, broker) = publish_during(Arc::new(publisher(&url, "storm")), work).await;
    inbox.has(count).await;
    stop.give();
    in_time(tasks.join_next()).await.unwrap().unwrap();
    assert_eq!(inbox.failed(), 2);
    let arrived = by_stream(&inbox.pairs());
    assert_eq!(arrived["s"], (0..count).collect::<Vec<_>>());
    drop(broker);
}

#[tokio::test]
async fn a_message_that_is_too_large_is_not_sent() {
    let options = PublisherOptions::default().payload_bytes_max(4);
    let publisher = RabbitPublisher::new("rabbit", options).unwrap();
    let large = OutgoingMessage { payload: "12345".into(), ..outgoing("a", 0) };
    assert_eq!(publisher.publish(&large).await.unwrap_err().code, "payload_too_large");
}
