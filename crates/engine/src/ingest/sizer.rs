//! The size of chunks: the writer measures each call, the parser cuts where that leads.
//!
//! Holds throughout: one controller per ingest, on the writer's side; the parser only reads its
//! limit, so a change counts from the next piece on and nothing waits for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use windrow_domain::control::ingest::{Bounds, Rows};
use windrow_store::{Kind, Result};

use super::Options;

/// A call that waited so long for a connection met a pool that is too busy, however it ended.
const POOL_WAIT_MIN: Duration = Duration::from_millis(1);

/// Most pieces of a chunk, now.
#[derive(Clone, Debug)]
pub(crate) struct Limit(Arc<AtomicU32>);

impl Limit {
    pub(crate) fn of(rows: usize) -> Self {
        Self(Arc::new(AtomicU32::new(u32::try_from(rows).unwrap_or(u32::MAX))))
    }

    pub(crate) fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed) as usize
    }
}

/// Turns what calls took into the limit.
#[derive(Debug)]
pub(crate) struct Sizer {
    rows: Mutex<Rows>,
    limit: Limit,
}

impl Sizer {
    pub(crate) fn new(options: &Options) -> Self {
        let rows = |rows: usize| u32::try_from(rows).unwrap_or(u32::MAX);
        // Exact far beyond any useful bound, and a bound by itself above that.
        let ms = |time: Duration| f64::from(u32::try_from(time.as_millis()).unwrap_or(u32::MAX));
        let bounds = Bounds {
            rows_min: rows(options.rows_min),
            rows_max: rows(options.chunk_lines_max),
            p50_ms: ms(options.db_p50),
            p95_ms: ms(options.db_p95),
        };
        Self { rows: Mutex::new(Rows::new(bounds)), limit: Limit::of(options.rows_min) }
    }

    /// The limit as it is at any time.
    pub(crate) fn limit(&self) -> Limit {
        self.limit.clone()
    }

    /// One call with that many pieces ended so, after that time, of which it waited so long for a connection.
    pub(crate) fn observe(
        &self,
        pieces: usize,
        elapsed_ms: u64,
        waited: Duration,
        done: &Result<()>,
    ) {
        let pieces = u32::try_from(pieces).unwrap_or(u32::MAX);
        let elapsed_ms = f64::from(u32::try_from(elapsed_ms).unwrap_or(u32::MAX));
        let mut rows = self.rows.lock();
        match done {
            Ok(()) => rows.observe(pieces, elapsed_ms, waited >= POOL_WAIT_MIN),
            Err(error) if matches!(error.kind, Kind::Busy | Kind::Contended) => {
                rows.observe(pieces, elapsed_ms, true);
            }
            Err(_) => rows.failed(),
        }
        self.limit.0.store(rows.limit(), Ordering::Relaxed);
    }
}
