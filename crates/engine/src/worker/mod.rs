//! The worker: claims lines, runs them, records what came of them. One owner of all three, because
//! one transaction, the turn, does the first and the last.
//!
//! Holds throughout: one turn is under way at a time, so a lease's version is never stale; nothing
//! here waits for the store or an upstream while something else could go on; what is leased, in
//! flight or unrecorded is bounded by [`Options`].

mod judge;
mod start;
mod turn;

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use jiff::SignedDuration;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use windrow_domain::control::breaker::State;
use windrow_domain::control::pace::Pace;
use windrow_domain::control::pressure::Pressure;
use windrow_domain::{BatchId, LeaseId, Target};
use windrow_store::claim::{Extended, LEASE_MS_MAX, TARGETS_MAX, Waiting};
use windrow_store::{Result, Store};

use crate::Options;
use crate::claim::Claimer;
use crate::clock::Clock;
use crate::execute::Executor;
use crate::execute::station::Station;
use crate::load::Load;
use crate::member::Membership;
use crate::progress::{Meter, TargetProgress};
use crate::record::Ledger;
use crate::signal::{Stop, Wake};
use start::Ended;
use turn::Done;
use windrow_store::error::chain;

/// How often CPU and memory are looked at, and the progress of targets is noted.
const LOOK_AROUND_MS: u64 = 500;
/// Ends of tries that are handled before anything else is looked at.
const ENDS_AT_ONCE_MAX: usize = 256;

/// What a worker needs of the engine around it.
pub(crate) struct WorkerDeps {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) executor: Arc<dyn Executor>,
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

/// Leases that were renewed.
struct Renewal {
    /// For how long.
    lease_ms: u64,
    /// The claim that was under way when it began.
    claiming: Option<LeaseId>,
    answer: Result<Extended>,
}

/// Claims, runs and records.
pub(crate) struct Worker {
    deps: WorkerDeps,
    stations: Vec<Station>,
    /// By host.
    paces: HashMap<String, Pace>,
    ledger: Ledger,
    claimer: Claimer,
    running: JoinSet<Ended>,
    turning: Option<BoxFuture<'static, Done>>,
    looking: Option<BoxFuture<'static, Result<Vec<Waiting>>>>,
    extending: Option<BoxFuture<'static, Renewal>>,
    /// The lease id of the claim that is under way.
    claiming: Option<LeaseId>,
    pressure: Pressure,
    load: Load,
    look_around_ms: u64,
    /// How far the database's clock is ahead of ours.
    skew: SignedDuration,
    rng: fastrand::Rng,
    /// Ends the repeats of store calls.
    give_up: Stop,
    /// When to end what is in flight; set once it is asked to stop.
    stop_ms: Option<u64>,
    /// Lines that were leased and went back because it was asked to stop.
    released: u64,
    /// The next station to start lines of, so that all get their turn.
    next_start: usize,
}

impl Worker {
    pub(crate) fn new(deps: WorkerDeps, rng: fastrand::Rng) -> Self {
        Self {
            stations: Vec::new(),
            paces: HashMap::new(),
            ledger: Ledger::default(),
            claimer: Claimer::new(deps.only),
            running: JoinSet::new(),
            turning: None,
            looking: None,
            extending: None,
            claiming: None,
            pressure: Pressure::new(deps.options.pressure.clone()),
            load: Load::new(),
            look_around_ms: 0,
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
        self.give_back().await
    }

    /// Starts all that may start, then handles the next thing that happens.
    pub(crate) async fn step(&mut self) -> Result<()> {
        let now = self.deps.clock.millis();
        self.look_around(now);
        self.begin_stop(now);
        self.start_lines(now);
        self.start_calls(now);
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
            waiting = pending_or(&mut self.looking) => {
                self.looking = None;
                self.on_looked(waiting);
            }
            renewal = pending_or(&mut self.extending) => {
                self.extending = None;
                self.on_extended(renewal);
            }
            () = self.deps.membership.rejoined.given() => self.forget_all(),
            () = self.deps.stop.given(), if self.stop_ms.is_none() => {}
            // After what is rare: under load there is always a try that ended.
            Some(ended) = self.running.join_next() => self.on_ended(ended),
            () = self.deps.wake.given() => self.claimer.look_ms = 0,
            () = self.deps.clock.sleep_until(due) => {}
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        let quiet = self.running.is_empty() && self.turning.is_none() && self.ledger.lines() == 0;
        let out_of_time = |at| self.deps.clock.millis() >= at;
        // What cannot be recorded in time is given back by whoever takes the lease.
        self.stop_ms.is_some_and(|at| quiet || out_of_time(at))
    }

    /// Asked to stop: nothing more is claimed or started, what waits goes back.
    fn begin_stop(&mut self, now: u64) {
        if self.stop_ms.is_some() || !self.deps.stop.is_given() {
            return;
        }
        self.stop_ms = Some(now.saturating_add(self.deps.options.grace_ms));
        for at in 0..self.stations.len() {
            self.release_queue(at, now);
        }
    }

    /// Out of time or out of work: the rest goes back.
    async fn give_back(mut self) -> Result<u64> {
        self.running.abort_all();
        self.give_up.give();
        let held = self.ledger.held();
        if held.is_empty() {
            return Ok(self.released);
        }
        let instance = self.deps.membership.instance();
        Ok(self.released + self.deps.store.release_leases(instance, held).await?)
    }

    /// Begins the store calls that are due.
    fn start_calls(&mut self, now: u64) {
        self.start_turn(now);
        let stopping = self.stop_ms.is_some();
        if !stopping && self.looking.is_none() && now >= self.claimer.look_ms {
            let (store, only) = (self.deps.store.clone(), self.deps.only);
            let limit = u32::try_from(TARGETS_MAX).unwrap_or(u32::MAX);
            self.looking = Some(Box::pin(async move { store.waiting(only, limit).await }));
        }
        if self.extending.is_none() && self.claimer.extend_ms.is_some_and(|at| now >= at) {
            let (store, instance) = (self.deps.store.clone(), self.deps.membership.instance());
            let (mut known, claiming) = (self.ledger.held(), self.claiming);
            known.extend(claiming);
            let lease_ms = self.lease_ms();
            self.extending = Some(Box::pin(async move {
                let answer = store.extend_leases(instance, known, lease_ms).await;
                Renewal { lease_ms, claiming, answer }
            }));
        }
    }

    /// The longest lease that a station would ask for.
    fn lease_ms(&self) -> u64 {
        let lengths = self.stations.iter().map(|station| station.slice.lease_ms());
        lengths.max().unwrap_or(self.deps.options.slice.lock_floor_ms).min(LEASE_MS_MAX)
    }

    /// When something has to be done even if nothing happens.
    fn next_due(&self, now: u64) -> u64 {
        let options = &self.deps.options;
        let idle = self.ledger.is_empty() && self.running.is_empty();
        let dues = [
            (!idle || self.stop_ms.is_some()).then_some(self.look_around_ms),
            (self.looking.is_none() && self.stop_ms.is_none()).then_some(self.claimer.look_ms),
            self.claimer.extend_ms.filter(|_| self.extending.is_none()),
            self.ledger.due_ms(options).filter(|_| self.turning.is_none()),
            Claimer::due_ms(&self.stations, now)
                .filter(|_| self.turning.is_none() && self.extending.is_none()),
            self.pace_due(now),
            self.stop_ms,
        ];
        dues.into_iter().flatten().min().unwrap_or(now.saturating_add(options.poll_ms))
    }

    fn on_looked(&mut self, waiting: Result<Vec<Waiting>>) {
        let now = self.deps.clock.millis();
        match waiting {
            Ok(waiting) => {
                for waiting in &waiting {
                    self.station(&waiting.target, now);
                }
                self.claimer.looked(&mut self.stations, &waiting, now, &self.deps.options);
            }
            Err(error) => {
                self.trouble("could not look for work", &error);
                self.claimer.look_ms = now.saturating_add(self.deps.options.poll_ms);
            }
        }
    }

    fn on_extended(&mut self, Renewal { lease_ms, claiming, answer }: Renewal) {
        let now = self.deps.clock.millis();
        let answered = match answer {
            Ok(extended) => {
                // The claim that was under way may have got its lease only after this looked.
                for lease in extended.lost.into_iter().filter(|lease| Some(*lease) != claiming) {
                    self.lose(lease);
                }
                true
            }
            Err(error) => {
                self.trouble("could not renew leases", &error);
                false
            }
        };
        self.claimer.extended(answered, lease_ms, !self.ledger.is_empty(), now);
    }

    /// Somebody took a lease back: what waits of it is not ours to run.
    fn lose(&mut self, lease: LeaseId) {
        let Some(target) = self.ledger.lose(lease) else { return };
        tracing::warn!(%lease, %target, "a lease was taken back; its lines run elsewhere");
        for station in self.stations.iter_mut().filter(|station| station.target == target) {
            station.queue.retain(|job| job.lease != lease);
        }
    }

    /// We were taken for dead: nothing of what we hold is ours any more.
    fn forget_all(&mut self) {
        self.ledger = Ledger::default();
        (self.turning, self.extending, self.claiming) = (None, None, None);
        // Their answers would count for nothing: whoever has the lines now asks again.
        for _ in 0..self.running.len() {
            self.deps.meter.ended();
        }
        self.running = JoinSet::new();
        for station in &mut self.stations {
            station.forget();
        }
        self.claimer.look_ms = 0;
    }

    /// The station of a target, opened when it is served and new.
    fn station(&mut self, target: &Target, now: u64) -> Option<usize> {
        let found = self.stations.iter().position(|station| station.target == *target);
        if found.is_some() || !self.deps.executor.serves(target) {
            return found;
        }
        let (host, limits) = (self.deps.executor.host(target), self.deps.executor.limits(target));
        self.paces.entry(host.clone()).or_insert_with(|| Pace::new(limits.pace.clone()));
        let options = &self.deps.options;
        let (bounds, attempts) = (options.slice.clone(), options.retry.attempts_max);
        let station = Station::new(target.clone(), host, limits, bounds, attempts, now);
        if self.stations.len() < TARGETS_MAX {
            self.stations.push(station);
            return Some(self.stations.len() - 1);
        }
        // As many as one claim may name: the one that has been idle longest makes room.
        let idle =
            |station: &&(usize, &Station)| station.1.in_flight == 0 && station.1.queue.is_empty();
        let all: Vec<_> = self.stations.iter().enumerate().collect();
        let oldest = all.iter().filter(idle).min_by_key(|(_, station)| station.touched_ms);
        let at = oldest.map(|(at, _)| *at)?;
        self.stations[at] = station;
        Some(at)
    }

    /// Looks at the load of this process, and notes how the targets do.
    fn look_around(&mut self, now: u64) {
        if now < self.look_around_ms {
            return;
        }
        self.look_around_ms = now.saturating_add(LOOK_AROUND_MS);
        if let Some((cpu, memory_bytes)) = self.load.look(now) {
            let before = self.pressure.stop();
            self.pressure.observe(cpu, memory_bytes);
            if !before && self.pressure.stop() {
                self.relieve(memory_bytes, now);
            }
        }
        let targets = self.stations.iter().map(|station| TargetProgress {
            target: station.target.clone(),
            in_flight: station.in_flight,
            limit: station.limit(),
            waiting: u32::try_from(station.queue.len()).unwrap_or(u32::MAX),
            breaker: match station.breaker(now) {
                State::Closed => "closed",
                State::Open { .. } => "open",
                State::HalfOpen => "half-open",
            },
            open_ms: station.open_ms(now),
        });
        self.deps.meter.set_targets(targets.collect());
    }

    /// Far too much memory: what waits here goes back, so that others may run it.
    fn relieve(&mut self, memory_bytes: u64, now: u64) {
        let most = self.deps.options.pressure.memory_bytes_max;
        tracing::warn!(
            memory_bytes,
            most,
            "this process uses far more memory than it should; lines run one at a time"
        );
        for at in 0..self.stations.len() {
            self.release_queue(at, now);
        }
    }

    /// Too much memory to claim while anything is still here.
    fn is_choked(&self) -> bool {
        let waiting = || self.stations.iter().any(|station| !station.queue.is_empty());
        self.pressure.stop() && (!self.running.is_empty() || waiting())
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
