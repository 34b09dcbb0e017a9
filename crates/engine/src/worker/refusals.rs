//! Refusals: a host that has answered nothing but 401 or 403 so far was given the wrong key, not the wrong
//! lines. Their lines are held back until that is known; if it is so, they go back untried and the engine
//! stops, else they fail as any line that was refused.
//!
//! Holds throughout: only a host that never gave another answer is in doubt, so a key that works costs
//! nothing; what is held is bounded by what was in flight before the first refusal, and [`REFUSALS_MAX`];
//! only an engine that was told to stops so ([`crate::Options::stop_when_refused`]).

use super::Worker;
use super::ledger::LineOutcome;
use super::target::{AttemptEnd, Job};
use crate::execute::{Outcome, Verdict};

/// So many refusals and nothing else: the key is wrong.
const REFUSALS_MAX: u32 = 8;

/// What is known of a host's key.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    /// It gave an answer that only a key that works gets.
    proven: bool,
    refused: u32,
    /// One was a 401, which is about the key and nothing else.
    unauthorized: bool,
    held: Vec<RefusedLine>,
}

/// A line that was refused, while it is not known whether that is its own fault.
#[derive(Debug)]
struct RefusedLine {
    queue: usize,
    job: Job,
    tried: Outcome,
}

impl Refusals {
    /// Whether all answers were refusals: then nothing starts while others are in flight.
    pub(crate) fn is_in_doubt(&self) -> bool {
        !self.held.is_empty()
    }

    /// Whether there is no more doubt that the key is wrong, `idle` when nothing is in flight.
    fn is_wrong(&self, idle: bool) -> bool {
        let all_answered = idle && self.unauthorized;
        !self.proven && (self.refused >= REFUSALS_MAX || (all_answered && self.refused > 0))
    }

    pub(crate) fn forget(&mut self) {
        self.held.clear();
    }
}

/// Whether only a key that works gets such an answer.
pub(super) fn proves_key(end: &AttemptEnd<'_>) -> bool {
    match (end.verdict, end.http_status) {
        (Verdict::Completed, _) => true,
        // A gateway may say these before it looks at the key.
        (_, Some(401 | 403 | 408 | 429 | 500..)) | (_, None) => false,
        (Verdict::Failed(_) | Verdict::Skipped(_) | Verdict::Withdrawn, Some(_)) => end.reached,
    }
}

impl Worker {
    /// Keeps a line back that was refused before its host gave any other answer. Gives it back when it is
    /// to be judged as usual.
    pub(super) fn hold_refused(
        &mut self,
        at: usize,
        job: Job,
        tried: Outcome,
    ) -> Option<(Job, Outcome)> {
        if !self.deps.options.stop_when_refused {
            return Some((job, tried));
        }
        let refusals = &mut self.host_mut(at).refusals;
        match tried.http_status {
            Some(status @ (401 | 403)) if !refusals.proven => {
                refusals.refused += 1;
                refusals.unauthorized |= status == 401;
                refusals.held.push(RefusedLine { queue: at, job, tried });
                None
            }
            _ => Some((job, tried)),
        }
    }

    /// Decides about the lines that are held back, after an attempt ended that
    /// [proves](proves_key) the key, or not.
    pub(super) fn settle_refused(&mut self, at: usize, proves: bool, now: u64) {
        if !self.deps.options.stop_when_refused {
            return;
        }
        let host_name = self.queues[at].host.clone();
        // While a line runs alone, the others wait for it.
        let waits = !self.runs_alone()
            && self.queues.iter().any(|queue| queue.host == host_name && !queue.has_no_jobs());
        let host = self.host_mut(at);
        let idle = host.in_flight == 0;
        let refusals = &mut host.refusals;
        refusals.proven |= proves;
        if refusals.held.is_empty() {
            return;
        }
        if refusals.is_wrong(idle) {
            let held = std::mem::take(&mut refusals.held);
            self.stop_refused(at, held, now);
        } else if refusals.proven || (idle && !waits) {
            for RefusedLine { queue, job, tried } in std::mem::take(&mut refusals.held) {
                self.settle(queue, job, tried, false, now);
            }
        }
    }

    /// The key is wrong: all that is held goes back untried, and the engine stops.
    fn stop_refused(&mut self, at: usize, held: Vec<RefusedLine>, now: u64) {
        if let Some(RefusedLine {
            tried: Outcome { verdict: Verdict::Failed(failure), .. }, ..
        }) = held.first()
        {
            let host = &self.queues[at].host;
            self.deps.meter.set_refused(format!(
                "{host} answered every request so far with a refusal: {}",
                failure.message
            ));
        }
        for RefusedLine { job, .. } in held {
            self.released += 1;
            self.ledger.note(job.lease, LineOutcome::Released(job.seq), now);
        }
        self.deps.stop.give();
    }
}
