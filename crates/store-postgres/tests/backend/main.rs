//! What only PostgreSQL can get wrong: servers that go away, plans, statements, upgrades.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod app;
mod calls;
mod faults;
mod frozen;
mod messages;
mod missed;
mod network;
mod overlap;
mod planned;
mod plans;
mod statements;
mod support;
mod upgrade;
mod upstreams;
mod verbs;
