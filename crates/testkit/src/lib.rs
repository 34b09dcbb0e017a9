//! The test bench: throw-away servers, databases cloned for one test, a network and an upstream that
//! misbehave.
//!
//! Holds throughout: whatever is started here is stopped and removed, also when the test panics or
//! the process is killed (see `process::Keeper`).
//! Absent on purpose: schemas and stores. A test passes its own migration in, so this crate stays
//! below every store.

#![warn(missing_docs)]
#![expect(
    clippy::disallowed_methods,
    reason = "the bench measures real time and runs its own tasks; no code under test lives here"
)]

pub mod broker;
mod failure;
pub mod kept;
pub mod pgbouncer;
pub mod postgres;
pub mod process;
pub mod programs;
#[cfg(feature = "net")]
pub mod proxy;
pub mod require;
#[cfg(feature = "net")]
pub mod upstream;

pub use failure::Failure;
pub use require::required;
