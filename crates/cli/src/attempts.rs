//! `windrow attempts`: every attempt of one line, the last one included, and what the next one waits for.

use serde::Serialize;
use windrow::engine::line_history::LineHistory;
use windrow::engine::output::line_named;
use windrow::store::batch::Batch;
use windrow::store::inspect::{FinishedQuery, PAGE_MAX, PastAttempt, PendingQuery};
use windrow::store::{Kind, Scope, Store};

use crate::batch_selector::BatchSelector;
use crate::batches::when;
use crate::context::Context;
use crate::error::CliError;
use crate::exit_code::Exit;
use crate::table::Table;
use crate::{clock, text};

/// Show every attempt of one line, the last one included, and what the next one waits for.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The batch: its id, the first characters of it, or `last`
    batch: BatchSelector,
    /// The line number in the input file, from 1, or the `custom_id` of the line
    line: String,
}

/// An attempt as it is shown.
#[derive(Debug, Serialize)]
struct ShownAttempt<'a> {
    #[serde(flatten)]
    past: &'a PastAttempt,
    /// Whether the line used it up.
    counted: bool,
}

pub(crate) async fn run(context: &Context, args: Args) -> anyhow::Result<Exit> {
    let store = context.open_existing().await?;
    let batch = args.batch.find(context, &*store).await?;
    let (line, history) = find(&*store, &context.scope(), &batch, &args.line).await?;
    let attempts = history.attempts.iter();
    let attempts: Vec<_> =
        attempts.map(|past| ShownAttempt { past, counted: past.class.is_counted() }).collect();
    let next = history.next.as_ref().map(|next| next.sentence(clock::now()));
    let result = history.result.as_ref().map(|line| {
        serde_json::json!({
            "status": line.result.status, "attempts": line.result.attempts,
            "http_status": line.result.http_status, "error_code": line.result.error_code,
            "error": line.result.error, "finished_at": line.finished_at,
            "generation": line.generation, "custom_id": line.result.custom_id,
        })
    });
    let value = serde_json::json!({
        "batch": batch.id, "line": line, "attempts": attempts, "uncounted": history.uncounted(),
        "result": result, "next": next,
    });
    context.print_result(&value, || shown(line, &history, next.as_deref()))?;
    Ok(Exit::Success)
}

/// The line that is meant, by its number or its `custom_id`, and its history.
async fn find(
    store: &dyn Store,
    scope: &Scope,
    batch: &Batch,
    text: &str,
) -> anyhow::Result<(u64, LineHistory)> {
    let number = text.parse().ok().filter(|number: &u64| *number > 0);
    let line = match number {
        Some(line) => Some(line),
        None => named(store, scope, batch, text).await?,
    };
    if let Some(line) = line {
        match LineHistory::read(store, scope, batch, line).await {
            Ok(history) => return Ok((line, history)),
            Err(error) if error.kind == Kind::Missing => {}
            Err(error) => return Err(error.into()),
        }
    }
    // A custom_id may look like a number.
    if number.is_some()
        && let Some(line) = named(store, scope, batch, text).await?
    {
        return Ok((line, LineHistory::read(store, scope, batch, line).await?));
    }
    let what = match number {
        Some(line) => format!("batch {} has no line {line}", batch.id),
        None => format!("batch {} has no line with the custom_id {text:?}", batch.id),
    };
    let remedy = "give the number of a line in the input file, from 1, or its custom_id.";
    Err(CliError::new(Exit::Failed, what, remedy).into())
}

/// The line with that `custom_id`.
async fn named(
    store: &dyn Store,
    scope: &Scope,
    batch: &Batch,
    custom_id: &str,
) -> anyhow::Result<Option<u64>> {
    let query = FinishedQuery {
        batch: Some(batch.id),
        custom_id: Some(custom_id.to_owned()),
        limit: 1,
        ..FinishedQuery::default()
    };
    if let Some(found) = store.finished(scope, query).await?.rows.pop() {
        return Ok(Some(found.result.line));
    }
    let mut after = None;
    loop {
        let query = PendingQuery {
            batch: Some(batch.id),
            after,
            limit: PAGE_MAX,
            ..PendingQuery::default()
        };
        let page = store.pending(scope, query).await?;
        let mut rows = page.rows.iter();
        if let Some(found) = rows.find(|row| row.summary.custom_id.as_deref() == Some(custom_id)) {
            return Ok(Some(found.line));
        }
        after = page.next;
        if after.is_none() {
            // A line of a stopped batch that never ran is in its file only.
            return Ok(line_named(store, scope, batch.id, custom_id).await?);
        }
    }
}

/// The number of an attempt, or of the first and the last that an entry stands for.
fn numbers(past: &PastAttempt) -> String {
    match past.times {
        0 | 1 => past.attempt.to_string(),
        times => format!("{}-{}", past.attempt.saturating_sub(times - 1), past.attempt),
    }
}

fn shown(line: u64, history: &LineHistory, next: Option<&str>) -> String {
    let mut table =
        Table::new(&["generation", "attempt", "counted", "at", "result", "code", "error"]);
    table.right(&[0, 1]);
    for past in &history.attempts {
        table.row([
            past.generation.to_string(),
            numbers(past),
            if past.class.is_counted() { "yes" } else { "no" }.to_owned(),
            when(past.created_at),
            past.class.to_string(),
            past.error_code.clone(),
            text::short(&text::one_line(&past.error), 120),
        ]);
    }
    if let Some(line) = &history.result {
        let result = &line.result;
        let http = result.http_status.map(|status| format!("http_{status}"));
        table.row([
            line.generation.to_string(),
            // A line that took its workers down has no attempt that ended.
            if result.attempts == 0 { "-".to_owned() } else { result.attempts.to_string() },
            if result.attempts == 0 { "no" } else { "yes" }.to_owned(),
            when(line.finished_at),
            result.status.as_str().to_owned(),
            result.error_code.clone().or(http).unwrap_or_default(),
            text::short(&text::one_line(result.error.as_deref().unwrap_or_default()), 120),
        ]);
    }
    let mut output = match history.attempts.len() + usize::from(history.result.is_some()) {
        0 => format!("Line {line} has not been attempted.\n"),
        _ => format!("Attempts of line {line}:\n{table}\n"),
    };
    let uncounted = history.uncounted();
    if uncounted > 0 {
        output.push_str(&format!("{uncounted} of them do not count: the upstream throttled.\n"));
    }
    output.push_str(next.unwrap_or_default());
    output.trim_end().to_owned()
}
