//! Recipes: what a row of a table asks for, and what is read from the answer.
//!
//! [`Recipe::parse`] reads the text of a recipe and complains of all that is wrong with it.
//! [`Recipe::render`] makes the request of a row, [`Recipe::judge`] makes columns of its answer.
//!
//! In the order of the work: `source` (TOML with places), `names` and `grammar` (what an expression
//! uses), `expression` and `template` (compiled), `parse` and `parse_try` (the recipe), `context` (the
//! names of a row), `path`, `body` and `chat` (the request), `judgement` (the answer).
//!
//! Holds throughout: pure. No I/O, no clock, no random source: the same row gives the same request.
//! Every text, list and step of a row has a bound (`budget`).
//! Absent on purpose: reading files (the engine cuts and reads rows), sending, storing.

#![warn(missing_docs)]

mod allow;
mod answer;
mod body;
mod budget;
mod chat;
mod complaint;
mod context;
mod describe;
mod expression;
mod fault;
mod filters;
mod flags;
mod grammar;
mod json;
mod judgement;
mod names;
mod parse;
mod parse_try;
mod path;
mod print;
mod recipe;
mod schema;
mod settings;
mod source;
mod table;
mod template;

pub use allow::Allow;
pub use complaint::{Complaint, Complaints};
pub use context::Meta;
pub use fault::{ROW_INCOMPLETE, ROW_INVALID, ROW_TOO_LARGE, RowFault};
pub use filters::{FILTERS, Filter, TESTS, Test};
pub use flags::Flags;
pub use judgement::Judgement;
pub use names::RESERVED;
pub use parse::RECIPE_BYTES_MAX;
pub use recipe::{Answer, Recipe, Request};
pub use schema::json_schema;
pub use settings::{Format, Input, RetryBounds, Show};
pub use table::{Cell, Columns, Image, ImageData, Row};
