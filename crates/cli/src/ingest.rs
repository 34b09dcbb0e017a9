//! `windrow ingest`: loads requests, or rows of any kind, into the database.

use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use anyhow::Context as _;
use serde_json::json;
use tokio::io::AsyncRead;
use windrow::domain::FileId;
use windrow::engine::ingest::{Ingested, Recognised, ingest, recognise};
use windrow::engine::rows::{RowFormat, Sniffed};
use windrow::store::Store;
use windrow::store::batch::NewBatch;
use windrow::store::ingest::{File, NewFile};

use crate::clock::Stopwatch;
use crate::context::Context;
use crate::error::CliError;
use crate::exit_code::Exit;
use crate::ingest_rows::{self, InputArgs};
use crate::upstream::lane_upstreams;
use crate::{hint, input_format, text};

/// Errors that are printed; `windrow files show` has those that are kept.
const ERRORS_SHOWN_MAX: usize = 20;

/// Load requests (JSONL, one `{"custom_id", "method", "url", "body"}` per line), or rows: CSV, TSV, XLSX, JSONL,
/// pictures (a zip, a folder, several files).
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The file; `-` reads standard input. Pictures may be several files, or a folder
    #[arg(required = true)]
    file: Vec<PathBuf>,
    /// A name for the file [default: its file name]
    #[arg(long)]
    name: Option<String>,
    /// Create a batch over it, for `windrow work` to run
    #[arg(long)]
    batch: bool,
    #[command(flatten)]
    input: InputArgs,
}

pub(crate) async fn run(context: &Context, args: Args) -> anyhow::Result<Exit> {
    let started = Stopwatch::start();
    let (store, done) = take(context, &args).await?;
    let took = started.elapsed();
    let batch = if args.batch && done.errors.is_empty() {
        let upstreams = lane_upstreams(&context.config, None)?;
        Some(store.create_batch(NewBatch { upstreams, ..over(&done.file) }).await?)
    } else {
        None
    };
    if context.json && done.head.is_some() {
        text::print_line(&ingest_rows::json(&done).to_string())?;
    } else if context.json {
        let Ingested { file, errors, errors_total, unknown_keys, .. } = &done;
        let value = json!({
            "file": file, "errors": errors, "errors_total": errors_total, "batch": batch,
            "unknown_keys": unknown_keys,
        });
        text::print_line(&value.to_string())?;
    } else if done.errors.is_empty() {
        let file = &done.file;
        let noun = if done.head.is_some() { "row" } else { "request" };
        text::print_line(&format!(
            "file {}: {}, {} in {} ({} lines/s)",
            file.id,
            text::plural(file.lines, noun),
            text::size(file.bytes),
            text::time(took),
            text::rate(file.lines, took),
        ))?;
        if let Some(warning) = unknown_keys(&done) {
            text::print_line(&warning)?;
        }
        if done.head.is_some() {
            text::print_line(&ingest_rows::describe(&done))?;
        }
        if let Some(batch) = batch {
            let work = hint::command(&["work", "--to", "URL"]);
            text::print_line(&format!("batch {}: to run it: {work}", batch.id))?;
        }
    } else {
        let id = done.file.id.to_string();
        text::print_line(&format!(
            "file {id} does not validate: {}. It is kept, and cannot be run.\n{}What to do: correct \
             these lines and load the file again.\nTo see all that is kept of what is wrong: {}\nTo \
             delete it: {}",
            text::plural(done.errors_total, "error"),
            faults(&done),
            hint::command(&["files", "show", &id, "--json"]),
            hint::command(&["files", "delete", &id]),
        ))?;
    }
    Ok(if done.errors.is_empty() { Exit::Success } else { Exit::Invalid })
}

/// Takes the input in, whatever it is, and gives the store that has it now.
async fn take(context: &Context, args: &Args) -> anyhow::Result<(Arc<dyn Store>, Ingested)> {
    let path = &args.file[0];
    let own_name = || path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let file = NewFile {
        id: FileId::new(),
        owner: context.config.owner.clone(),
        name: args.name.clone().unwrap_or_else(own_name),
        purpose: "batch".to_owned(),
        expires_at: context.input_expires_at(),
    };
    if args.file.len() > 1 || path.is_dir() {
        refuse_batch(args)?;
        let store = context.open().await?;
        let done = ingest_rows::take_pictures(context, &*store, &args.file, file).await?;
        return Ok((store, done));
    }
    let (told, reader) = (args.input.told(), open(path).await?);
    let unread = || format!("could not load {}; nothing of it is kept", path.display());
    let found = recognise(&path.to_string_lossy(), reader, &told).await.with_context(unread)?;
    let Recognised { sniffed, reader, .. } = found;
    // By its name it has requests, and what is wrong with it is said as it always was.
    let by_name = told.format.is_none() && ingest_rows::is_jsonl(path);
    let is_requests = match &sniffed {
        Ok(Sniffed::Requests) => true,
        Ok(Sniffed::Rows(head)) if head.format == RowFormat::Jsonl => {
            by_name && head.decoded_from.is_some()
        }
        Ok(Sniffed::Rows(_) | Sniffed::Zip) | Err(_) => by_name,
    };
    if is_requests {
        let reader = input_format::lines(&path.display().to_string(), reader).await?;
        let store = context.open().await?;
        let options = context.config.bounds.ingest.clone();
        let done = ingest(&*store, reader, file, options).await.with_context(unread)?;
        return Ok((store, done));
    }
    refuse_batch(args)?;
    let store = context.open().await?;
    let done = ingest_rows::take(context, &*store, reader, file, &told).await?;
    Ok((store, done))
}

/// Rows become requests by a recipe, which `ingest` does not know.
fn refuse_batch(args: &Args) -> anyhow::Result<()> {
    if !args.batch {
        return Ok(());
    }
    let what = "rows are no requests: a batch over them needs a recipe";
    Err(CliError::new(Exit::Usage, what, "leave --batch out.").into())
}

/// A batch over the whole file.
fn over(file: &File) -> NewBatch {
    NewBatch {
        job_type: Some("ingest".to_owned()),
        metadata: [("path".to_owned(), file.name.clone())].into(),
        ..NewBatch::over(file.id, file.owner.clone(), "/")
    }
}

async fn open(path: &PathBuf) -> anyhow::Result<Pin<Box<dyn AsyncRead + Send>>> {
    if path.as_os_str() == "-" {
        return Ok(Box::pin(tokio::io::stdin()));
    }
    let file = tokio::fs::File::open(path).await;
    let file = file.with_context(|| {
        let what = format!("could not open {}", path.display());
        CliError::new(Exit::Failed, what, "check the path; `-` reads standard input.")
    })?;
    Ok(Box::pin(file))
}

/// A warning about names of lines that nothing is done with; none when there are none.
pub(crate) fn unknown_keys(done: &Ingested) -> Option<String> {
    let names = done.unknown_keys.iter();
    let names: Vec<String> =
        names.map(|(name, lines)| format!("`{name}` ({})", text::plural(*lines, "line"))).collect();
    (!names.is_empty()).then(|| {
        format!(
            "Warning: nothing is done with {}; a line has `custom_id`, `method`, `url` and `body`.",
            text::one_line(&names.join(", "))
        )
    })
}

/// A file that cannot be run, with what is wrong with its lines.
pub(crate) fn invalid(name: &str, done: &Ingested) -> CliError {
    let what = format!("{name} does not validate: {}", text::plural(done.errors_total, "error"));
    let remedy = match done.errors.len() {
        0..=ERRORS_SHOWN_MAX => {
            "correct these lines and run the same command again; nothing was sent."
        }
        _ => {
            "correct these lines and run the same command again; nothing was sent. With --json it \
             lists the first 1,000 errors."
        }
    };
    let list = json!({ "errors": done.errors, "errors_total": done.errors_total });
    CliError::new(Exit::Invalid, what, remedy).with_list(faults(done), list)
}

/// What is wrong with a file, line by line.
fn faults(done: &Ingested) -> String {
    let mut output = String::new();
    for error in done.errors.iter().take(ERRORS_SHOWN_MAX) {
        let line = error.line.map_or(String::new(), |line| format!("line {line}: "));
        output.push_str(&format!("  {line}{} [{}]\n", text::one_line(&error.message), error.code));
    }
    if done.errors.len() > ERRORS_SHOWN_MAX {
        let more = done.errors_total - ERRORS_SHOWN_MAX as u64;
        output.push_str(&format!("  … and {} more\n", text::count(more)));
    }
    output
}
