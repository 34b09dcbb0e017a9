//! `windrow files`: the files that batches run over and the outputs they wrote: listed, shown, deleted.
//!
//! Holds throughout: a file that a batch still needs cannot be deleted; deleting an input file leaves the
//! results of closed batches where they are.

use windrow::domain::{FileId, State};
use windrow::store::ingest::{File, LineError};
use windrow::store::inspect::{BatchesQuery, FileLane, FilesQuery, PAGE_MAX};
use windrow::store::{Kind, Scope, Store};

use crate::batches::when;
use crate::context::Context;
use crate::error::CliError;
use crate::exit_code::Exit;
use crate::list::{Columns, ListOr, OwnerArgs, PageArgs, print_page};
use crate::{hint, text};

/// Errors of a file that are shown; `--json` has all of them.
const ERRORS_SHOWN_MAX: usize = 20;

pub(crate) type Args = ListOr<Command, ListArgs>;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// List files, newest first
    List(ListArgs),
    /// Show one file: its targets, and what is wrong with it if it does not validate
    Show(FileArgs),
    /// Delete a file that no unfinished batch needs
    Delete(FileArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct ListArgs {
    /// Only files for this purpose: batch (inputs) or batch_output (results)
    #[arg(long)]
    purpose: Option<String>,
    #[command(flatten)]
    page: PageArgs,
    #[command(flatten)]
    owner: OwnerArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct FileArgs {
    /// The file's id, as `windrow files` or the API prints it
    #[arg(value_parser = file_id)]
    file: FileId,
}

/// Takes ids as this program prints them, and as the API does (`file-…`).
fn file_id(text: &str) -> Result<FileId, String> {
    let id = ["file-", "file_"].iter().find_map(|prefix| text.strip_prefix(prefix)).unwrap_or(text);
    id.parse().map_err(|_| "not the id of a file; `windrow files` lists them".to_owned())
}

pub(crate) async fn run(context: &Context, args: Args) -> anyhow::Result<Exit> {
    match args.command.unwrap_or(Command::List(args.list)) {
        Command::List(args) => list(context, args).await,
        Command::Show(args) => show(context, args.file).await,
        Command::Delete(args) => delete(context, args.file).await,
    }
}

async fn list(context: &Context, args: ListArgs) -> anyhow::Result<Exit> {
    let store = context.open_existing().await?;
    let PageArgs { limit, after } = args.page;
    let query = FilesQuery { purpose: args.purpose, after, limit, ..FilesQuery::default() };
    let page = store.files(&args.owner.scope(context), query).await?;
    let columns = Columns {
        titles: &[
            "file", "state", "lines", "size", "purpose", "owner", "created", "expires", "name",
        ],
        right: &[2, 3],
        row: |file: &File| {
            vec![
                file.id.to_string(),
                file.state.as_str().to_owned(),
                text::count(file.lines),
                text::size(file.bytes),
                file.purpose.clone(),
                file.owner.to_string(),
                when(file.created_at),
                file.expires_at.map_or("never".to_owned(), when),
                text::one_line(&file.name),
            ]
        },
        empty: "No files.",
    };
    print_page(context, &page, |file| file, &columns)
}

async fn show(context: &Context, id: FileId) -> anyhow::Result<Exit> {
    let store = context.open_existing().await?;
    let scope = context.scope();
    let file = store.file(&scope, id).await.map_err(|error| file_error(context, id, error))?;
    let errors = store.file_errors(&scope, id).await?;
    // An output has no lanes: its bytes are in the storage.
    let lanes = match &file.output {
        None => store.file_lanes(&scope, id).await?,
        Some(_) => Vec::new(),
    };
    let value = serde_json::json!({ "file": file, "lanes": lanes, "errors": errors });
    context.print_result(&value, || shown(&file, &lanes, &errors))?;
    Ok(Exit::Success)
}

fn shown(file: &File, lanes: &[FileLane], errors: &[LineError]) -> String {
    let mut output = String::new();
    let mut line = |word: &str, value: String| output.push_str(&format!("{word:<10}{value}\n"));
    line("file", file.id.to_string());
    line("name", text::one_line(&file.name));
    line("state", file.state.as_str().to_owned());
    line("purpose", file.purpose.clone());
    line("owner", file.owner.to_string());
    line("lines", text::count(file.lines));
    line("size", text::size(file.bytes));
    line("created", when(file.created_at));
    line("expires", file.expires_at.map_or("never".to_owned(), when));
    if let Some(made) = &file.output {
        line("batch", made.batch.to_string());
    }
    for lane in lanes {
        line("target", format!("{}: {}", lane.target, text::plural(lane.lines, "line")));
    }
    for error in errors.iter().take(ERRORS_SHOWN_MAX) {
        let at = error.line.map_or(String::new(), |line| format!("line {line}: "));
        line("invalid", format!("{at}{}", error.message));
    }
    if errors.len() > ERRORS_SHOWN_MAX {
        let all = hint::command(&["files", "show", &file.id.to_string(), "--json"]);
        let more = text::count((errors.len() - ERRORS_SHOWN_MAX) as u64);
        line("", format!("… and {more} more: {all}"));
    }
    output.trim_end().to_owned()
}

async fn delete(context: &Context, id: FileId) -> anyhow::Result<Exit> {
    let store = context.open_existing().await?;
    let scope = context.scope();
    match store.drop_file(&scope, id).await {
        Ok(()) => {}
        Err(error) if error.kind == Kind::Conflict => {
            return Err(in_use(&*store, &scope, id).await?.into());
        }
        Err(error) => return Err(file_error(context, id, error)),
    }
    context.print_result(&serde_json::json!({ "file": id, "deleted": true }), || {
        format!("Deleted file {id}.")
    })?;
    Ok(Exit::Success)
}

/// Why a file that a batch needs is not deleted, and how to end that batch.
async fn in_use(store: &dyn Store, scope: &Scope, id: FileId) -> anyhow::Result<CliError> {
    let states: Vec<_> = State::ALL.into_iter().filter(|state| !state.is_closed()).collect();
    let mut after = None;
    loop {
        let states = states.clone();
        let query = BatchesQuery { states, after, limit: PAGE_MAX, ..BatchesQuery::default() };
        let page = store.batches(scope, query).await?;
        if let Some(batch) = page.rows.iter().find(|batch| batch.file == id) {
            let (batch, state) = (batch.id, batch.state);
            let what = format!("file {id} is needed by batch {batch}, which is {state}");
            let cancel = hint::command(&["cancel", &batch.to_string()]);
            let remedy = format!("wait until the batch is closed, or stop it: {cancel}");
            return Ok(CliError::new(Exit::Failed, what, remedy));
        }
        after = page.next;
        if after.is_none() {
            let what = format!("file {id} is still being written, or needed by a batch");
            return Ok(CliError::new(Exit::Failed, what, "try again once that has ended."));
        }
    }
}

fn file_error(context: &Context, id: FileId, error: windrow::store::Error) -> anyhow::Error {
    if error.kind != Kind::Missing {
        return error.into();
    }
    let owner = &context.config.owner;
    let remedy = format!(
        "list the files of owner {owner}: {}; --owner names another.",
        hint::command(&["files"])
    );
    CliError::new(Exit::Failed, format!("there is no file {id}"), remedy).into()
}
