//! `windrow watch`: shows the progress of a batch that other processes run, until it is closed.

use std::time::Duration;

use windrow::domain::State;
use windrow::store::batch::Batch;

use crate::batch_selector::BatchSelector;
use crate::clock;
use crate::context::Context;
use crate::destination::start_hint;
use crate::exit_code::Exit;
use crate::progress::{Screen, Style, View};
use crate::workers::Workers;
use crate::{hint, holders, text};

/// How often the batch is read: O(lanes), whatever its size.
const POLL_EVERY: Duration = Duration::from_millis(500);

/// Show the progress of a batch until it is closed.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The batch: its id, the first characters of it, or `last`
    batch: BatchSelector,
}

pub(crate) async fn run(context: &Context, args: Args) -> anyhow::Result<Exit> {
    let store = context.open_existing().await?;
    let mut batch = args.batch.find(context, &*store).await?;
    let mut screen = Screen::new(Style::of(context.json, false));
    let mut held = None;
    while !batch.state.is_closed() {
        let workers = Workers::read(context, &*store, &batch).await?;
        screen.show(&view(context, &batch, workers, held));
        clock::sleep(POLL_EVERY).await;
        let before = batch.counts;
        batch = store.batch(&context.scope(), batch.id).await?;
        // Whoever holds the lines is of interest when nothing moves.
        held = if batch.counts == before && before.leased > 0 {
            let found = store.holders(&context.scope(), batch.id).await?;
            holders::sentence(&found, &context.config.bounds.engine)
        } else {
            None
        };
    }
    screen.end();
    context.print_result(&batch, || closed(&batch))?;
    Ok(exit_code(&batch))
}

fn view(context: &Context, batch: &Batch, workers: Workers, held: Option<String>) -> View {
    let counts = &batch.counts;
    let note = match batch.state {
        State::InProgress if workers.any() => held,
        State::InProgress => {
            let start = start_hint(context, batch);
            Some(format!("{}; to run it: {start}", workers.text()))
        }
        State::Paused => {
            let why = batch.last_error.as_ref().map_or(String::new(), |why| format!(": {why}"));
            let resume = hint::command(&["resume", &batch.id.to_string()]);
            Some(format!("paused{why}; to continue: {resume}"))
        }
        state => Some(match &batch.last_error {
            Some(error) => format!("{state}: {error}"),
            None => state.to_string(),
        }),
    };
    View {
        done: counts.finished(),
        total: counts.total,
        in_flight: None,
        retries: 0,
        failed: counts.failed + counts.not_found,
        is_still: batch.state == State::Paused || !workers.any(),
        note,
        ..View::default()
    }
}

/// The exit code for a closed batch: whatever closed it, one whose lines all completed succeeded.
pub(crate) fn exit_code(batch: &Batch) -> Exit {
    let counts = &batch.counts;
    let missed = counts.failed + counts.not_found + counts.unfinished();
    if batch.state != State::Failed && missed == 0 { Exit::Success } else { Exit::SomeFailed }
}

/// A closed batch in one sentence.
pub(crate) fn closed(batch: &Batch) -> String {
    let counts = &batch.counts;
    let all = [
        (counts.completed, "completed"),
        (counts.failed, "failed"),
        (counts.not_found, "not found"),
        (counts.skipped, "skipped"),
        (counts.unfinished(), "never run"),
    ];
    let parts = all.into_iter().filter(|(number, word)| *number > 0 || *word == "completed");
    let parts: Vec<_> =
        parts.map(|(number, word)| format!("{} {word}", text::count(number))).collect();
    format!("batch {} is {}: {}.", batch.id, batch.state, parts.join(", "))
}
