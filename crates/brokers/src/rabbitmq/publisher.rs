//! Publishing to RabbitMQ: done when the broker confirmed it and at least one queue has it.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use lapin::options::{BasicPublishOptions, ConfirmSelectOptions, ExchangeDeclareOptions};
use lapin::types::{AMQPValue, FieldTable, ShortString};
use lapin::{BasicProperties, Channel, Confirmation, Connection, ExchangeKind};
use serde::Deserialize;
use windrow_domain::attempt::Failure;
use windrow_engine::deliver::{BadOption, OutgoingMessage, Publisher};

use super::{Connector, Server, WAIT_MS_MAX};
use crate::connection::{SharedConnection, too_large, within};
use crate::{headers, subject};

/// The delivery mode of messages that RabbitMQ keeps on disk.
const PERSISTENT: u8 = 2;

windrow_domain::options! {
    /// Where to publish, and how.
    #[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    pub struct PublisherOptions {
        /// The server.
        server: Server = Server::default(),
        /// The exchange.
        exchange: String = "windrow".to_owned(),
        /// Makes that exchange, durable and by topic, if it is not there.
        declare: bool = false,
        /// What routing keys begin with: `<prefix>.<stream>.<kind>`.
        routing_prefix: String = "windrow".to_owned(),
        /// Longest wait until the broker confirmed the message.
        confirm_ms_max: u64 = 10_000,
        /// Longest message that is sent.
        payload_bytes_max: u64 = 4 << 20,
    }
}

/// A connection and its channel, which end together.
#[derive(Clone)]
struct OpenChannel {
    _connection: Arc<Connection>,
    channel: Channel,
}

/// Publishes to RabbitMQ.
pub struct RabbitPublisher {
    name: String,
    options: PublisherOptions,
    connector: Connector,
    connection: SharedConnection<OpenChannel>,
}

impl fmt::Debug for RabbitPublisher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("RabbitPublisher");
        shown.field("name", &self.name).field("options", &self.options).finish_non_exhaustive()
    }
}

impl RabbitPublisher {
    /// Reads the options. The connection is made with the first message.
    pub fn new(name: impl Into<String>, options: PublisherOptions) -> Result<Self, BadOption> {
        let name = name.into();
        subject::check_prefix("routing_prefix", &options.routing_prefix)?;
        BadOption::unless_within("confirm_ms_max", options.confirm_ms_max, WAIT_MS_MAX)?;
        short("exchange", &options.exchange)?;
        if options.declare && options.exchange.is_empty() {
            return Err(BadOption::new("exchange", "is empty, and that one cannot be made"));
        }
        let connector = Connector::new(&name, &options.server)?;
        Ok(Self { name, options, connector, connection: SharedConnection::new() })
    }

    async fn open(&self) -> Result<OpenChannel, Failure> {
        let connection = self.connector.connect().await?;
        let classify = |error: lapin::Error| self.connector.classify(&error);
        let what = format!("There was no channel to {}", self.connector.shown);
        let channel = within(self.options.server.connect_ms_max, &what, async {
            let channel = connection.create_channel().await.map_err(classify)?;
            channel.confirm_select(ConfirmSelectOptions::default()).await.map_err(classify)?;
            if self.options.declare {
                let options =
                    ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
                let exchange = self.options.exchange.as_str().into();
                let declared = channel
                    .exchange_declare(exchange, ExchangeKind::Topic, options, FieldTable::default())
                    .await;
                declared.map_err(classify)?;
            }
            Ok(channel)
        })
        .await?;
        Ok(OpenChannel { _connection: Arc::new(connection), channel })
    }

    async fn send(
        &self,
        channel: &Channel,
        key: ShortString,
        p: &OutgoingMessage,
    ) -> Result<(), Failure> {
        let classify = |error: lapin::Error| self.connector.classify(&error);
        let exchange = self.options.exchange.as_str().into();
        // Without `mandatory` a message that no queue wants would be confirmed and gone.
        let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
        let sent = channel.basic_publish(exchange, key, options, &p.payload, properties(p)).await;
        match sent.map_err(classify)?.await.map_err(classify)? {
            Confirmation::Ack(None) => Ok(()),
            Confirmation::Ack(Some(returned)) | Confirmation::Nack(Some(returned)) => {
                let message = format!(
                    "No queue takes the message from the exchange {:?}: {}.",
                    self.options.exchange, returned.reply_text
                );
                Err(Failure::not_found("rabbitmq_unroutable", message))
            }
            Confirmation::Nack(None) => {
                let message = format!("{} could not store the message.", self.connector.shown);
                Err(Failure::retryable("rabbitmq_nack", message).with_unavailable(true))
            }
            Confirmation::NotRequested => {
                let message = "The channel does not confirm messages.";
                Err(Failure::retryable("rabbitmq_unconfirmed", message))
            }
        }
    }
}

#[async_trait]
impl Publisher for RabbitPublisher {
    fn name(&self) -> &str {
        &self.name
    }

    async fn publish(&self, message: &OutgoingMessage) -> Result<(), Failure> {
        if let Some(failure) = too_large(message.payload.len(), self.options.payload_bytes_max) {
            return Err(failure);
        }
        let key = subject::write(&self.options.routing_prefix, &message.stream, &message.kind);
        let key = ShortString::try_new(key).map_err(|_| {
            let message = "The routing key would have more than 255 bytes.";
            Failure::permanent("rabbitmq_key_too_long", message)
        })?;
        let (number, open) = self.connection.get(|| self.open()).await?;
        let what = format!("{} did not confirm the message", self.connector.shown);
        let send = self.send(&open.channel, key, message);
        let sent = within(self.options.confirm_ms_max, &what, send).await;
        // After a refusal the channel is closed; after silence its state is unknown.
        if sent.is_err() && !open.channel.status().connected()
            || matches!(&sent, Err(failure) if !failure.class.is_answered())
        {
            self.connection.fail(number).await;
        }
        sent
    }
}

fn properties(message: &OutgoingMessage) -> BasicProperties {
    let mut headers = FieldTable::default();
    for (name, value) in headers::of(message) {
        // A name that no header can have is left out; the message is worth more.
        if let Ok(name) = ShortString::try_new(name) {
            headers.insert(name, AMQPValue::LongString(value.into()));
        }
    }
    let mut properties =
        BasicProperties::default().with_delivery_mode(PERSISTENT).with_headers(headers);
    if let Ok(seconds) = u64::try_from(message.sent_at.as_second()) {
        properties = properties.with_timestamp(seconds);
    }
    // The id is among the headers too, should it be too long for its own place.
    if let Ok(id) = ShortString::try_new(message.id.as_str()) {
        properties = properties.with_message_id(id);
    }
    if let Ok(kind) = ShortString::try_new(message.kind.as_str()) {
        properties = properties.with_type(kind);
    }
    let content_type =
        message.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-type"));
    match content_type.map(|(_, value)| ShortString::try_new(value.as_str())) {
        Some(Ok(content_type)) => properties.with_content_type(content_type),
        _ => properties,
    }
}

/// A text that AMQP has room for.
pub(super) fn short(name: &'static str, text: &str) -> Result<(), BadOption> {
    match ShortString::try_new(text) {
        Ok(_) => Ok(()),
        Err(_) => Err(BadOption::new(name, "has more than 255 bytes")),
    }
}
