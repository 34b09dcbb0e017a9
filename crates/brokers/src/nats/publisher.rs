//! Publishing to JetStream: done when a stream has stored the message.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_nats::connection::State;
use async_nats::header::{HeaderName, HeaderValue, NATS_EXPECTED_STREAM, NATS_MESSAGE_ID};
use async_nats::jetstream::context::{PublishError, PublishErrorKind};
use async_nats::jetstream::{self, Context, stream};
use async_nats::{Client, HeaderMap};
use async_trait::async_trait;
use serde::Deserialize;
use windrow_domain::attempt::Failure;
use windrow_engine::deliver::{BadOption, OutgoingMessage, Publisher};

use super::{Connector, Server, WAIT_MS_MAX, header_text};
use crate::connection::{SharedConnection, timed_out, too_large, within};
use crate::{headers, subject};

/// Longest subject: what a server reads as one line also holds the reply's subject.
const SUBJECT_BYTES_MAX: usize = 2_048;

windrow_domain::options! {
    /// Where to publish, and how.
    #[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    pub struct PublisherOptions {
        /// The server.
        server: Server = Server::default(),
        /// What subjects begin with: `<prefix>.<stream>.<kind>`.
        subject_prefix: String = "windrow".to_owned(),
        /// The JetStream stream that must take the messages; none for whichever does.
        stream: Option<String> = None,
        /// Makes that stream, with the subjects `<prefix>.>`, if it is not there.
        create: bool = false,
        /// How long a stream that is made knows repeats.
        duplicate_secs: u64 = 120,
        /// Longest wait until a stream has stored the message.
        ack_ms_max: u64 = 5_000,
        /// Longest message that is sent; the server has a bound of its own.
        payload_bytes_max: u64 = 1 << 20,
    }
}

/// Publishes to JetStream.
pub struct NatsPublisher {
    name: String,
    options: PublisherOptions,
    connector: Connector,
    connection: SharedConnection<Client>,
    /// Whether the stream to make is known to be there.
    made: AtomicBool,
}

impl fmt::Debug for NatsPublisher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("NatsPublisher");
        shown.field("name", &self.name).field("options", &self.options).finish_non_exhaustive()
    }
}

impl NatsPublisher {
    /// Reads the options. The connection is made with the first message.
    pub fn new(name: impl Into<String>, options: PublisherOptions) -> Result<Self, BadOption> {
        let name = name.into();
        subject::check_prefix("subject_prefix", &options.subject_prefix)?;
        BadOption::unless_within("ack_ms_max", options.ack_ms_max, WAIT_MS_MAX)?;
        BadOption::unless_within("duplicate_secs", options.duplicate_secs, 30 * 24 * 3600)?;
        if options.create && (options.stream.is_none() || options.subject_prefix.is_empty()) {
            return Err(BadOption::new("create", "needs a stream and a subject_prefix"));
        }
        let connector = Connector::new(&name, &options.server)?;
        Ok(Self {
            name,
            options,
            connector,
            connection: SharedConnection::new(),
            made: AtomicBool::new(false),
        })
    }

    fn headers(&self, message: &OutgoingMessage) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in headers::of(message) {
            // A sender's name that no header can have is left out; the message is worth more.
            if let (Ok(name), Ok(value)) =
                (name.parse::<HeaderName>(), header_text(&value).parse::<HeaderValue>())
            {
                headers.insert(name, value);
            }
        }
        let id = header_text(&format!("{}:{}", message.owner, message.id));
        headers.insert(NATS_MESSAGE_ID, id.as_str());
        if let Some(stream) = &self.options.stream {
            headers.insert(NATS_EXPECTED_STREAM, stream.as_str());
        }
        headers
    }

    async fn make_stream(&self, context: &Context) -> Result<(), Failure> {
        let Some(name) = self.options.stream.as_ref().filter(|_| self.options.create) else {
            return Ok(());
        };
        if self.made.load(Ordering::SeqCst) {
            return Ok(());
        }
        let config = stream::Config {
            name: name.clone(),
            subjects: vec![format!("{}.>", self.options.subject_prefix)],
            duplicate_window: Duration::from_secs(self.options.duplicate_secs),
            ..stream::Config::default()
        };
        context.get_or_create_stream(config).await.map_err(|error| {
            let message = format!("The stream {name} could not be made: {error}.");
            Failure::retryable("nats_stream", message).with_unavailable(true)
        })?;
        self.made.store(true, Ordering::SeqCst);
        Ok(())
    }

    async fn send(
        &self,
        client: Client,
        subject: String,
        message: &OutgoingMessage,
    ) -> Result<(), Failure> {
        let mut context = jetstream::new(client);
        context.set_timeout(Duration::from_millis(self.options.ack_ms_max));
        self.make_stream(&context).await?;
        let headers = self.headers(message);
        let classify = |error: PublishError| self.classify(&error);
        let ack = context.publish_with_headers(subject, headers, message.payload.clone()).await;
        ack.map_err(classify)?.await.map_err(classify)?;
        Ok(())
    }

    fn classify(&self, error: &PublishError) -> Failure {
        let kind = error.kind();
        if kind == PublishErrorKind::StreamNotFound {
            self.made.store(false, Ordering::SeqCst);
        }
        classify(kind, format!("{} did not take the message: {error}.", self.connector.shown))
    }
}

#[async_trait]
impl Publisher for NatsPublisher {
    fn name(&self) -> &str {
        &self.name
    }

    async fn publish(&self, message: &OutgoingMessage) -> Result<(), Failure> {
        if let Some(failure) = too_large(message.payload.len(), self.options.payload_bytes_max) {
            return Err(failure);
        }
        let subject = subject::write(&self.options.subject_prefix, &message.stream, &message.kind);
        if subject.len() > SUBJECT_BYTES_MAX {
            let message = format!("The subject would have {} bytes.", subject.len());
            return Err(Failure::permanent("nats_subject_too_long", message));
        }
        let (_, client) = self.connection.get(|| self.connector.connect()).await?;
        // The client would keep the message and send it when the server is back, though we had
        // long said that it failed.
        if client.connection_state() != State::Connected {
            let message = format!("There is no connection to {}.", self.connector.shown);
            return Err(Failure::unavailable("connection_lost", message));
        }
        let what = format!("{} did not store the message", self.connector.shown);
        within(self.options.ack_ms_max, &what, self.send(client, subject, message)).await
    }
}

fn classify(kind: PublishErrorKind, message: String) -> Failure {
    match kind {
        // No stream takes the subject yet, or it has no leader.
        PublishErrorKind::StreamNotFound => {
            Failure::not_found("nats_no_stream", message).with_unavailable(true)
        }
        PublishErrorKind::TimedOut => timed_out(message),
        PublishErrorKind::BrokenPipe => Failure::unavailable("connection_lost", message),
        PublishErrorKind::MaxAckPending => Failure::throttled("nats_busy", message),
        PublishErrorKind::MaxPayloadExceeded => Failure::permanent("payload_too_large", message),
        _ => Failure::retryable("nats_refused", message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_not_ready_is_unavailable_and_one_that_refuses_is_not() {
        for (kind, code, unavailable) in [
            (PublishErrorKind::StreamNotFound, "nats_no_stream", true),
            (PublishErrorKind::TimedOut, "timeout", true),
            (PublishErrorKind::BrokenPipe, "connection_lost", true),
            (PublishErrorKind::MaxAckPending, "nats_busy", true),
            (PublishErrorKind::MaxPayloadExceeded, "payload_too_large", false),
            (PublishErrorKind::WrongLastSequence, "nats_refused", false),
        ] {
            let failure = classify(kind, String::new());
            assert_eq!((&*failure.code, failure.is_unavailable()), (code, unavailable));
        }
    }
}
