//! `windrow pause`, `resume` and `cancel`: one short transaction each, whatever the size of the batch.

use windrow::store::batch::Batch;

use crate::batch_selector::BatchSelector;
use crate::context::Context;
use crate::exit_code::Exit;
use crate::text;

/// The batch to resume or cancel.
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

pub(crate) async fn pause(context: &Context, args: PauseArgs) -> anyhow::Result<Exit> {
    let store = context.open_existing().await?;
    let batch = args.batch.find(context, &*store).await?;
    let batch = store.pause_batch(&context.scope(), batch.id, args.reason).await?;
    let left = "requests in flight may finish; `windrow resume` continues it";
    print_result(context, &batch, left)
}

pub(crate) async fn resume(context: &Context, args: Args) -> anyhow::Result<Exit> {
    let store = context.open_existing().await?;
    let batch = args.batch.find(context, &*store).await?;
    let batch = store.resume_batch(&context.scope(), batch.id).await?;
    print_result(context, &batch, "any worker may continue it")
}

pub(crate) async fn cancel(context: &Context, args: Args) -> anyhow::Result<Exit> {
    let store = context.open_existing().await?;
    let batch = args.batch.find(context, &*store).await?;
    let batch = store.cancel_batch(&context.scope(), batch.id).await?;
    let left =
        "requests in flight may finish; the rest never runs, and is listed in the error file";
    print_result(context, &batch, left)
}

fn print_result(context: &Context, batch: &Batch, left: &str) -> anyhow::Result<Exit> {
    context.print_result(batch, || {
        let (id, state, counts) = (batch.id, batch.state, batch.counts);
        let (done, total) = (text::count(counts.finished()), text::count(counts.total));
        format!("batch {id} is {state}, {done} of {total} lines done: {left}.")
    })?;
    Ok(Exit::Success)
}
