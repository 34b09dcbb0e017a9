//! The pure core of Windrow: what the words mean, with no I/O, no clock and no random source.
//!
//! Holds throughout: every function is total over its input and returns the same value for the
//! same arguments. Time and randomness come in as arguments.
//! Absent on purpose: async, databases, HTTP; see `windrow-store` and `windrow-engine`.

#![warn(missing_docs)]
#![warn(clippy::wildcard_enum_match_arm)]

pub mod attempt;
pub mod backoff;
pub mod batch;
pub mod call;
pub mod control;
pub mod duration;
pub mod event;
pub mod ids;
pub mod key;
pub mod lane;
pub mod lease;
pub mod lines;
pub mod message;
mod options;
pub mod output;
pub mod partition;
pub mod retry;
pub mod strategy;
pub mod suggest;
pub mod text;
pub mod upstream;

pub use batch::{Ending, State};
pub use call::{CallState, CrashPolicy};
pub use duration::millis;
pub use event::Expected;
pub use ids::{
    AuditEntryId, BatchId, DeadLetterId, FileId, InstanceId, KeyId, LaneNo, LeaseId, Owner,
    RequestId, Stream, Target,
};
pub use key::Role;
pub use lane::{Counts, Phase};
pub use lease::{Lease, LeaseProof};
pub use lines::LineSet;
pub use message::Queue;
pub use output::OutputKind;
pub use partition::PartitionNo;
pub use upstream::{Route, UpstreamId};
