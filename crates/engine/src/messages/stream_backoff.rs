//! Backoff for streams that a foreign transaction holds: an application has written to them and has
//! not committed yet.
//!
//! Holds throughout: commits that write to such a stream are made one at a time, each by itself, and the
//! others that want to meanwhile are put off; commits that write elsewhere are not held up. What is known
//! here decides when something is committed, never whether.

use std::collections::HashMap;
use std::time::Duration;

use windrow_domain::backoff::Backoff;
use windrow_domain::millis;

use super::outcome::WrittenStream;
use crate::jitter::Jitter;

/// The stored error of a message that is put off.
pub(super) const HELD: &str = "a stream that it writes to is held by a transaction of others";

/// The wait before the first probe of a held stream; doubles with each further one.
const WAIT_MIN: Duration = Duration::from_millis(50);
/// The longest wait.
const WAIT_MAX: Duration = Duration::from_secs(8);
/// How long a probe may take before the next one.
const PROBE_MS: u64 = 10_000;
/// Most streams that are remembered. When there are more, all are forgotten and found again.
const STREAMS_MAX: usize = 10_000;

/// Whether a commit may write to its streams now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// It is committed as usual.
    Free,
    /// It is committed by itself, to see whether a stream is free again.
    Probe,
    /// It waits so long.
    Blocked(Duration),
}

#[derive(Debug)]
struct BlockedStream {
    /// When the next probe may be made.
    until: u64,
    backoff: Backoff,
}

/// The streams that are held.
#[derive(Debug)]
pub(super) struct StreamBackoff {
    streams: HashMap<WrittenStream, BlockedStream>,
    jitter: Jitter,
}

impl StreamBackoff {
    pub(super) fn new(jitter: Jitter) -> Self {
        Self { streams: HashMap::new(), jitter }
    }

    /// Whether a commit may write to these streams now.
    pub(super) fn access(
        &mut self,
        now: u64,
        written: impl FnOnce() -> Vec<WrittenStream>,
    ) -> Access {
        if self.streams.is_empty() {
            return Access::Free;
        }
        let written = written();
        let held: Vec<&WrittenStream> =
            written.iter().filter(|stream| self.streams.contains_key(*stream)).collect();
        let until = held.iter().filter_map(|stream| Some(self.streams.get(*stream)?.until)).max();
        match until {
            None => Access::Free,
            Some(until) if until > now => {
                Access::Blocked(spread(Duration::from_millis(until - now), &self.jitter))
            }
            Some(_) => {
                for stream in held {
                    if let Some(blocked) = self.streams.get_mut(stream) {
                        blocked.until = now + PROBE_MS;
                    }
                }
                Access::Probe
            }
        }
    }

    /// A commit of its own that writes to these streams was refused; gives how long it waits.
    pub(super) fn block(&mut self, now: u64, written: Vec<WrittenStream>) -> Duration {
        if self.streams.len() + written.len() > STREAMS_MAX {
            self.streams.clear();
        }
        let mut longest = WAIT_MIN;
        for stream in written {
            let backoff = Backoff::new(WAIT_MIN, WAIT_MAX);
            let blocked =
                self.streams.entry(stream).or_insert(BlockedStream { until: now, backoff });
            let wait = blocked.backoff.next(1.0);
            blocked.until = now + millis(wait);
            longest = longest.max(wait);
        }
        spread(longest, &self.jitter)
    }

    /// A commit that writes to these streams succeeded.
    pub(super) fn free(&mut self, written: impl FnOnce() -> Vec<WrittenStream>) {
        if self.streams.is_empty() {
            return;
        }
        for stream in written() {
            self.streams.remove(&stream);
        }
    }
}

/// How long a message waits that was refused for the first time.
pub(super) fn first_wait(jitter: &Jitter) -> Duration {
    spread(WAIT_MIN, jitter)
}

/// A little longer, so that the probe comes first and not all come at once.
fn spread(wait: Duration, jitter: &Jitter) -> Duration {
    wait + Duration::from_millis(1) + wait.mul_f64(jitter.roll() / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST_MS: u64 = 50;

    fn stream(name: &str) -> Vec<WrittenStream> {
        vec![(None, "ann".to_owned(), name.to_owned())]
    }

    #[test]
    fn one_commit_probes_a_locked_stream_and_the_others_wait() {
        let mut streams = StreamBackoff::new(Jitter::new(Some(7)));
        assert_eq!(streams.access(0, || stream("a")), Access::Free);
        let wait = streams.block(0, stream("a"));
        assert!(wait > WAIT_MIN, "{wait:?}");
        assert!(matches!(streams.access(1, || stream("a")), Access::Blocked(_)));
        assert_eq!(streams.access(1, || stream("b")), Access::Free);
        assert_eq!(streams.access(FIRST_MS, || stream("a")), Access::Probe);
        assert!(matches!(streams.access(FIRST_MS, || stream("a")), Access::Blocked(_)));
        let longer = streams.block(FIRST_MS, stream("a"));
        assert!(longer > 2 * WAIT_MIN, "{longer:?}");
        streams.free(|| stream("a"));
        assert_eq!(streams.access(1, || stream("a")), Access::Free);
    }

    #[test]
    fn waits_are_bounded() {
        let mut streams = StreamBackoff::new(Jitter::new(Some(7)));
        let longest = (0..50).map(|now| streams.block(now, stream("a"))).max().unwrap();
        assert!(longest <= WAIT_MAX * 3 / 2 + Duration::from_millis(1), "{longest:?}");
    }
}
