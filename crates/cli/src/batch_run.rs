//! Runs one batch to its end with an engine in this process, and shows the progress meanwhile.
//!
//! `windrow run`, `retry --work` and `demo` use it. Holds throughout: the first signal stops the engine
//! gracefully and the second exits at once; whatever stops the run early, finished lines are recorded
//! and the others are released.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use tokio::sync::broadcast;
use tokio::task::JoinSet;
use windrow::domain::attempt::Status;
use windrow::domain::control::breaker;
use windrow::domain::{BatchId, State, UpstreamId};
use windrow::engine::execute::Executor;
use windrow::engine::storage::Storage;
use windrow::engine::{Engine, EngineEvent, Handle, Options, Progress, Report, Until};
use windrow::store::batch::Batch;
use windrow::store::inspect::{FinishedQuery, PAGE_MAX};
use windrow::store::{Scope, Store};

use crate::clock::{self, Stopwatch};
use crate::hint;
use crate::holders;
use crate::progress::{Screen, View};
use crate::signals::{Signals, exit_at_once};
use crate::upstream::take_upstream;

/// How often the progress display is refreshed.
pub(crate) const POLL_EVERY: Duration = Duration::from_millis(200);
/// Refreshes from the engine alone for each read of the batch from the store.
const POLLS_PER_READ: u32 = 3;

/// A batch to be run, and what it is run with.
pub(crate) struct BatchRun<E> {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) storage: Storage,
    pub(crate) executor: E,
    pub(crate) options: Options,
    pub(crate) service: &'static str,
    pub(crate) batch: Batch,
    /// Stop once every target has been unreachable for this long.
    pub(crate) give_up_after: Duration,
    /// A refusal (401, 403) is the result of its line, also when nothing else was ever answered.
    pub(crate) takes_refusals: bool,
}

/// Why the engine stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StopReason {
    /// The batch is closed.
    Closed,
    /// A signal asked it to stop.
    Signal,
    /// The upstream was unreachable for too long; with the latest error.
    Unreachable(Option<String>),
    /// The upstream refuses the key; with what it said.
    Refused(String),
    /// The outputs could not be written; with the causes.
    OutputFailed(String),
}

/// How a run ended, and what this process did of it.
pub(crate) struct RunOutcome {
    pub(crate) stop_reason: StopReason,
    pub(crate) report: Report,
    pub(crate) progress: Progress,
    pub(crate) took: Duration,
}

impl<E: Executor> BatchRun<E> {
    /// Runs until the batch is closed, or until something ends it early.
    pub(crate) async fn run(self, screen: &mut Screen) -> anyhow::Result<RunOutcome> {
        take_upstream(&*self.store, &self.executor, &self.batch).await?;
        // Where the key works, lines are refused by themselves.
        let stops_when_refused =
            !self.takes_refusals && !is_key_proven(&*self.store, &self.batch).await?;
        let (batch, give_up_after) = (self.batch.id, self.give_up_after);
        let options = self.options.clone();
        let serves = self.executor.upstreams();
        let engine = Engine::builder(self.store.clone())
            .executor(self.executor)
            .storage(self.storage)
            .options(self.options.stop_when_refused(stops_when_refused))
            .service(self.service)
            .only(batch)
            .until(Until::Closed(batch))
            .build();
        let handle = engine.handle();
        let watch = Monitor {
            store: self.store,
            finished_before: self.batch.counts.finished(),
            batch: self.batch,
            store_answers: true,
            handle: handle.clone(),
            give_up_after,
            polls: 0,
            options,
            serves,
            held: None,
        };
        let started = Stopwatch::start();
        let (stop_reason, report) = watch.follow(engine, screen).await?;
        screen.end();
        Ok(RunOutcome { stop_reason, report, progress: handle.progress(), took: started.elapsed() })
    }
}

/// Whether a line of the batch was answered in a way that only a key that works is: it completed, was not found, or
/// failed by itself. Of those that failed, as many are looked at as a page has.
async fn is_key_proven(store: &dyn Store, batch: &Batch) -> anyhow::Result<bool> {
    if batch.counts.completed > 0 || batch.counts.not_found > 0 {
        return Ok(true);
    }
    let query = FinishedQuery {
        batch: Some(batch.id),
        statuses: vec![Status::Failed],
        earlier: true,
        limit: PAGE_MAX,
        ..FinishedQuery::default()
    };
    let failed = store.finished(&Scope::All, query).await?.rows;
    // What a gateway may say before it looks at the key proves nothing.
    let proves = |status: u16| status < 500 && ![401, 403, 408, 429].contains(&status);
    Ok(failed.iter().any(|line| line.result.http_status.is_some_and(proves)))
}

/// Follows a running engine: refreshes the display, and decides when to stop it.
struct Monitor {
    store: Arc<dyn Store>,
    /// As last read from the store.
    batch: Batch,
    /// Lines that were finished before this process began.
    finished_before: u64,
    /// Whether the store answered when it was last asked.
    store_answers: bool,
    handle: Handle,
    give_up_after: Duration,
    polls: u32,
    options: Options,
    /// The upstreams that this process sends to.
    serves: Vec<UpstreamId>,
    /// What it waits for, when other processes hold all that is left.
    held: Option<String>,
}

impl Monitor {
    async fn follow(
        mut self,
        engine: Engine,
        screen: &mut Screen,
    ) -> anyhow::Result<(StopReason, Report)> {
        let mut signals = Signals::new().context("could not listen for signals")?;
        let mut events = self.handle.subscribe();
        let mut running = JoinSet::new();
        running.spawn(engine.run());
        let mut stop_reason = None;
        loop {
            tokio::select! {
                Some(ended) = running.join_next() => {
                    let report = ended.context("the engine panicked")??;
                    let refused = self.handle.progress().refused.map(StopReason::Refused);
                    return Ok((stop_reason.or(refused).unwrap_or(StopReason::Closed), report));
                }
                () = clock::sleep(POLL_EVERY) => {
                    screen.show(&self.view().await);
                    if stop_reason.is_none() && self.is_unreachable() {
                        stop_reason = Some(StopReason::Unreachable(self.handle.progress().trouble));
                        self.handle.stop();
                    }
                }
                failed = output_failed(&mut events, self.batch.id) => {
                    stop_reason.get_or_insert(StopReason::OutputFailed(failed));
                    self.handle.stop();
                }
                () = signals.next() => {
                    if stop_reason.replace(StopReason::Signal) == Some(StopReason::Signal) {
                        exit_at_once();
                    }
                    screen.print_line("Stopping: requests in flight may finish. Press Ctrl-C again to stop at once.");
                    self.handle.stop();
                }
            }
        }
    }

    /// The progress to show. A store that does not answer leaves the counts as they were.
    async fn view(&mut self) -> View {
        self.polls += 1;
        if self.polls.is_multiple_of(POLLS_PER_READ) {
            let read = self.store.batch(&Scope::All, self.batch.id).await;
            self.store_answers = read.is_ok();
            if let Ok(batch) = read {
                self.batch = batch;
                self.held = self.held().await;
            }
        }
        let (progress, counts) = (self.handle.progress(), self.batch.counts);
        // Other processes may run lines of it too, so the larger number is the newer one.
        let done =
            counts.finished().max(self.finished_before + progress.finished).min(counts.total);
        let limit = progress.in_flight_max;
        View {
            done,
            total: counts.total,
            in_flight: Some((progress.in_flight, limit.max(progress.in_flight))),
            retries: progress.retries,
            failed: counts.failed + counts.not_found,
            is_still: self.batch.state == State::Paused
                || !self.store_answers
                || self.moved_to().is_some(),
            note: self.note(progress.trouble),
            reasons: progress.failures,
        }
    }

    /// What other processes hold, when this one has nothing to do.
    async fn held(&self) -> Option<String> {
        let (progress, counts) = (self.handle.progress(), self.batch.counts);
        let is_idle =
            progress.in_flight == 0 && progress.targets.iter().all(|one| one.waiting == 0);
        if !is_idle || counts.leased == 0 || counts.untouched > 0 {
            return None;
        }
        let held = self.store.holders(&Scope::All, self.batch.id).await.ok()?;
        holders::sentence(&held, &self.options)
    }

    fn note(&self, trouble: Option<String>) -> Option<String> {
        if !self.store_answers {
            return Some("the database does not answer; waiting for it".to_owned());
        }
        match self.batch.state {
            State::Paused => {
                let why = self.batch.last_error.as_ref().map(|why| format!(": {why}"));
                let resume = hint::command(&["resume", &self.batch.id.to_string()]);
                Some(format!("paused{}; to continue: {resume}", why.unwrap_or_default()))
            }
            State::InProgress => self.moved_note().or(trouble).or_else(|| self.held.clone()),
            State::Finalizing(_) => trouble.or_else(|| Some("writing the outputs".to_owned())),
            state => Some(state.to_string()),
        }
    }

    /// Where the batch goes, when somebody moved it to an upstream that this process does not send to.
    fn moved_to(&self) -> Option<&UpstreamId> {
        let mut bound = self.batch.upstreams.iter();
        let is_ours = |bound: &UpstreamId| bound.is_unknown() || self.serves.contains(bound);
        if bound.any(is_ours) { None } else { self.batch.upstreams.first() }
    }

    fn moved_note(&self) -> Option<String> {
        let to = self.moved_to()?;
        let status = hint::command(&["status", &self.batch.id.to_string()]);
        Some(format!(
            "it was moved to {to}, and this process sends no more of it; who runs it there: {status}"
        ))
    }

    /// Whether every target that has work has been unreachable for too long.
    fn is_unreachable(&self) -> bool {
        let progress = self.handle.progress();
        let busy = |waiting: u32, in_flight: u32| waiting > 0 || in_flight > 0;
        let mut left = progress.targets.iter().filter(|target| {
            target.breaker != breaker::BreakerState::Closed
                || busy(target.waiting, target.in_flight)
        });
        let gone = |open_ms| Duration::from_millis(open_ms) >= self.give_up_after;
        let mut found = false;
        let all = left.all(|target| {
            found = true;
            target.breaker != breaker::BreakerState::Closed && gone(target.open_ms)
        });
        found && all
    }
}

/// Waits until the engine reports that the outputs of that batch could not be written.
async fn output_failed(events: &mut broadcast::Receiver<EngineEvent>, wanted: BatchId) -> String {
    loop {
        match events.recv().await {
            Ok(EngineEvent::OutputFailed { batch, error }) if batch == wanted => return error,
            // A missed event comes again: the engine keeps retrying.
            Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => {}
            Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
        }
    }
}
