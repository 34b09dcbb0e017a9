//! Claiming: decides what to ask the store for next, and when to renew what is held.
//!
//! Holds throughout: the caller makes the lease id and keeps it until the claim is answered, so a
//! repeat finds its lease; leases are renewed at a third of their length, so that two lost renewals
//! still leave time to finish.

use std::time::Duration;

use windrow_domain::control::breaker::BreakerState;
use windrow_domain::lease::TRANCHE_LINES_MAX;
use windrow_domain::millis;
use windrow_domain::{BatchId, LeaseId};
use windrow_store::claim::{LEASE_MS_MAX, Request, Waiting};

use super::target::TargetQueue;
use crate::Options;

/// The first pause after a claim that found nothing though something was said to wait; doubles.
const EMPTY_CLAIM_MS_MIN: u64 = 25;
/// The pause before a renewal of leases that the store did not answer is repeated.
const AGAIN_MS: u64 = 500;
/// How often the store is polled while leases are held: a stop is heard within this time.
const HELD_POLL_MS: u64 = 500;

/// When to look for work, and when to renew.
#[derive(Debug)]
pub(crate) struct Claimer {
    only: Option<BatchId>,
    /// The target that claims next, so that all get their turn.
    next: usize,
    /// When to ask the store what waits.
    pub(crate) poll_ms: u64,
    /// When to renew leases; none while none is held.
    pub(crate) extend_ms: Option<u64>,
}

/// A claim to make.
#[derive(Clone, Debug)]
pub(crate) struct ClaimPlan {
    pub(crate) queue: usize,
    pub(crate) request: Request,
}

/// How long lines were leased for, from when on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClaimedFor {
    pub(crate) lease_ms: u64,
    /// When the store was asked, in our own time.
    pub(crate) asked_ms: u64,
}

impl ClaimedFor {
    /// When the lease lapses by our own clock: not later than by the store's.
    pub(crate) fn lapses_ms(self) -> u64 {
        self.asked_ms.saturating_add(self.lease_ms)
    }
}

impl Claimer {
    pub(crate) fn new(only: Option<BatchId>) -> Self {
        Self { only, next: 0, poll_ms: 0, extend_ms: None }
    }

    /// The next claim: one target at a time, in turn.
    pub(crate) fn plan(
        &mut self,
        queues: &[TargetQueue],
        pressure: f64,
        now_ms: u64,
    ) -> Option<ClaimPlan> {
        let count = queues.len();
        let order = (0..count).map(|step| (self.next + step) % count);
        let (queue, lines) = order
            .filter_map(|at| queues[at].wants(pressure, now_ms).map(|lines| (at, lines)))
            .next()?;
        self.next = queue + 1;
        let request = Request {
            lease: LeaseId::new(),
            routes: vec![queues[queue].route.clone()],
            binds: queues[queue].binds,
            only: self.only,
            lines_max: lines.min(TRANCHE_LINES_MAX),
            lease_ms: queues[queue].slice.lease_ms().min(LEASE_MS_MAX),
        };
        Some(ClaimPlan { queue, request })
    }

    /// When a claim may be wanted by itself, without anything else happening.
    pub(crate) fn due_ms(queues: &[TargetQueue], now_ms: u64) -> Option<u64> {
        let due = queues.iter().filter_map(|queue| {
            let ready = queue.ready_ms?;
            match queue.breaker(now_ms) {
                BreakerState::Open { until_ms } => Some(ready.max(until_ms)),
                BreakerState::HalfOpen | BreakerState::Closed => (ready > now_ms).then_some(ready),
            }
        });
        due.min()
    }

    /// A claim was answered, with lines or without.
    pub(crate) fn claimed(
        &mut self,
        queue: &mut TargetQueue,
        got: Option<ClaimedFor>,
        now_ms: u64,
        options: &Options,
    ) {
        if let Some(ClaimedFor { lease_ms, asked_ms }) = got {
            queue.empty_claims = 0;
            let due = asked_ms.saturating_add(lease_ms / 3);
            self.extend_ms = Some(self.extend_ms.map_or(due, |at| at.min(due)));
            return;
        }
        queue.ready_ms = None;
        let wait = EMPTY_CLAIM_MS_MIN
            .saturating_mul(1 << queue.empty_claims.min(16))
            .min(millis(options.poll_every));
        queue.empty_claims = queue.empty_claims.saturating_add(1);
        self.poll_ms = self.poll_ms.min(now_ms.saturating_add(wait));
    }

    /// What the store said waits.
    pub(crate) fn polled(
        &mut self,
        queues: &mut [TargetQueue],
        waiting: &[Waiting],
        now_ms: u64,
        options: &Options,
    ) {
        for queue in queues.iter_mut() {
            let found = waiting.iter().find(|waiting| waiting.route == queue.route);
            match found.map(|waiting| ready_ms(waiting.ready_in, now_ms)) {
                Some(ready) => queue.ready_ms = Some(ready),
                // What this process itself put back for later may be newer than the answer.
                None => queue.ready_ms = queue.ready_ms.filter(|ready| *ready > now_ms),
            }
        }
        self.poll_ms = now_ms.saturating_add(millis(options.poll_every));
    }

    /// Leases are held: the next poll comes soon enough to hear that one of them must not go on.
    pub(crate) fn holds(&mut self, now_ms: u64) {
        self.poll_ms = self.poll_ms.min(now_ms.saturating_add(HELD_POLL_MS));
    }

    /// Leases were renewed, for a time that began when the store was asked.
    pub(crate) fn extended(&mut self, renewed: ClaimedFor, held: bool, now_ms: u64) {
        let due = renewed.asked_ms.saturating_add(renewed.lease_ms / 3);
        self.extend_ms = held.then(|| due.max(now_ms.saturating_add(1)));
    }

    /// The store did not answer a renewal of leases.
    pub(crate) fn not_extended(&mut self, lease_ms: u64, held: bool, now_ms: u64) {
        let wait = AGAIN_MS.min(lease_ms / 3).max(1);
        self.extend_ms = held.then(|| now_ms.saturating_add(wait));
    }
}

fn ready_ms(ready_in: Duration, now_ms: u64) -> u64 {
    // A part of a millisecond is one more: asked too early, the store says no.
    let part = u64::from(!ready_in.subsec_nanos().is_multiple_of(1_000_000));
    now_ms.saturating_add(millis(ready_in)).saturating_add(part)
}
