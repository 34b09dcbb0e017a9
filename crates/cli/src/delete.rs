//! `windrow delete`: deletes a closed batch with its results, its outputs and its history.
//!
//! Holds throughout: a batch that is not closed is never deleted, so no request in flight loses its
//! result; the input file stays. Rows and stored outputs are removed in small steps by the sweep of the
//! next process that works.

use std::io::{IsTerminal as _, Write as _};

use windrow::store::Kind;
use windrow::store::batch::Batch;

use crate::batch_selector::BatchSelector;
use crate::context::Context;
use crate::error::CliError;
use crate::exit_code::Exit;
use crate::{hint, text};

/// Delete a closed batch with its results, outputs and history. Its input file stays. It cannot be
/// undone; the same `windrow run` would ask for --fresh, and send every line again.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The batch: its id, the first characters of it, or `last`
    batch: BatchSelector,
    /// Do not ask for confirmation; required where no terminal can be asked
    #[arg(long, short)]
    yes: bool,
}

pub(crate) async fn run(context: &Context, args: Args) -> anyhow::Result<Exit> {
    let store = context.open_existing().await?;
    let batch = args.batch.find(context, &*store).await?;
    if !batch.state.is_closed() {
        return Err(not_closed(&batch).into());
    }
    if !args.yes && !confirm(&batch)? {
        return Err(
            CliError::new(Exit::Stopped, "nothing was deleted", "answer `y` to delete.").into()
        );
    }
    match store.delete_batch(&context.scope(), batch.id).await {
        Ok(()) => {}
        // It was put back to run again since it was read.
        Err(error) if error.kind == Kind::Conflict => return Err(not_closed(&batch).into()),
        Err(error) => return Err(error.into()),
    }
    let (id, file) = (batch.id, batch.file);
    context.print_result(
        &serde_json::json!({ "batch": id, "deleted": true, "file": file }),
        || {
            format!(
                "Deleted batch {id} and {}.\nIts input file is kept; to delete it, too: {}",
                text::plural(batch.counts.finished(), "result"),
                hint::command(&["files", "delete", &file.to_string()]),
            )
        },
    )?;
    Ok(Exit::Success)
}

fn not_closed(batch: &Batch) -> CliError {
    let what = format!("batch {} is {}; only a closed batch can be deleted", batch.id, batch.state);
    let id = batch.id.to_string();
    let remedy = format!(
        "cancel it: {}; wait until a worker has closed it: {}; then delete it.",
        hint::command(&["cancel", &id]),
        hint::command(&["watch", &id]),
    );
    CliError::new(Exit::Failed, what, remedy)
}

/// Asks on the terminal. Without one, `--yes` must be given.
fn confirm(batch: &Batch) -> anyhow::Result<bool> {
    let results = text::plural(batch.counts.finished(), "result");
    let what = format!("batch {} has {results}, which would be deleted for good", batch.id);
    if !std::io::stdin().is_terminal() {
        return Err(CliError::usage(what, "repeat the command with --yes to delete them.").into());
    }
    let mut terminal = std::io::stderr().lock();
    write!(terminal, "{what}. Delete? [y/N] ")?;
    terminal.flush()?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
