//! `windrow work`: a worker for every batch, until it is asked to stop.

use anyhow::Context as _;
use tokio::task::JoinSet;
use url::Url;
use windrow::engine::storage::Storage;
use windrow::engine::{Engine, Event};

use crate::config::LogFormat;
use crate::context::Context;
use crate::drive::{Signals, end_at_once};
use crate::ending::Ending;
use crate::run::{outputs_told, url};
use crate::upstream::UpstreamArgs;
use crate::{log, text};

/// Works on every batch whose target an upstream serves, until SIGTERM or SIGINT. Several may work
/// on one database.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The upstream of every target that the configuration does not name
    #[arg(long, value_name = "URL", value_parser = url)]
    to: Option<Url>,
    #[command(flatten)]
    upstream: UpstreamArgs,
    /// How lines of the log look [env: WINDROW_LOG_FORMAT] [default: text]; WINDROW_LOG says what is
    /// logged
    #[arg(long, value_enum)]
    log_format: Option<LogFormat>,
}

pub(crate) async fn run(context: &Context, args: Args) -> anyhow::Result<Ending> {
    let _log = log::start(&context.config, args.log_format)?;
    let executor = args.upstream.executor_for_all(context, args.to.as_ref())?;
    let store = context.open().await?;
    let storage = Storage::open(&context.config.storage).with_context(outputs_told)?;
    let mut signals = Signals::new().context("could not listen for signals")?;
    let (database, outputs) = (context.config.database.to_string(), storage.describe());
    let engine = Engine::builder(store)
        .executor(executor)
        .storage(storage)
        .options(context.config.bounds.engine.clone())
        .service("windrow work")
        .build();
    let handle = engine.handle();
    let mut events = handle.subscribe();
    let mut running = JoinSet::new();
    running.spawn(engine.run());
    tracing::info!(database, outputs, "working; SIGTERM or Ctrl-C stops");
    let mut asked = false;
    let report = loop {
        tokio::select! {
            Some(ended) = running.join_next() => break ended.context("the engine panicked")??,
            Ok(Event::Closed { batch }) = events.recv() => {
                let (id, state, counts) = (batch.id, batch.state, batch.counts);
                tracing::info!(
                    batch.id = %id, completed = counts.completed, failed = counts.failed,
                    not_found = counts.not_found, "batch {state}"
                );
            }
            () = signals.next() => {
                if std::mem::replace(&mut asked, true) {
                    end_at_once();
                }
                tracing::info!("stopping; what is in flight may finish");
                handle.stop();
            }
        }
    };
    let progress = handle.progress();
    let value = serde_json::json!({
        "finished": progress.finished, "requests": progress.requests,
        "released": report.released, "closed": report.closed,
    });
    context.tell(&value, || {
        format!(
            "Stopped: finished {} lines, closed {} batches, released {} lines.",
            text::count(progress.finished),
            text::count(report.closed),
            text::count(report.released),
        )
    })?;
    Ok(Ending::Good)
}
