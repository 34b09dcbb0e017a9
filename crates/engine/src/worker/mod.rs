//! The worker: claims lines, runs them and records what came of them. One task owns all three, because
//! one transaction, the turn, does the first and the last.
//!
//! The files, in the order in which a line passes:
//!
//! | file | what happens there |
//! |---|---|
//! | `poll.rs` | the worker asks the store which targets have lines waiting |
//! | `claimer.rs` | decides which target claims next, how many lines, and when to look and renew |
//! | `turn.rs` | makes the turn: outcomes leave, the next tranche of lines comes in |
//! | `placement.rs` | where a claimed line waits: a row whose strategy has an upstream of its own waits there |
//! | `target/` | the queue of one target: its lines wait here; concurrency, breaker and claim size |
//! | `host.rs` | what the targets of one host share: the cap of requests in flight, the rate, failed connections |
//! | `start.rs` | starts attempts: each runs the executor in a task of its own |
//! | `suspects.rs` | a line that may have killed its worker runs alone |
//! | `judge.rs` | an attempt that ended becomes a result, a retry, or a line given back |
//! | `observe_end.rs` | what its end tells the controllers of its target and its host |
//! | `refusals.rs` | a host that refuses everything was given the wrong key: the worker stops |
//! | `ledger.rs` | outcomes wait here, by lease, until the next turn takes them |
//! | `renew.rs` | leases are renewed meanwhile; those that were taken back are dropped |
//! | `observe.rs` | CPU and memory of this process; progress of the targets |
//!
//! Holds throughout: one turn is under way at a time, so a lease's version is never stale; nothing
//! here waits for the store or an upstream while something else could go on; what is leased, in
//! flight or unrecorded is bounded by [`Options`].

mod claimer;
mod host;
mod judge;
mod ledger;
mod observe;
mod observe_end;
mod placement;
mod poll;
mod refusals;
mod renew;
mod start;
mod suspects;
mod target;
mod turn;

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use jiff::SignedDuration;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use windrow_domain::control::pressure::Pressure;
use windrow_domain::millis;
use windrow_domain::{BatchId, LeaseId};
use windrow_store::claim::Polled;
use windrow_store::error::chain;
use windrow_store::{Result, Store};

use crate::Options;
use crate::clock::Clock;
use crate::execute::Executor;
use crate::member::Membership;
use crate::process_load::ProcessLoad;
use crate::progress::Meter;
use crate::row_job::RowJobs;
use crate::signal::{Stop, Wake};
use crate::upstream_check::UpstreamCheck;
use claimer::Claimer;
use host::Host;
use ledger::Ledger;
use renew::Renewal;
use start::Ended;
use suspects::{Marked, Suspects};
use target::TargetQueue;
use turn::AnsweredTurn;

/// Ends of attempts that are handled before anything else is looked at.
const ENDS_AT_ONCE_MAX: usize = 256;

/// What a worker needs of the engine around it.
pub(crate) struct WorkerDeps {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) executor: Arc<dyn Executor>,
    pub(crate) upstreams: UpstreamCheck,
    pub(crate) membership: Membership,
    pub(crate) clock: Clock,
    pub(crate) options: Options,
    pub(crate) meter: Meter,
    /// Batches whose last lane a turn made done.
    pub(crate) finalizing: mpsc::Sender<BatchId>,
    /// Work may have appeared.
    pub(crate) wake: Wake,
    /// Asks the worker to end.
    pub(crate) stop: Stop,
    pub(crate) only: Option<BatchId>,
}

/// Claims, runs and records.
pub(crate) struct Worker {
    deps: WorkerDeps,
    queues: Vec<TargetQueue>,
    /// What the targets of each host share, by its name.
    hosts: HashMap<String, Host>,
    /// Batches that are being paused.
    pausing: JoinSet<()>,
    ledger: Ledger,
    row_jobs: RowJobs,
    claimer: Claimer,
    running: JoinSet<Ended>,
    turning: Option<BoxFuture<'static, AnsweredTurn>>,
    polling: Option<BoxFuture<'static, Result<Polled>>>,
    extending: Option<BoxFuture<'static, Renewal>>,
    suspects: Suspects,
    marking: Option<BoxFuture<'static, Marked>>,
    /// The lease id of the claim that is under way.
    claiming: Option<LeaseId>,
    pressure: Pressure,
    load: ProcessLoad,
    observe_process_ms: u64,
    /// How far the database's clock is ahead of ours.
    skew: SignedDuration,
    rng: fastrand::Rng,
    /// Ends the repeats of store calls.
    give_up: Stop,
    /// When to end what is in flight; set once it is asked to stop.
    stop_ms: Option<u64>,
    /// Lines that were leased and went back because it was asked to stop.
    released: u64,
    /// The next target to start lines of, so that all get their turn.
    next_start: usize,
}

impl Worker {
    pub(crate) fn new(deps: WorkerDeps, rng: fastrand::Rng) -> Self {
        Self {
            queues: Vec::new(),
            hosts: HashMap::new(),
            pausing: JoinSet::new(),
            ledger: Ledger::default(),
            row_jobs: RowJobs::default(),
            claimer: Claimer::new(deps.only),
            running: JoinSet::new(),
            turning: None,
            polling: None,
            extending: None,
            suspects: Suspects::default(),
            marking: None,
            claiming: None,
            pressure: Pressure::new(deps.options.pressure.clone()),
            load: ProcessLoad::new(),
            observe_process_ms: 0,
            skew: SignedDuration::ZERO,
            rng,
            give_up: Stop::new(),
            stop_ms: None,
            released: 0,
            next_start: 0,
            deps,
        }
    }

    /// Works until it is asked to stop and has nothing left, or until the store fails for good.
    /// Gives how many lines went back unfinished.
    pub(crate) async fn run(mut self) -> Result<u64> {
        while !self.is_over() {
            self.step().await?;
        }
        self.release_all().await
    }

    /// Starts all that may start, then handles the next thing that happens.
    pub(crate) async fn step(&mut self) -> Result<()> {
        let now = self.deps.clock.millis();
        self.observe_process(now);
        self.begin_stop(now);
        self.start_lines(now);
        self.start_turn(now);
        self.start_poll(now);
        self.start_renewal(now);
        if self.is_over() {
            return Ok(());
        }
        let due = self.next_due(now);
        tokio::select! {
            biased;
            done = pending_or(&mut self.turning) => {
                self.turning = None;
                self.on_turned(done)?;
            }
            waiting = pending_or(&mut self.polling) => {
                self.polling = None;
                self.on_polled(waiting);
            }
            renewal = pending_or(&mut self.extending) => {
                self.extending = None;
                self.on_extended(renewal);
            }
            marked = pending_or(&mut self.marking) => {
                self.marking = None;
                self.on_marked(marked);
            }
            () = self.deps.membership.rejoined.given() => self.forget_all(),
            () = self.deps.stop.given(), if self.stop_ms.is_none() => {}
            // After what is rare: under load there is always an attempt that ended.
            Some(ended) = self.running.join_next() => self.on_ended(ended),
            () = self.deps.wake.given() => self.claimer.poll_ms = 0,
            () = self.deps.clock.sleep_until(due) => {}
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        let quiet = self.running.is_empty() && self.turning.is_none() && self.ledger.lines() == 0;
        let out_of_time = |at| self.deps.clock.millis() >= at;
        // What cannot be recorded in time is run again by the next holder of the lease.
        self.stop_ms.is_some_and(|at| quiet || out_of_time(at))
    }

    /// Asked to stop: nothing more is claimed or started, what waits goes back.
    fn begin_stop(&mut self, now: u64) {
        if self.stop_ms.is_some() || !self.deps.stop.is_given() {
            return;
        }
        self.stop_ms = Some(now.saturating_add(millis(self.deps.options.grace)));
        for at in 0..self.queues.len() {
            self.release_queue(at, now);
        }
    }

    /// Out of time or out of work: the rest goes back.
    async fn release_all(mut self) -> Result<u64> {
        self.running.abort_all();
        self.give_up.give();
        let held = self.ledger.held();
        if held.is_empty() {
            return Ok(self.released);
        }
        let instance = self.deps.membership.instance();
        Ok(self.released + self.deps.store.release_leases(instance, held).await?)
    }

    /// When something has to be done even if nothing happens.
    fn next_due(&self, now: u64) -> u64 {
        let options = &self.deps.options;
        let idle = self.ledger.is_empty() && self.running.is_empty();
        let dues = [
            (!idle || self.stop_ms.is_some()).then_some(self.observe_process_ms),
            (self.polling.is_none() && self.stop_ms.is_none()).then_some(self.claimer.poll_ms),
            self.claimer.extend_ms.filter(|_| self.extending.is_none()),
            self.ledger.due_ms(options).filter(|_| self.turning.is_none()),
            Claimer::due_ms(&self.queues, now)
                .filter(|_| self.turning.is_none() && self.extending.is_none()),
            self.pace_due(now),
            self.suspect_due(now),
            self.stop_ms,
        ];
        dues.into_iter().flatten().min().unwrap_or(now.saturating_add(millis(options.poll_every)))
    }

    fn trouble(&self, what: &str, error: &windrow_store::Error) {
        let sentence = format!("{what}: {}", chain(error));
        tracing::warn!("{sentence}");
        self.deps.meter.set_store_trouble(Some(sentence));
    }
}

async fn pending_or<T>(call: &mut Option<BoxFuture<'static, T>>) -> T {
    match call {
        Some(call) => call.await,
        None => std::future::pending().await,
    }
}
