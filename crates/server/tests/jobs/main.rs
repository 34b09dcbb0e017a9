//! The jobs API over a real store and a real listener.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod create;
mod crowd;
mod desk;
mod events;
mod export;
mod gone;
mod items;
mod keys;
#[path = "../kit/mod.rs"]
mod kit;
mod owners;
mod steer;
