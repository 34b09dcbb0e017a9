//! Delivering: a message of the outbox goes to a webhook or a broker, and what brokers bring in
//! goes to the inbox.
//!
//! Holds throughout: a publisher says "done" only when the other side has the message for good; it
//! may send a message twice and never changes the order of two that are given to it one after the
//! other; a refused, slow or missing receiver is data (a [`Failure`]), never an error that climbs.
//! Absent on purpose: retries and order per stream, which are the message runner's; clients of
//! brokers, which live in a crate of their own so that this one stays light.

mod inbox;
mod route;
pub mod webhook;

use std::collections::BTreeMap;

use async_trait::async_trait;
use bytes::Bytes;
use jiff::Timestamp;
use windrow_domain::Owner;
use windrow_domain::attempt::Failure;

pub use crate::http::secret::{BadOption, Secret, shown};
pub use crate::http::signature;
pub use inbox::{Inbox, IncomingMessage};
pub use route::{NameTwice, Pattern, Patterns, Route, Routes};

/// One message on its way out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutgoingMessage {
    /// The same at every attempt: receivers know repeats by it.
    pub id: String,
    /// The owner of the message.
    pub owner: Owner,
    /// The stream it belongs to; messages of one stream arrive in order.
    pub stream: String,
    /// What it is about: `batch.completed`.
    pub kind: String,
    /// Its exact bytes.
    pub payload: Bytes,
    /// What its sender said about it.
    pub headers: BTreeMap<String, String>,
    /// When it was sent.
    pub sent_at: Timestamp,
    /// Which attempt this is, from 1.
    pub attempt: u32,
}

/// Takes messages to one place outside.
#[async_trait]
pub trait Publisher: Send + Sync + 'static {
    /// Its name, which is also the name of the consumer that the message waits for.
    fn name(&self) -> &str;

    /// Sends; `Ok` when the other side has it durably. At least once: the receiver knows repeats by
    /// the id. Whether a failure counts as an attempt is said by [`Failure::is_unavailable`].
    async fn publish(&self, message: &OutgoingMessage) -> Result<(), Failure>;
}
