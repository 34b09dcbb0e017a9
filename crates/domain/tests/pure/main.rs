//! The domain as tables and properties: one binary, so that it links once.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod attempt;
mod batch;
mod control;
mod frozen;
mod ids;
mod key;
mod lane;
mod lease;
mod lines;
mod output;
mod retry;
mod upstream;
