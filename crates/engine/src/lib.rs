//! The engine: one service per stage, over any store that keeps the contract.
//!
//! Holds throughout: no backend is named here; every queue, retry and buffer has a bound with a
//! name; time and signals come through [`clock`] and [`signal`], so that tests never sleep.

#![warn(missing_docs)]

pub mod bounded_map;
pub mod clock;
mod daemon;
pub mod deliver;
pub mod execute;
pub mod export;
pub mod finalise;
mod http;
pub mod ingest;
pub mod json;
mod maintenance;
mod member;
pub mod messages;
pub mod options;
pub mod output;
mod process_load;
mod progress;
mod retry;
pub mod signal;
pub mod storage;
mod sweep;
mod worker;

/// Needed to implement the handler traits of [`messages`].
pub use async_trait::async_trait;
pub use daemon::{Builder, Engine, Event, Handle, Report, Running, Until};
pub use options::Options;
pub use progress::{Progress, TargetProgress};
