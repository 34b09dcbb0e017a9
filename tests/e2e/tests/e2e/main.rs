//! The running server, end to end.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod clients;
mod contract;
