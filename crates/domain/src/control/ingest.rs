//! Rows of a chunk: as many as the store takes in good time.
//!
//! Holds throughout: the limit doubles from the least while a chunk is quicker than `p50_ms`, stays
//! between that and `p95_ms`, halves above it or when the store's connections are taken, and an
//! error leaves a quarter. Chunks that were cut under another limit do not move it.
//! Absent on purpose: bytes. The chunker sees each line and cuts exactly.

use super::{Ewma, is_amount};

/// The share of a new sample: most ingests are over after a few dozen chunks.
const WEIGHT: f64 = 0.5;

/// Configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Bounds {
    /// Fewest rows that a full chunk has, at least 1.
    pub rows_min: u32,
    /// Most rows of a chunk; stronger than the fewest.
    pub rows_max: u32,
    /// Chunks are large enough when they take this long.
    pub p50_ms: f64,
    /// Chunks are too large when they take longer.
    pub p95_ms: f64,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { rows_min: 64, rows_max: 16_384, p50_ms: 50.0, p95_ms: 250.0 }
    }
}

/// Sizes the chunks of one ingest.
#[derive(Clone, Debug)]
pub struct Rows {
    bounds: Bounds,
    limit: u32,
    latency_ms: Ewma,
}

impl Rows {
    /// Starts with the fewest.
    pub fn new(mut bounds: Bounds) -> Self {
        bounds.rows_max = bounds.rows_max.max(1);
        bounds.rows_min = bounds.rows_min.clamp(1, bounds.rows_max);
        bounds.p95_ms = bounds.p95_ms.max(bounds.p50_ms);
        Self { limit: bounds.rows_min, bounds, latency_ms: Ewma::default() }
    }

    /// Most rows of the next chunk.
    pub fn limit(&self) -> u32 {
        self.limit
    }

    /// A chunk was stored.
    pub fn observe(&mut self, rows: u32, latency_ms: f64, waited_for_pool: bool) {
        // Cut before the limit shrank: it was judged already.
        if rows > self.limit || !is_amount(latency_ms) {
            return;
        }
        self.latency_ms.observe(latency_ms, WEIGHT);
        let mean_ms = self.latency_ms.get().unwrap_or_default();
        if waited_for_pool || mean_ms > self.bounds.p95_ms {
            self.shrink(2);
        } else if mean_ms <= self.bounds.p50_ms && rows >= self.limit.div_ceil(2) {
            // Chunks that were on their way when the limit doubled count as well: waiting for the
            // first full one would make the way up three times as long.
            self.limit = self.limit.saturating_mul(2).min(self.bounds.rows_max);
        }
    }

    /// A chunk was refused or lost; it may be tried again.
    pub fn failed(&mut self) {
        self.shrink(4);
    }

    fn shrink(&mut self, parts: u32) {
        self.limit = (self.limit / parts).max(self.bounds.rows_min);
        // The mean is of larger chunks; a new one begins with the first of the smaller ones.
        self.latency_ms = Ewma::default();
    }
}
