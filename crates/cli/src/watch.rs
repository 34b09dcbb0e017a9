//! `windrow watch`: shows the progress of a batch that other processes run, until it is closed.

use std::time::Duration;

use windrow::domain::State;
use windrow::store::batch::Batch;

use crate::batch_selector::BatchSelector;
use crate::clock;
use crate::context::Context;
use crate::exit_code::Exit;
use crate::progress::{Screen, Style, View};
use crate::text;

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
    while !batch.state.is_closed() {
        screen.show(&view(&batch));
        clock::sleep(POLL_EVERY).await;
        batch = store.batch(&context.scope(), batch.id).await?;
    }
    screen.end();
    context.print_result(&batch, || closed(&batch))?;
    Ok(exit_code(&batch))
}

fn view(batch: &Batch) -> View {
    let counts = &batch.counts;
    let note = match batch.state {
        State::InProgress => None,
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
        note,
        ..View::default()
    }
}

/// The exit code for a closed batch.
pub(crate) fn exit_code(batch: &Batch) -> Exit {
    let counts = &batch.counts;
    if batch.state == State::Completed && counts.failed + counts.not_found == 0 {
        Exit::Success
    } else {
        Exit::SomeFailed
    }
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
