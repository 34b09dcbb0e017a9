//! The way in: what consumers of brokers hand to the inbox.

use std::collections::BTreeMap;

use async_trait::async_trait;
use bytes::Bytes;

/// A message that came from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IncomingMessage {
    /// The same at every delivery of it.
    pub id: String,
    /// The stream it belongs to.
    pub stream: String,
    /// What it is about.
    pub kind: String,
    /// Its exact bytes.
    pub payload: Bytes,
    /// What its sender said about it.
    pub headers: BTreeMap<String, String>,
}

/// Takes messages in.
///
/// `Ok` means that all of them are stored for good, and only then are they acknowledged. The same
/// message may be given again, in other company; the inbox knows it by its id. An error takes none
/// of them. The kinds `Invalid` and `Conflict` say that a message can never be taken; everything
/// else is tried again.
#[async_trait]
pub trait Inbox: Send + Sync + 'static {
    /// Stores messages in the order given.
    async fn accept(&self, arrived: Vec<IncomingMessage>) -> Result<(), windrow_store::Error>;
}
