//! The engine: one service per stage, over any store that keeps the contract.
//!
//! Holds throughout: no backend is named here; every queue, retry and buffer has a bound with a
//! name. Absent on purpose, until their stages are built: execute, record, finalise, sweep.

#![warn(missing_docs)]

mod clock;
pub mod ingest;
