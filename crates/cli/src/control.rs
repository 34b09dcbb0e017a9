//! `windrow pause`, `resume` and `cancel`: one short transaction each, whatever the size of the batch.

use std::time::Duration;

use windrow::domain::State;
use windrow::store::batch::{Batch, Continue};

use crate::batch_selector::BatchSelector;
use crate::batches::when;
use crate::context::Context;
use crate::error::CliError;
use crate::exit_code::Exit;
use crate::run::window;
use crate::{clock, hint, text};

/// The batch to cancel.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The batch: its id, the first characters of it, or `last`
    batch: BatchSelector,
}

/// The batch to pause, and why.
#[derive(Debug, clap::Args)]
pub(crate) struct PauseArgs {
    /// The batch: its id, the first characters of it, or `last`
    batch: BatchSelector,
    /// The reason, shown by `windrow status`
    #[arg(long)]
    reason: Option<String>,
}

/// The batch to resume, and how long it may take.
#[derive(Debug, clap::Args)]
pub(crate) struct ResumeArgs {
    /// The batch: its id, the first characters of it, or `last`
    batch: BatchSelector,
    /// New window from now on, such as `24h`; required when the last one is over
    #[arg(long, value_name = "TIME", value_parser = window)]
    window: Option<Duration>,
}

pub(crate) async fn pause(context: &Context, args: PauseArgs) -> anyhow::Result<Exit> {
    let store = context.open_existing().await?;
    let batch = args.batch.find(context, &*store).await?;
    let batch = store.pause_batch(&context.scope(), batch.id, args.reason).await?;
    let resume = hint::command(&["resume", &batch.id.to_string()]);
    let left = format!("requests in flight may finish. To continue: {resume}");
    print_result(context, &batch, &left)
}

pub(crate) async fn resume(context: &Context, args: ResumeArgs) -> anyhow::Result<Exit> {
    let store = context.open_existing().await?;
    let batch = args.batch.find(context, &*store).await?;
    let (id, window_secs) = (batch.id, args.window.map(|window| window.as_secs()));
    let resumed = match window_secs {
        None if batch.is_late(clock::now()) => return Err(late(&batch).into()),
        _ if batch.state == State::Cancelled => return Err(cancelled(&batch).into()),
        Some(_) if batch.state == State::Expired => {
            let how = Continue { batch: id, window_secs, open_max: None };
            store.continue_batch(&context.scope(), how).await?
        }
        _ => store.resume_batch(&context.scope(), id, window_secs).await?,
    };
    let until = resumed.deadline.filter(|_| args.window.is_some());
    let until = until.map(|end| format!(" until {}", when(end))).unwrap_or_default();
    print_result(context, &resumed, &format!("any worker may continue it{until}."))
}

/// That a batch was cancelled, and how what never ran is run all the same.
fn cancelled(batch: &Batch) -> CliError {
    let what = format!("batch {} was cancelled, which is no pause", batch.id);
    let retry = hint::command(&["retry", &batch.id.to_string()]);
    CliError::new(Exit::Failed, what, format!("to run what never ran: {retry}"))
}

/// That the window of a batch is over, and how it gets a new one.
fn late(batch: &Batch) -> CliError {
    let ended = batch.deadline.map(|end| format!(", which ended at {}", when(end)));
    let what = format!("batch {} is past its window{}", batch.id, ended.unwrap_or_default());
    let resume = hint::command(&["resume", &batch.id.to_string(), "--window", "24h"]);
    CliError::new(Exit::Failed, what, format!("give it a new one with --window: {resume}"))
}

pub(crate) async fn cancel(context: &Context, args: Args) -> anyhow::Result<Exit> {
    let store = context.open_existing().await?;
    let batch = args.batch.find(context, &*store).await?;
    let batch = store.cancel_batch(&context.scope(), batch.id).await?;
    let id = batch.id.to_string();
    let left = format!(
        "requests in flight may finish; the rest never runs, and is listed with the errors.\nFor what \
         it has finished: {}\nTo run what never ran, once it is closed: {}",
        hint::command(&["results", &id]),
        hint::command(&["retry", &id])
    );
    print_result(context, &batch, &left)
}

fn print_result(context: &Context, batch: &Batch, left: &str) -> anyhow::Result<Exit> {
    context.print_result(batch, || {
        let (id, state, counts) = (batch.id, batch.state, batch.counts);
        let (done, total) = (text::count(counts.finished()), text::plural(counts.total, "line"));
        format!("batch {id} is {state}, {done} of {total} done: {left}")
    })?;
    Ok(Exit::Success)
}
