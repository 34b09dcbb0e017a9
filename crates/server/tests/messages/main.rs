//! The API of messages over a real store, a real runner and a real listener.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod calls;
mod dead;
mod desk;
mod events;
#[path = "../kit/mod.rs"]
mod kit;
mod owners;
mod send;
mod wrong;
