//! RabbitMQ.

mod consumer;
mod publisher;

use lapin::uri::AMQPUri;
use lapin::{Connection, ConnectionProperties, Error, ErrorKind};
use serde::Deserialize;
use windrow_domain::attempt::Failure;
use windrow_engine::deliver::{BadOption, Secret, shown};

pub use consumer::{Binding, ConsumerOptions, RabbitConsumer};
pub use publisher::{PublisherOptions, RabbitPublisher};

use crate::connection::within;

/// Longest wait that an option can ask for.
const WAIT_MS_MAX: u64 = 10 * 60 * 1000;

windrow_domain::options! {
    /// Where a RabbitMQ server is.
    #[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    pub struct Server {
        /// `amqp://[account:password@]host[:port][/vhost]`, `amqps://` with TLS.
        url: Secret = Secret::from("amqp://127.0.0.1:5672"),
        /// Longest wait for a connection, TLS and login included.
        connect_ms_max: u64 = 10_000,
        /// A server that says nothing for two of these is gone.
        heartbeat_secs: u16 = 20,
    }
}

/// What is needed to connect, read once.
struct Connector {
    name: String,
    uri: AMQPUri,
    connect_ms_max: u64,
    /// The address without the account.
    shown: String,
}

impl Connector {
    fn new(name: &str, server: &Server) -> Result<Self, BadOption> {
        BadOption::unless_within("connect_ms_max", server.connect_ms_max, WAIT_MS_MAX)?;
        let url = server.url.read("url")?;
        let bad = |_| BadOption::new("url", "is no address of a RabbitMQ server");
        let mut uri: AMQPUri = url.parse().map_err(bad)?;
        uri.query.heartbeat = Some(server.heartbeat_secs);
        let connect_ms_max = server.connect_ms_max;
        Ok(Self { name: name.to_owned(), uri, connect_ms_max, shown: shown(&url) })
    }

    async fn connect(&self) -> Result<Connection, Failure> {
        let properties = ConnectionProperties::default()
            .with_connection_name(format!("windrow {}", self.name).into());
        let what = format!("There was no connection to {}", self.shown);
        within(self.connect_ms_max, &what, async {
            let connected = Connection::connect_uri(self.uri.clone(), properties).await;
            connected.map_err(|error| self.classify(&error))
        })
        .await
    }

    fn classify(&self, error: &Error) -> Failure {
        let message = format!("Trouble with {}: {error}.", self.shown);
        match error.kind() {
            ErrorKind::ProtocolError(_) => Failure::retryable("rabbitmq_refused", message),
            ErrorKind::AuthProviderError(_) => Failure::retryable("rabbitmq_auth", message),
            _ => Failure::unavailable("connection_lost", message),
        }
    }
}
