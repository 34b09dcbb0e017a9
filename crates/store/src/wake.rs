//! Waking: how an idle instance hears of work without asking all the time.
//!
//! Holds throughout: a wake is a hint. One may be missed, so an idle instance also polls from time
//! to time; one may come for nothing, so an instance that is woken reads before it relies on it.

use async_trait::async_trait;
use futures_util::stream::BoxStream;
use windrow_domain::{InstanceId, PartitionNo};

use crate::Result;
use crate::call::CallKey;

/// What an instance is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wake {
    /// These partitions have new messages; none are named when it may be any.
    Work(Vec<PartitionNo>),
    /// A call that it waits for has its answer.
    Answered(CallKey),
}

/// How instances wake each other.
#[async_trait]
pub trait Wakes {
    /// What an instance is told from now on. Ends when the way to the database is lost: listen again.
    /// Where a backend has no way to tell, nothing ever comes.
    async fn listen(&self, instance: InstanceId) -> Result<BoxStream<'static, Wake>>;

    /// Stores that the instance is idle and wants to be notified, or that it is busy and reads by
    /// itself. The caller reads once more after it became idle: a message that was sent just before
    /// wakes no instance.
    async fn set_idle(&self, instance: InstanceId, asleep: bool) -> Result<()>;
}
