//! `windrow results` and `windrow export`: what came of a batch's lines.

use std::path::PathBuf;

use anyhow::Context as _;
use windrow::domain::attempt::Status;
use windrow::engine::export::{Column, Export, Format};
use windrow::engine::storage::Storage;

use crate::context::Context;
use crate::ending::Ending;
use crate::outputs::{Results, Which};
use crate::pick::{self, Pick};
use crate::place::Place;
use crate::{retry, text};

/// Writes the results of a batch, as OpenAI's batches have them, in the order of the file.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A batch's id, the beginning of it, or `last`
    batch: Pick,
    /// The lines that did not complete, instead of those that did
    #[arg(long)]
    errors: bool,
    /// Where to; `-` is standard output
    #[arg(long, value_name = "FILE", default_value = "-")]
    out: PathBuf,
}

/// Writes finished lines of a batch as a table.
#[derive(Debug, clap::Args)]
pub(crate) struct ExportArgs {
    /// A batch's id, the beginning of it, or `last`
    batch: Pick,
    /// How rows are written
    #[arg(long, value_enum, default_value_t = FormatArg::Jsonl)]
    format: FormatArg,
    /// Which columns, separated by commas; `response:/a/b` is a part of the answer
    #[arg(long, value_name = "COLUMN", value_delimiter = ',', value_parser = column)]
    columns: Vec<Column>,
    /// Only lines with these outcomes: completed, failed, not_found, skipped
    #[arg(long, value_name = "STATUS", value_delimiter = ',', value_parser = retry::status)]
    status: Vec<Status>,
    /// Puts an apostrophe before texts that a spreadsheet would take for a formula (csv, xlsx)
    #[arg(long)]
    defuse: bool,
    /// Where to; `-` is standard output
    #[arg(long, value_name = "FILE", default_value = "-")]
    out: PathBuf,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum FormatArg {
    Jsonl,
    Csv,
    Xlsx,
}

fn column(text: &str) -> Result<Column, String> {
    text.parse().map_err(|unknown: windrow::engine::export::UnknownColumn| unknown.to_string())
}

pub(crate) async fn run(context: &Context, args: Args) -> anyhow::Result<Ending> {
    let place = Place::of(args.out);
    place.check()?;
    let store = context.open_existing().await?;
    let batch = pick::batch(context, &*store, &args.batch).await?;
    // Outputs that cannot be reached are no hindrance: the database has it all.
    let storage = Storage::open(&context.config.storage).ok();
    let results = Results {
        store: &*store,
        storage: storage.as_ref(),
        scope: &context.scope(),
        batch: &batch,
        bytes_max: context.config.bounds.engine.output_bytes_max,
    };
    let which = if args.errors { Which::Errors } else { Which::Results };
    results.put(which, &place).await?;
    told(context, &place, batch.id)
}

pub(crate) async fn export(context: &Context, args: ExportArgs) -> anyhow::Result<Ending> {
    let place = Place::of(args.out);
    place.check()?;
    let store = context.open_existing().await?;
    let batch = pick::batch(context, &*store, &args.batch).await?;
    let mut export = Export { statuses: args.status, defuse: args.defuse, ..Export::default() };
    export.format = match args.format {
        FormatArg::Jsonl => Format::Jsonl,
        FormatArg::Csv => Format::Csv,
        FormatArg::Xlsx => Format::Xlsx,
    };
    if !args.columns.is_empty() {
        export.columns = args.columns;
    }
    let remedy = "make room or choose another place, and export again.";
    let scope = context.scope();
    let fill = async |mut out: crate::place::Out<'_>| {
        let written = export.write(&*store, &scope, batch.id, &mut out).await;
        written.map(drop).context("the export broke off")
    };
    place.put(remedy, fill).await?;
    told(context, &place, batch.id)
}

fn told(
    context: &Context,
    place: &Place,
    batch: windrow::prelude::BatchId,
) -> anyhow::Result<Ending> {
    if let Place::File(path) = place {
        let value = serde_json::json!({ "batch": batch, "written": path });
        context.tell(&value, || format!("written: {}", text::one_line(&place.name())))?;
    }
    Ok(Ending::Good)
}
