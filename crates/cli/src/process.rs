//! The long-running parts of one process, started and stopped together: the engine that runs batches,
//! the message runner, and the HTTP server.
//!
//! `windrow work` and `windrow serve` differ only in which parts they have. Holds throughout: the first
//! signal, or the first part that ends, stops all others; requests and handlers in flight may finish
//! within their grace time; a second signal exits at once.

use std::sync::Arc;

use anyhow::Context as _;
use futures_util::future::BoxFuture;
use tokio::sync::broadcast::{self, error::RecvError};
use tokio::task::JoinSet;
use windrow::engine::execute::Executor;
use windrow::engine::signal::Stop;
use windrow::engine::storage::Storage;
use windrow::engine::{Engine, EngineEvent, Handle, Progress, Report};
use windrow::store::Store;
use windrow::store::batch::Batch;
use windrow_brokers::status_cache::StatusWriter;

use crate::context::Context;
use crate::error::CliError;
use crate::exit_code::Exit;
use crate::message_runner::MessageRunner;
use crate::signals::{Signals, exit_at_once};

/// What a process runs, and with what.
pub(crate) struct Workload<'a> {
    /// The name of this process in the list of instances.
    pub(crate) service: &'static str,
    pub(crate) store: &'a Arc<dyn Store>,
    pub(crate) storage: &'a Storage,
    /// Runs lines of batches; none for a process that runs no batches.
    pub(crate) executor: Option<Arc<dyn Executor>>,
    /// Whether to run messages, if the configuration names handlers, publishers or consumers.
    pub(crate) messages: bool,
}

/// The parts of a process that is starting.
pub(crate) struct Process {
    engine: Option<Engine>,
    pub(crate) messages: Option<MessageRunner>,
    server: Option<BoxFuture<'static, anyhow::Result<()>>>,
    /// Keeps the status of closed batches for others.
    statuses: Option<StatusWriter>,
    stop: Stop,
    signals: Signals,
}

/// What the process did until it stopped.
#[derive(Debug, Default)]
pub(crate) struct Summary {
    pub(crate) report: Report,
    pub(crate) progress: Progress,
}

type Tasks = JoinSet<anyhow::Result<Option<Report>>>;

impl Process {
    /// Builds the engine and starts the message runner. Signals count from here on.
    pub(crate) async fn start(context: &Context, workload: Workload<'_>) -> anyhow::Result<Self> {
        let Workload { service, store, storage, executor, messages } = workload;
        let signals = Signals::new().context("could not listen for signals")?;
        let messages = if messages { MessageRunner::start(context, store).await? } else { None };
        let engine = executor.map(|executor| {
            Engine::builder(store.clone())
                .executor(executor)
                .storage(storage.clone())
                .options(context.config.bounds.engine.clone())
                .service(service)
                .build()
        });
        let statuses = context.config.tables.status_cache.clone();
        let statuses = statuses.map(StatusWriter::new).transpose().map_err(|bad| {
            let remedy = "correct it; docs/configuration.md lists the options.";
            let what = "the configuration of [status_cache] is not valid";
            anyhow::Error::new(bad).context(CliError::new(Exit::Config, what, remedy))
        })?;
        Ok(Self { engine, messages, server: None, statuses, stop: Stop::new(), signals })
    }

    /// The handle of the engine, if this process runs batches.
    pub(crate) fn engine(&self) -> Option<Handle> {
        self.engine.as_ref().map(Engine::handle)
    }

    /// Adds the server: a future that ends soon after the stop it is given.
    pub(crate) fn serve<F>(&mut self, server: impl FnOnce(Stop) -> F)
    where
        F: Future<Output = anyhow::Result<()>> + Send + 'static,
    {
        self.server = Some(Box::pin(server(self.stop.clone())));
    }

    /// Runs all parts until a signal comes or one of them ends, then stops the others and waits for
    /// them. `on_closed` is called for each batch that the engine closes.
    pub(crate) async fn run_until_stopped(
        self,
        on_closed: impl Fn(&Batch) + Send + 'static,
    ) -> anyhow::Result<Summary> {
        let handle = self.engine();
        let Self { engine, messages, server, statuses, stop, mut signals } = self;
        let (mut writing, engine_ended) = (JoinSet::new(), Stop::new());
        let (mut tasks, mut watchers) = (Tasks::new(), JoinSet::new());
        if let Some(server) = server {
            tasks.spawn(async move { server.await.map(|()| None) });
        }
        if let Some(messages) = messages {
            let stop = stop.clone();
            tasks.spawn(async move { messages.run(stop).await.map(|()| None) });
        }
        if let Some(engine) = engine {
            watchers.spawn(watch_closed(engine.handle().subscribe(), on_closed));
            if let Some(statuses) = statuses {
                let (events, ended) = (engine.handle().subscribe(), engine_ended.clone());
                writing.spawn(write_statuses(events, statuses, ended));
            }
            tasks.spawn(async move { Ok(Some(engine.run().await?)) });
        }
        let stop_all = || {
            stop.give();
            handle.iter().for_each(Handle::stop);
        };
        let report = join_all(&mut tasks, &mut signals, stop_all).await;
        engine_ended.give();
        // Each write has a bound of its own, and there are few.
        while writing.join_next().await.is_some() {}
        let report = report?.unwrap_or_default();
        Ok(Summary { report, progress: handle.map(|handle| handle.progress()).unwrap_or_default() })
    }
}

/// Waits until every task has ended. The first signal, or the first task that ends, stops the others.
async fn join_all(
    tasks: &mut Tasks,
    signals: &mut Signals,
    stop_all: impl Fn(),
) -> anyhow::Result<Option<Report>> {
    let (mut is_stopping, mut report, mut failed) = (false, None, None);
    loop {
        tokio::select! {
            ended = tasks.join_next() => {
                let Some(ended) = ended else { break };
                stop_all();
                match ended.context("a part of the process panicked").and_then(|ended| ended) {
                    Ok(ended) => report = report.or(ended),
                    Err(error) => failed = failed.or(Some(error)),
                }
            }
            () = signals.next() => {
                if std::mem::replace(&mut is_stopping, true) {
                    exit_at_once();
                }
                tracing::info!("stopping; requests in flight may finish; a second signal exits at once");
                stop_all();
            }
        }
    }
    failed.map_or(Ok(report), Err)
}

/// Calls `on_closed` for each batch that is closed, until the engine ends.
async fn watch_closed(mut events: broadcast::Receiver<EngineEvent>, on_closed: impl Fn(&Batch)) {
    loop {
        match events.recv().await {
            Ok(EngineEvent::Closed { batch }) => on_closed(&batch),
            Ok(EngineEvent::OutputFailed { .. }) | Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => return,
        }
    }
}

/// Writes the status of each batch that is closed, until the engine has ended and all are written.
async fn write_statuses(
    mut events: broadcast::Receiver<EngineEvent>,
    statuses: StatusWriter,
    ended: Stop,
) {
    loop {
        let event = tokio::select! {
            biased;
            event = events.recv() => event,
            () = ended.given() => return,
        };
        match event {
            Ok(EngineEvent::Closed { batch }) => statuses.write(&batch).await,
            Ok(EngineEvent::OutputFailed { .. }) => {}
            Err(RecvError::Lagged(missed)) => {
                tracing::warn!(missed, "more batches were closed than Redis was told of");
            }
            Err(RecvError::Closed) => return,
        }
    }
}
