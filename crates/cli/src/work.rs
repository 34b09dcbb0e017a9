//! `windrow work`: runs batches and messages until it is stopped.

use std::sync::Arc;

use url::Url;
use windrow::engine::execute::Executor;
use windrow::store::batch::Batch;

use crate::config::LogFormat;
use crate::context::Context;
use crate::exit_code::Exit;
use crate::process::{Process, Summary, Workload};
use crate::run::url;
use crate::upstream::UpstreamArgs;
use crate::{log, text};

/// Run all batches whose targets have an upstream, and the messages that the configuration has handlers
/// and publishers for, until SIGTERM or SIGINT. Several workers may share one database.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Base URL of the upstream for targets that the configuration does not name
    #[arg(long, value_name = "URL", value_parser = url)]
    to: Option<Url>,
    #[command(flatten)]
    upstream: UpstreamArgs,
    /// Run batches only, no messages
    #[arg(long)]
    no_messages: bool,
    /// Format of the log [env: WINDROW_LOG_FORMAT] [default: text]; WINDROW_LOG sets the filter
    #[arg(long, value_enum)]
    log_format: Option<LogFormat>,
}

pub(crate) async fn run(context: &Context, args: Args) -> anyhow::Result<Exit> {
    let _log = log::start(&context.config, args.log_format)?;
    context.config.refuse_unused("work", &["engine", "messages"])?;
    let messages = !args.no_messages;
    let executor = args.upstream.executor_for_all(context, args.to.as_ref(), messages)?;
    let executor = executor.map(|executor| Arc::new(executor) as Arc<dyn Executor>);
    let (store, storage) = (context.open().await?, context.open_storage()?);
    let service = "windrow work";
    let workload = Workload { service, store: &store, storage: &storage, executor, messages };
    let process = Process::start(context, workload).await?;
    // The parts have what they need of it; the last one that ends closes it.
    drop(store);
    let (database, outputs) = (context.config.database.to_string(), storage.describe());
    tracing::info!(database, outputs, "working; SIGTERM or Ctrl-C stops");
    let Summary { report, progress } = process.run_until_stopped(log_closed).await?;
    let value = serde_json::json!({
        "finished": progress.finished, "requests": progress.requests,
        "released": report.released, "closed": report.closed,
    });
    context.print_result(&value, || {
        format!(
            "Stopped: finished {}, closed {}, released {}.",
            text::plural(progress.finished, "line"),
            text::plural(report.closed, "batch"),
            text::plural(report.released, "line"),
        )
    })?;
    Ok(Exit::Success)
}

/// Logs a batch that this process closed.
fn log_closed(batch: &Batch) {
    let (id, state, counts) = (batch.id, batch.state, batch.counts);
    tracing::info!(
        batch.id = %id, completed = counts.completed, failed = counts.failed,
        not_found = counts.not_found, "batch {state}"
    );
}
