//! Consuming from JetStream: a durable pull consumer, acknowledged when the inbox has the message.
//!
//! Holds throughout: messages go to the inbox in the order in which the server brings them. After a
//! crash the server brings unacknowledged ones again when their time is up, and newer ones may come
//! first; with `in_flight_max = 1` they cannot.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_nats::header::NATS_MESSAGE_ID;
use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy, pull};
use async_nats::jetstream::{self, AckKind, Message};
use async_nats::{Client, HeaderMap};
use async_trait::async_trait;
use futures_util::StreamExt;
use serde::Deserialize;
use tracing::{debug, error, info};
use windrow_domain::attempt::Failure;
use windrow_domain::backoff::Backoff;
use windrow_engine::clock::Clock;
use windrow_engine::deliver::{BadOption, Inbox, IncomingMessage};
use windrow_engine::signal::Stop;

use super::{Connector, Server, WAIT_MS_MAX};
use crate::connection::{SharedConnection, within};
use crate::consumer::{Consumer, Source};
use crate::feeder::InboxFeeder;
use crate::{headers, subject};

/// How long a pull waits at the server before it is renewed.
const PULL: Duration = Duration::from_secs(30);
/// A server that says nothing for two of these is gone.
const HEARTBEAT: Duration = Duration::from_secs(5);
/// Longest wait for the last acknowledgements at the end.
const FLUSH_MS_MAX: u64 = 2_000;

windrow_domain::options! {
    /// What to consume, and how.
    #[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    pub struct ConsumerOptions {
        /// The server.
        server: Server = Server::default(),
        /// The JetStream stream.
        stream: String = String::new(),
        /// The durable consumer, which is made if it is not there; the instances that share the work
        /// share it.
        durable: String = "windrow".to_owned(),
        /// The subjects of that stream; empty for all.
        subjects: Vec<String> = Vec::new(),
        /// What is taken off the beginning of a subject before it is read as `<stream>.<kind>`.
        subject_prefix: String = "windrow".to_owned(),
        /// Longest time that the server waits for an acknowledgement before it brings a message again.
        ack_secs_max: u64 = 30,
        /// Most messages that are not acknowledged yet; 1 for strict order also after a crash.
        in_flight_max: u32 = 256,
        /// Most messages that go to the inbox at once.
        batch_max: u32 = 128,
        /// Longest message that is taken in; longer ones are ended at the server and logged.
        payload_bytes_max: u64 = 1 << 20,
        /// Longest time that messages wait for the store before the server may bring them elsewhere.
        hold_secs_max: u64 = 600,
        /// Shortest wait after trouble; doubles with each further one.
        backoff_ms_min: u64 = 100,
        /// Longest wait after trouble.
        backoff_ms_max: u64 = 10_000,
    }
}

impl ConsumerOptions {
    fn check(&self) -> Result<(), BadOption> {
        subject::check_prefix("subject_prefix", &self.subject_prefix)?;
        for (name, text) in [("stream", &self.stream), ("durable", &self.durable)] {
            if text.is_empty() || text.contains(['.', ' ', '*', '>']) {
                return Err(BadOption::new(name, "must be one word"));
            }
        }
        BadOption::unless_within("ack_secs_max", self.ack_secs_max, 3600)?;
        BadOption::unless_within("in_flight_max", u64::from(self.in_flight_max), 100_000)?;
        BadOption::unless_within("batch_max", u64::from(self.batch_max), 10_000)?;
        BadOption::unless_within("hold_secs_max", self.hold_secs_max, 24 * 3600)?;
        BadOption::unless_within("backoff_ms_max", self.backoff_ms_max, WAIT_MS_MAX)?;
        BadOption::unless_within("backoff_ms_min", self.backoff_ms_min, self.backoff_ms_max)
    }
}

/// Consumes from JetStream.
pub struct NatsConsumer(Consumer<NatsSource>);

impl fmt::Debug for NatsConsumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("NatsConsumer");
        shown.field("name", &self.0.feeder.name).field("options", &self.0.source.options);
        shown.finish_non_exhaustive()
    }
}

impl NatsConsumer {
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
        let source = NatsSource { name, options, connector, connection: SharedConnection::new() };
        Ok(Self(Consumer { source, feeder, batch_max }))
    }

    /// Consumes until it is stopped; a broker that is unavailable is waited for.
    pub async fn run(&self, stop: &Stop) {
        self.0.run(stop).await;
    }
}

/// A durable pull consumer of JetStream.
struct NatsSource {
    name: String,
    options: ConsumerOptions,
    connector: Connector,
    /// One connection for all subscriptions: it comes back by itself.
    connection: SharedConnection<Client>,
}

/// Messages that are pulled over a connection.
struct Pull {
    client: Client,
    messages: pull::Stream,
}

impl NatsSource {
    async fn subscribe(&self, client: &Client) -> Result<pull::Stream, Failure> {
        let options = &self.options;
        let trouble = |what: &str, error: String| {
            let message = format!("{what} of {}: {error}.", options.stream);
            Failure::retryable("nats_consumer", message)
        };
        let context = jetstream::new(client.clone());
        let stream = context.get_stream(&options.stream).await;
        let stream = stream.map_err(|error| trouble("There is no stream", error.to_string()))?;
        let config = pull::Config {
            durable_name: Some(options.durable.clone()),
            deliver_policy: DeliverPolicy::All,
            ack_policy: AckPolicy::Explicit,
            ack_wait: Duration::from_secs(options.ack_secs_max),
            max_deliver: -1,
            max_ack_pending: i64::from(options.in_flight_max),
            filter_subjects: options.subjects.clone(),
            ..pull::Config::default()
        };
        // Made or brought up to date: its bounds are those of the options.
        let consumer = stream.create_consumer(config).await;
        let consumer = consumer.map_err(|error| trouble("No consumer", error.to_string()))?;
        let messages = consumer
            .stream()
            .max_messages_per_batch(options.batch_max.min(options.in_flight_max) as usize)
            .expires(PULL)
            .heartbeat(HEARTBEAT)
            .messages();
        messages.await.map_err(|error| trouble("No messages", error.to_string()))
    }
}

#[async_trait]
impl Source for NatsSource {
    type Delivery = Message;
    type Subscription = Pull;

    async fn open(&self) -> Result<Pull, Failure> {
        let (_, client) = self.connection.get(|| self.connector.connect()).await?;
        let wait = self.options.server.connect_ms_max;
        let messages = within(wait, "There was no stream", self.subscribe(&client)).await?;
        info!(consumer = self.name, stream = self.options.stream, "Consuming.");
        Ok(Pull { client, messages })
    }

    async fn next(&self, from: &mut Pull) -> Result<Message, Failure> {
        let lost = |text: String| {
            let message = format!("{} brings no more messages: {text}.", self.connector.shown);
            Failure::unavailable("connection_lost", message)
        };
        match from.messages.next().await {
            Some(Ok(message)) => Ok(message),
            Some(Err(error)) => Err(lost(error.to_string())),
            None => Err(lost("they ended".to_owned())),
        }
    }

    fn read(&self, message: &mut Message) -> Result<IncomingMessage, String> {
        let bytes = message.payload.len();
        if bytes as u64 > self.options.payload_bytes_max {
            return Err(format!("it has {bytes} bytes"));
        }
        let given = message.headers.as_ref().and_then(|headers| headers.get(NATS_MESSAGE_ID));
        let id = match given {
            Some(id) if !id.as_str().is_empty() => id.as_str().to_owned(),
            _ => {
                let info = message.info().map_err(|error| error.to_string())?;
                format!("{}:{}", info.stream, info.stream_sequence)
            }
        };
        let mut headers = message.headers.as_ref().map(plain).unwrap_or_default();
        let (stream, kind) = subject::read(&self.options.subject_prefix, &message.subject);
        let stream = headers::take(&mut headers, headers::STREAM).unwrap_or(stream);
        let kind = headers::take(&mut headers, headers::KIND).unwrap_or(kind);
        headers.retain(|name, _| !headers::is_reserved(name));
        Ok(IncomingMessage { id, stream, kind, payload: message.payload.clone(), headers })
    }

    async fn ack(&self, message: &Message) {
        said(message.ack().await);
    }

    /// Tells the server never to bring it again. It stays in the stream, where it can be looked at.
    async fn reject(&self, message: &Message, because: &str) {
        let sequence = message.info().map(|info| info.stream_sequence).unwrap_or_default();
        let (consumer, subject) = (self.name.as_str(), message.subject.as_str());
        error!(consumer, subject, sequence, "A message can never be taken in: {because}");
        said(message.ack_with(AckKind::Term).await);
    }

    /// The server does not bring them to another instance while the store is unavailable.
    async fn keep(&self, messages: &[Message]) {
        for message in messages {
            said(message.ack_with(AckKind::Progress).await);
        }
    }

    async fn close(&self, Pull { client, messages }: Pull, left: Vec<Message>) {
        // This process pulls no more: what is given back goes to another, in its order.
        drop(messages);
        for message in &left {
            said(message.ack_with(AckKind::Nak(None)).await);
        }
        // What is not acknowledged now comes again, and the inbox knows it.
        let flush = async {
            let flushed = client.flush().await;
            flushed.map_err(|error| Failure::unavailable("connection_lost", error.to_string()))
        };
        let _ = within(FLUSH_MS_MAX, "Acknowledgements were not sent", flush).await;
    }
}

/// A word to the server that was lost is said again when the message comes again.
fn said(result: Result<(), async_nats::Error>) {
    if let Err(error) = result {
        debug!(%error, "An acknowledgement was not sent.");
    }
}

fn plain(headers: &HeaderMap) -> BTreeMap<String, String> {
    let join = |values: &Vec<async_nats::HeaderValue>| {
        values.iter().map(|value| value.as_str()).collect::<Vec<_>>().join(", ")
    };
    headers.iter().map(|(name, values)| (name.to_string(), join(values))).collect()
}
