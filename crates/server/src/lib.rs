//! The HTTP edge: OpenAI's files and batches, the jobs API, owners and keys.
//!
//! Holds throughout: what a caller may see is bound inside the query; every refusal has one shape;
//! nothing that comes in is held whole in memory; no line chooses a host.
//! Absent on purpose: which database, and where targets are: the binary picks both.

#![warn(missing_docs)]

mod app;
mod audit_log;
pub mod auth;
mod describe;
mod download;
pub mod error;
mod extract;
mod fit;
mod form;
mod intake;
mod messages;
pub mod metrics;
mod openai;
mod ops;
pub mod options;
mod parts;
mod patience;
mod places;
mod range;
mod rest;
pub mod secret;
mod serve;
pub mod shared;
pub mod tls;
mod trace;
mod wire;

pub use app::{App, Inner, Parts, Routes, Unserved, openapi};
pub use messages::Messages;
pub use metrics::Metrics;
pub use options::Options;
