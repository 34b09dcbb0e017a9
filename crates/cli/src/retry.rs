//! `windrow retry`: makes finished lines run again, in bounded steps.

use std::sync::Arc;
use std::time::Duration;

use url::Url;
use windrow::domain::attempt::Status;
use windrow::domain::{BatchId, LineSet};
use windrow::engine::execute::http::HttpExecutor;
use windrow::store::batch::{Batch, REPROCESS_LINES_MAX, Reprocess, Select};
use windrow::store::{Scope, Store};

use crate::batch_run::{BatchRun, StopReason};
use crate::batch_selector::BatchSelector;
use crate::context::Context;
use crate::error::CliError;
use crate::exit_code::Exit;
use crate::progress::{Screen, Style};
use crate::run::url;
use crate::upstream::UpstreamArgs;
use crate::{text, watch};

/// How long every target may be out of reach.
const GIVE_UP_AFTER: Duration = Duration::from_secs(300);

/// Run finished lines of a batch again; their results are replaced when they are done.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The batch: its id, the first characters of it, or `last`
    batch: BatchSelector,
    /// Lines with one of these statuses, separated by commas: completed, failed, not_found, skipped
    #[arg(
        long,
        value_name = "STATUS",
        value_delimiter = ',',
        value_parser = status,
        default_value = "failed,not_found",
        conflicts_with = "lines"
    )]
    status: Vec<Status>,
    /// Only these lines, by their numbers in the file, for example `1-5,9`
    #[arg(long, value_name = "LINES")]
    lines: Option<LineSet>,
    /// Run them in this process now, until the batch is closed
    #[arg(long)]
    work: bool,
    /// Base URL for `--work` [default: the one that `windrow run` used]
    #[arg(long, value_name = "URL", value_parser = url, requires = "work")]
    to: Option<Url>,
    #[command(flatten)]
    upstream: UpstreamArgs,
}

/// A line's outcome by its word.
pub(crate) fn status(word: &str) -> Result<Status, String> {
    let known = Status::ALL.into_iter().find(|status| status.as_str() == word);
    known.ok_or_else(|| {
        let words: Vec<_> = Status::ALL.iter().map(|status| status.as_str()).collect();
        format!("not a status; the statuses are {}", words.join(", "))
    })
}

pub(crate) async fn run(context: &Context, args: Args) -> anyhow::Result<Exit> {
    let store = context.open_existing().await?;
    let batch = args.batch.find(context, &*store).await?;
    let select = match &args.lines {
        Some(lines) => Select::Lines(lines.clone()),
        None => Select::Statuses(args.status.clone()),
    };
    // Before anything is moved: where it goes must be known.
    let executor = args.work.then(|| args.executor(context, &batch)).transpose()?;
    let moved = reprocess(&*store, &context.scope(), batch.id, select).await?;
    let batch = store.batch(&context.scope(), batch.id).await?;
    if let Some(executor) = executor.filter(|_| !batch.state.is_closed()) {
        return work(context, store, batch, executor).await;
    }
    let value = serde_json::json!({ "moved": moved, "batch": batch });
    context.print_result(&value, || output(&batch, moved))?;
    Ok(Exit::Success)
}

impl Args {
    fn executor(&self, context: &Context, batch: &Batch) -> anyhow::Result<HttpExecutor> {
        let sent_to = || url(batch.metadata.get("to")?).ok();
        let to = self.to.clone().or_else(sent_to).ok_or_else(|| {
            let what = format!("the upstream of batch {} is not known", batch.id);
            CliError::usage(what, "give its URL with --to.")
        })?;
        self.upstream.executor(context, &to)
    }
}

/// Drives the batch to its end.
async fn work(
    context: &Context,
    store: Arc<dyn Store>,
    batch: Batch,
    executor: HttpExecutor,
) -> anyhow::Result<Exit> {
    let storage = context.open_storage()?;
    let id = batch.id;
    let mut screen = Screen::new(Style::of(context.json, false));
    let batch_run = BatchRun {
        store: store.clone(),
        storage,
        executor,
        options: context.config.bounds.engine.clone(),
        service: "windrow retry",
        batch,
        give_up_after: GIVE_UP_AFTER,
    };
    let outcome = batch_run.run(&mut screen).await?;
    let batch = store.batch(&context.scope(), id).await?;
    if batch.state.is_closed() {
        context.print_result(&batch, || watch::closed(&batch))?;
        return Ok(watch::exit_code(&batch));
    }
    let again = format!("`windrow retry {id} --work` resumes; nothing is lost.");
    let (exit_code, what) = match outcome.stop_reason {
        StopReason::Signal | StopReason::Closed => {
            (Exit::Stopped, "stopped before the end".to_owned())
        }
        StopReason::Unreachable(trouble) => {
            let trouble = trouble.unwrap_or_else(|| "no response".to_owned());
            (Exit::Unreachable, format!("the upstream was unreachable: {trouble}"))
        }
        StopReason::OutputFailed(error) => {
            (Exit::Outputs, format!("could not write the outputs: {error}"))
        }
    };
    Err(CliError::new(exit_code, what, again).into())
}

/// Moves all of them, one bounded step after the other.
async fn reprocess(
    store: &dyn Store,
    scope: &Scope,
    batch: BatchId,
    select: Select,
) -> anyhow::Result<u64> {
    let (mut moved, mut generation) = (0, None);
    loop {
        let step =
            Reprocess { batch, select: select.clone(), generation, lines_max: REPROCESS_LINES_MAX };
        let done = store.reprocess(scope, step).await?;
        moved += done.moved;
        generation = Some(done.generation);
        if !done.more {
            return Ok(moved);
        }
    }
}

fn output(batch: &Batch, moved: u64) -> String {
    if moved == 0 {
        return format!("batch {}: no lines to retry.", batch.id);
    }
    let lines =
        if moved == 1 { "1 line".to_owned() } else { format!("{} lines", text::count(moved)) };
    let run = match (batch.metadata.get("path"), batch.metadata.get("to")) {
        (Some(path), Some(to)) => format!("windrow run {path} --to {to}"),
        _ => "windrow work --to URL".to_owned(),
    };
    format!("batch {}: {lines} will run again.\nTo run them: {run}", batch.id)
}
