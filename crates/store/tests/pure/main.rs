//! The pure parts of the contract, which every backend leans on: one binary, so that it links once.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod cursor;
mod error;
mod frozen;
mod ingest;
mod record;
mod rows;
mod summary;
mod time;
mod verify;
