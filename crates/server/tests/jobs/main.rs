//! The jobs API over a real store and a real listener.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod control;
mod create;
mod delete;
mod disconnect;
mod events;
mod export;
mod front;
mod harness;
mod items;
mod keys;
mod limits;
mod metrics;
mod owners;
#[path = "../support/mod.rs"]
mod support;
