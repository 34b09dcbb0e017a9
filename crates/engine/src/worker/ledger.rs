//! Recording: outcomes gather by lease until a turn takes them to the store.
//!
//! Holds throughout: an outcome of a lease that is not held any more is dropped, since its line has
//! gone back; what a turn took is not in here any more; what waits is bounded, since the worker starts lines
//! only while [`Ledger::has_room`].

use std::collections::{HashMap, VecDeque};

use windrow_domain::lease::Lease;
use windrow_domain::millis;
use windrow_domain::{LeaseId, LeaseProof, LineSet, Route};
use windrow_store::record::{Again, Finished, Fold, Outcomes, TURN_LEASES_MAX};

use crate::Options;
use crate::execute::Gate;

/// What an outcome costs beside its bodies.
const OUTCOME_BYTES: usize = 256;

/// The leases that are held, and the outcomes that wait to be recorded.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    leases: HashMap<LeaseId, PendingLease>,
    /// Leases with something that waits, in the order in which it began to wait.
    waiting: VecDeque<LeaseId>,
    lines: usize,
    bytes: usize,
    /// When the oldest outcome came in.
    since_ms: Option<u64>,
}

/// A lease and what waits for it.
#[derive(Debug)]
struct PendingLease {
    lease: Lease,
    gate: Gate,
    /// It must not go on, and what waited of it was released.
    is_stopped: bool,
    finished: Vec<Finished>,
    again: Vec<Again>,
    released: LineSet,
    is_waiting: bool,
}

impl PendingLease {
    fn waits(&self) -> bool {
        !(self.finished.is_empty() && self.again.is_empty() && self.released.is_empty())
    }
}

/// What became of one line.
#[derive(Debug)]
pub(crate) enum LineOutcome {
    Finished(Finished),
    Again(Again),
    /// Released without an attempt; the number of the line within its lane.
    Released(u64),
}

/// What is large of a result.
fn body_bytes(line: &Finished) -> usize {
    let texts = [&line.shaped, &line.normalised].into_iter().flatten().map(String::len);
    line.response.as_ref().map_or(0, bytes::Bytes::len) + texts.sum::<usize>()
}

impl LineOutcome {
    fn bytes(&self) -> usize {
        let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        OUTCOME_BYTES
            + match self {
                LineOutcome::Finished(line) => body_bytes(line) + text(&line.error),
                LineOutcome::Again(line) => line.error.len(),
                LineOutcome::Released(_) => 0,
            }
    }
}

impl Ledger {
    /// Takes a lease into the books.
    pub(crate) fn open(&mut self, lease: Lease, gate: Gate) {
        let entry = PendingLease {
            lease,
            gate,
            is_stopped: false,
            finished: Vec::new(),
            again: Vec::new(),
            released: LineSet::new(),
            is_waiting: false,
        };
        self.leases.insert(entry.lease.held.id, entry);
    }

    /// Every lease that is held.
    pub(crate) fn held(&self) -> Vec<LeaseId> {
        self.leases.keys().copied().collect()
    }

    /// Whether the lease is held.
    pub(crate) fn holds(&self, lease: LeaseId) -> bool {
        self.leases.contains_key(&lease)
    }

    /// The token of a lease that is held.
    pub(crate) fn token(&self, lease: LeaseId) -> Option<u64> {
        self.leases.get(&lease).map(|entry| entry.lease.held.token)
    }

    /// The lease must not go on: its gate closes. Gives its target; none when it is not held or was told
    /// before.
    pub(crate) fn stop(&mut self, lease: LeaseId) -> Option<Route> {
        let entry = self.leases.get_mut(&lease).filter(|entry| !entry.is_stopped)?;
        entry.is_stopped = true;
        entry.gate.close();
        Some(entry.lease.route())
    }

    /// The store has renewed these leases: they lapse at that time.
    pub(crate) fn renewed(&self, leases: &[LeaseId], lapses_ms: u64) {
        for lease in leases {
            if let Some(entry) = self.leases.get(lease) {
                entry.gate.renew(lapses_ms);
            }
        }
    }

    /// Forgets every lease: nothing of them may be sent any more.
    pub(crate) fn forget(&mut self) {
        self.leases.values().for_each(|entry| entry.gate.close());
        *self = Self::default();
    }

    /// Whether no lease is held.
    pub(crate) fn is_empty(&self) -> bool {
        self.leases.is_empty()
    }

    /// Notes an outcome; false when the lease is not held any more.
    pub(crate) fn note(&mut self, lease: LeaseId, outcome: LineOutcome, now_ms: u64) -> bool {
        let Some(entry) = self.leases.get_mut(&lease) else { return false };
        self.lines += 1;
        self.bytes += outcome.bytes();
        self.since_ms.get_or_insert(now_ms);
        match outcome {
            LineOutcome::Finished(line) => entry.finished.push(line),
            LineOutcome::Again(line) => entry.again.push(line),
            LineOutcome::Released(seq) => {
                entry.released.insert(seq);
            }
        }
        if !std::mem::replace(&mut entry.is_waiting, true) {
            self.waiting.push_back(lease);
        }
        true
    }

    /// Forgets a lease that was taken back, with all that waits for it.
    pub(crate) fn lose(&mut self, lease: LeaseId) -> Option<Route> {
        let entry = self.leases.remove(&lease)?;
        entry.gate.close();
        self.waiting.retain(|id| *id != lease);
        self.recount();
        Some(entry.lease.route())
    }

    /// How many outcomes wait for a turn.
    pub(crate) fn lines(&self) -> usize {
        self.lines
    }

    /// When the oldest outcome must be recorded; none when nothing waits.
    pub(crate) fn due_ms(&self, options: &Options) -> Option<u64> {
        self.since_ms.map(|since| since.saturating_add(millis(options.record_wait_max)))
    }

    /// Whether a turn's worth waits.
    pub(crate) fn is_full(&self, options: &Options) -> bool {
        self.lines >= options.record_lines_max || self.bytes >= options.record_bytes_max / 2
    }

    /// Whether more may be started: when the store is slow, nothing piles up.
    pub(crate) fn has_room(&self, options: &Options) -> bool {
        self.lines < options.record_lines_max.saturating_mul(4)
            && self.bytes < options.record_bytes_max
    }

    /// Takes what one turn may carry, oldest first.
    pub(crate) fn take(&mut self, options: &Options) -> Vec<Outcomes> {
        let (mut lines, mut bytes) = (options.record_lines_max, options.record_bytes_max);
        let mut taken = Vec::new();
        while taken.len() < TURN_LEASES_MAX && lines > 0 && bytes > 0 {
            let Some(id) = self.waiting.pop_front() else { break };
            let Some(entry) = self.leases.get_mut(&id) else { continue };
            let outcomes = entry.take(&mut lines, &mut bytes);
            entry.is_waiting = entry.waits();
            if entry.is_waiting {
                self.waiting.push_front(id);
            }
            taken.push(outcomes);
        }
        self.recount();
        taken
    }

    /// Applies what a turn did to its leases; gives the routes of those that were lost.
    pub(crate) fn settle(&mut self, folds: &[Fold]) -> Vec<(LeaseId, Route)> {
        let mut lost = Vec::new();
        for fold in folds {
            match fold {
                Fold::Kept { lease, held: Some(held), .. } => self.renew(*lease, held),
                Fold::Kept { lease, held: None, .. } => {
                    self.leases.remove(lease);
                }
                Fold::Lost { lease } => {
                    lost.extend(self.lose(*lease).map(|route| (*lease, route)));
                }
            }
        }
        lost
    }

    fn renew(&mut self, lease: LeaseId, held: &LeaseProof) {
        if let Some(entry) = self.leases.get_mut(&lease) {
            entry.lease.held = held.clone();
        }
    }

    fn recount(&mut self) {
        let waiting = self.waiting.iter().filter_map(|id| self.leases.get(id));
        (self.lines, self.bytes) = waiting.fold((0, 0), |(lines, bytes), entry| {
            let more = entry.finished.len() + entry.again.len();
            let released = usize::try_from(entry.released.len()).unwrap_or(usize::MAX);
            (lines + more + released, bytes + entry.bytes())
        });
        if self.lines == 0 {
            self.since_ms = None;
        }
    }
}

impl PendingLease {
    fn bytes(&self) -> usize {
        let bodies = self.finished.iter().map(|line| OUTCOME_BYTES + body_bytes(line));
        bodies.sum::<usize>() + self.again.len() * OUTCOME_BYTES
    }

    /// Moves out what fits; at least one outcome, so that a large one is not stuck.
    fn take(&mut self, lines: &mut usize, bytes: &mut usize) -> Outcomes {
        let mut outcomes = Outcomes::of(self.lease.held.clone());
        outcomes.released = std::mem::take(&mut self.released);
        let fits = self.finished.iter().take(*lines).scan(*bytes, |left, line| {
            let size = OUTCOME_BYTES + body_bytes(line);
            let fits = *left > 0;
            *left = left.saturating_sub(size);
            fits.then_some(*left)
        });
        let (count, left) = fits.fold((0, *bytes), |(count, _), left| (count + 1, left));
        (*lines, *bytes) = (*lines - count, left);
        outcomes.finished = if count == self.finished.len() {
            std::mem::take(&mut self.finished)
        } else {
            self.finished.drain(..count).collect()
        };
        let count = self.again.len().min(*lines);
        *lines -= count;
        outcomes.again = self.again.drain(..count).collect();
        outcomes
    }
}
