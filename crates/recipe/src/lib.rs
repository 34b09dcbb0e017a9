//! Recipes: what a row of a table asks for, and what is read from the answer.
//!
//! Holds throughout: pure. No I/O, no clock, no random source: the same row gives the same request.
//! Absent on purpose: reading files (the engine cuts and reads rows), sending, storing.

#![warn(missing_docs)]

mod table;

pub use table::{Cell, Columns, Image, ImageData, Row};
