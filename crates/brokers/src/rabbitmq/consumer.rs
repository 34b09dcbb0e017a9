//! Consuming from RabbitMQ: acknowledged by hand when the inbox has the message.
//!
//! Holds throughout: messages go to the inbox in the order of the queue. While the store is away
//! they wait here; then the channel is closed, and the broker puts all of them back where they
//! were. A single message is never put back: later ones would overtake it, and queues that count
//! deliveries would drop it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::{FutureExt, StreamExt};
use lapin::message::Delivery;
use lapin::options::{
    BasicAckOptions, BasicConsumeOptions, BasicQosOptions, BasicRejectOptions, QueueBindOptions,
    QueueDeclareOptions,
};
use lapin::types::{AMQPValue, FieldTable, ShortString};
use lapin::{Channel, Connection, Consumer};
use serde::Deserialize;
use tracing::{debug, error, info, warn};
use windrow_domain::attempt::{Class, Failure};
use windrow_engine::clock::Clock;
use windrow_engine::deliver::{BadOption, Inbox, IncomingMessage};
use windrow_engine::signal::Stop;

use super::publisher::short;
use super::{Door, Server, WAIT_MS_MAX};
use crate::intake::{Backoff, Fate, Held, Intake};
use crate::link::{failure, within};
use crate::{naming, wire};

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

/// What to consume, and how.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ConsumerOptions {
    /// The server.
    pub server: Server,
    /// The queue.
    pub queue: String,
    /// Makes that queue, durable, with the bindings below, if it is not there.
    pub declare: bool,
    /// Where a queue that is made gets its messages from.
    pub bindings: Vec<Binding>,
    /// Where a queue that is made sends messages that can never be taken.
    pub dead_letter_exchange: Option<String>,
    /// The header that holds the id of a message that has no `message-id`.
    pub id_header: String,
    /// What is taken off the beginning of a routing key before it is read as `<stream>.<kind>`.
    pub routing_prefix: String,
    /// Most messages that the broker brings before one is acknowledged.
    pub in_flight_max: u16,
    /// Most messages that go to the inbox at once.
    pub batch_max: u32,
    /// Longest message that is taken in; longer ones are rejected and logged.
    pub payload_bytes_max: u64,
    /// Longest time that messages wait for the store before the broker gets them back. Shorter
    /// than the broker's own patience (`consumer_timeout`, 30 minutes).
    pub hold_secs_max: u64,
    /// Shortest wait after trouble; doubles with each further one.
    pub backoff_ms_min: u64,
    /// Longest wait after trouble.
    pub backoff_ms_max: u64,
}

impl Default for ConsumerOptions {
    fn default() -> Self {
        Self {
            server: Server::default(),
            queue: "windrow".to_owned(),
            declare: false,
            bindings: Vec::new(),
            dead_letter_exchange: None,
            id_header: wire::ID.to_owned(),
            routing_prefix: "windrow".to_owned(),
            in_flight_max: 256,
            batch_max: 128,
            payload_bytes_max: 1 << 20,
            hold_secs_max: 600,
            backoff_ms_min: 100,
            backoff_ms_max: 10_000,
        }
    }
}

impl ConsumerOptions {
    fn judge(&self) -> Result<(), BadOption> {
        naming::judge_prefix("routing_prefix", &self.routing_prefix)?;
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
pub struct RabbitConsumer {
    options: ConsumerOptions,
    door: Door,
    intake: Intake,
}

impl fmt::Debug for RabbitConsumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("RabbitConsumer");
        shown.field("name", &self.intake.name).field("options", &self.options);
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
        options.judge()?;
        let name = name.into();
        let door = Door::new(&name, &options.server)?;
        let backoff = Backoff { ms_min: options.backoff_ms_min, ms_max: options.backoff_ms_max };
        let hold = Duration::from_secs(options.hold_secs_max);
        Ok(Self { options, door, intake: Intake { name, inbox, clock, backoff, hold } })
    }

    /// Consumes until it is stopped; a broker that is away is waited for.
    pub async fn run(&self, stop: &Stop) {
        let consumer = self.intake.name.as_str();
        let mut failures = 0;
        while !stop.is_given() {
            let Err(failure) = self.session(stop, &mut failures).await else {
                break;
            };
            failures += 1;
            let (code, message) = (failure.code.as_str(), failure.message.as_str());
            warn!(consumer, code, failures, "Consuming stopped and is tried again: {message}");
            if !self.intake.rest(failures, stop).await {
                break;
            }
        }
    }

    /// One connection, to its end. `Ok` when it was stopped.
    async fn session(&self, stop: &Stop, failures: &mut u32) -> Result<(), Failure> {
        let connection = self.door.connect().await?;
        let what = format!("There was no channel to {}", self.door.shown);
        let opened =
            within(self.options.server.connect_ms_max, &what, self.open(&connection)).await;
        let outcome = match opened {
            Ok(deliveries) => self.consume(deliveries, stop, failures).await,
            Err(failure) => Err(failure),
        };
        // Ends the channel too: what is not acknowledged goes back to its place in the queue.
        let close = async {
            let closed = connection.close(200, "stopped".into()).await;
            closed.map_err(|error| self.door.judge(&error))
        };
        let _ = within(CLOSE_MS_MAX, "The connection did not close", close).await;
        outcome
    }

    async fn open(&self, connection: &Connection) -> Result<Consumer, Failure> {
        let judge = |error: lapin::Error| self.door.judge(&error);
        let channel = connection.create_channel().await.map_err(judge)?;
        let qos = channel.basic_qos(self.options.in_flight_max, BasicQosOptions::default());
        qos.await.map_err(judge)?;
        if self.options.declare {
            self.declare(&channel).await.map_err(judge)?;
        }
        let queue: ShortString = self.options.queue.as_str().into();
        let options = BasicConsumeOptions::default();
        let consuming = channel.basic_consume(queue, "".into(), options, FieldTable::default());
        let deliveries = consuming.await.map_err(judge)?;
        info!(consumer = self.intake.name, queue = self.options.queue, "Consuming.");
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

    async fn consume(
        &self,
        mut deliveries: Consumer,
        stop: &Stop,
        failures: &mut u32,
    ) -> Result<(), Failure> {
        loop {
            let first = tokio::select! {
                () = stop.given() => return Ok(()),
                first = deliveries.next() => first,
            };
            let mut batch = vec![self.received(first)?];
            while batch.len() < self.options.batch_max as usize {
                match deliveries.next().now_or_never() {
                    // Trouble shows again at the next turn, when this batch has been taken.
                    Some(Some(Ok(delivery))) => batch.push(delivery),
                    _ => break,
                }
            }
            self.take(batch, stop).await?;
            *failures = 0;
        }
    }

    fn received(&self, delivery: Option<lapin::Result<Delivery>>) -> Result<Delivery, Failure> {
        match delivery {
            Some(Ok(delivery)) => Ok(delivery),
            Some(Err(error)) => Err(self.door.judge(&error)),
            None => {
                let message = format!("{} brings no more messages.", self.door.shown);
                Err(failure(Class::Network, "connection_lost", message))
            }
        }
    }

    /// Gives a batch to the inbox and acknowledges it.
    async fn take(&self, batch: Vec<Delivery>, stop: &Stop) -> Result<(), Failure> {
        let mut arrived = Vec::with_capacity(batch.len());
        let mut deliveries = Vec::with_capacity(batch.len());
        for mut delivery in batch {
            match self.read(&mut delivery) {
                Ok(read) => {
                    arrived.push(read);
                    deliveries.push(delivery);
                }
                Err(because) => self.reject(&delivery, &because).await,
            }
        }
        if arrived.is_empty() {
            return Ok(());
        }
        let Some(fates) = self.intake.take(arrived, stop, &Unacknowledged).await else {
            if stop.is_given() {
                return Ok(());
            }
            let message = "The store was away for too long; the broker has the messages back.";
            return Err(failure(Class::Server, "store_away", message));
        };
        for (delivery, fate) in deliveries.iter().zip(fates) {
            match fate {
                Fate::Taken => said(delivery.acker.ack(BasicAckOptions::default()).await),
                Fate::Never(because) => self.reject(delivery, &because).await,
            }
        }
        Ok(())
    }

    fn read(&self, delivery: &mut Delivery) -> Result<IncomingMessage, String> {
        let bytes = delivery.data.len();
        if bytes as u64 > self.options.payload_bytes_max {
            return Err(format!("it has {bytes} bytes"));
        }
        let properties = &delivery.properties;
        let mut headers = properties.headers().as_ref().map(plain).unwrap_or_default();
        let given = properties.message_id().as_ref().map(|id| id.as_str().to_owned());
        let header = wire::take(&mut headers, &self.options.id_header);
        let id = given.filter(|id| !id.is_empty()).or(header);
        let id = id.ok_or_else(|| format!("no message-id and no {}", self.options.id_header))?;
        let (stream, kind) =
            naming::read(&self.options.routing_prefix, delivery.routing_key.as_str());
        let stream = wire::take(&mut headers, wire::STREAM).unwrap_or(stream);
        let kind = wire::take(&mut headers, wire::KIND).unwrap_or(kind);
        headers.retain(|name, _| !wire::is_reserved(name));
        if let Some(content_type) = properties.content_type() {
            headers.insert("content-type".to_owned(), content_type.to_string());
        }
        let payload = std::mem::take(&mut delivery.data).into();
        Ok(IncomingMessage { id, stream, kind, payload, headers })
    }

    /// Gives it to the queue's dead-letter exchange, if it has one.
    async fn reject(&self, delivery: &Delivery, because: &str) {
        let consumer = self.intake.name.as_str();
        let key = delivery.routing_key.as_str();
        let queue = self.options.queue.as_str();
        error!(consumer, queue, key, "A message can never be taken in: {because}");
        said(delivery.acker.reject(BasicRejectOptions { requeue: false }).await);
    }
}

/// Deliveries that are not acknowledged yet.
struct Unacknowledged;

#[async_trait]
impl Held for Unacknowledged {
    /// The broker waits by itself, as long as the channel is open.
    async fn keep(&self) {}
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
