//! Streams that somebody holds: a transaction of others has written to them and has not ended.
//!
//! Holds throughout: who writes to such a stream is tried by itself, one at a time, and whoever else
//! wants to meanwhile is put off; nobody who does not want to is held up. What is known here decides
//! when something is committed, never whether.

use std::collections::HashMap;
use std::time::Duration;

use super::entry::Touched;

/// What is said of a message that is put off.
pub(super) const HELD: &str = "a stream that it writes to is held by a transaction of others";

/// The wait before the first look at a stream that is held; doubles with each further one.
const WAIT_MS_MIN: u64 = 50;
/// The longest.
const WAIT_MS_MAX: u64 = 8_000;
/// How long one looks before the next may.
const LOOK_MS: u64 = 10_000;
/// Most streams that are remembered. When there are more, all are forgotten and found again.
const STREAMS_MAX: usize = 10_000;

/// What may be done with an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// It is committed as usual.
    Free,
    /// It is committed by itself, to see whether a stream is free again.
    Probe,
    /// It waits so long.
    Held(Duration),
}

#[derive(Debug)]
struct Held {
    /// When somebody may look.
    until: u64,
    times: u32,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Contended(HashMap<Touched, Held>);

impl Contended {
    /// What may be done with one who writes to these streams.
    pub(super) fn look(&mut self, now: u64, touched: impl FnOnce() -> Vec<Touched>) -> Look {
        if self.0.is_empty() {
            return Look::Free;
        }
        let touched = touched();
        let known: Vec<&Touched> =
            touched.iter().filter(|stream| self.0.contains_key(*stream)).collect();
        let until = known.iter().filter_map(|stream| Some(self.0.get(*stream)?.until)).max();
        match until {
            None => Look::Free,
            Some(until) if until > now => Look::Held(spread(until - now)),
            Some(_) => {
                for stream in known {
                    if let Some(held) = self.0.get_mut(stream) {
                        held.until = now + LOOK_MS;
                    }
                }
                Look::Probe
            }
        }
    }

    /// One who writes to these streams was refused alone; gives how long it waits.
    pub(super) fn hold(&mut self, now: u64, touched: Vec<Touched>) -> Duration {
        if self.0.len() + touched.len() > STREAMS_MAX {
            self.0.clear();
        }
        let mut times = 0;
        for stream in touched {
            let held = self.0.entry(stream).or_insert(Held { until: now, times: 0 });
            times = times.max(held.times);
            held.until = now + wait_ms(held.times);
            held.times = held.times.saturating_add(1);
        }
        wait(times)
    }

    /// One who writes to these streams was committed.
    pub(super) fn free(&mut self, touched: impl FnOnce() -> Vec<Touched>) {
        if self.0.is_empty() {
            return;
        }
        for stream in touched() {
            self.0.remove(&stream);
        }
    }
}

fn wait_ms(times: u32) -> u64 {
    (WAIT_MS_MIN << times.min(16)).min(WAIT_MS_MAX)
}

/// How long one waits that was refused so many times before: a little longer than nobody looks.
pub(super) fn wait(times: u32) -> Duration {
    spread(wait_ms(times))
}

fn spread(ms: u64) -> Duration {
    Duration::from_millis(ms + fastrand::u64(1..=ms / 2 + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(name: &str) -> Vec<Touched> {
        vec![(None, "ann".to_owned(), name.to_owned())]
    }

    #[test]
    fn one_looks_at_a_stream_that_is_held_and_the_others_wait() {
        let mut contended = Contended::default();
        assert_eq!(contended.look(0, || stream("a")), Look::Free);
        let wait = contended.hold(0, stream("a"));
        assert!(wait > Duration::from_millis(WAIT_MS_MIN), "{wait:?}");
        assert!(matches!(contended.look(1, || stream("a")), Look::Held(_)));
        assert_eq!(contended.look(1, || stream("b")), Look::Free);
        assert_eq!(contended.look(WAIT_MS_MIN, || stream("a")), Look::Probe);
        assert!(matches!(contended.look(WAIT_MS_MIN, || stream("a")), Look::Held(_)));
        let longer = contended.hold(WAIT_MS_MIN, stream("a"));
        assert!(longer > Duration::from_millis(2 * WAIT_MS_MIN), "{longer:?}");
        contended.free(|| stream("a"));
        assert_eq!(contended.look(1, || stream("a")), Look::Free);
    }

    #[test]
    fn waits_are_bounded() {
        let longest = wait(u32::MAX);
        assert!(longest <= Duration::from_millis(WAIT_MS_MAX * 3 / 2 + 1), "{longest:?}");
    }
}
