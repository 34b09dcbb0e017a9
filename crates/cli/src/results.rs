//! `windrow results` and `windrow export`: the results of a batch, as files.

use std::io::IsTerminal as _;
use std::path::PathBuf;

use anyhow::Context as _;
use windrow::domain::attempt::Status;
use windrow::engine::export::{Column, Export, Format};
use windrow::engine::storage::Storage;

use crate::batch_selector::BatchSelector;
use crate::context::Context;
use crate::error::CliError;
use crate::exit_code::Exit;
use crate::output_target::OutputTarget;
use crate::outputs::{OutputKind, Results};
use crate::{retry, text};

/// Write the results of a batch in the format of OpenAI's batch API, in the order of the input file.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The batch: its id, the first characters of it, or `last`
    batch: BatchSelector,
    /// Write the lines that did not complete instead of those that did
    #[arg(long)]
    errors: bool,
    /// Output file; `-` is standard output
    #[arg(long, value_name = "FILE", default_value = "-")]
    out: PathBuf,
}

/// Export finished lines of a batch as JSONL, CSV or XLSX.
#[derive(Debug, clap::Args)]
pub(crate) struct ExportArgs {
    /// The batch: its id, the first characters of it, or `last`
    batch: BatchSelector,
    /// Output format
    #[arg(long, value_enum, default_value_t = FormatArg::Jsonl)]
    format: FormatArg,
    /// Columns, separated by commas: line, custom_id, target, status, attempts, http_status, error_code,
    /// error, finished_at, earlier, response, or a JSON pointer into the response, for example
    /// `response:/choices/0/message/content` [default: all but `earlier` and the pointers]
    #[arg(long, value_name = "COLUMN", value_delimiter = ',', value_parser = column)]
    columns: Vec<Column>,
    /// Only lines with these statuses, separated by commas: completed, failed, not_found, skipped
    #[arg(long, value_name = "STATUS", value_delimiter = ',', value_parser = retry::status)]
    status: Vec<Status>,
    /// Prefix texts that a spreadsheet would treat as a formula with an apostrophe (csv, xlsx)
    #[arg(long)]
    defuse: bool,
    /// Output file; `-` is standard output
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

pub(crate) async fn run(context: &Context, args: Args) -> anyhow::Result<Exit> {
    let output = OutputTarget::of(args.out);
    output.check()?;
    let store = context.open_existing().await?;
    let batch = args.batch.find(context, &*store).await?;
    // Without the stored outputs, the results are read from the database.
    let storage = Storage::open(&context.config.storage).ok();
    let results = Results {
        store: &*store,
        storage: storage.as_ref(),
        scope: &context.scope(),
        batch: &batch,
        bytes_max: context.config.bounds.engine.output_bytes_max,
    };
    let kind = if args.errors { OutputKind::Errors } else { OutputKind::Results };
    results.put(kind, &output).await?;
    print_written(context, &output, batch.id)
}

pub(crate) async fn export(context: &Context, args: ExportArgs) -> anyhow::Result<Exit> {
    let output = OutputTarget::of(args.out);
    output.check()?;
    let is_terminal = output == OutputTarget::Standard && std::io::stdout().is_terminal();
    if is_terminal && matches!(args.format, FormatArg::Xlsx) {
        let what = "a spreadsheet is not written to a terminal";
        return Err(CliError::usage(what, "name a file: --out FILE.xlsx").into());
    }
    let store = context.open_existing().await?;
    let batch = args.batch.find(context, &*store).await?;
    let mut export = Export { statuses: args.status, defuse: args.defuse, ..Export::default() };
    export.format = match args.format {
        FormatArg::Jsonl => Format::Jsonl,
        FormatArg::Csv => Format::Csv,
        FormatArg::Xlsx => Format::Xlsx,
    };
    if !args.columns.is_empty() {
        export.columns = args.columns;
    }
    let remedy = "free disk space or choose another file, and export again.";
    let scope = context.scope();
    let fill = async |mut out: crate::output_target::Out<'_>| {
        let written = export.write(&*store, &scope, batch.id, &mut out).await;
        written.map(drop).context("the export was interrupted")
    };
    output.put(remedy, fill).await?;
    print_written(context, &output, batch.id)
}

fn print_written(
    context: &Context,
    output: &OutputTarget,
    batch: windrow::domain::BatchId,
) -> anyhow::Result<Exit> {
    if let OutputTarget::File(path) = output {
        let value = serde_json::json!({ "batch": batch, "written": path });
        context.print_result(&value, || format!("Written: {}", text::one_line(&output.name())))?;
    }
    Ok(Exit::Success)
}

#[cfg(test)]
mod tests {
    use clap::Args as _;

    use super::*;

    #[test]
    fn the_help_names_every_column() {
        let command = ExportArgs::augment_args(clap::Command::new("export"));
        let columns = command.get_arguments().find(|arg| arg.get_id() == "columns").unwrap();
        let help = columns.get_help().unwrap().to_string();
        let named = help.strip_prefix("Columns, separated by commas: ").unwrap();
        let (named, _) = named.split_once(", or a JSON pointer").unwrap();
        let named: Vec<&str> = named.split(", ").map(str::trim).collect();
        let known = Column::NAMED.map(|column| column.to_string());
        assert_eq!(named, known.each_ref().map(String::as_str));
    }
}
