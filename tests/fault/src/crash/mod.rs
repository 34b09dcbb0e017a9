//! A run that ends its own process at a chosen store call, and the journal that outlives it.

mod journal;
mod script;
mod store;

pub use journal::{Entry, Journal, read};
pub use script::{LINES, script};
pub use store::{Crashing, Cut, Side};
