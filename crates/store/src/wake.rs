//! Waking: how an idle instance hears of work without asking all the time.
//!
//! Holds throughout: a wake is a hint. One may be missed, so whoever sleeps also looks from time to
//! time; one may come for nothing, so whoever is woken looks before it believes.

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

    /// Says that the instance sleeps and wants to be told, or that it is awake and looks by itself.
    /// Look once more after falling asleep: what was sent at that moment wakes no instance.
    async fn set_idle(&self, instance: InstanceId, asleep: bool) -> Result<()>;
}
