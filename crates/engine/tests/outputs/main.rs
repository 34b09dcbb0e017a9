//! What becomes of results: outputs, closings, storages and exports, on the embedded store.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod export;
mod files;
mod finalise;
mod races;
mod storage;
mod support;
