//! Pages: lists of files and batches that begin behind an object, the page of pending lines, and
//! that of all rows.
//!
//! Holds throughout: pages of any size join to the same list, and nothing is skipped or shown twice while
//! lines move.

mod lists;
mod pending;
mod rows;

pub use lists::*;
pub use pending::*;
pub use rows::*;
