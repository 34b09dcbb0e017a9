//! The bounds of an ingest, each with a name.

use windrow_domain::lane::LANES_MAX;
use windrow_domain::retry::Policy;
use windrow_store::ingest::{CHUNK_BYTES_MAX, CHUNK_LINES_MAX};

/// How much of anything an ingest takes, holds or tries. Peak memory is about
/// `4 × chunk_bytes_max + 4 × block_bytes + duplicates_bytes_max`, and a longest line more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Longest line that may be a request, with its ending. A longer one is an error, and its bytes
    /// are kept in pieces.
    pub line_bytes_max: usize,
    /// Most requests of a file.
    pub lines_max: u64,
    /// Largest file; a larger one is not kept at all.
    pub file_bytes_max: u64,
    /// Most different targets of a file.
    pub lanes_max: usize,
    /// Pieces of the first chunk, and the fewest that a full one has (`INGEST_MIN_ROWS`). Chunks
    /// grow from here as the store allows.
    pub rows_min: usize,
    /// Most pieces of one chunk, which is one transaction (`INGEST_MAX_ROWS`).
    pub chunk_lines_max: usize,
    /// Most bytes of one chunk; a longer line has a chunk to itself (`INGEST_MAX_BATCH_BYTES`).
    pub chunk_bytes_max: usize,
    /// Chunks that take the store this long are large enough (`DB_P50_MS`).
    pub db_p50_ms: u64,
    /// Chunks that take the store longer are too large (`DB_P95_MS`).
    pub db_p95_ms: u64,
    /// Bytes read at a time.
    pub block_bytes: usize,
    /// Longest `custom_id`.
    pub custom_id_bytes_max: usize,
    /// Memory for finding duplicate ids; beyond it they go to a temporary file.
    pub duplicates_bytes_max: usize,
    /// Deepest nesting of a line. Common JSON readers stop at 127.
    pub json_depth_max: usize,
    /// Whether lines may ask with POST alone, as in the batch API that others speak.
    pub only_post: bool,
    /// Most tries of a store call that says it may succeed later.
    pub store_attempts_max: u32,
    /// Longest wait before the second try; doubles with each further one.
    pub store_backoff_ms_min: u64,
    /// Longest wait there is between tries.
    pub store_backoff_ms_max: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            line_bytes_max: 16 << 20,
            lines_max: 100_000_000,
            file_bytes_max: 1 << 40,
            lanes_max: LANES_MAX,
            rows_min: 64,
            chunk_lines_max: 16_384,
            chunk_bytes_max: 4 << 20,
            db_p50_ms: 50,
            db_p95_ms: 250,
            block_bytes: 1 << 20,
            custom_id_bytes_max: 512,
            duplicates_bytes_max: 16 << 20,
            json_depth_max: 100,
            only_post: false,
            store_attempts_max: 6,
            store_backoff_ms_min: 50,
            store_backoff_ms_max: 5_000,
        }
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
            attempts_not_found_max: 1,
            backoff_ms_min: self.store_backoff_ms_min,
            backoff_ms_max: self.store_backoff_ms_max,
        }
    }
}
