//! Messages: partitions → handlers → commits.
//!
//! A [`Runner`] owns its share of the partitions, reads what waits there, gives it to handlers
//! ([`Object`], [`Consumer`], [`http`]) and publishers ([`crate::deliver`]), and commits what they
//! return together with the end of each message. A [`Client`] sends, asks and waits.
//!
//! Holds throughout: messages of a stream run one after another, in the order in which they were
//! committed, through failures and crashes; what a handler returns takes effect exactly once, and what
//! it does besides at least once; no handler's code runs inside a transaction unless it asked for one
//! ([`Transactional`], [`TransactionalConsumer`]); a message that fails holds up its own stream and
//! nothing else, until it succeeds or is given up on.
//! Absent on purpose: the meaning of reads, commits and fences, which is the store's.

mod actor;
mod attempt;
mod away;
mod board;
mod client;
mod commit;
mod contended;
mod context;
mod ear;
mod entry;
mod gauges;
mod handler;
pub mod http;
mod listening;
mod membership;
mod options;
mod reading;
mod registry;
mod runner;
mod running;
mod shared;
mod states;
mod transactional;
mod typed;
mod upkeep;

pub use client::{Client, ClientError, Outcome, OwnerInbox, message};
pub use context::Context;
pub use gauges::Gauges;
pub use handler::{
    Consumer, Effects, HandlerError, InTransaction, Object, StateChange, Transactional,
    TransactionalConsumer,
};
pub use options::{Options, Unrouted};
pub use runner::{Builder, Runner};
pub use typed::{AsObject, Typed};
