//! Looking for work: the worker asks the store which targets have lines waiting, and keeps a queue
//! for each target that its executor serves.

use std::collections::HashMap;

use windrow_domain::{Route, UpstreamId, millis};
use windrow_store::Result;
use windrow_store::claim::{POLL_LEASES_MAX, Poll, Polled, TARGETS_MAX, Waiting};
use windrow_store::upstream::UPSTREAMS_MAX;

use super::Worker;
use super::host::Host;
use super::target::TargetQueue;

impl Worker {
    /// Asks the store what waits, when that is due.
    pub(super) fn start_poll(&mut self, now: u64) {
        if self.stop_ms.is_some() || self.polling.is_some() || now < self.claimer.poll_ms {
            return;
        }
        let mut upstreams = self.deps.upstreams.served();
        // Last, so that it is the one that is left out of too many. It is asked for even when all others
        // differ from what the database knows: the poll also says which leases must not go on.
        upstreams.push(UpstreamId::unknown());
        upstreams.truncate(UPSTREAMS_MAX);
        let (store, only) = (self.deps.store.clone(), self.deps.only);
        let limit = u32::try_from(TARGETS_MAX).unwrap_or(u32::MAX);
        let mut held = self.ledger.held();
        held.truncate(POLL_LEASES_MAX);
        let poll = Poll { upstreams, only, limit, held };
        self.polling = Some(Box::pin(async move { store.waiting(poll).await }));
    }

    /// The store said what waits, or did not answer.
    pub(super) fn on_polled(&mut self, polled: Result<Polled>) {
        let now = self.deps.clock.millis();
        for at in 0..self.queues.len() {
            if self.deps.upstreams.is_refused(&self.queues[at].route.upstream) {
                self.queues[at].ready_ms = None;
                self.release_queue(at, now);
            }
        }
        match polled {
            Ok(Polled { waiting, stopped }) => {
                self.stop_leases(&stopped, now);
                let waiting = self.routed(waiting, now);
                self.claimer.polled(&mut self.queues, &waiting, now, &self.deps.options);
                if !self.ledger.is_empty() {
                    self.claimer.holds(now);
                }
                self.count_sharers();
            }
            Err(error) => {
                self.trouble("could not look for work", &error);
                self.claimer.poll_ms = now.saturating_add(millis(self.deps.options.poll_every));
            }
        }
    }

    /// Counts the targets of each host that have lines, now or later: they share its slots.
    fn count_sharers(&mut self) {
        let mut sharers = HashMap::<String, u32>::new();
        for queue in self.queues.iter().filter(|queue| queue.has_work()) {
            *sharers.entry(queue.host.clone()).or_default() += 1;
        }
        for queue in &mut self.queues {
            queue.sharers = sharers.get(&queue.host).copied().unwrap_or_default().max(1);
        }
    }

    /// What waits, by the routes of this process: lines of an unknown upstream wait where the executor
    /// would send them. Each route that is served has a queue afterwards.
    fn routed(&mut self, waiting: Vec<Waiting>, now: u64) -> Vec<Waiting> {
        for queue in &mut self.queues {
            queue.binds = false;
        }
        let mut routed: Vec<Waiting> = Vec::with_capacity(waiting.len());
        for Waiting { mut route, ready_in } in waiting {
            let is_unknown = route.upstream.is_unknown();
            if is_unknown {
                let Some(upstream) = self.deps.executor.binds(&route.target) else { continue };
                route.upstream = upstream;
            }
            if self.deps.upstreams.is_refused(&route.upstream) {
                continue;
            }
            let Some(at) = self.queue(&route, now) else { continue };
            self.queues[at].binds |= is_unknown;
            match routed.iter_mut().find(|other| other.route == route) {
                Some(other) => other.ready_in = other.ready_in.min(ready_in),
                None => routed.push(Waiting { route, ready_in }),
            }
        }
        routed
    }

    /// The place of a route's queue; a new queue for a new route that the executor serves.
    pub(super) fn queue(&mut self, route: &Route, now: u64) -> Option<usize> {
        let found = self.queues.iter().position(|queue| queue.route == *route);
        if found.is_some() || !self.deps.executor.serves(route) {
            return found;
        }
        let (host, limits) = (self.deps.executor.host(route), self.deps.executor.limits(route));
        let options = &self.deps.options;
        let (bounds, policy) = (options.slice.clone(), options.retry.with(&limits.retry));
        let new = || Host::new(&limits, policy.attempts_max);
        let known = self.hosts.entry(host.clone()).or_insert_with(new);
        known.widen(&limits);
        let host_open = known.open_until_ms();
        let mut queue = TargetQueue::new(route.clone(), host, limits, bounds, policy, now);
        queue.set_host_open(host_open, now);
        if self.queues.len() < TARGETS_MAX {
            self.queues.push(queue);
            return Some(self.queues.len() - 1);
        }
        // As many as one claim may name: the one that has been idle longest makes room.
        let idle = |queue: &&(usize, &TargetQueue)| queue.1.in_flight == 0 && queue.1.has_no_jobs();
        let all: Vec<_> = self.queues.iter().enumerate().collect();
        let oldest = all.iter().filter(idle).min_by_key(|(_, queue)| queue.touched_ms);
        let at = oldest.map(|(at, _)| *at)?;
        self.queues[at] = queue;
        Some(at)
    }
}
