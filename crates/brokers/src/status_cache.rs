//! The status of closed batches in Redis, for programs that ask often and have no key of the API.
//!
//! Holds throughout: a status is written after the closing was committed, under one key for each batch, and
//! is gone after its time; whether Redis has it changes nothing for the batch.
//! Absent on purpose: reading it back. The database knows; a batch that is reprocessed has its old status here
//! until it is closed again.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, RedisError, cmd};
use serde::Deserialize;
use windrow_domain::attempt::Failure;
use windrow_engine::deliver::{BadOption, Secret, shown};
use windrow_store::batch::Batch;

use crate::connection::{SharedConnection, within};

/// Longest wait that an option can ask for.
const WAIT_MS_MAX: u64 = 60 * 1000;
/// Longest time that a status is kept: ten years.
const TTL_SECS_MAX: u64 = 10 * 366 * 24 * 3600;

windrow_domain::options! {
    /// Where Redis is, and how long a status is kept there.
    #[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    pub struct Options {
        /// `redis://[account:password@]host[:port][/database]`, `rediss://` with TLS.
        redis: Secret = Secret::from("redis://127.0.0.1:6379"),
        /// What stands before the id of a batch in its key.
        key_prefix: String = "windrow:batch:".to_owned(),
        /// How long a status is kept, in seconds.
        ttl_secs: u64 = 24 * 3600,
        /// Longest wait for a connection.
        connect_ms_max: u64 = 2_000,
        /// Longest wait for an answer.
        answer_ms_max: u64 = 2_000,
    }
}

/// Writes the status of closed batches to Redis.
#[derive(Debug)]
pub struct StatusWriter {
    options: Options,
    shown: String,
    client: Client,
    connection: SharedConnection<MultiplexedConnection>,
}

impl StatusWriter {
    /// Reads the options. The connection is made with the first status.
    pub fn new(options: Options) -> Result<Self, BadOption> {
        BadOption::unless_within("connect_ms_max", options.connect_ms_max, WAIT_MS_MAX)?;
        BadOption::unless_within("answer_ms_max", options.answer_ms_max, WAIT_MS_MAX)?;
        BadOption::unless_within("ttl_secs", options.ttl_secs, TTL_SECS_MAX)?;
        let url = options.redis.read("redis")?;
        let client = Client::open(url.as_str())
            .map_err(|_| BadOption::new("redis", "is no address of a Redis server"))?;
        let shown = shown(&url);
        Ok(Self { options, shown, client, connection: SharedConnection::new() })
    }

    /// Writes a status. A failure is logged and forgotten: the database has it.
    pub async fn write(&self, batch: &Batch) {
        if let Err(failure) = self.put(batch).await {
            let error = failure.message;
            tracing::warn!(batch.id = %batch.id, error, "the status of a batch was not written to Redis");
        }
    }

    async fn put(&self, batch: &Batch) -> Result<(), Failure> {
        let status = serde_json::to_string(batch)
            .map_err(|error| Failure::permanent("no_json", error.to_string()))?;
        let what = format!("{} did not answer", self.shown);
        let (number, mut connection) = self.connection.get(|| self.connect()).await?;
        let mut set = cmd("SET");
        set.arg(format!("{}{}", self.options.key_prefix, batch.id)).arg(status);
        set.arg("EX").arg(self.options.ttl_secs);
        let written =
            async { set.exec_async(&mut connection).await.map_err(|error| self.failure(&error)) };
        let written = within(self.options.answer_ms_max, &what, written).await;
        if written.is_err() {
            self.connection.fail(number).await;
        }
        written
    }

    async fn connect(&self) -> Result<MultiplexedConnection, Failure> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(Duration::from_millis(self.options.connect_ms_max)))
            // Bounded by whoever asks.
            .set_response_timeout(None);
        let connection = self.client.get_multiplexed_async_connection_with_config(&config).await;
        connection.map_err(|error| self.failure(&error))
    }

    fn failure(&self, error: &RedisError) -> Failure {
        Failure::unavailable("redis", format!("{}: {error}", self.shown))
    }
}
