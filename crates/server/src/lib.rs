//! The HTTP server: OpenAI's files and batches, the jobs API, the messages API, owners and API keys.
//!
//! The modules, in the order in which a request passes:
//!
//! | where | what |
//! |---|---|
//! | [`App`] (`app/`), [`options`], `serve`, `tls`, `io_timeout` | the application and its configuration; accepts connections, bounds them, and stops gracefully |
//! | `trace`, `metrics/` | the id and the log line of a request; numbers for Prometheus |
//! | [`auth`], [`api_key`], `admission` | the caller of a request, its rate, and how much may run at the same time |
//! | `query_check`, `extract`, `params`, `pages`, `sse`, `freshness_cache` | what the APIs read, refuse, answer and stream the same way |
//! | `openai/`, `rest/`, `messages/` | the three APIs: `/v1` files and batches, `/api` jobs, `/v1` messages |
//! | `upload/`, `body_timeout`, `endpoint_check` | files that come in, and whether their lines can be run |
//! | `download`, `range` | files that go out |
//! | [`error`] | the shape of every error, and every code |
//! | `audit_log` | the notes of which caller did what to a batch, written by the jobs API and by OpenAI's |
//! | `openapi/`, `health` | the description of all that at `/openapi.json` and `/docs`; `/healthz` and `/readyz` |
//! | [`throttled_executor`] | one limit per target for the worker and every kickoff of this process |
//!
//! Holds throughout: what a caller may see is part of the query; every error has one shape and a code
//! from one list; no file is held whole in memory; no line chooses a host.
//! Absent on purpose: the choice of a database and the addresses of targets, which are the binary's.

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
mod query_check;
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
