//! The API of messages over a real store, a real runner and a real listener.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod calls;
mod dead_letters;
mod events;
mod harness;
mod invalid_requests;
mod owners;
mod send;
mod snapshots;
#[path = "../support/mod.rs"]
mod support;
