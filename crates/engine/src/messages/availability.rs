//! Availability of targets (handlers and publishers): remembers which are unavailable since when,
//! how the messages that failed there stand, and lets a few requests probe. What follows for a
//! message is decided in `outcome/policy.rs`; whether a failure means *unavailable*, where the
//! failure is made (`handler/error.rs`, `crate::http::endpoint`).
//!
//! Holds throughout: a target that is unavailable gets a few requests at a time, and further messages wait
//! without a request, so that many streams behind it neither flood it nor occupy the slots of others; what
//! is remembered here decides when a message is tried, never whether it happened.
//! Absent on purpose: a store. A restarted process learns it again: waits begin short, and a publisher
//! that refused a message may get it once more.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::{Mutex, MutexGuard};
use windrow_domain::attempt::Failure;
use windrow_store::message::MessageRef;

use crate::bounded_map::BoundedMap;
use crate::clock::Clock;
use crate::jitter::Jitter;

/// Most concurrent requests to an unavailable target.
const PROBES_MAX: usize = 4;
/// Most messages that come back to one unavailable target in a second.
const RETRIES_PER_SEC_MAX: u64 = 500;
/// Longest time over which those retries are spread.
const SPREAD_MS_MAX: u64 = 300_000;
/// Most messages of which something is remembered. When there are more, all are forgotten: they wait
/// and are tried as if they had only begun to fail.
const HEADS_MAX: usize = 50_000;
/// The code of a failure without a request: enough others probe the target already.
const NOT_ASKED: &str = "not_asked";

/// How the delivery of one message to one of its publishers stands.
#[derive(Clone, Debug, Default)]
pub(super) struct DeliveryState {
    /// Attempts that were counted.
    pub(super) attempts: u32,
    /// The publisher refused it for good; with its error.
    pub(super) refused: Option<String>,
    /// When the next attempt is due.
    pub(super) due: Option<Timestamp>,
}

/// What is remembered of the head of a stream that failed.
#[derive(Debug, Default)]
struct FailedHead {
    position: u64,
    unavailable_since: Option<u64>,
    deliveries: BTreeMap<String, DeliveryState>,
}

/// A handler or publisher, by name.
#[derive(Debug, Default)]
struct Target {
    in_flight: usize,
    outage: Option<Outage>,
}

#[derive(Debug)]
struct Outage {
    since: u64,
    error: String,
    /// When the last waiting message comes back, in microseconds.
    last_retry_at: u64,
}

#[derive(Debug)]
struct Records {
    targets: HashMap<String, Target>,
    /// By the number of their stream.
    heads: BoundedMap<u64, FailedHead>,
}

/// Which targets are unavailable since when, and which messages failed there.
#[derive(Debug)]
pub(super) struct Availability {
    records: Mutex<Records>,
    clock: Clock,
    jitter: Jitter,
}

/// A request to a target that is under way until this is dropped.
pub(super) struct RequestGuard<'a> {
    availability: &'a Availability,
    target: &'a str,
}

impl Drop for RequestGuard<'_> {
    fn drop(&mut self) {
        if let Some(target) = self.availability.records().targets.get_mut(self.target) {
            target.in_flight -= 1;
        }
    }
}

impl Availability {
    pub(super) fn new(clock: Clock, jitter: Jitter) -> Self {
        let records = Records { targets: HashMap::new(), heads: BoundedMap::new(HEADS_MAX) };
        Self { records: Mutex::new(records), clock, jitter }
    }

    fn records(&self) -> MutexGuard<'_, Records> {
        self.records.lock()
    }

    /// The failure of a message that is not sent now: its target is unavailable, and enough requests probe
    /// it already.
    pub(super) fn blocked(&self, target: &str) -> Option<Failure> {
        let records = self.records();
        let found = records.targets.get(target).filter(|target| target.in_flight >= PROBES_MAX)?;
        let message = format!("not tried: {}", found.outage.as_ref()?.error);
        Some(Failure::unavailable(NOT_ASKED, message))
    }

    /// Whether the last request to a target found it unavailable.
    pub(super) fn is_unavailable(&self, target: &str) -> bool {
        self.records().targets.get(target).is_some_and(|target| target.outage.is_some())
    }

    /// A request to a target begins.
    pub(super) fn begin_request<'a>(&'a self, target: &'a str) -> RequestGuard<'a> {
        self.records().targets.entry(target.to_owned()).or_default().in_flight += 1;
        RequestGuard { availability: self, target }
    }

    /// A request to a target ended: with that failure, or well.
    pub(super) fn record_result(&self, target: &str, failure: Option<&Failure>) {
        let now = self.clock.millis();
        let mut records = self.records();
        let found = records.targets.entry(target.to_owned()).or_default();
        match failure.filter(|failure| failure.is_unavailable()) {
            None => {
                if found.outage.take().is_some() {
                    tracing::debug!(whom = target, "the target is available again");
                }
            }
            Some(failure) if failure.code == NOT_ASKED => {}
            Some(failure) => {
                let outage = found.outage.get_or_insert_with(|| {
                    tracing::debug!(
                        whom = target,
                        error = failure.message,
                        "the target is unavailable"
                    );
                    Outage { since: now, error: String::new(), last_retry_at: 0 }
                });
                failure.message.clone_into(&mut outage.error);
            }
        }
    }

    /// For how long the attempts of a message have found its target unavailable, this one included; and
    /// how long the target itself has been unavailable, when that is longer.
    pub(super) fn outage_ages(&self, at: MessageRef, target: &str) -> (Duration, Duration) {
        let now = self.clock.millis();
        let mut records = self.records();
        let since = *records.head(at).unavailable_since.get_or_insert(now);
        let outage = records.targets.get(target).and_then(|target| target.outage.as_ref());
        let longest = outage.map_or(since, |outage| outage.since.min(since));
        let age = |since| Duration::from_millis(now.saturating_sub(since));
        (age(since), age(longest))
    }

    /// How long a message that would wait for `wait` waits, so that not all of them come back at once.
    pub(super) fn spread_retry(&self, target: &str, wait: Duration) -> Duration {
        let now = self.clock.millis();
        let mut records = self.records();
        let target = records.targets.get_mut(target);
        let Some(outage) = target.and_then(|target| target.outage.as_mut()) else { return wait };
        let now_us = now.saturating_mul(1_000);
        let wanted = now_us.saturating_add(u64::try_from(wait.as_micros()).unwrap_or(u64::MAX));
        // Earlier ones have slots as far as there are slots; beyond that, chance spreads them.
        let next = outage.last_retry_at.saturating_add(1_000_000 / RETRIES_PER_SEC_MAX);
        let last = now_us.saturating_add(SPREAD_MS_MAX * 1_000).max(wanted);
        let at = if next > last { self.jitter.between(wanted..=last) } else { wanted.max(next) };
        outage.last_retry_at = outage.last_retry_at.max(at);
        Duration::from_micros(at.saturating_sub(now_us))
    }

    /// A message reached its target: its outage, if there was one, is over.
    pub(super) fn reached(&self, at: MessageRef) {
        if let Some(head) = self.records().heads.get_mut(&at.stream_no) {
            head.unavailable_since = None;
        }
    }

    /// The message has ended.
    pub(super) fn forget(&self, at: MessageRef) {
        self.records().heads.remove(&at.stream_no);
    }

    /// How the delivery to a publisher stands; none when nothing is remembered of the message.
    pub(super) fn delivery_state(&self, at: MessageRef, publisher: &str) -> Option<DeliveryState> {
        let records = self.records();
        let head = records.heads.get(&at.stream_no).filter(|head| head.position == at.position)?;
        // A publisher that is not listed took part in no attempt that failed.
        (!head.deliveries.is_empty())
            .then(|| head.deliveries.get(publisher).cloned().unwrap_or_default())
    }

    /// Remembers how the delivery to a publisher stands.
    pub(super) fn set_delivery_state(
        &self,
        at: MessageRef,
        publisher: &str,
        delivery: DeliveryState,
    ) {
        self.records().head(at).deliveries.insert(publisher.to_owned(), delivery);
    }
}

impl Records {
    fn head(&mut self, at: MessageRef) -> &mut FailedHead {
        let forget_all = |_: &u64, _: &FailedHead| false;
        let head = self.heads.get_or_insert_with(at.stream_no, forget_all, Default::default);
        if head.position != at.position {
            *head = FailedHead { position: at.position, ..FailedHead::default() };
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
    fn a_few_requests_probe_an_unavailable_target_and_all_go_when_it_is_back() {
        let availability = Availability::new(Clock::machine(), Jitter::new(Some(7)));
        let in_flight: Vec<_> =
            (0..PROBES_MAX).map(|_| availability.begin_request("hook")).collect();
        assert!(availability.blocked("hook").is_none(), "nothing says that it is unavailable");
        availability.record_result("hook", Some(&refused()));
        let blocked = availability.blocked("hook").unwrap();
        assert_eq!(blocked.message, "not tried: nobody there");
        assert!(blocked.is_unavailable() && availability.blocked("other").is_none());
        drop(in_flight);
        assert!(
            availability.is_unavailable("hook") && availability.blocked("hook").is_none(),
            "the next may ask"
        );
        availability.record_result("hook", None);
        assert!(!availability.is_unavailable("hook"));
    }

    #[test]
    fn many_that_wait_come_back_one_after_another_and_in_bounded_time() {
        let availability =
            Availability::new(Clock::manual(Timestamp::UNIX_EPOCH), Jitter::new(Some(7)));
        let wait = Duration::from_secs(1);
        assert_eq!(
            availability.spread_retry("hook", wait),
            wait,
            "nothing says that it is unavailable"
        );
        availability.record_result("hook", Some(&refused()));
        let thousand: Vec<_> =
            (0..1_000).map(|_| availability.spread_retry("hook", wait)).collect();
        assert_eq!((thousand[0], thousand[500]), (wait, wait * 2));
        let more = (0..200_000).map(|_| availability.spread_retry("hook", wait)).max().unwrap();
        assert!(more <= Duration::from_millis(SPREAD_MS_MAX), "{more:?}");
    }

    #[test]
    fn what_is_remembered_of_a_message_is_not_the_next_ones() {
        let availability = Availability::new(Clock::machine(), Jitter::new(Some(7)));
        let at = |position| MessageRef { partition: 0, stream_no: 7, position };
        assert!(availability.delivery_state(at(1), "a").is_none());
        availability.set_delivery_state(
            at(1),
            "a",
            DeliveryState { attempts: 2, ..DeliveryState::default() },
        );
        assert_eq!(availability.delivery_state(at(1), "a").unwrap().attempts, 2);
        assert_eq!(availability.delivery_state(at(1), "b").unwrap().attempts, 0);
        assert!(availability.delivery_state(at(2), "a").is_none());
    }
}
