//! Brokers: publishers that take the outbox to NATS, Redis and RabbitMQ, consumers that bring
//! messages from NATS and RabbitMQ to the inbox.
//!
//! Holds throughout: a publisher says "done" when the broker said so; a consumer acknowledges when
//! the inbox has the message; every wait has a bound; a broker that is stopped and started again
//! loses nothing, though it may bring something twice; addresses and keys show themselves nowhere.

#![warn(missing_docs)]

mod connection;
mod consumer;
mod feeder;
mod headers;
pub mod nats;
pub mod rabbitmq;
pub mod redis;
pub mod status_cache;
mod subject;
