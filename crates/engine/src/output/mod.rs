//! Outputs: the results of a batch as two files of lines in input order, as OpenAI's batches have
//! them. Completed lines make the output; everything else, and what never ran, makes the errors.
//!
//! Holds throughout: memory does not grow with the batch; a line of the file is in exactly one of
//! the two files, once; the same batch gives the same bytes again.
//! Absent on purpose: where they are kept. [`Sink`] takes any place; `finalise` picks one.

mod line;
mod requests;
mod sink;
mod store_retry;
mod usage;
mod writer;

pub use requests::line_named;
pub use sink::{Sink, ToWrite};
pub use store_retry::StoreRetry;
pub use usage::Usage;
pub use writer::{FileTotals, Source, Written, write};

pub(crate) use line::{put_body, reported_usage};

use crate::storage;

/// Outputs that were not written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The results could not be read.
    #[error("could not read the results")]
    Store(#[from] windrow_store::Error),
    /// They could not be written.
    #[error("could not write the outputs")]
    Storage(#[from] storage::Error),
}
