//! `windrow retry`: makes finished lines run again, in bounded steps.

use std::sync::Arc;
use std::time::Duration;

use url::Url;
use windrow::domain::attempt::Status;
use windrow::domain::{BatchId, LineSet, State};
use windrow::engine::execute::http::HttpExecutor;
use windrow::engine::storage::Storage;
use windrow::store::batch::{Batch, Continue, Reprocess, Select};
use windrow::store::{Kind, Scope, Store};

use crate::batch_run::{BatchRun, StopReason};
use crate::batch_selector::BatchSelector;
use crate::context::Context;
use crate::destination::{Destination, run_again, start_hint};
use crate::error::CliError;
use crate::exit_code::Exit;
use crate::output_files::{OutputFiles, has_errors};
use crate::outputs::Results;
use crate::progress::{Screen, Style};
use crate::run::{url, window};
use crate::upstream::{UpstreamArgs, rebind};
use crate::{hint, text, watch};

/// The lines that are retried without a choice.
const USUAL: [Status; 2] = [Status::Failed, Status::NotFound];
/// How long every target may be out of reach.
const GIVE_UP_AFTER: Duration = Duration::from_secs(300);

/// Run finished lines of a batch again; their results are replaced when they are done. A batch that was
/// cancelled or has expired goes on: what never ran runs, and nothing finished is sent again.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The batch: its id, the first characters of it, or `last`
    batch: BatchSelector,
    /// Lines with one of these statuses, separated by commas: completed, failed, not_found, skipped
    /// [default: failed,not_found]
    #[arg(
        long,
        value_name = "STATUS",
        value_delimiter = ',',
        value_parser = status,
        conflicts_with = "lines"
    )]
    status: Vec<Status>,
    /// Only these lines, by their numbers in the file, for example `1-5,9`
    #[arg(long, value_name = "LINES")]
    lines: Option<LineSet>,
    /// New window of the batch, such as `24h` [default: as long as its last]
    #[arg(long, value_name = "TIME", value_parser = window)]
    window: Option<Duration>,
    /// Run them in this process now, until the batch is closed
    #[arg(long)]
    work: bool,
    /// Base URL for `--work`, to which the batch is moved [default: the upstream that it goes to]
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
    let is_stopped = matches!(batch.state, State::Cancelled | State::Expired);
    if is_stopped && (args.lines.is_some() || !args.status.is_empty()) {
        return Err(no_choice(&batch).into());
    }
    let select = match &args.lines {
        Some(lines) => Select::Lines(lines.clone()),
        None if args.status.is_empty() => Select::Statuses(USUAL.to_vec()),
        None => Select::Statuses(args.status.clone()),
    };
    // Before anything is moved: where it goes must be known, and it must go there. A worker of its last
    // upstream would claim what is put back in between.
    let to = args.work.then(|| args.destination(context, &batch)).transpose()?;
    let executor = to.as_ref().map(|to| args.upstream.executor(context, to)).transpose()?;
    let batch = match &to {
        Some(to) => rebind(context, &*store, batch, &to.upstream, "windrow retry").await?,
        None => batch,
    };
    let window_secs = args.window.map(|window| window.as_secs());
    let again = async {
        if is_stopped {
            let how = Continue { batch: batch.id, window_secs, open_max: None };
            return Ok(store.continue_batch(&context.scope(), how).await?.counts.unfinished());
        }
        reprocess(&*store, &context.scope(), batch.id, select, window_secs).await
    };
    let moved = match again.await {
        Ok(moved) => moved,
        Err(error) => return Err(without_file(context, &*store, &batch, error).await),
    };
    let batch = store.batch(&context.scope(), batch.id).await?;
    if let Some(executor) = executor.filter(|_| !batch.state.is_closed()) {
        // A person who names lines wants to know what these are answered.
        return work(context, store, batch, executor, args.lines.is_some()).await;
    }
    let value = serde_json::json!({ "moved": moved, "batch": batch });
    context.print_result(&value, || output(context, &batch, moved))?;
    Ok(Exit::Success)
}

/// What never ran is all that a stopped batch can go on with.
fn no_choice(batch: &Batch) -> CliError {
    let (id, state) = (batch.id, batch.state);
    let never = match batch.counts.unfinished() {
        0 => "no line".to_owned(),
        never => text::plural(never, "line"),
    };
    let what = format!(
        "batch {id} is {state}: what is left of it are the lines that never ran ({never}), and a choice \
         of others has no meaning yet"
    );
    let run = hint::command(&["retry", &id.to_string()]);
    let remedy = format!(
        "leave out --lines and --status to run those: {run}; once it is completed, its other lines can \
         be retried."
    );
    CliError::usage(what, remedy)
}

/// Says so when a batch cannot run again because its input file is gone.
async fn without_file(
    context: &Context,
    store: &dyn Store,
    batch: &Batch,
    error: anyhow::Error,
) -> anyhow::Error {
    let found = store.file(&context.scope(), batch.file).await;
    if !found.is_err_and(|error| error.kind == Kind::Missing) {
        return error;
    }
    let what =
        format!("the input file of batch {} was deleted: its lines cannot run again", batch.id);
    let results = hint::command(&["results", &batch.id.to_string()]);
    CliError::new(Exit::Failed, what, format!("for what it has finished: {results}")).into()
}

impl Args {
    /// Where it goes: to the URL that is given, or else where its lanes are bound to.
    fn destination(&self, context: &Context, batch: &Batch) -> anyhow::Result<Destination> {
        if let Some(to) = &self.to {
            return Destination::url(to);
        }
        if let Some(found) = Destination::of(context, batch) {
            return self.upstream.with_key(found);
        }
        let bound = batch.upstreams.iter().filter(|bound| !bound.is_unknown());
        let bound: Vec<_> = bound.map(|bound| bound.as_str()).collect();
        let (id, names) = (batch.id, bound.join(" and "));
        let what = match bound.len() {
            0 => format!("the upstream of batch {id} is not known"),
            1 => format!("batch {id} goes to {names}, which is not in the configuration here"),
            _ => format!("batch {id} goes to several upstreams: {names}"),
        };
        Err(CliError::usage(what, "give the URL for all of its lines with --to.").into())
    }
}

/// Drives the batch to its end.
async fn work(
    context: &Context,
    store: Arc<dyn Store>,
    batch: Batch,
    executor: HttpExecutor,
    takes_refusals: bool,
) -> anyhow::Result<Exit> {
    let storage = context.open_storage()?;
    let id = batch.id;
    let mut screen = Screen::new(Style::of(context.json, false));
    let batch_run = BatchRun {
        store: store.clone(),
        storage: storage.clone(),
        executor,
        options: context.config.bounds.engine.clone(),
        service: "windrow retry",
        batch,
        give_up_after: GIVE_UP_AFTER,
        takes_refusals,
    };
    let outcome = batch_run.run(&mut screen).await?;
    let batch = store.batch(&context.scope(), id).await?;
    if batch.state.is_closed() {
        let written = rewrite(context, &*store, &storage, &batch).await?;
        context.print_result(&batch, || format!("{}\n{written}", watch::closed(&batch)))?;
        return Ok(watch::exit_code(&batch));
    }
    let again = hint::command(&["retry", &id.to_string(), "--work"]);
    let again = format!("to resume: {again}; nothing is lost.");
    let (exit_code, what) = match outcome.stop_reason {
        StopReason::Signal | StopReason::Closed => {
            (Exit::Stopped, "stopped before the end".to_owned())
        }
        StopReason::Unreachable(trouble) => {
            let trouble = trouble.unwrap_or_else(|| "no response".to_owned());
            (Exit::Unreachable, format!("the upstream was unreachable: {trouble}"))
        }
        StopReason::Refused(why) => {
            (Exit::Config, format!("stopped, and no line was used up: {why} (check --api-key-env)"))
        }
        StopReason::OutputFailed(error) => {
            (Exit::Outputs, format!("could not write the outputs: {error}"))
        }
    };
    Err(CliError::new(exit_code, what, again).into())
}

/// Writes the results where the run wrote them, or says how to write them.
async fn rewrite(
    context: &Context,
    store: &dyn Store,
    storage: &Storage,
    batch: &Batch,
) -> anyhow::Result<String> {
    let Some(files) = OutputFiles::of(batch) else {
        let write = hint::command(&["results", &batch.id.to_string(), "--out", "FILE"]);
        return Ok(format!("To write the results: {write}"));
    };
    let scope = context.scope();
    let results = Results {
        store,
        storage: Some(storage),
        scope: &scope,
        batch,
        bytes_max: context.config.bounds.engine.output_bytes_max,
    };
    files.write(&results).await?;
    let mut output = format!("Results:  {}", files.results.name());
    if has_errors(batch) {
        output.push_str(&format!("\nErrors:   {}", files.errors.display()));
    }
    Ok(output)
}

/// Moves all of them, one bounded step after the other.
async fn reprocess(
    store: &dyn Store,
    scope: &Scope,
    batch: BatchId,
    select: Select,
    window_secs: Option<u64>,
) -> anyhow::Result<u64> {
    let (mut moved, mut step) = (0, Reprocess { window_secs, ..Reprocess::first(batch, select) });
    loop {
        let done = store.reprocess(scope, step.clone()).await?;
        moved += done.moved;
        match step.next(&done) {
            Some(next) => step = next,
            None => return Ok(moved),
        }
    }
}

fn output(context: &Context, batch: &Batch, moved: u64) -> String {
    if moved == 0 {
        return format!("batch {}: no lines to retry.", batch.id);
    }
    let lines = text::plural(moved, "line");
    let id = batch.id.to_string();
    // A worker runs until it is stopped; this ends with the batch.
    let here = || {
        Destination::of(context, batch)
            .filter(|_| batch.metadata.contains_key("to"))
            .filter(|found| found.table.is_none())
            .map(|_| hint::command(&["retry", &id, "--work"]))
    };
    let run = run_again(context, batch).or_else(here);
    let run = run.unwrap_or_else(|| start_hint(context, batch));
    format!("batch {id}: {lines} will run again.\nTo run them: {run}")
}
