//! `windrow ingest`: a JSONL file of requests comes in.

use std::path::PathBuf;
use std::pin::Pin;

use anyhow::Context as _;
use tokio::io::AsyncRead;
use windrow::engine::ingest::Ingested;
use windrow::prelude::*;

use crate::clock::Stopwatch;
use crate::{Ending, Where, text};

/// Errors that are shown; all that are kept can be asked for later.
const ERRORS_SHOWN_MAX: usize = 20;

/// Takes a JSONL file of requests in: one `{"custom_id", "method", "url", "body"}` a line.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The file; `-` reads standard input
    file: PathBuf,
    /// Whose it is
    #[arg(long, default_value = "local", value_parser = owner)]
    owner: Owner,
    /// What people call it; the file's own name when not given
    #[arg(long)]
    name: Option<String>,
    #[command(flatten)]
    place: Where,
}

fn owner(name: &str) -> Result<Owner, String> {
    Owner::new(name).map_err(|bad| bad.to_string())
}

pub(crate) async fn run(args: Args) -> anyhow::Result<Ending> {
    let database = args.place.database.unwrap_or_default();
    let reader = open(&args.file).await?;
    let store = database.open().await?;
    let own_name = || args.file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let file = NewFile {
        id: FileId::new(),
        owner: args.owner,
        name: args.name.unwrap_or_else(own_name),
        purpose: "batch".to_owned(),
        expires_at: None,
    };
    let started = Stopwatch::start();
    let done =
        ingest(&*store, reader, file, IngestOptions::default()).await.with_context(|| {
            format!("could not take {} in; nothing of it is kept", args.file.display())
        })?;
    let took = started.elapsed();
    match done.errors.is_empty() {
        true => {
            let file = &done.file;
            text::say(&format!(
                "file {}: {} requests, {} in {} ({} lines/s)",
                file.id,
                text::count(file.lines),
                text::size(file.bytes),
                text::time(took),
                text::rate(file.lines, took),
            ))?;
            Ok(Ending::Good)
        }
        false => {
            text::say(&faults(&done))?;
            Ok(Ending::Invalid)
        }
    }
}

async fn open(path: &PathBuf) -> anyhow::Result<Pin<Box<dyn AsyncRead + Send>>> {
    if path.as_os_str() == "-" {
        return Ok(Box::pin(tokio::io::stdin()));
    }
    let file = tokio::fs::File::open(path).await;
    let file = file.with_context(|| format!("could not open {}", path.display()))?;
    Ok(Box::pin(file))
}

fn faults(done: &Ingested) -> String {
    let total = text::count(done.errors_total);
    let mut said = format!(
        "file {} does not validate: {total} errors. It is kept with them, and cannot be run.\n",
        done.file.id
    );
    for error in done.errors.iter().take(ERRORS_SHOWN_MAX) {
        let line = error.line.map_or(String::new(), |line| format!("line {line}: "));
        said.push_str(&format!("  {line}{} [{}]\n", error.message, error.code));
    }
    if done.errors.len() > ERRORS_SHOWN_MAX {
        said.push_str("  …\n");
    }
    said.push_str("What to do: correct these lines and take the file in again.");
    said
}
