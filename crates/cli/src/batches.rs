//! `windrow batches`, `status` and `attempts`: lists batches and shows one of them.

use jiff::Timestamp;
use windrow::domain::{Counts, State};
use windrow::store::batch::Batch;
use windrow::store::inspect::{Attempt, BatchesQuery, LaneStatus};

use crate::batch_selector::BatchSelector;
use crate::context::Context;
use crate::exit_code::Exit;
use crate::list::{Columns, PageArgs, print_page};
use crate::table::Table;
use crate::text;

/// List batches, newest first.
#[derive(Debug, clap::Args)]
pub(crate) struct ListArgs {
    /// Only batches in these states, separated by commas
    #[arg(long, value_name = "STATE", value_delimiter = ',', value_parser = state)]
    state: Vec<State>,
    #[command(flatten)]
    page: PageArgs,
}

/// Show one batch with its counts, by target.
#[derive(Debug, clap::Args)]
pub(crate) struct StatusArgs {
    /// The batch: its id, the first characters of it, or `last`
    batch: BatchSelector,
}

/// Show the attempts of one line that failed and were retried.
#[derive(Debug, clap::Args)]
pub(crate) struct AttemptsArgs {
    /// The batch: its id, the first characters of it, or `last`
    batch: BatchSelector,
    /// The line number in the input file, from 1
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    line: u64,
}

fn state(word: &str) -> Result<State, String> {
    word.parse().map_err(|_| {
        let known: Vec<_> = State::ALL.iter().map(|state| state.as_str()).collect();
        format!("not a state; the states are {}", known.join(", "))
    })
}

pub(crate) async fn list(context: &Context, args: ListArgs) -> anyhow::Result<Exit> {
    let store = context.open_existing().await?;
    let (states, PageArgs { limit, after }) = (args.state, args.page);
    let query = BatchesQuery { states, after, limit, ..BatchesQuery::default() };
    let page = store.batches(&context.scope(), query).await?;
    let columns = Columns {
        titles: &["batch", "state", "done", "lines", "failed", "created", "source"],
        right: &[2, 3, 4],
        row,
        empty: "No batches.",
    };
    print_page(context, &page, |batch| batch, &columns)
}

fn row(batch: &Batch) -> Vec<String> {
    let counts = &batch.counts;
    vec![
        batch.id.to_string(),
        batch.state.to_string(),
        text::percent(counts.finished(), counts.total),
        text::count(counts.total),
        text::count(counts.failed + counts.not_found),
        when(batch.created_at),
        origin(batch),
    ]
}

/// To the second, in UTC.
pub(crate) fn when(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M:%SZ").to_string()
}

/// The path that the batch was made from, or its endpoint.
fn origin(batch: &Batch) -> String {
    batch.metadata.get("path").unwrap_or(&batch.endpoint).clone()
}

pub(crate) async fn status(context: &Context, args: StatusArgs) -> anyhow::Result<Exit> {
    let store = context.open_existing().await?;
    let batch = args.batch.find(context, &*store).await?;
    let lanes = store.lanes(&context.scope(), batch.id).await?;
    let value = serde_json::json!({ "batch": batch, "lanes": lanes });
    context.print_result(&value, || shown(&batch, &lanes))?;
    Ok(Exit::Success)
}

fn shown(batch: &Batch, lanes: &[LaneStatus]) -> String {
    let mut output = format!("batch     {}\nstate     {}\n", batch.id, batch.state);
    let mut line = |word: &str, value: String| output.push_str(&format!("{word:<10}{value}\n"));
    line("source", origin(batch));
    if let Some(to) = batch.metadata.get("to") {
        line("to", to.clone());
    }
    line("file", batch.file.to_string());
    line("created", when(batch.created_at));
    let times = [
        ("deadline", batch.deadline),
        ("cancelled", batch.cancelling_at),
        ("closed", batch.closed_at),
    ];
    for (word, at) in times {
        if let Some(at) = at {
            line(word, when(at));
        }
    }
    if batch.generation > 0 {
        line("retried", format!("{} times", batch.generation));
    }
    if let Some(error) = &batch.last_error {
        line("error", error.clone());
    }
    for error in batch.errors.iter().take(5) {
        let at = error.line.map_or(String::new(), |line| format!("line {line}: "));
        line("invalid", format!("{at}{}", error.message));
    }
    output.push('\n');
    let mut table = Table::new(&[
        "target",
        "phase",
        "lines",
        "untouched",
        "returned",
        "leased",
        "completed",
        "failed",
        "not found",
        "skipped",
    ]);
    table.right(&[2, 3, 4, 5, 6, 7, 8, 9]);
    let mut row = |target: &str, phase: &str, counts: &Counts| {
        let numbers = [
            counts.total,
            counts.untouched,
            counts.returned,
            counts.leased,
            counts.completed,
            counts.failed,
            counts.not_found,
            counts.skipped,
        ];
        let words = [text::short(target, 40), phase.to_owned()];
        table.row(words.into_iter().chain(numbers.map(text::count)));
    };
    for lane in lanes {
        row(lane.target.as_str(), lane.phase.as_str(), &lane.counts);
    }
    if lanes.len() > 1 {
        row("all", "", &batch.counts);
    }
    output + &table.to_string()
}

pub(crate) async fn attempts(context: &Context, args: AttemptsArgs) -> anyhow::Result<Exit> {
    let store = context.open_existing().await?;
    let batch = args.batch.find(context, &*store).await?;
    let attempts = store.attempts(&context.scope(), batch.id, args.line).await?;
    let value = serde_json::json!({ "batch": batch.id, "line": args.line, "attempts": attempts });
    context.print_result(&value, || history(args.line, &attempts))?;
    Ok(Exit::Success)
}

fn history(line: u64, attempts: &[Attempt]) -> String {
    if attempts.is_empty() {
        return format!("Line {line} has no failed attempts that were retried.");
    }
    let mut table = Table::new(&["retry", "attempt", "at", "class", "code", "error"]);
    table.right(&[0, 1]);
    for attempt in attempts {
        table.row([
            attempt.generation.to_string(),
            attempt.attempt.to_string(),
            when(attempt.created_at),
            attempt.class.to_string(),
            attempt.error_code.clone(),
            text::short(&text::one_line(&attempt.error), 120),
        ]);
    }
    format!("Failed attempts of line {line} that were retried:\n{table}")
}
