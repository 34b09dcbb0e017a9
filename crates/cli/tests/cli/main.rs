//! The binary as people use it, on SQLite (roles: PostgreSQL) and against a scripted upstream: what it
//! prints, what it leaves behind, and how it ends.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod batches;
mod calls;
mod cancelled;
mod config;
mod demo;
mod files;
mod frozen;
mod grants;
mod hints;
mod inputs;
mod late;
mod messages;
mod moved;
mod readme;
mod recipe;
mod results;
mod run;
mod same_run;
mod same_url;
mod saying;
mod snapshots;
mod stop;
mod support;
mod upstream;
mod work;
