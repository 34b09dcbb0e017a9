//! The thirteen rules of the turn, each with a case that fails without it.
//!
//! Holds throughout: a case is named after its rule's number in the design, so that a failure says
//! which rule a backend has lost.

mod concurrency;
mod lease;
mod limit;
mod line;

pub use concurrency::*;
pub use lease::*;
pub use limit::*;
pub use line::*;
