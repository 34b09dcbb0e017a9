//! Messages, from the client through handlers to what is committed, on the embedded store.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod calls;
mod commits;
mod failures;
mod http;
mod idle;
mod kit;
mod members;
mod outbox;
mod own;
mod storm;
mod suspects;
mod watched;
