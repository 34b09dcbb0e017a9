//! Real brokers, looked at and spoken to past the server.
//!
//! Holds throughout: nobody stays connected, so that a broker can be stopped at any time. One RabbitMQ
//! is for all tests, since it takes its time, and each test has it alone; names there begin with the
//! test's own.

use std::collections::HashMap;
use std::sync::LazyLock;
use std::time::Duration;

use async_nats::HeaderMap;
use async_nats::header::NATS_MESSAGE_ID;
use async_nats::jetstream::consumer::{AckPolicy, pull};
use async_nats::jetstream::{self, stream};
use futures_util::StreamExt as _;
use lapin::options::{
    BasicConsumeOptions, BasicPublishOptions, ConfirmSelectOptions, ExchangeDeclareOptions,
    QueueBindOptions, QueueDeclareOptions,
};
use lapin::types::FieldTable;
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties, ExchangeKind};
use redis::AsyncCommands as _;
use redis::streams::StreamRangeReply;
use tokio::sync::{Mutex, MutexGuard};
use tokio::task::block_in_place;
use windrow_e2e::server::WITHIN;
use windrow_fault::wait;
use windrow_testkit::broker::{self, Broker};
use windrow_testkit::required;

/// For how long a JetStream knows repeats by itself: as short as can be, so that they are left to us.
const DUPLICATE_WINDOW: Duration = Duration::from_millis(100);

/// Ends with this program: see `windrow_testkit::process::Keeper`.
static RABBITMQ: LazyLock<Mutex<Broker>> =
    LazyLock::new(|| Mutex::new(Broker::rabbitmq().unwrap()));

/// The three of them.
pub(super) struct Brokers {
    pub(super) nats: Broker,
    pub(super) redis: Broker,
    pub(super) rabbitmq: MutexGuard<'static, Broker>,
    /// What names at RabbitMQ begin with.
    name: String,
}

impl Brokers {
    /// None where one is missing and may be.
    pub(super) async fn start(name: String) -> Option<Self> {
        for (program, found) in [
            ("nats-server", broker::nats_server()),
            ("redis-server", broker::redis_server()),
            ("rabbitmq-server", broker::rabbitmq_server()),
        ] {
            required(program, found)?;
        }
        let rabbitmq = block_in_place(|| LazyLock::force(&RABBITMQ)).lock().await;
        let (nats, redis) = block_in_place(|| (Broker::nats().unwrap(), Broker::redis().unwrap()));
        Some(Self { nats, redis, rabbitmq, name })
    }

    /// Stops all of them, one of them unasked.
    pub(super) fn stop(&mut self) {
        block_in_place(|| {
            self.nats.kill();
            self.redis.stop();
            self.rabbitmq.stop();
        });
    }

    /// Starts them again with what they have.
    pub(super) fn start_again(&mut self) {
        block_in_place(|| {
            for broker in [&mut self.nats, &mut self.redis, &mut *self.rabbitmq] {
                broker.start_again().unwrap();
            }
        });
    }

    /// The exchange of RabbitMQ, and the queue that has everything of it.
    pub(super) fn exchange(&self) -> &str {
        &self.name
    }

    async fn jetstream(&self) -> jetstream::Context {
        jetstream::new(async_nats::connect(self.nats.url()).await.unwrap())
    }

    /// Makes a JetStream with these subjects.
    pub(super) async fn make_stream(&self, name: &str, subjects: &str) {
        let config = stream::Config {
            name: name.to_owned(),
            subjects: vec![subjects.to_owned()],
            duplicate_window: DUPLICATE_WINDOW,
            ..stream::Config::default()
        };
        self.jetstream().await.create_stream(config).await.unwrap();
    }

    /// Stores a message in a JetStream, also when it was there before.
    pub(super) async fn put_to_nats(&self, subject: &str, id: &str, text: &str) {
        let context = self.jetstream().await;
        let put = || async {
            let mut headers = HeaderMap::new();
            headers.insert(NATS_MESSAGE_ID, id);
            let (subject, text) = (subject.to_owned(), text.to_owned().into());
            let sent = context.publish_with_headers(subject, headers, text).await.unwrap();
            (!sent.await.unwrap().duplicate).then_some(())
        };
        wait::until(WITHIN, put, || async { "the server takes it for a repeat".to_owned() }).await;
    }

    /// What a JetStream has: for each message, these headers.
    pub(super) async fn stored_in_nats(&self, name: &str, headers: [&str; 2]) -> Vec<[String; 2]> {
        let stream = self.jetstream().await.get_stream(name).await.unwrap();
        let count = stream.get_info().await.unwrap().state.messages;
        let config = pull::Config { ack_policy: AckPolicy::None, ..pull::Config::default() };
        let consumer = stream.create_consumer(config).await.unwrap();
        let messages = consumer.messages().await.unwrap().take(usize::try_from(count).unwrap());
        let read = messages.map(|message| {
            let message = message.unwrap();
            let of = message.headers.as_ref().unwrap();
            headers.map(|name| of.get(name).unwrap().to_string())
        });
        tokio::time::timeout(WITHIN, read.collect()).await.unwrap()
    }

    /// What a stream of Redis has.
    pub(super) async fn stored_in_redis(&self, key: &str) -> Vec<HashMap<String, String>> {
        let client = redis::Client::open(self.redis.url()).unwrap();
        let mut connection = client.get_multiplexed_async_connection().await.unwrap();
        let entries: StreamRangeReply = connection.xrange_all(key).await.unwrap();
        let text = |value| redis::from_redis_value(value).unwrap();
        let fields = |map: HashMap<String, redis::Value>| {
            map.into_iter().map(|(name, value)| (name, text(value))).collect()
        };
        entries.ids.into_iter().map(|entry| fields(entry.map)).collect()
    }

    async fn channel(&self) -> (Connection, Channel) {
        let properties = ConnectionProperties::default();
        let connection = Connection::connect(&self.rabbitmq.url(), properties).await.unwrap();
        let channel = connection.create_channel().await.unwrap();
        (connection, channel)
    }

    /// Makes the exchange, durable and by topic.
    pub(super) async fn make_exchange(&self) {
        let (_connection, channel) = self.channel().await;
        let durable = ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
        let (name, none) = (self.name.as_str().into(), FieldTable::default());
        channel.exchange_declare(name, ExchangeKind::Topic, durable, none).await.unwrap();
    }

    /// Makes a durable queue that gets everything of the exchange.
    pub(super) async fn make_queue(&self) {
        self.make_exchange().await;
        let (_connection, channel) = self.channel().await;
        let name = self.name.as_str();
        let durable = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        channel.queue_declare(name.into(), durable, FieldTable::default()).await.unwrap();
        let (options, none) = (QueueBindOptions::default(), FieldTable::default());
        channel.queue_bind(name.into(), name.into(), "#".into(), options, none).await.unwrap();
    }

    /// Gives a message to the exchange, and waits until it is kept.
    pub(super) async fn put_to_rabbitmq(&self, key: &str, id: &str, text: &str) {
        let (_connection, channel) = self.channel().await;
        channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
        let properties =
            BasicProperties::default().with_message_id(id.into()).with_delivery_mode(2);
        let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
        let name = self.name.as_str().into();
        let sent = channel.basic_publish(name, key.into(), options, text.as_bytes(), properties);
        let confirmed = sent.await.unwrap().await.unwrap();
        assert!(confirmed.is_ack() && confirmed.take_message().is_none(), "no queue takes it");
    }

    /// Takes everything out of the queue: key and `message-id` of each.
    pub(super) async fn taken_from_rabbitmq(&self) -> Vec<[String; 2]> {
        let (_connection, channel) = self.channel().await;
        let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        let name = || self.name.as_str().into();
        let queue = channel.queue_declare(name(), passive, FieldTable::default()).await.unwrap();
        let options = BasicConsumeOptions { no_ack: true, ..BasicConsumeOptions::default() };
        let consuming = channel.basic_consume(name(), "".into(), options, FieldTable::default());
        let deliveries = consuming.await.unwrap().take(queue.message_count() as usize);
        let read = deliveries.map(|delivery| {
            let delivery = delivery.unwrap();
            let id = delivery.properties.message_id().as_ref().unwrap().to_string();
            [delivery.routing_key.to_string(), id]
        });
        tokio::time::timeout(WITHIN, read.collect()).await.unwrap()
    }
}
