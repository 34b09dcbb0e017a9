//! The messages of one stream, in order.

use std::collections::VecDeque;
use std::sync::Arc;

use windrow_domain::PartitionNo;
use windrow_store::message::Message;

/// The messages of one stream that are in memory.
#[derive(Debug)]
pub(crate) struct StreamQueue {
    pub(crate) partition: PartitionNo,
    pub(crate) waiting: VecDeque<Arc<Message>>,
    /// The last position that was read.
    pub(crate) last: u64,
    /// The head that the database said is due.
    pub(crate) due: u64,
    pub(crate) busy: bool,
    /// Its head runs while no other such head runs.
    pub(crate) alone: bool,
    /// The beginning of the head's attempt is stored.
    pub(crate) marked: bool,
    /// The database may have more of it.
    pub(crate) more: bool,
}

/// What a message weighs in memory.
pub(crate) fn size(message: &Message) -> usize {
    // Names and headers count a little, too, so that empty messages are not free.
    message.payload.len() + 512
}
