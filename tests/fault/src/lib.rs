//! Faults under test: the fixture they happen on, the programs they happen to, and the check that
//! every test ends with.
//!
//! Holds throughout: whatever is started here ends with its owner; every wait has a bound, and what
//! runs out of time says in which state the batch was.
//! Absent on purpose: sleeping for luck. A fault strikes when a state is reached: so many requests
//! seen, so many lines finished.

#![warn(missing_docs)]
#![expect(
    clippy::disallowed_methods,
    reason = "the bench polls other processes in real time; no code under test lives here"
)]

pub mod check;
pub mod crash;
pub mod fixture;
pub mod input;
pub mod instance;
pub mod program;
pub mod raw;
pub mod stored;
pub mod wait;

pub use fixture::{Backend, Fixture};
pub use program::Program;

/// Set by `cargo xtask test --long`: more rounds, more lines.
pub const LONG: &str = "WINDROW_FAULT_LONG";

/// `short` in the normal test command, `long` with `--long`.
pub fn rounds<T>(short: T, long: T) -> T {
    if std::env::var_os(LONG).is_some() { long } else { short }
}
