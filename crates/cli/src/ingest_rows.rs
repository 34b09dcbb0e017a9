//! The part of `windrow ingest` that takes rows in: records, sheets, lines of JSON, pictures.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde_json::json;
use windrow::engine::ingest::{
    Error, Ingested, PictureArchive, Reader, ingest_input, ingest_pictures,
};
use windrow::engine::rows::{InputOptions, RowFormat};
use windrow::engine::storage::Storage;
use windrow::store::Store;
use windrow::store::ingest::NewFile;

use crate::context::Context;
use crate::error::CliError;
use crate::exit_code::Exit;
use crate::text;

/// Rows that cannot be read, as far as they are printed.
const WARNINGS_SHOWN_MAX: usize = 5;
/// Names of columns that are printed.
const COLUMNS_SHOWN_MAX: usize = 20;
/// Most files of a folder of pictures.
const FILES_MAX: usize = 100_000;

/// What is told about an input; what is left out is found out.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct InputArgs {
    /// What the rows are: csv, xlsx, jsonl or images [default: by name and first bytes]
    #[arg(long)]
    format: Option<RowFormat>,
    /// What stands between cells: one character, or `tab`
    #[arg(long, value_parser = character)]
    delimiter: Option<char>,
    /// The encoding of its text, such as windows-1252 or shift_jis
    #[arg(long)]
    encoding: Option<String>,
    /// The sheet of a workbook [default: the first]
    #[arg(long)]
    sheet: Option<String>,
    /// The number of the row with the names of the columns; 0 when there is none [default: the first]
    #[arg(long)]
    header: Option<u64>,
}

impl InputArgs {
    pub(crate) fn told(&self) -> InputOptions {
        InputOptions {
            format: self.format,
            delimiter: self.delimiter,
            encoding: self.encoding.clone(),
            sheet: self.sheet.clone(),
            header: self.header,
            decimal: None,
        }
    }
}

fn character(text: &str) -> Result<char, String> {
    let mut letters = text.chars();
    match (text, letters.next(), letters.next()) {
        ("tab" | "\\t", _, _) => Ok('\t'),
        (_, Some(letter), None) => Ok(letter),
        _ => Err("one character, or `tab`".to_owned()),
    }
}

/// Takes rows in from one input.
pub(crate) async fn take(
    context: &Context,
    store: &dyn Store,
    reader: Reader<'_>,
    file: NewFile,
    told: &InputOptions,
) -> anyhow::Result<Ingested> {
    let storage = context.open_storage()?;
    let (name, options) = (file.name.clone(), context.config.bounds.ingest.clone());
    let done = ingest_input(store, &storage, reader, file, told, options).await;
    done.map_err(|error| refusal(&name, error))
}

/// Takes in the pictures of a folder, or several files.
pub(crate) async fn take_pictures(
    context: &Context,
    store: &dyn Store,
    paths: &[PathBuf],
    file: NewFile,
) -> anyhow::Result<Ingested> {
    let storage = context.open_storage()?;
    let options = context.config.bounds.ingest.clone();
    let archive = archive(&storage, paths, &file, options.file_bytes_max).await?;
    let name = file.name.clone();
    let done = ingest_pictures(store, &storage, archive, file, options).await;
    done.map_err(|error| refusal(&name, error))
}

async fn archive(
    storage: &Storage,
    paths: &[PathBuf],
    file: &NewFile,
    bytes_max: u64,
) -> anyhow::Result<PictureArchive> {
    let mut archive = PictureArchive::create(storage, file.id, bytes_max)?;
    for (name, path) in files(paths)? {
        let opened = tokio::fs::File::open(&path).await;
        let opened = opened.with_context(|| format!("could not open {}", path.display()))?;
        archive.add(&name, opened).await.with_context(|| format!("could not keep {name}"))?;
    }
    Ok(archive)
}

/// The files below the paths, by name. Links are not followed, and hidden ones are left.
fn files(paths: &[PathBuf]) -> anyhow::Result<Vec<(String, PathBuf)>> {
    let mut found = Vec::new();
    let mut open: Vec<(PathBuf, PathBuf)> = Vec::new();
    for path in paths {
        if path.is_dir() {
            open.push((path.clone(), path.clone()));
        } else {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            found.push((name, path.clone()));
        }
    }
    while let Some((root, folder)) = open.pop() {
        let entries = std::fs::read_dir(&folder);
        for entry in entries.with_context(|| format!("could not list {}", folder.display()))? {
            let entry = entry?;
            let (path, kind) = (entry.path(), entry.file_type()?);
            if entry.file_name().to_string_lossy().starts_with('.') {
                continue;
            }
            if kind.is_dir() {
                open.push((root.clone(), path));
            } else if kind.is_file() {
                let name = path.strip_prefix(&root).unwrap_or(&path).to_string_lossy().into_owned();
                found.push((name, path));
            }
            if found.len() > FILES_MAX {
                let what = format!("there are more than {FILES_MAX} files");
                return Err(CliError::new(Exit::Invalid, what, "load them in parts.").into());
            }
        }
    }
    found.sort();
    Ok(found)
}

fn refusal(name: &str, error: Error) -> anyhow::Error {
    match error {
        Error::WrongKind(wrong) => {
            let what = format!("{name} cannot be loaded: {}", wrong.message.trim_end_matches('.'));
            let remedy = "check that it is the right file; --format says what it is.";
            CliError::new(Exit::Invalid, what, remedy).into()
        }
        error => anyhow::Error::new(error)
            .context(format!("could not load {name}; nothing of it is kept")),
    }
}

/// Whether a name says that the file has requests, one for each line.
pub(crate) fn is_jsonl(path: &Path) -> bool {
    let name = path.to_string_lossy().to_ascii_lowercase();
    let name = name.strip_suffix(".gz").or(name.strip_suffix(".zst")).unwrap_or(&name);
    name.ends_with(".jsonl") || name.ends_with(".ndjson")
}

/// What `--json` says of rows.
pub(crate) fn json(done: &Ingested) -> serde_json::Value {
    let columns = done.head.as_ref().map(|head| {
        let columns = head.columns();
        let names = columns.names().zip(columns.headers());
        names.map(|(name, header)| json!({ "name": name, "header": header })).collect::<Vec<_>>()
    });
    json!({
        "file": done.file, "errors": done.errors, "errors_total": done.errors_total,
        "head": done.head, "columns": columns, "warnings": done.warnings,
        "warnings_total": done.warnings_total,
    })
}

/// Columns, and rows that cannot be read, for people.
pub(crate) fn describe(done: &Ingested) -> String {
    let Some(head) = &done.head else { return String::new() };
    let columns = head.columns();
    let mut shown: Vec<&str> = columns.names().take(COLUMNS_SHOWN_MAX).collect();
    if columns.len() > COLUMNS_SHOWN_MAX {
        shown.push("…");
    }
    let mut output = format!("{} ({}): {}", "columns", columns.len(), shown.join(", "));
    let how = [
        Some(head.format.as_str().to_owned()),
        head.delimiter.map(|delimiter| format!("delimiter {delimiter:?}")),
        (head.format == RowFormat::Csv)
            .then(|| head.decoded_from.unwrap_or(head.encoding).name().to_owned()),
        head.sheet.as_ref().map(|sheet| format!("sheet {sheet:?}")),
        head.header_row.map(|row| format!("names in row {row}")),
    ];
    let how: Vec<String> = how.into_iter().flatten().collect();
    output.push_str(&format!("\nread as {}", how.join(", ")));
    if done.warnings_total > 0 {
        let rows = text::plural(done.warnings_total, "row");
        output.push_str(&format!("\nWarning: {rows} cannot be read; the others can be run:"));
    }
    for warning in done.warnings.iter().take(WARNINGS_SHOWN_MAX) {
        let row = warning.line.map_or(String::new(), |line| format!("row {line}: "));
        output.push_str(&format!("\n  {row}{}", text::one_line(&warning.message)));
    }
    output
}
