//! Consuming from RabbitMQ: acknowledged by hand when the inbox has the message.
//!
//! Holds throughout: messages go to the inbox in the order of the queue. While the store is
//! unavailable they wait here; then the channel is closed, and the broker puts all of them back
//! where they were. A single message is never put back: later ones would overtake it, and queues
//! that count deliveries would drop it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::StreamExt;
use lapin::message::Delivery;
use lapin::options::{
    BasicAckOptions, BasicConsumeOptions, BasicQosOptions, BasicRejectOptions, QueueBindOptions,
    QueueDeclareOptions,
};
use lapin::types::{AMQPValue, FieldTable, ShortString};
use lapin::{Channel, Connection, Consumer as Deliveries};
use serde::Deserialize;
use tracing::{debug, error, info};
use windrow_domain::attempt::Failure;
use windrow_domain::backoff::Backoff;
use windrow_engine::clock::Clock;
use windrow_engine::deliver::{BadOption, Inbox, IncomingMessage};
use windrow_engine::signal::Stop;

use super::publisher::short;
use super::{Connector, Server, WAIT_MS_MAX};
use crate::connection::within;
use crate::consumer::{Consumer, Source};
use crate::feeder::InboxFeeder;
use crate::{headers, subject};

/// Longest wait for a connection to end well.
const CLOSE_MS_MAX: u64 = 2_000;

/// An exchange that a queue gets messages from.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Binding {
    /// The exchange.
    pub exchange: String,
    /// Which of its messages: `windrow.*.order.#`.
    pub routing_key: String,
}

windrow_domain::options! {
    /// What to consume, and how.
    #[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    pub struct ConsumerOptions {
        /// The server.
        server: Server = Server::default(),
        /// The queue.
        queue: String = "windrow".to_owned(),
        /// Makes that queue, durable, with the bindings below, if it is not there.
        declare: bool = false,
        /// Where a queue that is made gets its messages from.
        bindings: Vec<Binding> = Vec::new(),
        /// Where a queue that is made sends messages that can never be taken.
        dead_letter_exchange: Option<String> = None,
        /// The header that holds the id of a message that has no `message-id`.
        id_header: String = headers::ID.to_owned(),
        /// What is taken off the beginning of a routing key before it is read as `<stream>.<kind>`.
        routing_prefix: String = "windrow".to_owned(),
        /// Most messages that the broker brings before one is acknowledged.
        in_flight_max: u16 = 256,
        /// Most messages that go to the inbox at once.
        batch_max: u32 = 128,
        /// Longest message that is taken in; longer ones are rejected and logged.
        payload_bytes_max: u64 = 1 << 20,
        /// Longest time that messages wait for the store before the broker gets them back. Shorter
        /// than the broker's own patience (`consumer_timeout`, 30 minutes).
        hold_secs_max: u64 = 600,
        /// Shortest wait after trouble; doubles with each further one.
        backoff_ms_min: u64 = 100,
        /// Longest wait after trouble.
        backoff_ms_max: u64 = 10_000,
    }
}

impl ConsumerOptions {
    fn check(&self) -> Result<(), BadOption> {
        subject::check_prefix("routing_prefix", &self.routing_prefix)?;
        short("queue", &self.queue)?;
        if self.queue.is_empty() {
            return Err(BadOption::new("queue", "is empty"));
        }
        for binding in &self.bindings {
            short("bindings", &binding.exchange)?;
            short("bindings", &binding.routing_key)?;
        }
        BadOption::unless_within("in_flight_max", u64::from(self.in_flight_max), 65_535)?;
        BadOption::unless_within("batch_max", u64::from(self.batch_max), 10_000)?;
        BadOption::unless_within("hold_secs_max", self.hold_secs_max, 24 * 3600)?;
        BadOption::unless_within("backoff_ms_max", self.backoff_ms_max, WAIT_MS_MAX)?;
        BadOption::unless_within("backoff_ms_min", self.backoff_ms_min, self.backoff_ms_max)
    }
}

/// Consumes from RabbitMQ.
pub struct RabbitConsumer(Consumer<RabbitSource>);

impl fmt::Debug for RabbitConsumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("RabbitConsumer");
        shown.field("name", &self.0.feeder.name).field("options", &self.0.source.options);
        shown.finish_non_exhaustive()
    }
}

impl RabbitConsumer {
    /// Reads the options. Nothing is consumed yet.
    pub fn new(
        name: impl Into<String>,
        options: ConsumerOptions,
        inbox: Arc<dyn Inbox>,
        clock: Clock,
    ) -> Result<Self, BadOption> {
        options.check()?;
        let (name, ms) = (name.into(), Duration::from_millis);
        let backoff = Backoff::new(ms(options.backoff_ms_min), ms(options.backoff_ms_max));
        let hold = Duration::from_secs(options.hold_secs_max);
        let connector = Connector::new(&name, &options.server)?;
        let feeder = InboxFeeder::new(name.clone(), inbox, clock, backoff, hold);
        let batch_max = options.batch_max;
        let source = RabbitSource { name, options, connector };
        Ok(Self(Consumer { source, feeder, batch_max }))
    }

    /// Consumes until it is stopped; a broker that is unavailable is waited for.
    pub async fn run(&self, stop: &Stop) {
        self.0.run(stop).await;
    }
}

/// A queue of RabbitMQ.
struct RabbitSource {
    name: String,
    options: ConsumerOptions,
    connector: Connector,
}

/// Deliveries of a queue, and the connection that they come over.
struct OpenQueue {
    connection: Connection,
    deliveries: Deliveries,
}

impl RabbitSource {
    async fn subscribe(&self, connection: &Connection) -> Result<Deliveries, Failure> {
        let classify = |error: lapin::Error| self.connector.classify(&error);
        let channel = connection.create_channel().await.map_err(classify)?;
        let qos = channel.basic_qos(self.options.in_flight_max, BasicQosOptions::default());
        qos.await.map_err(classify)?;
        if self.options.declare {
            self.declare(&channel).await.map_err(classify)?;
        }
        let queue: ShortString = self.options.queue.as_str().into();
        let options = BasicConsumeOptions::default();
        let consuming = channel.basic_consume(queue, "".into(), options, FieldTable::default());
        let deliveries = consuming.await.map_err(classify)?;
        info!(consumer = self.name, queue = self.options.queue, "Consuming.");
        Ok(deliveries)
    }

    async fn declare(&self, channel: &Channel) -> lapin::Result<()> {
        let queue: ShortString = self.options.queue.as_str().into();
        let mut arguments = FieldTable::default();
        if let Some(exchange) = &self.options.dead_letter_exchange {
            let exchange = AMQPValue::LongString(exchange.as_str().into());
            arguments.insert("x-dead-letter-exchange".into(), exchange);
        }
        let options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        channel.queue_declare(queue.clone(), options, arguments).await?;
        for binding in &self.options.bindings {
            let (exchange, key) = (binding.exchange.as_str(), binding.routing_key.as_str());
            let options = QueueBindOptions::default();
            let table = FieldTable::default();
            channel.queue_bind(queue.clone(), exchange.into(), key.into(), options, table).await?;
        }
        Ok(())
    }

    /// Ends the channel too: what is not acknowledged goes back to its place in the queue.
    async fn disconnect(&self, connection: Connection) {
        let close = async {
            let closed = connection.close(200, "stopped".into()).await;
            closed.map_err(|error| self.connector.classify(&error))
        };
        let _ = within(CLOSE_MS_MAX, "The connection did not close", close).await;
    }
}

#[async_trait]
impl Source for RabbitSource {
    type Delivery = Delivery;
    type Subscription = OpenQueue;

    async fn open(&self) -> Result<OpenQueue, Failure> {
        let connection = self.connector.connect().await?;
        let what = format!("There was no channel to {}", self.connector.shown);
        let wait = self.options.server.connect_ms_max;
        match within(wait, &what, self.subscribe(&connection)).await {
            Ok(deliveries) => Ok(OpenQueue { connection, deliveries }),
            Err(failure) => {
                self.disconnect(connection).await;
                Err(failure)
            }
        }
    }

    async fn next(&self, from: &mut OpenQueue) -> Result<Delivery, Failure> {
        match from.deliveries.next().await {
            Some(Ok(delivery)) => Ok(delivery),
            Some(Err(error)) => Err(self.connector.classify(&error)),
            None => {
                let message = format!("{} brings no more messages.", self.connector.shown);
                Err(Failure::unavailable("connection_lost", message))
            }
        }
    }

    fn read(&self, delivery: &mut Delivery) -> Result<IncomingMessage, String> {
        let bytes = delivery.data.len();
        if bytes as u64 > self.options.payload_bytes_max {
            return Err(format!("it has {bytes} bytes"));
        }
        let properties = &delivery.properties;
        let mut headers = properties.headers().as_ref().map(plain).unwrap_or_default();
        let given = properties.message_id().as_ref().map(|id| id.as_str().to_owned());
        let header = headers::take(&mut headers, &self.options.id_header);
        let id = given.filter(|id| !id.is_empty()).or(header);
        let id = id.ok_or_else(|| format!("no message-id and no {}", self.options.id_header))?;
        let (stream, kind) =
            subject::read(&self.options.routing_prefix, delivery.routing_key.as_str());
        let stream = headers::take(&mut headers, headers::STREAM).unwrap_or(stream);
        let kind = headers::take(&mut headers, headers::KIND).unwrap_or(kind);
        headers.retain(|name, _| !headers::is_reserved(name));
        if let Some(content_type) = properties.content_type() {
            headers.insert("content-type".to_owned(), content_type.to_string());
        }
        let payload = std::mem::take(&mut delivery.data).into();
        Ok(IncomingMessage { id, stream, kind, payload, headers })
    }

    async fn ack(&self, delivery: &Delivery) {
        said(delivery.acker.ack(BasicAckOptions::default()).await);
    }

    /// Gives it to the queue's dead-letter exchange, if it has one.
    async fn reject(&self, delivery: &Delivery, because: &str) {
        let consumer = self.name.as_str();
        let key = delivery.routing_key.as_str();
        let queue = self.options.queue.as_str();
        error!(consumer, queue, key, "A message can never be taken in: {because}");
        said(delivery.acker.reject(BasicRejectOptions { requeue: false }).await);
    }

    /// The broker waits by itself, as long as the channel is open.
    async fn keep(&self, _: &[Delivery]) {}

    async fn close(&self, OpenQueue { connection, deliveries }: OpenQueue, _: Vec<Delivery>) {
        drop(deliveries);
        self.disconnect(connection).await;
    }
}

/// A word to the broker that was lost is said again when the message comes again.
fn said(result: lapin::Result<bool>) {
    if let Err(error) = result {
        debug!(%error, "An acknowledgement was not sent.");
    }
}

/// Headers as text; those that are tables or lists are left out.
fn plain(headers: &FieldTable) -> BTreeMap<String, String> {
    let text = |value: &AMQPValue| match value {
        AMQPValue::LongString(text) => Some(text.to_string()),
        AMQPValue::ShortString(text) => Some(text.to_string()),
        AMQPValue::Boolean(value) => Some(value.to_string()),
        AMQPValue::ShortShortInt(value) => Some(value.to_string()),
        AMQPValue::ShortShortUInt(value) => Some(value.to_string()),
        AMQPValue::ShortInt(value) => Some(value.to_string()),
        AMQPValue::ShortUInt(value) => Some(value.to_string()),
        AMQPValue::LongInt(value) => Some(value.to_string()),
        AMQPValue::LongUInt(value) => Some(value.to_string()),
        AMQPValue::LongLongInt(value) => Some(value.to_string()),
        AMQPValue::Float(value) => Some(value.to_string()),
        AMQPValue::Double(value) => Some(value.to_string()),
        AMQPValue::Timestamp(value) => Some(value.to_string()),
        _ => None,
    };
    let pairs = headers.inner().iter();
    pairs.filter_map(|(name, value)| Some((name.to_string(), text(value)?))).collect()
}
