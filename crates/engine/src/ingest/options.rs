//! The bounds of an ingest, each with a name.

use std::time::Duration;

use windrow_domain::lane::LANES_MAX;
use windrow_domain::millis;
use windrow_domain::retry::Policy;
use windrow_store::ingest::{CHUNK_BYTES_MAX, CHUNK_LINES_MAX};

windrow_domain::options! {
    /// The bounds of an ingest: what it takes, holds and retries. Peak memory is about
    /// `4 × chunk_bytes_max + 4 × block_bytes + duplicates_bytes_max`, and a longest line more.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Options {
        /// Longest line that may be a request, with its ending. A longer one is an error, and its
        /// bytes are kept in pieces.
        line_bytes_max: usize = 16 << 20,
        /// Most requests of a file.
        lines_max: u64 = 100_000_000,
        /// Largest file; a larger one is not kept at all.
        file_bytes_max: u64 = 1 << 40,
        /// Most different targets of a file.
        lanes_max: usize = LANES_MAX,
        /// Pieces of the first chunk, and the fewest that a full one has (`INGEST_MIN_ROWS`).
        /// Chunks grow from here as the store allows.
        rows_min: usize = 64,
        /// Most pieces of one chunk, which is one transaction (`INGEST_MAX_ROWS`).
        chunk_lines_max: usize = 16_384,
        /// Most bytes of one chunk; a longer line has a chunk to itself (`INGEST_MAX_BATCH_BYTES`).
        chunk_bytes_max: usize = 4 << 20,
        /// Chunks that take the store this long are large enough (`DB_P50_MS`).
        db_p50: Duration = Duration::from_millis(50),
        /// Chunks that take the store longer are too large (`DB_P95_MS`).
        db_p95: Duration = Duration::from_millis(250),
        /// Bytes read at a time.
        block_bytes: usize = 1 << 20,
        /// Longest `custom_id`.
        custom_id_bytes_max: usize = 512,
        /// Memory for finding duplicate ids; beyond it they go to a temporary file.
        duplicates_bytes_max: usize = 16 << 20,
        /// Deepest nesting of a line. Common JSON readers stop at 127.
        json_depth_max: usize = 100,
        /// Whether lines may ask with POST alone, as in the batch API that others speak.
        only_post: bool = false,
        /// Most attempts of a store call that says it may succeed later.
        store_attempts_max: u32 = 6,
        /// Longest wait before the second attempt; doubles with each further one.
        store_backoff_min: Duration = Duration::from_millis(50),
        /// Longest wait there is between attempts.
        store_backoff_max: Duration = Duration::from_secs(5),
    }
}

impl Options {
    /// The same, with what the store's contract does not allow brought within it.
    pub(crate) fn bounded(mut self) -> Self {
        self.line_bytes_max = self.line_bytes_max.max(1);
        self.lanes_max = self.lanes_max.clamp(1, LANES_MAX);
        self.chunk_lines_max = self.chunk_lines_max.clamp(1, CHUNK_LINES_MAX);
        self.rows_min = self.rows_min.clamp(1, self.chunk_lines_max);
        self.chunk_bytes_max = self.chunk_bytes_max.clamp(1, CHUNK_BYTES_MAX);
        self.block_bytes = self.block_bytes.max(1);
        self
    }

    pub(crate) fn policy(&self) -> Policy {
        Policy {
            attempts_max: self.store_attempts_max,
            attempts_not_found_max: Some(1),
            backoff_ms_min: millis(self.store_backoff_min),
            backoff_ms_max: millis(self.store_backoff_max),
            ..Policy::default()
        }
    }
}
