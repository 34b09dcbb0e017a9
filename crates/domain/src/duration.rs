//! Durations as whole milliseconds, in which controllers calculate and databases keep times.

use std::time::Duration;

/// Whole milliseconds; as many as there are numbers for.
pub fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
