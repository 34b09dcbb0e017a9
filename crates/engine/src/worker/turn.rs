//! The turn: outcomes leave, the next tranche comes, in one transaction.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use windrow_domain::lease::is_suspect;
use windrow_domain::strategy::Misses;
use windrow_domain::{Route, millis};
use windrow_store::claim::Tranche;
use windrow_store::inspect::AttemptCounts;
use windrow_store::record::{Reply, Turn};
use windrow_store::{Result, Store};

use super::Worker;
use super::claimer::ClaimedFor;
use super::target::Job;
use crate::clock::Clock;
use crate::execute::{Gate, RowTask};
use crate::progress::Meter;
use crate::retry::with_retry;
use crate::row_job::{RowJob, RowJobs};
use crate::signal::Stop;
use windrow_store::error::chain;

/// A turn that was answered.
pub(super) struct AnsweredTurn {
    /// Whose claim it carried, and for how long a lease.
    claim: Option<(Route, ClaimedFor)>,
    answer: Result<Answer>,
}

/// What a turn did, and what its claim needs to be run.
struct Answer {
    reply: Reply,
    /// The history of claimed lines that were tried before.
    counts: Vec<AttemptCounts>,
    /// What claimed rows are asked for, or why they cannot be.
    rows: Result<Option<Arc<RowJob>>, String>,
}

impl Worker {
    /// Begins a turn when one is due: enough outcomes, the oldest waited long enough, nothing else is
    /// going on, or a target wants lines.
    pub(super) fn start_turn(&mut self, now: u64) {
        if self.turning.is_some() {
            return;
        }
        let options = &self.deps.options;
        let stopping = self.stop_ms.is_some();
        // A lease that a renewal under way does not know of would be released by it.
        let unfit = self.is_choked() || !self.ledger.has_room(options) || self.is_full_elsewhere();
        let wanted = if stopping || unfit || self.extending.is_some() {
            None
        } else {
            self.claimer.plan(&self.queues, self.pressure.factor(), now)
        };
        let waited = self.ledger.due_ms(options).is_some_and(|due| now >= due);
        let idle = self.running.is_empty() && self.ledger.lines() > 0;
        if wanted.is_none() && !waited && !idle && !self.ledger.is_full(options) {
            return;
        }
        let outcomes = self.ledger.take(options);
        let claim = wanted.as_ref().map(|wanted| wanted.request.clone());
        self.claiming = claim.as_ref().map(|claim| claim.lease);
        let turn = Turn { instance: self.deps.membership.instance(), outcomes, claim };
        let call = TurnCall {
            store: self.deps.store.clone(),
            clock: self.deps.clock.clone(),
            give_up: self.give_up.clone(),
            rng: self.rng.fork(),
            meter: self.deps.meter.clone(),
            row_jobs: self.row_jobs.clone(),
        };
        let claim = wanted.map(|wanted| {
            let leased = ClaimedFor { lease_ms: wanted.request.lease_ms, asked_ms: now };
            (self.queues[wanted.queue].route.clone(), leased)
        });
        self.turning =
            Some(Box::pin(async move { AnsweredTurn { claim, answer: call.make(turn).await } }));
    }

    pub(super) fn on_turned(&mut self, done: AnsweredTurn) -> Result<()> {
        let now = self.deps.clock.millis();
        self.claiming = None;
        let Answer { reply, counts, rows } = match done.answer {
            Ok(answer) => answer,
            Err(error) if self.stop_ms.is_some() => {
                self.trouble("stopped before the last outcomes were recorded", &error);
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        for (lease, route) in self.ledger.settle(&reply.folds) {
            tracing::warn!(%lease, %route, "a lease was taken back; its outcomes do not count");
            self.take_jobs_of(lease);
        }
        self.stop_leases(&reply.stopped, now);
        for batch in reply.finalizing {
            // A full queue is no loss: the sweep finds the batch.
            let _ = self.deps.finalizing.try_send(batch);
        }
        if let Some((route, leased)) = done.claim {
            // By name: a target may have made room for another meanwhile.
            let Some(at) = self.queue(&route, now) else { return Ok(()) };
            let got = reply.claimed.is_some().then_some(leased);
            let queue = &mut self.queues[at];
            self.claimer.claimed(queue, got, now, &self.deps.options);
            if let Some(tranche) = reply.claimed {
                let (batch, lease) = (tranche.lease.batch, tranche.lease.held.id);
                let (rows, trouble) = match rows {
                    Ok(rows) => (rows, None),
                    Err(reason) => (None, Some(reason)),
                };
                self.take_in(at, tranche, &counts, rows.as_ref(), leased.lapses_ms());
                if let Some(reason) = trouble {
                    self.release_lease(lease, now);
                    self.pause(batch, reason);
                }
            }
        }
        Ok(())
    }

    /// A time of the database's clock in the milliseconds of ours.
    fn deadline_ms(&self, deadline: Option<Timestamp>) -> Option<u64> {
        let left = deadline?.duration_since(self.deps.clock.now()).saturating_sub(self.skew);
        let left = millis(Duration::try_from(left).unwrap_or_default());
        Some(self.deps.clock.millis().saturating_add(left))
    }

    /// A tranche came: its lines wait at their target.
    fn take_in(
        &mut self,
        at: usize,
        tranche: Tranche,
        counts: &[AttemptCounts],
        rows: Option<&Arc<RowJob>>,
        lapses_ms: u64,
    ) {
        let lease = &tranche.lease;
        self.skew = lease.granted_at.duration_since(self.deps.clock.now());
        let gate = Gate::new(&self.deps.clock, self.deadline_ms(lease.deadline));
        gate.renew(lapses_ms);
        let crashes_max = self.deps.options.crashes_max;
        let suspect = is_suspect(lease.held.outstanding.len(), lease.crashes, crashes_max);
        let (batch, lane, attempts) = (lease.batch, lease.lane, lease.attempts);
        let id = lease.held.id;
        // Its lines are noted there when they are put off.
        self.ledger.open(tranche.lease, gate.clone());
        let now = self.deps.clock.millis();
        for line in tranche.lines {
            self.queues[at].slice.observe_bytes(line.raw.len());
            let known = counts.binary_search_by_key(&line.line, |counts| counts.line);
            let known = known.map_or_else(|_| AttemptCounts::none(line.line), |at| counts[at]);
            let job = Job {
                lease: id,
                batch,
                lane,
                seq: line.seq,
                line: line.line,
                raw: line.raw,
                attempt: attempts + 1,
                uncounted: known.uncounted,
                tried: known.tried,
                answered: known.answered,
                row: rows.map(|job| RowTask { job: job.clone(), misses: misses(&known) }),
                gate: gate.clone(),
            };
            self.enqueue(at, job, suspect, now);
        }
        self.claimer.holds(now);
        // It came while we were asked to stop: it goes back.
        if self.stop_ms.is_some() {
            for at in 0..self.queues.len() {
                self.release_queue(at, now);
            }
        }
    }
}

/// What a turn needs to be made, and made again.
struct TurnCall {
    store: Arc<dyn Store>,
    clock: Clock,
    give_up: Stop,
    rng: fastrand::Rng,
    meter: Meter,
    row_jobs: RowJobs,
}

impl TurnCall {
    /// Makes the turn until it is answered; then reads the history of lines that were tried before.
    async fn make(mut self, turn: Turn) -> Result<Answer> {
        let trouble = |error: &windrow_store::Error| {
            let sentence = format!("the store does not answer: {}", chain(error));
            tracing::warn!("{sentence}");
            self.meter.set_store_trouble(Some(sentence));
        };
        let again = || self.store.turn(turn.clone());
        let reply = with_retry(&self.clock, &self.give_up, &mut self.rng, trouble, again).await?;
        let counts = match &reply.claimed {
            Some(tranche) if tranche.lease.attempts > 0 || tranche.lease.generation > 0 => {
                let lines: Vec<u64> = tranche.lines.iter().map(|line| line.line).collect();
                let batch = tranche.lease.batch;
                let read = || self.store.attempt_counts(batch, &lines);
                let mut counts =
                    with_retry(&self.clock, &self.give_up, &mut self.rng, trouble, read).await?;
                counts.sort_unstable_by_key(|counts| counts.line);
                counts
            }
            _ => Vec::new(),
        };
        let rows = match &reply.claimed {
            Some(tranche) => {
                let (batch, generation) = (tranche.lease.batch, tranche.lease.generation);
                let read = || self.row_jobs.get(&*self.store, batch, generation);
                with_retry(&self.clock, &self.give_up, &mut self.rng, trouble, read).await?
            }
            None => Ok(None),
        };
        self.meter.set_store_trouble(None);
        Ok(Answer { reply, counts, rows })
    }
}

/// What the history of a row says about its strategies.
fn misses(counts: &AttemptCounts) -> Misses {
    Misses { missed: counts.missed, counted: counts.since_miss, unaccepted: counts.unaccepted }
}
