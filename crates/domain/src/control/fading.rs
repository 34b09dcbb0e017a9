//! A count that fades, for rates of late: what happened a half-life ago counts half.

use super::{is_amount, real};

/// How much happened of late.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Fading {
    amount: f64,
    at_ms: u64,
}

impl Fading {
    /// The time after which what happened counts half, in milliseconds.
    pub const HALF_LIFE_MS: u64 = 30_000;

    /// So much happened now.
    pub fn add(&mut self, amount: f64, now_ms: u64) {
        if is_amount(amount) {
            *self = Self { amount: self.amount(now_ms) + amount, at_ms: self.at_ms.max(now_ms) };
        }
    }

    /// What is left of it by now.
    pub fn amount(&self, now_ms: u64) -> f64 {
        let half_lives = real(now_ms.saturating_sub(self.at_ms)) / real(Self::HALF_LIFE_MS);
        self.amount * (-half_lives).exp2()
    }

    /// How much happens in a second, once it has gone on for a few half-lives.
    pub fn per_sec(&self, now_ms: u64) -> f64 {
        self.amount(now_ms) * std::f64::consts::LN_2 * 1000.0 / real(Self::HALF_LIFE_MS)
    }
}
