//! The engine: one service per stage, over any store that keeps the contract.
//!
//! Holds throughout: no backend is named here; every queue, retry and buffer has a bound with a
//! name; time and signals come through [`clock`] and [`signal`], so that tests move a clock instead
//! of sleeping (a few tests of messages do wait for real time).
//!
//! Modules that are hidden here are for Windrow's own crates and tests; they change without notice.

#![warn(missing_docs)]

#[doc(hidden)]
pub mod bounded_map;
pub mod clock;
mod daemon;
pub mod deliver;
pub mod execute;
pub mod export;
#[doc(hidden)]
pub mod finalise;
mod http;
pub mod ingest;
#[doc(hidden)]
pub mod jitter;
#[doc(hidden)]
pub mod json;
#[doc(hidden)]
pub mod line_history;
mod liveness;
mod maintenance;
mod member;
pub mod messages;
pub mod options;
#[doc(hidden)]
pub mod output;
pub mod pictures;
mod process_load;
mod progress;
mod retry;
pub mod row_job;
pub mod rows;
pub mod signal;
pub mod storage;
mod sweep;
mod upstream_check;
mod worker;

/// Needed to implement the handler traits of [`messages`].
pub use async_trait::async_trait;
pub use daemon::{Builder, Engine, EngineEvent, Handle, Report, Running, Until};
/// What closing a batch leaves: its outputs and its summary.
pub use finalise::{OutputFile, Summary};
/// Where a member of a database keeps its outputs, as its metadata say.
pub use member::storage_of;
pub use options::Options;
pub use progress::{Progress, TargetProgress};
