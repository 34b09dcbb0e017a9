//! Claim size: as many lines as one slice of time can finish.
//!
//! Holds throughout: `slice_ms / item_ms × safety_factor`, within the bounds; under pressure less;
//! and never more lines than fit in memory, which is worth more than the least claim.

use super::{Ewma, is_amount, real, whole, whole_ms};

/// The claim before anything is known: enough to measure, little to lose.
const CLAIM_FIRST: u32 = 64;
/// The share of a new sample: a whole slice says much, one quick line little, neither all.
const WEIGHT_MIN: f64 = 0.2;
const WEIGHT_MAX: f64 = 0.7;
/// The share of one line's size, and of the largest that fades with each line.
const WEIGHT_BYTES: f64 = 1.0 / 64.0;
const FADE_BYTES: f64 = 1.0 - 1.0 / 256.0;

/// Between which sizes claims are, how long their lines should take, and how long leases are.
#[derive(Clone, Debug, PartialEq)]
pub struct Bounds {
    /// How long the lines of one claim should take.
    pub slice_ms: u64,
    /// Fewest lines of a claim.
    pub claim_min: u32,
    /// Most lines of a claim.
    pub claim_max: u32,
    /// The part of the slice that is planned for.
    pub safety_factor: f64,
    /// Shortest lease.
    pub lock_floor_ms: u64,
    /// Longest lease; stronger than the shortest.
    pub lock_cap_ms: u64,
    /// Most bytes of a claim's lines; a single line may be larger.
    pub bytes_max: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            slice_ms: 5_000,
            claim_min: 1,
            claim_max: 1_000,
            safety_factor: 0.7,
            lock_floor_ms: 30_000,
            lock_cap_ms: 900_000,
            bytes_max: 32 << 20,
        }
    }
}

/// Sizes the claims of one target.
#[derive(Clone, Debug)]
pub struct Slice {
    bounds: Bounds,
    item_ms: Ewma,
    line_bytes: Ewma,
    /// The largest line of late; it fades.
    line_bytes_top: f64,
}

impl Slice {
    /// A controller without samples: claims begin at their first size.
    pub fn new(bounds: Bounds) -> Self {
        let (item_ms, line_bytes) = (Ewma::default(), Ewma::default());
        Self { bounds, item_ms, line_bytes, line_bytes_top: 0.0 }
    }

    /// So many lines finished while the target was busy for so long: the wall clock, whatever the
    /// number in flight.
    pub fn observe(&mut self, items: u32, elapsed_ms: f64) {
        if items == 0 || !is_amount(elapsed_ms) {
            return;
        }
        let weight = elapsed_ms / real(self.bounds.slice_ms.max(1));
        self.item_ms.observe(elapsed_ms / f64::from(items), weight.clamp(WEIGHT_MIN, WEIGHT_MAX));
    }

    /// A line of that size was claimed.
    pub fn observe_bytes(&mut self, line_bytes: usize) {
        let bytes = real(line_bytes as u64);
        self.line_bytes.observe(bytes, WEIGHT_BYTES);
        self.line_bytes_top = bytes.max(self.line_bytes_top * FADE_BYTES);
    }

    /// Lines to claim, at least 1. `pressure` is the share of it that the process can bear.
    pub fn limit(&self, pressure: f64) -> u32 {
        let claim_min = self.bounds.claim_min.max(1);
        let claim_max = self.bounds.claim_max.max(claim_min);
        let wanted = match self.item_ms.get() {
            // No time at all is too short to be measured, and divides into infinity.
            Some(item_ms) => {
                let planned = real(self.bounds.slice_ms) * self.bounds.safety_factor.max(0.0);
                whole(planned / item_ms.max(f64::MIN_POSITIVE))
            }
            None => CLAIM_FIRST,
        };
        let pressure = if pressure.is_nan() { 1.0 } else { pressure.clamp(0.0, 1.0) };
        let bearable = whole(f64::from(wanted.min(claim_max)) * pressure);
        bearable.max(claim_min).min(self.lines_max()).max(1)
    }

    /// Lines that fit in memory: one as large as the largest of late, the others as usual.
    fn lines_max(&self) -> u32 {
        let Some(usual) = self.line_bytes.get() else { return u32::MAX };
        whole(((real(self.bounds.bytes_max) - self.line_bytes_top) / usual.max(1.0)).max(0.0) + 1.0)
    }

    /// How long to lease a claim for: twice the slice or twice a line, whichever is longer.
    pub fn lease_ms(&self) -> u64 {
        let item_ms = self.item_ms.get().map_or(0, |item_ms| whole_ms(item_ms * 2.0));
        let wanted = self.bounds.slice_ms.saturating_mul(2).max(item_ms);
        wanted.max(self.bounds.lock_floor_ms).min(self.bounds.lock_cap_ms)
    }

    /// How long a line takes; none before the first sample.
    pub fn item_ms(&self) -> Option<f64> {
        self.item_ms.get()
    }
}
