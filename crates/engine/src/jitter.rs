//! Jitter: chance for waits, so that many instances and messages do not come back at the same moment.
//!
//! Holds throughout: all chance of a runner comes from one seeded generator, so that a test can repeat it.

use std::ops::RangeInclusive;
use std::sync::Arc;

use parking_lot::Mutex;

/// A generator that the parts of a runner share.
#[derive(Clone, Debug)]
pub struct Jitter(Arc<Mutex<fastrand::Rng>>);

impl Jitter {
    /// The same seed gives the same numbers; without one they differ from process to process.
    pub fn new(seed: Option<u64>) -> Self {
        let rng = seed.map_or_else(fastrand::Rng::new, fastrand::Rng::with_seed);
        Self(Arc::new(Mutex::new(rng)))
    }

    /// A number from 0 to 1.
    pub fn roll(&self) -> f64 {
        self.0.lock().f64()
    }

    /// A number of the range.
    pub fn between(&self, range: RangeInclusive<u64>) -> u64 {
        self.0.lock().u64(range)
    }
}
