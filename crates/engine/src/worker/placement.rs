//! Where a claimed line waits: at the target of its lane, or, for a row whose strategy has an upstream of
//! its own, at that upstream.
//!
//! Holds throughout: such an attempt is counted, paced and broken by the upstream that it goes to. A row whose
//! upstream cannot be asked now is put off without using up an attempt; so many wait for others at most.

use std::time::Duration;

use windrow_domain::attempt::Class;
use windrow_domain::control::breaker::BreakerState;
use windrow_domain::{LeaseId, Route};
use windrow_store::record::Again;

use super::Worker;
use super::ledger::LineOutcome;
use super::target::Job;

/// Nothing is claimed while so many rows wait for an upstream that is not their lane's.
const ELSEWHERE_MAX: usize = 4_096;
/// How long a row waits whose upstream this process does not serve, or does not know how long to leave alone.
const PUT_OFF: Duration = Duration::from_secs(5);

impl Worker {
    /// A claimed line waits for its attempt.
    pub(super) fn enqueue(&mut self, lane_at: usize, job: Job, is_suspect: bool, now: u64) {
        let at = match self.upstream_of_strategy(lane_at, &job) {
            None => lane_at,
            Some(route) => match self.reachable(&route, now) {
                Ok(at) => at,
                Err((wait, because)) => {
                    let again = self.put_off(&job, wait, because);
                    self.ledger.note(job.lease, LineOutcome::Again(again), now);
                    return;
                }
            },
        };
        let queue = &mut self.queues[at];
        queue.takes_others |= at != lane_at;
        let jobs = if is_suspect { &mut queue.suspects } else { &mut queue.jobs };
        jobs.push_back(job);
    }

    /// The route of a row whose strategy goes elsewhere.
    fn upstream_of_strategy(&self, lane_at: usize, job: &Job) -> Option<Route> {
        let own = &self.queues[lane_at].route;
        let upstream = job.row.as_ref()?.upstream()?;
        (upstream != own.upstream).then(|| Route::new(upstream, own.target.clone()))
    }

    /// The queue of a route; or how long to wait before it is asked again, and why.
    fn reachable(&mut self, route: &Route, now: u64) -> Result<usize, (Duration, String)> {
        let unserved =
            || (PUT_OFF, format!("This process does not serve the upstream {}.", route.upstream));
        if self.deps.upstreams.is_refused(&route.upstream) {
            return Err(unserved());
        }
        let at = self.queue(route, now).ok_or_else(unserved)?;
        match self.queues[at].breaker(now) {
            BreakerState::Closed | BreakerState::HalfOpen => Ok(at),
            BreakerState::Open { until_ms } => {
                let wait = Duration::from_millis(until_ms.saturating_sub(now)).max(PUT_OFF);
                Err((wait, format!("{} is left alone for a while.", route.upstream)))
            }
        }
    }

    /// The row comes back later, with no attempt used up.
    fn put_off(&self, job: &Job, wait: Duration, because: String) -> Again {
        let wall = self.deps.clock.now();
        let wall = wall.checked_add(self.skew).unwrap_or(wall);
        Again {
            seq: job.seq,
            line: job.line,
            not_before: wall.checked_add(wait).unwrap_or(wall),
            // The class of what waits for an upstream and is not counted.
            class: Class::Throttled,
            error_code: "upstream_unavailable".to_owned(),
            error: because,
        }
    }

    /// Whether so many rows wait for others' upstreams that nothing more is to be claimed.
    pub(super) fn is_full_elsewhere(&self) -> bool {
        let elsewhere = self.queues.iter().filter(|queue| queue.takes_others);
        elsewhere.map(|queue| queue.jobs.len()).sum::<usize>() >= ELSEWHERE_MAX
    }

    /// Takes what waits of a lease, at whatever upstream.
    pub(super) fn take_jobs_of(&mut self, lease: LeaseId) -> Vec<Job> {
        self.queues.iter_mut().flat_map(|queue| queue.take_jobs_of(lease)).collect()
    }
}
