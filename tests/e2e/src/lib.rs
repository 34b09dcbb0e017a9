//! The running server under test: how it is started, what answers its requests, and those who call it.
//!
//! Holds throughout: the server is the shipped binary on a port that the system chose; what is started
//! ends with its owner; every wait is for a state and has a bound.
//! Absent on purpose: a client of our own for the contract. The official ones say what it means; what
//! they cannot say wrongly enough goes over a plain socket.

#![warn(missing_docs)]

pub mod client;
pub mod s3;
pub mod server;
pub mod upstream;

pub use server::Server;
pub use windrow_fault::raw;
