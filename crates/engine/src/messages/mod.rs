//! Messages: partitions → handlers → commits.
//!
//! A [`Runner`] owns its share of the partitions, reads the messages that wait there, gives them to handlers
//! ([`Object`], [`Consumer`], [`http`]) and publishers ([`crate::deliver`]), and commits their effects
//! together with the end of each message. A [`Client`] sends messages, submits calls and waits for answers.
//!
//! A call passes these files, in this order:
//!
//! | stage | file | what happens |
//! |---|---|---|
//! | submit | `client/` | the client stores the call and waits (`client/waiters.rs`) |
//! | notice | `listener.rs`, `notifier.rs` | its partition is marked dirty, by a notification or a poll |
//! | read | `read_planner.rs` | the event loop reads what is new in its partitions |
//! | admit | `queue/` | the message joins the queue of its stream in memory |
//! | start | `event_loop/start.rs`, `handler/registry.rs` | its head is due: a handler is found, the state loaded (`state_cache.rs`) |
//! | run | `run/` | the handler runs: plain, in a transaction of its own, or as publishers |
//! | judge | `outcome/policy.rs`, `availability.rs` | its result becomes a pending commit: done, retry, given up; outages are remembered |
//! | commit | `event_loop/commits.rs`, `commit.rs`, `stream_backoff.rs` | many pending commits become one transaction |
//! | settle | `event_loop/settle.rs` | the stream goes on with its next message |
//! | answer | `client/waiters.rs`, `listener.rs` | the waiting client gets the answer |
//!
//! Beside it: `runner.rs` starts and `running.rs` stops everything, `membership.rs` takes and gives back partitions
//! (`event_loop/commands.rs`), `long_calls.rs` reports calls that run for long, `maintenance.rs` removes what
//! is not needed any more, `gauges.rs` counts.
//!
//! Holds throughout: messages of a stream run one after another, in the order in which they were
//! committed, through failures and crashes; what a handler returns takes effect exactly once, and what
//! it does besides at least once; no handler's code runs inside a transaction unless it asked for one
//! ([`Transactional`], [`TransactionalConsumer`]); a message that fails holds up its own stream and
//! nothing else, until it succeeds or is given up on.
//! Absent on purpose: the meaning of reads, commits and fences, which is the store's.

mod availability;
mod client;
mod commit;
mod event_loop;
mod gauges;
mod handler;
pub mod http;
mod listener;
mod long_calls;
mod maintenance;
mod membership;
mod notifier;
mod options;
mod outcome;
mod queue;
mod read_planner;
mod run;
mod runner;
mod running;
mod state_cache;
mod stream_backoff;

pub use client::{
    Ask, AskError, CallOutcome, CallRequest, CallWait, Client, ClientError, ObjectRef, OwnerInbox,
    call_wait,
};
pub use gauges::Gauges;
pub use handler::{
    Consumer, Context, Effects, HandlerError, Object, OrPermanent, StateChange, Transactional,
    TransactionalConsumer, Typed, TypedTransactional,
};
pub use options::{Options, Unrouted};
pub use runner::{Builder, Runner};
pub use running::{Handle, Running};
