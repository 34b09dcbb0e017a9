//! Renewing leases, and losing them: the worker extends what it holds at a third of the lease, and drops
//! the lines of leases that another process took back.

use tokio::task::JoinSet;
use windrow_domain::LeaseId;
use windrow_store::Result;
use windrow_store::claim::{Extended, LEASE_MS_MAX};

use super::Worker;
use super::claimer::ClaimedFor;
use super::host::Host;
use super::ledger::LineOutcome;
use super::suspects::Suspects;

/// A renewal of leases that the store answered.
pub(super) struct Renewal {
    /// How long the leases were to be extended, from when on.
    renewed: ClaimedFor,
    /// The claim that was under way when it began.
    claiming: Option<LeaseId>,
    answer: Result<Extended>,
}

impl Worker {
    /// Renews every lease that is held, when that is due.
    pub(super) fn start_renewal(&mut self, now: u64) {
        if self.extending.is_some() || self.claimer.extend_ms.is_none_or(|at| now < at) {
            return;
        }
        let (store, instance) = (self.deps.store.clone(), self.deps.membership.instance());
        let (mut known, claiming) = (self.ledger.held(), self.claiming);
        known.extend(claiming);
        let lease_ms = self.lease_ms();
        let renewed = ClaimedFor { lease_ms, asked_ms: now };
        self.extending = Some(Box::pin(async move {
            let answer = store.extend_leases(instance, known, lease_ms).await;
            Renewal { renewed, claiming, answer }
        }));
    }

    /// The longest lease that a target would ask for.
    fn lease_ms(&self) -> u64 {
        let lengths = self.queues.iter().map(|queue| queue.slice.lease_ms());
        lengths.max().unwrap_or(self.deps.options.slice.lock_floor_ms).min(LEASE_MS_MAX)
    }

    /// Leases were renewed, or the store did not answer.
    pub(super) fn on_extended(&mut self, Renewal { renewed, claiming, answer }: Renewal) {
        let now = self.deps.clock.millis();
        match answer {
            Ok(extended) => {
                // The claim that was under way may have got its lease only after this looked.
                for lease in extended.lost.iter().copied().filter(|lease| Some(*lease) != claiming)
                {
                    self.lose(lease);
                }
                self.ledger.renewed(&extended.extended, renewed.lapses_ms());
                self.stop_leases(&extended.stopped, now);
                self.claimer.extended(renewed, !self.ledger.is_empty(), now);
            }
            Err(error) => {
                self.trouble("could not renew leases", &error);
                self.claimer.not_extended(renewed.lease_ms, !self.ledger.is_empty(), now);
            }
        }
    }

    /// These leases must not go on: what was not sent of them goes back with the next turn. An attempt
    /// that waits to be sent finds its gate closed.
    pub(super) fn stop_leases(&mut self, leases: &[LeaseId], now: u64) {
        for lease in leases {
            let Some(route) = self.ledger.stop(*lease) else { continue };
            tracing::debug!(%lease, %route, "a lease must not go on; its unsent lines are released");
            self.release_lease(*lease, now);
        }
    }

    /// A lease was taken back: what waits of it is not this worker's to run.
    pub(super) fn lose(&mut self, lease: LeaseId) {
        let Some(route) = self.ledger.lose(lease) else { return };
        tracing::warn!(%lease, %route, "a lease was taken back; its lines run elsewhere");
        self.take_jobs_of(lease);
    }

    /// What waits of a lease goes back untried.
    pub(super) fn release_lease(&mut self, lease: LeaseId, now: u64) {
        for job in self.take_jobs_of(lease) {
            self.ledger.note(lease, LineOutcome::Released(job.seq), now);
        }
    }

    /// We were taken for dead: nothing of what we hold is ours any more.
    pub(super) fn forget_all(&mut self) {
        self.ledger.forget();
        (self.turning, self.extending, self.claiming) = (None, None, None);
        (self.suspects, self.marking) = (Suspects::default(), None);
        // Their answers would count for nothing: the process that has the lines now asks again.
        for _ in 0..self.running.len() {
            self.deps.meter.ended();
        }
        self.running = JoinSet::new();
        for queue in &mut self.queues {
            queue.forget();
        }
        self.hosts.values_mut().for_each(Host::forget);
        self.claimer.poll_ms = 0;
    }
}
