//! The recent rate of finished lines, and the time that the rest will take.

use std::collections::VecDeque;
use std::time::Duration;

/// Over how long the rate is taken.
const WINDOW: Duration = Duration::from_secs(15);
/// After how long without a finished line nothing seems to move.
const STALLED_AFTER: Duration = Duration::from_secs(3);

/// The last samples of how many are done.
#[derive(Debug, Default)]
pub(crate) struct Rate(VecDeque<(Duration, u64)>);

impl Rate {
    /// So many are done by that time since the start.
    pub(crate) fn add(&mut self, at: Duration, done: u64) {
        self.0.push_back((at, done));
        while self.0.len() > 2 && self.0[1].0 + WINDOW < at {
            self.0.pop_front();
        }
    }

    /// Begins anew.
    pub(crate) fn forget(&mut self) {
        self.0.clear();
    }

    /// Whether nothing was finished for a while.
    pub(crate) fn is_stalled(&self) -> bool {
        let Some((now, last)) = self.0.back() else { return false };
        let before = self.0.iter().rev().find(|(_, done)| done < last);
        let changed = before.or(self.0.front()).map_or(Duration::ZERO, |(at, _)| *at);
        now.saturating_sub(changed) >= STALLED_AFTER
    }

    /// So many a second; none before there are two samples.
    pub(crate) fn per_sec(&self) -> Option<f64> {
        let ((from, first), (to, last)) = (self.0.front()?, self.0.back()?);
        let secs = to.saturating_sub(*from).as_secs_f64();
        // A rate is a figure for people: the part lost above 2^53 lines is none they see.
        #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
        (secs > 0.0).then(|| last.saturating_sub(*first) as f64 / secs)
    }

    /// How long so many more will take.
    pub(crate) fn time_for(&self, left: u64) -> Option<Duration> {
        let rate = self.per_sec().filter(|rate| *rate > 0.0)?;
        #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
        Duration::try_from_secs_f64(left as f64 / rate).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_that_of_the_last_seconds() {
        let mut rate = Rate::default();
        assert_eq!(rate.per_sec(), None);
        for secs in 0..=100 {
            let done = if secs < 50 { 0 } else { (secs - 50) * 10 };
            rate.add(Duration::from_secs(secs), done);
        }
        assert_eq!(rate.per_sec(), Some(10.0));
        assert_eq!(rate.time_for(70), Some(Duration::from_secs(7)));
    }
}
