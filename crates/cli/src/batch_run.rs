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
use windrow::domain::control::breaker;
use windrow::domain::{BatchId, State};
use windrow::engine::execute::Executor;
use windrow::engine::storage::Storage;
use windrow::engine::{Engine, Event, Handle, Options, Progress, Report, Until};
use windrow::store::batch::Batch;
use windrow::store::{Scope, Store};

use crate::clock::{self, Stopwatch};
use crate::progress::{Screen, View};
use crate::signals::{Signals, exit_at_once};
use crate::text;

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
        let (batch, give_up_after) = (self.batch.id, self.give_up_after);
        let engine = Engine::builder(self.store.clone())
            .executor(self.executor)
            .storage(self.storage)
            .options(self.options)
            .service(self.service)
            .only(batch)
            .until(Until::Closed(batch))
            .build();
        let handle = engine.handle();
        let watch = Monitor {
            store: self.store,
            finished_before: self.batch.counts.finished(),
            batch: self.batch,
            handle: handle.clone(),
            give_up_after,
            polls: 0,
        };
        let started = Stopwatch::start();
        let (stop_reason, report) = watch.follow(engine, screen).await?;
        screen.end();
        Ok(RunOutcome { stop_reason, report, progress: handle.progress(), took: started.elapsed() })
    }
}

/// Follows a running engine: refreshes the display, and decides when to stop it.
struct Monitor {
    store: Arc<dyn Store>,
    /// As last read from the store.
    batch: Batch,
    /// Lines that were finished before this process began.
    finished_before: u64,
    handle: Handle,
    give_up_after: Duration,
    polls: u32,
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
                    return Ok((stop_reason.unwrap_or(StopReason::Closed), report));
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
        if self.polls.is_multiple_of(POLLS_PER_READ)
            && let Ok(batch) = self.store.batch(&Scope::All, self.batch.id).await
        {
            self.batch = batch;
        }
        let (progress, counts) = (self.handle.progress(), self.batch.counts);
        // Other processes may run lines of it too, so the larger number is the newer one.
        let done =
            counts.finished().max(self.finished_before + progress.finished).min(counts.total);
        let limit: u64 = progress.targets.iter().map(|target| u64::from(target.limit)).sum();
        View {
            done,
            total: counts.total,
            in_flight: Some((progress.in_flight, limit.max(progress.in_flight))),
            retries: progress.retries,
            failed: counts.failed + counts.not_found,
            note: self.note(progress.trouble),
            reasons: progress.failures,
        }
    }

    fn note(&self, trouble: Option<String>) -> Option<String> {
        match self.batch.state {
            State::Paused => Some(format!(
                "paused; to continue: windrow resume {}",
                text::short_id(self.batch.id)
            )),
            State::InProgress => trouble,
            State::Finalizing(_) => trouble.or_else(|| Some("writing the outputs".to_owned())),
            state => Some(state.to_string()),
        }
    }

    /// Whether every target that has work has been unreachable for too long.
    fn is_unreachable(&self) -> bool {
        let progress = self.handle.progress();
        let busy = |waiting: u32, in_flight: u32| waiting > 0 || in_flight > 0;
        let mut left = progress.targets.iter().filter(|target| {
            target.breaker != breaker::State::Closed || busy(target.waiting, target.in_flight)
        });
        let gone = |open_ms| Duration::from_millis(open_ms) >= self.give_up_after;
        let mut found = false;
        let all = left.all(|target| {
            found = true;
            target.breaker != breaker::State::Closed && gone(target.open_ms)
        });
        found && all
    }
}

/// Waits until the engine reports that the outputs of that batch could not be written.
async fn output_failed(events: &mut broadcast::Receiver<Event>, wanted: BatchId) -> String {
    loop {
        match events.recv().await {
            Ok(Event::OutputFailed { batch, error }) if batch == wanted => return error,
            // A missed event comes again: the engine keeps retrying.
            Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => {}
            Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
        }
    }
}
