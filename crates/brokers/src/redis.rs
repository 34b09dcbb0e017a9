//! Redis Streams: a message becomes one entry.
//!
//! Holds throughout: entries of one stream are in the order in which they were published; an entry
//! may be there twice after a lost answer, and its field `id` tells. How durable an entry is when
//! Redis has answered is a setting of Redis (`appendfsync`), and of `replicas_min`.

use async_trait::async_trait;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, ErrorKind, RedisError, cmd};
use serde::Deserialize;
use std::time::Duration;
use windrow_domain::attempt::{Class, Failure};
use windrow_engine::deliver::{BadOption, OutgoingMessage, Publisher, Secret, shown};

use crate::link::{Link, failure, too_large, within};
use crate::wire;

/// Longest wait that an option can ask for.
const WAIT_MS_MAX: u64 = 10 * 60 * 1000;
/// What stands before the name of a header among the fields of an entry.
const HEADER_PREFIX: &str = "header:";

/// Where Redis is, and how to write to it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// `redis://[account:password@]host[:port][/database]`, `rediss://` with TLS.
    pub url: Secret,
    /// The key of the Redis stream. `{owner}`, `{stream}` and `{kind}` are replaced.
    pub key: String,
    /// About how many entries a Redis stream keeps; none for all.
    pub entries_max: Option<u64>,
    /// Keeps exactly that many, which costs Redis more.
    pub entries_exact: bool,
    /// Replicas that must have an entry before it counts as published.
    pub replicas_min: u32,
    /// Longest wait for a connection.
    pub connect_ms_max: u64,
    /// Longest wait for an answer, and for replicas.
    pub answer_ms_max: u64,
    /// Longest message that is sent.
    pub payload_bytes_max: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            url: Secret::from("redis://127.0.0.1:6379"),
            key: "windrow:messages".to_owned(),
            entries_max: None,
            entries_exact: false,
            replicas_min: 0,
            connect_ms_max: 5_000,
            answer_ms_max: 5_000,
            payload_bytes_max: 4 << 20,
        }
    }
}

/// Publishes to Redis.
#[derive(Debug)]
pub struct RedisPublisher {
    name: String,
    options: Options,
    shown: String,
    client: Client,
    link: Link<MultiplexedConnection>,
}

impl RedisPublisher {
    /// Reads the options. The connection is made with the first message.
    pub fn new(name: impl Into<String>, options: Options) -> Result<Self, BadOption> {
        BadOption::unless_within("connect_ms_max", options.connect_ms_max, WAIT_MS_MAX)?;
        BadOption::unless_within("answer_ms_max", options.answer_ms_max, WAIT_MS_MAX)?;
        if options.key.is_empty() {
            return Err(BadOption::new("key", "is empty"));
        }
        if let Some(entries) = options.entries_max {
            BadOption::unless_within("entries_max", entries, u64::MAX)?;
        }
        let url = options.url.read("url")?;
        let client = Client::open(url.as_str())
            .map_err(|_| BadOption::new("url", "is no address of a Redis server"))?;
        let shown = shown(&url);
        Ok(Self { name: name.into(), options, shown, client, link: Link::new() })
    }

    async fn connect(&self) -> Result<MultiplexedConnection, Failure> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(Duration::from_millis(self.options.connect_ms_max)))
            // Bounded below, once for the whole exchange.
            .set_response_timeout(None);
        let connection = self.client.get_multiplexed_async_connection_with_config(&config).await;
        connection.map_err(|error| self.judge(&error))
    }

    async fn add(
        &self,
        mut connection: MultiplexedConnection,
        parcel: &OutgoingMessage,
    ) -> Result<(), Failure> {
        let mut add = cmd("XADD");
        add.arg(key(&self.options.key, parcel));
        if let Some(entries) = self.options.entries_max {
            add.arg("MAXLEN").arg(if self.options.entries_exact { "=" } else { "~" }).arg(entries);
        }
        add.arg("*").arg("id").arg(&parcel.id).arg("owner").arg(parcel.owner.as_str());
        add.arg("stream").arg(&parcel.stream).arg("kind").arg(&parcel.kind);
        add.arg("sent_at").arg(parcel.sent_at.to_string());
        add.arg("payload").arg(&parcel.payload[..]);
        for (name, value) in parcel.headers.iter().filter(|(name, _)| !wire::is_reserved(name)) {
            add.arg(format!("{HEADER_PREFIX}{name}")).arg(value);
        }
        let judge = |error: RedisError| self.judge(&error);
        add.exec_async(&mut connection).await.map_err(judge)?;
        let wanted = self.options.replicas_min;
        if wanted == 0 {
            return Ok(());
        }
        let mut wait = cmd("WAIT");
        wait.arg(wanted).arg(self.options.answer_ms_max / 2);
        let have: u32 = wait.query_async(&mut connection).await.map_err(judge)?;
        match have >= wanted {
            true => Ok(()),
            false => {
                let message = format!("{have} replicas have the message, and {wanted} must.");
                Err(failure(Class::Server, "redis_replicas", message))
            }
        }
    }

    fn judge(&self, error: &RedisError) -> Failure {
        let place = &self.shown;
        if error.is_timeout() {
            return failure(Class::Timeout, "timeout", format!("{place} did not answer in time."));
        }
        if error.is_io_error() || error.is_connection_dropped() {
            let message = format!("There is no connection to {place}: {error}.");
            return failure(Class::Network, "connection_lost", message);
        }
        let code = match error.kind() {
            ErrorKind::AuthenticationFailed => "redis_auth".to_owned(),
            _ => format!("redis_{}", error.code().unwrap_or("error").to_ascii_lowercase()),
        };
        failure(Class::Server, &code, format!("{place} refused the message: {error}."))
    }
}

#[async_trait]
impl Publisher for RedisPublisher {
    fn name(&self) -> &str {
        &self.name
    }

    async fn publish(&self, parcel: &OutgoingMessage) -> Result<(), Failure> {
        if let Some(failure) = too_large(parcel.payload.len(), self.options.payload_bytes_max) {
            return Err(failure);
        }
        let (number, connection) = self.link.get(|| self.connect()).await?;
        let what = format!("{} did not answer", self.shown);
        let added = within(self.options.answer_ms_max, &what, self.add(connection, parcel)).await;
        if matches!(&added, Err(failure) if !failure.class.is_answered()) {
            self.link.fail(number).await;
        }
        added
    }
}

fn key(pattern: &str, parcel: &OutgoingMessage) -> String {
    // One pass, so that a stream named `{kind}` stays itself.
    let mut key = String::with_capacity(pattern.len());
    let mut rest = pattern;
    while let Some(at) = rest.find('{') {
        key.push_str(&rest[..at]);
        rest = &rest[at..];
        let places = [
            ("{owner}", parcel.owner.as_str()),
            ("{stream}", parcel.stream.as_str()),
            ("{kind}", parcel.kind.as_str()),
        ];
        let place = places.into_iter().find(|(name, _)| rest.starts_with(name));
        let (name, value) = place.unwrap_or(("{", "{"));
        key.push_str(value);
        rest = &rest[name.len()..];
    }
    key.push_str(rest);
    key
}
