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
use windrow_domain::attempt::Failure;
use windrow_engine::deliver::{BadOption, OutgoingMessage, Publisher, Secret, shown};

use crate::connection::{SharedConnection, timed_out, too_large, within};
use crate::headers;

/// Longest wait that an option can ask for.
const WAIT_MS_MAX: u64 = 10 * 60 * 1000;
/// What stands before the name of a header among the fields of an entry.
const HEADER_PREFIX: &str = "header:";

windrow_domain::options! {
    /// Where Redis is, and how to write to it.
    #[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    pub struct Options {
        /// `redis://[account:password@]host[:port][/database]`, `rediss://` with TLS.
        url: Secret = Secret::from("redis://127.0.0.1:6379"),
        /// The key of the Redis stream. `{owner}`, `{stream}` and `{kind}` are replaced.
        key: String = "windrow:messages".to_owned(),
        /// About how many entries a Redis stream keeps; none for all.
        entries_max: Option<u64> = None,
        /// Keeps exactly that many, which costs Redis more.
        entries_exact: bool = false,
        /// Replicas that must have an entry before it counts as published.
        replicas_min: u32 = 0,
        /// Longest wait for a connection.
        connect_ms_max: u64 = 5_000,
        /// Longest wait for an answer, and for replicas.
        answer_ms_max: u64 = 5_000,
        /// Longest message that is sent.
        payload_bytes_max: u64 = 4 << 20,
    }
}

/// Publishes to Redis.
#[derive(Debug)]
pub struct RedisPublisher {
    name: String,
    options: Options,
    shown: String,
    client: Client,
    connection: SharedConnection<MultiplexedConnection>,
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
        Ok(Self { name: name.into(), options, shown, client, connection: SharedConnection::new() })
    }

    async fn connect(&self) -> Result<MultiplexedConnection, Failure> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(Duration::from_millis(self.options.connect_ms_max)))
            // Bounded below, once for the whole exchange.
            .set_response_timeout(None);
        let connection = self.client.get_multiplexed_async_connection_with_config(&config).await;
        connection.map_err(|error| self.classify(&error))
    }

    async fn add(
        &self,
        mut connection: MultiplexedConnection,
        message: &OutgoingMessage,
    ) -> Result<(), Failure> {
        let mut add = cmd("XADD");
        add.arg(key(&self.options.key, message));
        if let Some(entries) = self.options.entries_max {
            add.arg("MAXLEN").arg(if self.options.entries_exact { "=" } else { "~" }).arg(entries);
        }
        add.arg("*").arg("id").arg(&message.id).arg("owner").arg(message.owner.as_str());
        add.arg("stream").arg(&message.stream).arg("kind").arg(&message.kind);
        add.arg("sent_at").arg(message.sent_at.to_string());
        add.arg("payload").arg(&message.payload[..]);
        for (name, value) in message.headers.iter().filter(|(name, _)| !headers::is_reserved(name))
        {
            add.arg(format!("{HEADER_PREFIX}{name}")).arg(value);
        }
        let classify = |error: RedisError| self.classify(&error);
        add.exec_async(&mut connection).await.map_err(classify)?;
        let wanted = self.options.replicas_min;
        if wanted == 0 {
            return Ok(());
        }
        let mut wait = cmd("WAIT");
        wait.arg(wanted).arg(self.options.answer_ms_max / 2);
        let have: u32 = wait.query_async(&mut connection).await.map_err(classify)?;
        if have >= wanted {
            return Ok(());
        }
        let message = format!("{have} replicas have the message, and {wanted} must.");
        Err(Failure::retryable("redis_replicas", message).with_unavailable(true))
    }

    fn classify(&self, error: &RedisError) -> Failure {
        let place = &self.shown;
        if error.is_timeout() {
            return timed_out(format!("{place} did not answer in time."));
        }
        if error.is_io_error() || error.is_connection_dropped() {
            let message = format!("There is no connection to {place}: {error}.");
            return Failure::unavailable("connection_lost", message);
        }
        let code = match error.kind() {
            ErrorKind::AuthenticationFailed => "redis_auth".to_owned(),
            _ => format!("redis_{}", error.code().unwrap_or("error").to_ascii_lowercase()),
        };
        let unavailable = is_not_ready(&code);
        Failure::retryable(code, format!("{place} refused the message: {error}."))
            .with_unavailable(unavailable)
    }
}

#[async_trait]
impl Publisher for RedisPublisher {
    fn name(&self) -> &str {
        &self.name
    }

    async fn publish(&self, message: &OutgoingMessage) -> Result<(), Failure> {
        if let Some(failure) = too_large(message.payload.len(), self.options.payload_bytes_max) {
            return Err(failure);
        }
        let (number, connection) = self.connection.get(|| self.connect()).await?;
        let what = format!("{} did not answer", self.shown);
        let added = within(self.options.answer_ms_max, &what, self.add(connection, message)).await;
        if matches!(&added, Err(failure) if !failure.class.is_answered()) {
            self.connection.fail(number).await;
        }
        added
    }
}

/// Whether Redis says that it cannot take anything now: it reads its files, has no master, no replicas or
/// no room.
fn is_not_ready(code: &str) -> bool {
    matches!(
        code,
        "redis_busy"
            | "redis_clusterdown"
            | "redis_loading"
            | "redis_masterdown"
            | "redis_noreplicas"
            | "redis_oom"
            | "redis_readonly"
            | "redis_tryagain"
    )
}

fn key(pattern: &str, message: &OutgoingMessage) -> String {
    // One pass, so that a stream named `{kind}` stays itself.
    let mut key = String::with_capacity(pattern.len());
    let mut rest = pattern;
    while let Some(at) = rest.find('{') {
        key.push_str(&rest[..at]);
        rest = &rest[at..];
        let places = [
            ("{owner}", message.owner.as_str()),
            ("{stream}", message.stream.as_str()),
            ("{kind}", message.kind.as_str()),
        ];
        let place = places.into_iter().find(|(name, _)| rest.starts_with(name));
        let (name, value) = place.unwrap_or(("{", "{"));
        key.push_str(value);
        rest = &rest[name.len()..];
    }
    key.push_str(rest);
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_not_ready_is_unavailable_and_one_that_refuses_is_not() {
        let publisher = RedisPublisher::new("it", Options::default()).unwrap();
        for (code, unavailable) in [
            ("BUSY", true),
            ("CLUSTERDOWN", true),
            ("LOADING", true),
            ("MASTERDOWN", true),
            ("NOREPLICAS", true),
            ("OOM", true),
            ("READONLY", true),
            ("TRYAGAIN", true),
            ("WRONGTYPE", false),
            ("NOPERM", false),
        ] {
            let error = redis::make_extension_error(code.to_owned(), Some("it says".to_owned()));
            let failure = publisher.classify(&error);
            assert_eq!(failure.code, format!("redis_{}", code.to_ascii_lowercase()));
            assert_eq!(failure.is_unavailable(), unavailable, "{code}");
        }
        assert!(timed_out("late".to_owned()).is_unavailable());
    }
}
