//! `windrow work`: a worker for every batch and for messages, until it is asked to stop.

use anyhow::Context as _;
use tokio::sync::broadcast::{self, error::RecvError};
use tokio::task::JoinSet;
use url::Url;
use windrow::engine::signal::Stop;
use windrow::engine::storage::Storage;
use windrow::engine::{Engine, Event, Report};

use crate::config::LogFormat;
use crate::context::Context;
use crate::exit_code::Exit;
use crate::message_runner::MessageRunner;
use crate::run::{storage_error, url};
use crate::signals::{Signals, exit_at_once};
use crate::upstream::UpstreamArgs;
use crate::{log, text};

/// Works on every batch whose target an upstream serves, and runs the messages that the configuration
/// names handlers and publishers for, until SIGTERM or SIGINT. Several may work on one database.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The upstream of every target that the configuration does not name
    #[arg(long, value_name = "URL", value_parser = url)]
    to: Option<Url>,
    #[command(flatten)]
    upstream: UpstreamArgs,
    /// No messages: only batches
    #[arg(long)]
    no_messages: bool,
    /// How lines of the log look [env: WINDROW_LOG_FORMAT] [default: text]; WINDROW_LOG says what is
    /// logged
    #[arg(long, value_enum)]
    log_format: Option<LogFormat>,
}

/// A part that ended.
enum Ended {
    Engine(Report),
    Messages,
}

pub(crate) async fn run(context: &Context, args: Args) -> anyhow::Result<Exit> {
    let _log = log::start(&context.config, args.log_format)?;
    let runs_messages = !args.no_messages && !context.config.tables.is_empty();
    let executor = match runs_messages && !UpstreamArgs::is_named(context, args.to.as_ref()) {
        true => None,
        false => Some(args.upstream.executor_for_all(context, args.to.as_ref())?),
    };
    let store = context.open().await?;
    let storage = Storage::open(&context.config.storage).with_context(storage_error)?;
    let mut signals = Signals::new().context("could not listen for signals")?;
    let (database, outputs) = (context.config.database.to_string(), storage.describe());
    let message_runner = match runs_messages {
        true => MessageRunner::start(context, &store).await?,
        false => None,
    };
    let engine = executor.map(|executor| {
        Engine::builder(store)
            .executor(executor)
            .storage(storage)
            .options(context.config.bounds.engine.clone())
            .service("windrow work")
            .build()
    });
    let handle = engine.as_ref().map(Engine::handle);
    let (mut running, stop) = (JoinSet::new(), Stop::new());
    if let Some(message_runner) = message_runner {
        let stop = stop.clone();
        running.spawn(async move { message_runner.run(stop).await.map(|()| Ended::Messages) });
    }
    let mut watchers = JoinSet::new();
    if let Some(engine) = engine {
        watchers.spawn(log_closed(engine.handle().subscribe()));
        running.spawn(async move { Ok(Ended::Engine(engine.run().await?)) });
    }
    tracing::info!(database, outputs, "working; SIGTERM or Ctrl-C stops");
    let give_stop = || {
        stop.give();
        handle.iter().for_each(|handle| handle.stop());
    };
    let report = wait(&mut running, &mut signals, give_stop).await?.unwrap_or_default();
    let progress = handle.map(|handle| handle.progress()).unwrap_or_default();
    let value = serde_json::json!({
        "finished": progress.finished, "requests": progress.requests,
        "released": report.released, "closed": report.closed,
    });
    context.print_result(&value, || {
        format!(
            "Stopped: finished {} lines, closed {} batches, released {} lines.",
            text::count(progress.finished),
            text::count(report.closed),
            text::count(report.released),
        )
    })?;
    Ok(Exit::Success)
}

/// Waits until every part has ended. The first signal, or the first end, stops the others.
async fn wait(
    running: &mut JoinSet<anyhow::Result<Ended>>,
    signals: &mut Signals,
    stop: impl Fn(),
) -> anyhow::Result<Option<Report>> {
    let (mut asked, mut report, mut failed) = (false, None, None);
    loop {
        tokio::select! {
            ended = running.join_next() => {
                let Some(ended) = ended else { break };
                stop();
                match ended.context("a part of the worker panicked").and_then(|ended| ended) {
                    Ok(Ended::Engine(output)) => report = Some(output),
                    Ok(Ended::Messages) => {}
                    Err(error) => failed = failed.or(Some(error)),
                }
            }
            () = signals.next() => {
                if std::mem::replace(&mut asked, true) {
                    exit_at_once();
                }
                tracing::info!("stopping; what is in flight may finish");
                stop();
            }
        }
    }
    failed.map_or(Ok(report), Err)
}

/// Tells which batches are closed, as long as there are any.
async fn log_closed(mut events: broadcast::Receiver<Event>) {
    loop {
        match events.recv().await {
            Ok(Event::Closed { batch }) => {
                let (id, state, counts) = (batch.id, batch.state, batch.counts);
                tracing::info!(
                    batch.id = %id, completed = counts.completed, failed = counts.failed,
                    not_found = counts.not_found, "batch {state}"
                );
            }
            Ok(Event::OutputFailed { .. }) | Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => return,
        }
    }
}
