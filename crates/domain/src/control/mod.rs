//! Controllers: samples in, limits out. Each adapts one number of the engine to what it meets.
//!
//! Holds throughout: a limit never leaves its bounds, whatever the samples were; a sample that is no
//! number, or below zero, changes nothing; bounds that contradict each other are read as the
//! cautious one of the two. Time is monotonic milliseconds and comes in as an argument.
//! Absent on purpose: clocks, random numbers and what to do with a limit; see `windrow-engine`.

pub mod breaker;
pub mod concurrency;
mod fading;
pub mod ingest;
pub mod pace;
pub mod pressure;
pub mod slice;

pub use fading::Fading;

/// A mean in which older samples fade.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Ewma(Option<f64>);

impl Ewma {
    /// `weight` is the share of the new sample, in `0.0..=1.0`; the first one counts whole.
    pub fn observe(&mut self, sample: f64, weight: f64) {
        if is_amount(sample) {
            self.0 = Some(self.0.map_or(sample, |mean| mean + (sample - mean) * weight));
        }
    }

    /// The average; none before the first sample.
    pub fn get(self) -> Option<f64> {
        self.0
    }
}

/// Whether it is a number that something can amount to.
fn is_amount(sample: f64) -> bool {
    sample.is_finite() && sample >= 0.0
}

/// The whole part; the nearest bound of the type for what does not fit, and none for no number.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates")]
fn whole(number: f64) -> u32 {
    number as u32
}

/// The same, in milliseconds and rounded up, so that a wait is never too short.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates")]
fn whole_ms(number: f64) -> u64 {
    number.ceil() as u64
}

/// Exact for every time, size and count that a process meets: below 2^53.
#[expect(clippy::cast_precision_loss, reason = "such large numbers do not occur")]
fn real(number: u64) -> f64 {
    number as f64
}
