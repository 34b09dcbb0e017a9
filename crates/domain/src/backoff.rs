//! Backoff: waits that double from a first one to a longest one, with jitter.
//!
//! Holds throughout: a wait is never longer than the longest, and with a roll in `0.0..1.0` at least half
//! of what it would be without jitter, so that many instances do not come back at the same moment.

use std::time::Duration;

/// Waits between repeats of something that does not work yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
    next: Duration,
}

impl Backoff {
    /// Begins with `first` and doubles up to `longest`.
    pub const fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest, next: first }
    }

    /// The next wait; the one after it is twice as long. `roll` is a random number in `0.0..1.0`.
    pub fn next(&mut self, roll: f64) -> Duration {
        let wait = self.next.min(self.longest);
        self.next = wait.saturating_mul(2).min(self.longest);
        let roll = if roll.is_nan() { 0.0 } else { roll.clamp(0.0, 1.0) };
        wait.mul_f64(0.5 + roll / 2.0)
    }

    /// It worked: the next wait is the first one again.
    pub fn reset(&mut self) {
        self.next = self.first;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest_and_begin_again_after_a_reset() {
        let ms = Duration::from_millis;
        let mut backoff = Backoff::new(ms(20), ms(100));
        let waits: Vec<Duration> = (0..4).map(|_| backoff.next(1.0)).collect();
        assert_eq!(waits, [ms(20), ms(40), ms(80), ms(100)]);
        backoff.reset();
        assert_eq!(backoff.next(0.0), ms(10));
        assert_eq!(backoff.next(f64::NAN), ms(20));
    }

    #[test]
    fn the_first_wait_is_bounded_too() {
        let mut backoff = Backoff::new(Duration::MAX, Duration::from_secs(1));
        assert_eq!(backoff.next(1.0), Duration::from_secs(1));
    }
}
