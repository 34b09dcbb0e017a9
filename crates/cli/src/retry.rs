//! `windrow retry`: puts finished lines back to run again, in bounded steps.

use windrow::domain::attempt::Status;
use windrow::prelude::*;
use windrow::store::batch::{REPROCESS_LINES_MAX, Reprocess, Select};

use crate::context::Context;
use crate::ending::Ending;
use crate::pick::{self, Pick};
use crate::text;

/// Puts finished lines of a batch back to run again; their results are replaced when they are done.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A batch's id, the beginning of it, or `last`
    batch: Pick,
    /// All lines with one of these outcomes: completed, failed, not_found, skipped
    #[arg(
        long,
        value_name = "STATUS",
        value_delimiter = ',',
        value_parser = status,
        default_value = "failed,not_found",
        conflicts_with = "lines"
    )]
    status: Vec<Status>,
    /// These lines, by their numbers in the file, as `1-5,9`
    #[arg(long, value_name = "LINES")]
    lines: Option<LineSet>,
}

/// A line's outcome by its word.
pub(crate) fn status(word: &str) -> Result<Status, String> {
    let known = Status::ALL.into_iter().find(|status| status.as_str() == word);
    known.ok_or_else(|| {
        let words: Vec<_> = Status::ALL.iter().map(|status| status.as_str()).collect();
        format!("there is no such status; the statuses are {}", words.join(", "))
    })
}

pub(crate) async fn run(context: &Context, args: Args) -> anyhow::Result<Ending> {
    let store = context.open_existing().await?;
    let batch = pick::batch(context, &*store, &args.batch).await?;
    let select = match args.lines {
        Some(lines) => Select::Lines(lines),
        None => Select::Statuses(args.status),
    };
    let moved = reprocess(&*store, &context.scope(), batch.id, select).await?;
    let batch = store.batch(&context.scope(), batch.id).await?;
    let value = serde_json::json!({ "moved": moved, "batch": batch });
    context.tell(&value, || said(&batch, moved))?;
    Ok(Ending::Good)
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

fn said(batch: &Batch, moved: u64) -> String {
    if moved == 0 {
        return format!("batch {}: no line to retry.", batch.id);
    }
    let lines =
        if moved == 1 { "1 line".to_owned() } else { format!("{} lines", text::count(moved)) };
    let run = match (batch.metadata.get("path"), batch.metadata.get("to")) {
        (Some(path), Some(to)) => format!("windrow run {path} --to {to}"),
        _ => "windrow work --to URL".to_owned(),
    };
    format!("batch {}: {lines} will run again.\nTo run them: {run}", batch.id)
}
