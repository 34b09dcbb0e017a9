//! The HTTP edge: OpenAI's files and batches, the jobs API, owners and keys.
//!
//! Holds throughout: what a caller may see is bound inside the query; every refusal has one shape;
//! nothing that comes in is held whole in memory; no line chooses a host.
//! Absent on purpose: which database, and where targets are: the binary picks both.

#![warn(missing_docs)]

mod admission;
pub mod api_key;
mod app;
mod audit_log;
pub mod auth;
mod body_timeout;
mod download;
mod endpoint_check;
pub mod error;
mod extract;
mod freshness_cache;
mod health;
mod io_timeout;
mod messages;
pub mod metrics;
mod openai;
mod openapi;
pub mod options;
mod pages;
mod params;
mod range;
mod rest;
mod serve;
mod sse;
pub mod throttled_executor;
pub mod tls;
mod trace;
mod upload;

pub use app::{App, Parts, Routes, Unserved, openapi};
pub use messages::Messages;
pub use metrics::Metrics;
pub use options::Options;
