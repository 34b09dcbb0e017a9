//! Rows of a chunk: as many as the store takes in good time.
//!
//! Holds throughout: the limit doubles from the least while chunks are quicker than `p50_ms`, stays
//! between that and `p95_ms`, halves above it or when the store's connections are taken, and an
//! error leaves a quarter. Time that fewer rows would not save (a slow disk, a far database) is no
//! reason to have fewer. Chunks that were cut under another limit do not move it.
//! Absent on purpose: bytes. The chunker sees each line and cuts exactly.

use super::{Ewma, is_amount};

/// The share of a new sample.
const WEIGHT: f64 = 0.3;
/// Twice the rows take at least this many times as long where it is the rows that take time.
const ROWS_COST: f64 = 1.5;
/// Most chunks on their way to the store when the limit changes. Later ones that are small were
/// cut by their bytes.
const CHUNKS_LATE_MAX: u32 = 3;

/// Between which sizes the controller moves, and which latencies it aims at.
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
    /// Of chunks under this limit.
    latency_ms: Ewma,
    /// The rows of chunks before this limit, and how long they took.
    before: Option<(u32, f64)>,
    /// Chunks since the limit changed that were cut under another one.
    late: u32,
}

impl Rows {
    /// Starts with the fewest.
    pub fn new(mut bounds: Bounds) -> Self {
        bounds.rows_max = bounds.rows_max.max(1);
        bounds.rows_min = bounds.rows_min.clamp(1, bounds.rows_max);
        bounds.p95_ms = bounds.p95_ms.max(bounds.p50_ms);
        Self { limit: bounds.rows_min, bounds, latency_ms: Ewma::default(), before: None, late: 0 }
    }

    /// Most rows of the next chunk.
    pub fn limit(&self) -> u32 {
        self.limit
    }

    /// A chunk was stored, or was not because no connection was free in time.
    pub fn observe(&mut self, rows: u32, latency_ms: f64, waited_for_pool: bool) {
        // Cut before the limit shrank: it was judged already.
        if rows > self.limit || !is_amount(latency_ms) {
            return;
        }
        if waited_for_pool {
            return self.change(self.limit / 2, None);
        }
        let full = rows > self.limit / 2;
        if !full && self.late < CHUNKS_LATE_MAX {
            return self.observe_late(rows, latency_ms);
        }
        self.latency_ms.observe(latency_ms, WEIGHT);
        let mean_ms = self.latency_ms.get().unwrap_or_default();
        let rows_cost = self.rows_cost(mean_ms);
        if mean_ms <= self.bounds.p50_ms || !rows_cost {
            if full {
                self.change(self.limit.saturating_mul(2), Some((rows, mean_ms)));
            }
        } else if mean_ms > self.bounds.p95_ms {
            // Half of what it was, not of what it might have been: bytes may have cut it.
            self.change(rows / 2, Some((rows, mean_ms)));
        }
    }

    /// A chunk that was on its way when the limit doubled. Quick ones count: waiting for the first
    /// full one would make the way up three times as long. Slow ones say nothing about this limit.
    fn observe_late(&mut self, rows: u32, latency_ms: f64) {
        self.late += 1;
        if latency_ms <= self.bounds.p50_ms && rows >= self.limit / 2 {
            self.change(self.limit.saturating_mul(2), None);
        }
    }

    /// A chunk was refused or lost; it may be tried again.
    pub fn failed(&mut self) {
        self.change(self.limit / 4, None);
    }

    /// Whether it is the rows that take time, as far as the size before this one shows. When none
    /// is known: yes, except at the least, from where only growing can show it.
    fn rows_cost(&self, mean_ms: f64) -> bool {
        match self.before {
            Some((rows, before_ms)) if rows < self.limit => mean_ms > before_ms * ROWS_COST,
            Some((_, before_ms)) => before_ms > mean_ms * ROWS_COST,
            None => self.limit > self.bounds.rows_min,
        }
    }

    fn change(&mut self, limit: u32, before: Option<(u32, f64)>) {
        let limit = limit.clamp(self.bounds.rows_min, self.bounds.rows_max);
        if limit != self.limit {
            let (latency_ms, late) = (Ewma::default(), 0);
            *self = Self { bounds: self.bounds.clone(), limit, latency_ms, before, late };
        }
    }
}
