//! Pages: lists of files and batches that begin behind an object, and the page of pending lines.
//!
//! Holds throughout: pages of any size join to the same list, and nothing is skipped or shown twice while
//! lines move.

mod lists;
mod pending;

pub use lists::*;
pub use pending::*;
