//! Progress: what an engine does right now, for people and metrics. It decides nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};
use windrow_domain::control::breaker;
use windrow_domain::{Target, UpstreamId};

/// Most different error codes that are counted by name; the rest is counted as one.
const CODES_MAX: usize = 64;
/// Under what the rest is counted.
const CODE_OTHER: &str = "other";

/// A look at a running engine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Attempts in flight.
    pub in_flight: u64,
    /// Attempts that were started.
    pub requests: u64,
    /// Lines that this engine finished.
    pub finished: u64,
    /// Attempts that failed and will be repeated.
    pub retries: u64,
    /// Attempts that failed, by error code, repeated or not.
    pub failures: BTreeMap<String, u64>,
    /// The targets this engine works on.
    pub targets: Vec<TargetProgress>,
    /// Most attempts in flight now, over all targets: what their controllers say, and what their hosts may have.
    pub in_flight_max: u64,
    /// The newest trouble with the store or an upstream, as a sentence.
    pub trouble: Option<String>,
    /// Why the engine stopped by itself: a host refuses its key.
    pub refused: Option<String>,
}

/// One target of a running engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetProgress {
    /// The upstream that serves it.
    pub upstream: UpstreamId,
    /// The target.
    pub target: Target,
    /// Attempts in flight.
    pub in_flight: u32,
    /// Most in flight, as its controller has it now.
    pub limit: u32,
    /// Leased lines that wait for their attempt.
    pub waiting: u32,
    /// What its breaker lets through.
    pub breaker: breaker::BreakerState,
    /// How long the breaker has not been closed.
    pub open_ms: u64,
    /// What a line takes on average, in microseconds of the wall clock, however many are in flight; 0 before the
    /// first.
    pub item_micros: u64,
}

/// Where the services of one engine note what they do.
#[derive(Clone, Debug, Default)]
pub(crate) struct Meter(Arc<Numbers>);

#[derive(Debug, Default)]
struct Numbers {
    in_flight: AtomicU64,
    requests: AtomicU64,
    finished: AtomicU64,
    retries: AtomicU64,
    notes: Mutex<Notes>,
}

#[derive(Debug, Default)]
struct Notes {
    failures: BTreeMap<String, u64>,
    targets: Vec<TargetProgress>,
    in_flight_max: u64,
    store_trouble: Option<String>,
    target_trouble: Option<String>,
    refused: Option<String>,
}

impl Meter {
    pub(crate) fn started(&self) {
        self.0.requests.fetch_add(1, Ordering::Relaxed);
        self.0.in_flight.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn ended(&self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn finished(&self) {
        self.0.finished.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn retried(&self) {
        self.0.retries.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn failed(&self, code: &str) {
        let mut notes = self.notes();
        if let Some(count) = notes.failures.get_mut(code) {
            *count += 1;
            return;
        }
        let code = if notes.failures.len() < CODES_MAX { code } else { CODE_OTHER };
        *notes.failures.entry(code.to_owned()).or_default() += 1;
    }

    pub(crate) fn set_targets(&self, targets: Vec<TargetProgress>, in_flight_max: u64) {
        let mut notes = self.notes();
        (notes.targets, notes.in_flight_max) = (targets, in_flight_max);
    }

    /// A host refuses its key, for which the engine stops.
    pub(crate) fn set_refused(&self, sentence: String) {
        self.notes().refused.get_or_insert(sentence);
    }

    /// With the store or the outputs; none when that is over.
    pub(crate) fn set_store_trouble(&self, sentence: Option<String>) {
        self.notes().store_trouble = sentence;
    }

    /// With a target; none when that is over.
    pub(crate) fn set_target_trouble(&self, sentence: Option<String>) {
        self.notes().target_trouble = sentence;
    }

    pub(crate) fn progress(&self) -> Progress {
        let read = |number: &AtomicU64| number.load(Ordering::Relaxed);
        let notes = self.notes();
        Progress {
            in_flight: read(&self.0.in_flight),
            requests: read(&self.0.requests),
            finished: read(&self.0.finished),
            retries: read(&self.0.retries),
            failures: notes.failures.clone(),
            targets: notes.targets.clone(),
            in_flight_max: notes.in_flight_max,
            refused: notes.refused.clone(),
            trouble: notes.store_trouble.as_ref().or(notes.target_trouble.as_ref()).cloned(),
        }
    }

    /// A panic while it was held left at worst one number too low.
    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.0.notes.lock()
    }
}
