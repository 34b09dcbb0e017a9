//! Targets that are away, and what is remembered of messages that failed.
//!
//! Holds throughout: a target that is away is asked by a few at a time, and whoever else wants it waits
//! without asking, so that many streams behind it neither flood it nor take the places of others; what
//! is known here decides when something is tried, never whether it happened.
//! Absent on purpose: a store. A process that begins anew learns it anew: waits begin short again, and
//! a publisher that refused a message may be asked once more.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::{Mutex, MutexGuard};
use windrow_domain::attempt::Failure;
use windrow_store::message::MessageRef;

use crate::clock::Clock;

/// How many ask a target that is away at the same time.
const ASKING_MAX: usize = 4;
/// How many that wait for one target come back in a second.
const BACK_PER_SEC_MAX: u64 = 500;
/// How far their times are spread at most.
const SPREAD_MS_MAX: u64 = 300_000;
/// Most messages of which something is remembered. When there are more, all are forgotten: they wait
/// and are tried as if they had only begun to fail.
const HEADS_MAX: usize = 50_000;
/// The code of a failure without a try.
const NOT_ASKED: &str = "not_asked";

/// What one of several receivers made of a message.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    /// Tries that were counted.
    pub(super) tries: u32,
    /// It will not have it, and why.
    pub(super) refused: Option<String>,
    /// It is not asked again before.
    pub(super) due: Option<Timestamp>,
}

/// What is remembered of the head of a stream that failed.
#[derive(Debug, Default)]
struct Head {
    position: u64,
    away_since: Option<u64>,
    receivers: BTreeMap<String, Tally>,
}

/// Where messages go.
#[derive(Debug, Default)]
struct Target {
    asking: usize,
    trouble: Option<Trouble>,
}

#[derive(Debug)]
struct Trouble {
    since: u64,
    error: String,
    /// When the last one that waits comes back, in microseconds.
    back_at: u64,
}

#[derive(Debug, Default)]
struct Known {
    targets: HashMap<String, Target>,
    heads: HashMap<u64, Head>,
}

/// All of it.
#[derive(Debug)]
pub(super) struct Away {
    known: Mutex<Known>,
    clock: Clock,
}

/// Somebody asks a target, until this is dropped.
pub(super) struct Asking<'a> {
    away: &'a Away,
    target: &'a str,
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        if let Some(target) = self.away.known().targets.get_mut(self.target) {
            target.asking -= 1;
        }
    }
}

impl Away {
    pub(super) fn new(clock: Clock) -> Self {
        Self { known: Mutex::default(), clock }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock()
    }

    /// Why a target is not to be asked now: it is away, and enough others ask it.
    pub(super) fn shut(&self, target: &str) -> Option<Failure> {
        let known = self.known();
        let found = known.targets.get(target).filter(|target| target.asking >= ASKING_MAX)?;
        let message = format!("not tried: {}", found.trouble.as_ref()?.error);
        Some(Failure::unavailable(NOT_ASKED, message))
    }

    /// Whether a target is known to be away.
    pub(super) fn is_known(&self, target: &str) -> bool {
        self.known().targets.get(target).is_some_and(|target| target.trouble.is_some())
    }

    /// A target is asked.
    pub(super) fn ask<'a>(&'a self, target: &'a str) -> Asking<'a> {
        self.known().targets.entry(target.to_owned()).or_default().asking += 1;
        Asking { away: self, target }
    }

    /// What asking a target gave.
    pub(super) fn note(&self, target: &str, failure: Option<&Failure>) {
        let now = self.clock.millis();
        let mut known = self.known();
        let found = known.targets.entry(target.to_owned()).or_default();
        match failure.filter(|failure| failure.is_unavailable()) {
            None => {
                if found.trouble.take().is_some() {
                    tracing::debug!(whom = target, "it is back");
                }
            }
            Some(failure) if failure.code == NOT_ASKED => {}
            Some(failure) => {
                let trouble = found.trouble.get_or_insert_with(|| {
                    tracing::debug!(whom = target, error = failure.message, "it is away");
                    Trouble { since: now, error: String::new(), back_at: 0 }
                });
                failure.message.clone_into(&mut trouble.error);
            }
        }
    }

    /// For how long the tries of a message have met nobody, this one included; and the same of its
    /// target, when that is longer.
    pub(super) fn ages(&self, at: MessageRef, target: &str) -> (Duration, Duration) {
        let now = self.clock.millis();
        let mut known = self.known();
        let since = *known.head(at).away_since.get_or_insert(now);
        let trouble = known.targets.get(target).and_then(|target| target.trouble.as_ref());
        let longest = trouble.map_or(since, |trouble| trouble.since.min(since));
        let age = |since| Duration::from_millis(now.saturating_sub(since));
        (age(since), age(longest))
    }

    /// When one that would wait so long for a target comes back: not all at once.
    pub(super) fn back_after(&self, target: &str, wait: Duration) -> Duration {
        let now = self.clock.millis();
        let mut known = self.known();
        let target = known.targets.get_mut(target);
        let Some(trouble) = target.and_then(|target| target.trouble.as_mut()) else { return wait };
        let now_us = now.saturating_mul(1_000);
        let wanted = now_us.saturating_add(u64::try_from(wait.as_micros()).unwrap_or(u64::MAX));
        // Those before it have places as far as there are places; behind that, chance spreads them.
        let next = trouble.back_at.saturating_add(1_000_000 / BACK_PER_SEC_MAX);
        let last = now_us.saturating_add(SPREAD_MS_MAX * 1_000).max(wanted);
        let at = match next > last {
            true => fastrand::u64(wanted..=last),
            false => wanted.max(next),
        };
        trouble.back_at = trouble.back_at.max(at);
        Duration::from_micros(at.saturating_sub(now_us))
    }

    /// A message met somebody: what comes is not about a target that is away.
    pub(super) fn met(&self, at: MessageRef) {
        if let Some(head) = self.known().heads.get_mut(&at.stream_no) {
            head.away_since = None;
        }
    }

    /// The message has ended.
    pub(super) fn forget(&self, at: MessageRef) {
        self.known().heads.remove(&at.stream_no);
    }

    /// What a receiver made of a message so far; none when nothing is remembered of the message.
    pub(super) fn tally(&self, at: MessageRef, receiver: &str) -> Option<Tally> {
        let known = self.known();
        let head = known.heads.get(&at.stream_no).filter(|head| head.position == at.position)?;
        // One of whom nothing is known took part in no try that failed.
        (!head.receivers.is_empty())
            .then(|| head.receivers.get(receiver).cloned().unwrap_or_default())
    }

    /// Remembers that.
    pub(super) fn keep(&self, at: MessageRef, receiver: &str, tally: Tally) {
        self.known().head(at).receivers.insert(receiver.to_owned(), tally);
    }
}

impl Known {
    fn head(&mut self, at: MessageRef) -> &mut Head {
        if self.heads.len() >= HEADS_MAX && !self.heads.contains_key(&at.stream_no) {
            self.heads.clear();
        }
        let head = self.heads.entry(at.stream_no).or_default();
        if head.position != at.position {
            *head = Head { position: at.position, ..Head::default() };
        }
        head
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused() -> Failure {
        Failure::unavailable("connect_refused", "nobody there")
    }

    #[test]
    fn a_few_ask_a_target_that_is_away_and_all_when_it_is_back() {
        let away = Away::new(Clock::machine());
        let asking: Vec<_> = (0..ASKING_MAX).map(|_| away.ask("hook")).collect();
        assert!(away.shut("hook").is_none(), "nobody says that it is away");
        away.note("hook", Some(&refused()));
        let shut = away.shut("hook").unwrap();
        assert_eq!(shut.message, "not tried: nobody there");
        assert!(shut.is_unavailable() && away.shut("other").is_none());
        drop(asking);
        assert!(away.is_known("hook") && away.shut("hook").is_none(), "the next may ask");
        away.note("hook", None);
        assert!(!away.is_known("hook"));
    }

    #[test]
    fn many_that_wait_come_back_one_after_another_and_in_bounded_time() {
        let away = Away::new(Clock::manual(Timestamp::UNIX_EPOCH));
        let wait = Duration::from_secs(1);
        assert_eq!(away.back_after("hook", wait), wait, "nobody says that it is away");
        away.note("hook", Some(&refused()));
        let thousand: Vec<_> = (0..1_000).map(|_| away.back_after("hook", wait)).collect();
        assert_eq!((thousand[0], thousand[500]), (wait, wait * 2));
        let more = (0..200_000).map(|_| away.back_after("hook", wait)).max().unwrap();
        assert!(more <= Duration::from_millis(SPREAD_MS_MAX), "{more:?}");
    }

    #[test]
    fn what_is_remembered_of_a_message_is_not_the_next_ones() {
        let away = Away::new(Clock::machine());
        let at = |position| MessageRef { partition: 0, stream_no: 7, position };
        assert!(away.tally(at(1), "a").is_none());
        away.keep(at(1), "a", Tally { tries: 2, ..Tally::default() });
        assert_eq!(away.tally(at(1), "a").unwrap().tries, 2);
        assert_eq!(away.tally(at(1), "b").unwrap().tries, 0);
        assert!(away.tally(at(2), "a").is_none());
    }
}
