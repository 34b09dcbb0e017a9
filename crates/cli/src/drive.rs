//! Driving one batch to its end with an engine in this process, under the eyes of a person.
//!
//! Holds throughout: the first signal stops gracefully and the second at once; whatever ends the
//! drive early, what was finished is recorded and the rest goes back.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::broadcast;
use tokio::task::JoinSet;
use windrow::domain::control::breaker;
use windrow::engine::execute::Executor;
use windrow::engine::storage::Storage;
use windrow::engine::{Engine, Event, Handle, Options, Progress, Report, Until};
use windrow::prelude::*;

use crate::clock::{self, Stopwatch};
use crate::ending::Ending;
use crate::progress::{Screen, View};
use crate::text;

/// How often the screen is brought up to date.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Looks at the engine for one look at the store.
const LOOKS_PER_READ: u32 = 3;

/// What is driven, and with what.
pub(crate) struct Drive<E> {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) storage: Storage,
    pub(crate) executor: E,
    pub(crate) options: Options,
    pub(crate) service: &'static str,
    pub(crate) batch: Batch,
    /// How long every target may be out of reach.
    pub(crate) give_up_after: Duration,
}

/// Why a drive ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// The batch is closed.
    Closed,
    /// Somebody asked it to stop.
    Asked,
    /// The upstream was out of reach for too long; with the newest trouble.
    GaveUp(Option<String>),
    /// The outputs could not be written; with the causes.
    Outputs(String),
}

/// A drive that ended.
pub(crate) struct Driven {
    pub(crate) why: Why,
    pub(crate) report: Report,
    pub(crate) progress: Progress,
    pub(crate) took: Duration,
}

/// SIGINT and SIGTERM.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    pub(crate) fn new() -> std::io::Result<Self> {
        let interrupt = signal(SignalKind::interrupt())?;
        Ok(Self { interrupt, terminate: signal(SignalKind::terminate())? })
    }

    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// The second signal: nothing is waited for. Leases that are left behind are taken back by others.
pub(crate) fn end_at_once() -> ! {
    std::process::exit(Ending::Stopped.code().into())
}

impl<E: Executor> Drive<E> {
    /// Runs until the batch is closed, or until something ends it early.
    pub(crate) async fn run(self, screen: &mut Screen) -> anyhow::Result<Driven> {
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
        let watch = Watch {
            store: self.store,
            before: self.batch.counts.finished(),
            batch: self.batch,
            handle: handle.clone(),
            give_up_after,
            looks: 0,
        };
        let started = Stopwatch::start();
        let (why, report) = watch.follow(engine, screen).await?;
        screen.end();
        Ok(Driven { why, report, progress: handle.progress(), took: started.elapsed() })
    }
}

/// Who looks at a running engine.
struct Watch {
    store: Arc<dyn Store>,
    /// As it was when it was last read.
    batch: Batch,
    /// Lines that were finished before this process began.
    before: u64,
    handle: Handle,
    give_up_after: Duration,
    looks: u32,
}

impl Watch {
    async fn follow(
        mut self,
        engine: Engine,
        screen: &mut Screen,
    ) -> anyhow::Result<(Why, Report)> {
        let mut signals = Signals::new().context("could not listen for signals")?;
        let mut events = self.handle.subscribe();
        let mut running = JoinSet::new();
        running.spawn(engine.run());
        let mut why = None;
        loop {
            tokio::select! {
                Some(ended) = running.join_next() => {
                    let report = ended.context("the engine panicked")??;
                    return Ok((why.unwrap_or(Why::Closed), report));
                }
                () = clock::pause(LOOK_EVERY) => {
                    screen.show(&self.look().await);
                    if why.is_none() && self.is_hopeless() {
                        why = Some(Why::GaveUp(self.handle.progress().trouble));
                        self.handle.stop();
                    }
                }
                failed = output_failed(&mut events, self.batch.id) => {
                    why.get_or_insert(Why::Outputs(failed));
                    self.handle.stop();
                }
                () = signals.next() => {
                    if why.replace(Why::Asked) == Some(Why::Asked) {
                        end_at_once();
                    }
                    screen.say("Stopping: what is in flight may finish. Once more ends at once.");
                    self.handle.stop();
                }
            }
        }
    }

    /// Brings the view up to date. A store that is away leaves it as it was.
    async fn look(&mut self) -> View {
        self.looks += 1;
        if self.looks.is_multiple_of(LOOKS_PER_READ)
            && let Ok(batch) = self.store.batch(&Scope::All, self.batch.id).await
        {
            self.batch = batch;
        }
        let (progress, counts) = (self.handle.progress(), self.batch.counts);
        // Others may work on it too: whichever knows more is right.
        let done = counts.finished().max(self.before + progress.finished).min(counts.total);
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
            State::Paused => {
                Some(format!("paused; to go on: windrow resume {}", text::short_id(self.batch.id)))
            }
            State::InProgress => trouble,
            State::Finalizing(_) => trouble.or_else(|| Some("writing the outputs".to_owned())),
            state => Some(state.to_string()),
        }
    }

    /// Whether every target that has something to do has been out of reach for too long.
    fn is_hopeless(&self) -> bool {
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

/// Waits for word that the outputs of that batch could not be written.
async fn output_failed(events: &mut broadcast::Receiver<Event>, wanted: BatchId) -> String {
    loop {
        match events.recv().await {
            Ok(Event::OutputFailed { batch, error }) if batch == wanted => return error,
            // One that was missed comes again: the engine keeps trying.
            Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => {}
            Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
        }
    }
}
