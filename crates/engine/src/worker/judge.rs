//! Judging: the outcome of an attempt becomes a result, a line for later, or a line that is
//! released.

use std::borrow::Cow;
use std::time::Duration;

use jiff::Timestamp;
use windrow_domain::attempt::{Class, Failure, Status};
use windrow_domain::millis;
use windrow_domain::retry::Decision;
use windrow_domain::strategy::Next;
use windrow_domain::{BatchId, text};
use windrow_store::record::{Again, Finished};

use super::ledger::LineOutcome;
use super::observe_end::Observed;
use super::start::Ended;
use super::target::{AttemptEnd, Job};
use super::{ENDS_AT_ONCE_MAX, Worker};
use crate::execute::{Outcome, Verdict};
use crate::json;
use crate::row_job::FRUITLESS_ROWS_MAX;

/// Longest message of an error that is kept.
const MESSAGE_BYTES_MAX: usize = 2048;

impl Worker {
    /// Handles the end of an attempt, and of all others that ended meanwhile.
    pub(super) fn on_ended(&mut self, ended: Result<Ended, tokio::task::JoinError>) {
        let now = self.deps.clock.millis();
        let mut next = Some(ended);
        for _ in 0..ENDS_AT_ONCE_MAX {
            let Some(ended) = next else { return };
            match ended {
                Ok(ended) => self.judge(ended, now),
                // Panics are caught inside; what is left is a task that was aborted.
                Err(error) => tracing::debug!(%error, "a try was ended"),
            }
            next = self.running.try_join_next();
        }
        if let Some(Ok(ended)) = next {
            self.judge(ended, now);
        }
    }

    fn judge(&mut self, ended: Ended, now: u64) {
        let Ended { queue: at, job, probe, host_probe, started_ms, tried } = ended;
        self.deps.meter.ended();
        let end = AttemptEnd {
            started_ms,
            attempt: job.counted(),
            probe,
            reached: tried.reached,
            http_status: tried.http_status,
            verdict: &tried.verdict,
        };
        let Observed { spared, open, proves_key } =
            self.observe_end(at, &job, &end, host_probe, now);
        if let Some((job, tried)) = self.hold_refused(at, job, tried) {
            self.settle(at, job, tried, spared, now);
        }
        self.settle_refused(at, proves_key, now);
        if open {
            self.release_queue(at, now);
            // Something waits for the probe, whatever the last look said.
            self.queues[at].ready_ms.get_or_insert(now);
        }
    }

    /// Notes what becomes of the line.
    pub(super) fn settle(&mut self, at: usize, job: Job, tried: Outcome, spared: bool, now: u64) {
        let (lease, batch, line, attempt) = (job.lease, job.batch, job.line, job.attempt);
        let row = job.row.clone();
        let outcome = match tried.verdict {
            Verdict::Failed(_) if spared => LineOutcome::Released(job.seq),
            Verdict::Withdrawn => LineOutcome::Released(job.seq),
            Verdict::Failed(ref failure) => self.decide(at, &job, failure.clone(), tried, now),
            Verdict::Completed | Verdict::Skipped(_) => LineOutcome::Finished(finished(job, tried)),
        };
        log(batch, line, attempt, &outcome);
        if let (LineOutcome::Finished(result), Some(row)) = (&outcome, row)
            && row.job.is_fruitless(result.status)
        {
            let last = result.error.as_deref().unwrap_or_default();
            self.pause(
                batch,
                format!("Nothing was found for any of the first {FRUITLESS_ROWS_MAX} rows: {last}"),
            );
        }
        let is_final = matches!(outcome, LineOutcome::Finished(_));
        if self.ledger.note(lease, outcome, now) && is_final {
            self.deps.meter.finished();
        }
    }

    /// Counts failures, and says in a sentence when a target is in trouble.
    pub(super) fn tell(&self, at: usize, was_open: bool, open: bool, verdict: &Verdict) {
        let meter = &self.deps.meter;
        if let Verdict::Failed(failure) = verdict {
            meter.failed(&failure.code);
            if open {
                let target = &self.queues[at].route;
                let sentence = format!("{target} is left alone for a while: {}", failure.message);
                meter.set_target_trouble(Some(sentence));
            }
        }
        if was_open && !open {
            meter.set_target_trouble(None);
        }
    }

    /// Whether a failed attempt is repeated, and the failure as the history is to keep it.
    fn decision(
        &mut self,
        at: usize,
        job: &Job,
        failure: Failure,
        wall: Timestamp,
    ) -> (Failure, Decision) {
        let (queue, roll) = (&self.queues[at], self.rng.f64());
        // What was throttled before uses up no attempt, but the wait grows with it.
        let attempt = if failure.class.is_counted() { job.counted() } else { job.attempt };
        let usual = |failure: &Failure| {
            queue.policy.decide_amid(attempt, failure, wall, roll, queue.failing())
        };
        let Some(row) = &job.row else {
            let decision = usual(&failure);
            return (failure, decision);
        };
        let failure = row.misses.classed(failure);
        let decision = match failure.class {
            Class::NotFound => {
                let strategies = row.job.recipe.strategies();
                match row.misses.after_miss(strategies, &queue.policy, &failure) {
                    Next::Now => Decision::Again { not_before: wall },
                    Next::Later => queue.policy.wait_amid(1, &failure, wall, roll, queue.failing()),
                    Next::GiveUp(status) => Decision::GiveUp(status),
                }
            }
            _ => usual(&failure),
        };
        (failure, decision)
    }

    /// A failed attempt: again later, or for good.
    fn decide(
        &mut self,
        at: usize,
        job: &Job,
        failure: Failure,
        tried: Outcome,
        now: u64,
    ) -> LineOutcome {
        let wall = self.deps.clock.now();
        let wall = wall.checked_add(self.skew).unwrap_or(wall);
        let (failure, decision) = self.decision(at, job, failure, wall);
        match decision {
            Decision::Again { not_before } => {
                self.deps.meter.retried();
                let wait = Duration::try_from(not_before.duration_since(wall)).unwrap_or_default();
                let wait = millis(wait);
                let ready = now.saturating_add(wait).saturating_add(1);
                let queue = &mut self.queues[at];
                queue.ready_ms = Some(queue.ready_ms.map_or(ready, |at| at.min(ready)));
                LineOutcome::Again(Again {
                    seq: job.seq,
                    line: job.line,
                    not_before,
                    class: failure.class,
                    error_code: failure.code,
                    error: text::cut(failure.message, MESSAGE_BYTES_MAX),
                })
            }
            Decision::GiveUp(status) => {
                let mut result = result(job, status, job.attempt);
                result.custom_id =
                    tried.custom_id.or_else(|| json::custom_id(&job.raw).map(Cow::into_owned));
                result.http_status = tried.http_status;
                result.response = tried.body;
                result.normalised = tried.normalised;
                result.class = Some(failure.class);
                result.error_code = Some(failure.code);
                result.error = Some(text::cut(failure.message, MESSAGE_BYTES_MAX));
                LineOutcome::Finished(result)
            }
        }
    }
}

/// Logs what becomes of a line, at debug: there are many lines.
fn log(batch: BatchId, line: u64, attempt: u32, outcome: &LineOutcome) {
    match outcome {
        LineOutcome::Finished(result) => tracing::debug!(
            batch.id = %batch, line, attempt.no = attempt, status = result.status.as_str(),
            error.code = result.error_code, "line finished"
        ),
        LineOutcome::Again(again) => tracing::debug!(
            batch.id = %batch, line, attempt.no = attempt, error.code = again.error_code,
            not_before = %again.not_before, "line goes back to be retried"
        ),
        LineOutcome::Released(_) => {
            tracing::debug!(batch.id = %batch, line, attempt.no = attempt, "line given back untried");
        }
    }
}

fn result(job: &Job, status: Status, attempts: u32) -> Finished {
    Finished::bare(job.seq, job.line, status, attempts)
}

/// A line with its answer, or one that was not to be tried.
fn finished(job: Job, tried: Outcome) -> Finished {
    let mut result = match tried.verdict {
        Verdict::Skipped(because) => {
            let mut result = result(&job, Status::Skipped, job.attempt - 1);
            result.error_code = Some("skipped".to_owned());
            result.error = Some(text::cut(because, MESSAGE_BYTES_MAX));
            result
        }
        Verdict::Completed | Verdict::Failed(_) | Verdict::Withdrawn => {
            result(&job, Status::Completed, job.attempt)
        }
    };
    result.custom_id = tried.custom_id.or_else(|| json::custom_id(&job.raw).map(Cow::into_owned));
    result.http_status = tried.http_status;
    result.response = tried.body;
    result.shaped = tried.shaped;
    result.normalised = tried.normalised;
    result
}
