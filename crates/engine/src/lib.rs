//! The engine: one service per stage, over any store that keeps the contract.
//!
//! Holds throughout: no backend is named here; every queue, retry and buffer has a bound with a
//! name; time and signals come through [`clock`] and [`signal`], so that tests never sleep.

#![warn(missing_docs)]

pub mod clock;
pub mod execute;
pub mod ingest;
pub mod options;
pub mod signal;

pub use options::Options;
