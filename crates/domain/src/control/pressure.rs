//! Pressure: how much of its usual work the process can bear, by its processor and memory.
//!
//! Holds throughout: all of it up to the bounds, a tenth of it from a quarter above either; memory
//! that is a quarter above stops the work at once, without waiting for a mean.

use super::{Ewma, is_amount, real};

/// The least share: some work goes on, or nothing would ever free what is held.
const FACTOR_MIN: f64 = 0.1;
/// The part above a bound at which the least share is reached.
const ABOVE_MAX: f64 = 0.25;
/// The share of a new sample.
const WEIGHT: f64 = 0.3;

/// How much processor and memory the process may use before it claims less.
#[derive(Clone, Debug, PartialEq)]
pub struct Bounds {
    /// Share of all cores that the process may use freely.
    pub cpu_max: f64,
    /// Memory that the process may use freely; 0 for as much as there is.
    pub memory_bytes_max: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { cpu_max: 0.9, memory_bytes_max: 1 << 30 }
    }
}

/// How loaded the process is, from samples of its processor time and memory.
#[derive(Clone, Debug)]
pub struct Pressure {
    bounds: Bounds,
    cpu: Ewma,
    memory: Ewma,
    memory_bytes: u64,
}

impl Pressure {
    /// A controller without samples: there is no pressure.
    pub fn new(bounds: Bounds) -> Self {
        let (cpu, memory) = (Ewma::default(), Ewma::default());
        Self { bounds, cpu, memory, memory_bytes: 0 }
    }

    /// What the process uses: a share of all cores since the last sample, and memory now.
    pub fn observe(&mut self, cpu: f64, memory_bytes: u64) {
        self.cpu.observe(cpu, WEIGHT);
        self.memory.observe(real(memory_bytes), WEIGHT);
        self.memory_bytes = memory_bytes;
    }

    /// The share of the usual work that it can bear, in `0.1..=1.0`.
    pub fn factor(&self) -> f64 {
        let cpu = share(self.cpu, self.bounds.cpu_max);
        cpu.min(share(self.memory, real(self.bounds.memory_bytes_max)))
    }

    /// Whether nothing new should start at all.
    pub fn stop(&self) -> bool {
        let max = real(self.bounds.memory_bytes_max);
        max > 0.0 && real(self.memory_bytes) > max * (1.0 + ABOVE_MAX)
    }
}

fn share(used: Ewma, max: f64) -> f64 {
    let Some(used) = used.get().filter(|_| is_amount(max) && max > 0.0) else { return 1.0 };
    let above = (used / max - 1.0) / ABOVE_MAX;
    (1.0 - above * (1.0 - FACTOR_MIN)).clamp(FACTOR_MIN, 1.0)
}
