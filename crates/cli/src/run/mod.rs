//! `windrow run`: loads a file, runs its lines to the end, and writes the results beside it.
//!
//! Holds throughout: everything that can be checked is checked before anything is written; the same
//! command again resumes where it stopped and sends no finished line again; a file that changed in
//! between is never mixed with the one that the run began with.

mod identity;
mod input;
mod probe;
mod report;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use url::Url;
use windrow::domain::{BatchId, FileId, State};
use windrow::engine::Progress;
use windrow::engine::ingest::{Ingested, ingest};
use windrow::engine::storage::Storage;
use windrow::store::batch::{Batch, NewBatch};
use windrow::store::ingest::NewFile;
use windrow::store::{Kind, Store};

use crate::batch_run::{BatchRun, POLL_EVERY, RunOutcome, StopReason};
use crate::clock::{self, Stopwatch};
use crate::context::Context;
use crate::error::CliError;
use crate::exit_code::Exit;
use crate::output_target::OutputTarget;
use crate::outputs::{OutputKind, Results, summary};
use crate::progress::{Screen, Style};
use crate::signals::Signals;
use crate::upstream::UpstreamArgs;
use crate::{database, ingest as ingesting, log, text, watch};
use identity::Identity;
use input::{Content, Input};
pub(crate) use probe::url;
use report::RunReport;

/// Send every line of a JSONL file to an HTTP upstream and write the results beside it. Running the
/// same command again resumes where it stopped.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The file, one `{"custom_id", "method", "url", "body"}` per line; `-` reads standard input
    file: PathBuf,
    /// Base URL of the upstream; the `url` of each line is appended to it
    #[arg(long, value_name = "URL", value_parser = url)]
    to: Url,
    /// File for the results [default: NAME.results.jsonl beside the input; standard output for `-`];
    /// lines that did not complete are written to NAME.errors.jsonl beside it
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    upstream: UpstreamArgs,
    /// Let the run expire after this time, for example `24h` or `90m`; the errors list the lines that
    /// never ran
    #[arg(long, value_name = "TIME", value_parser = window)]
    window: Option<Duration>,
    /// Start a new run even if this file was run before
    #[arg(long)]
    fresh: bool,
    /// Do not show progress
    #[arg(long, short)]
    quiet: bool,
    /// Stop when the upstream has been unreachable for this many seconds
    #[arg(long, value_name = "SECS", default_value_t = 300)]
    give_up_after: u64,
}

fn window(text: &str) -> Result<Duration, String> {
    let time: jiff::SignedDuration = text.parse().map_err(|why: jiff::Error| why.to_string())?;
    let time = Duration::try_from(time).ok().filter(|time| time.as_secs() > 0);
    time.ok_or_else(|| "must be at least one second".to_owned())
}

/// Where the results and the errors are written.
#[derive(Debug)]
struct OutputFiles {
    results: OutputTarget,
    errors: PathBuf,
}

pub(crate) async fn run(context: &Context, args: Args) -> anyhow::Result<Exit> {
    let is_standard = args.file.as_os_str() == "-";
    let file = if is_standard { None } else { Some(Input::file(&args.file)?) };
    let output_files = file.as_ref().map(|file| output_files(&args, &file.path)).transpose()?;
    let out = args.out.clone().map(OutputTarget::of);
    output_files
        .as_ref()
        .map(|output_files| &output_files.results)
        .or(out.as_ref())
        .map_or(Ok(()), OutputTarget::check)?;
    let _log = log::start_if_asked(&context.config)?;
    let executor = args.upstream.executor(context, &args.to)?;
    // A finished run needs no upstream; any other does.
    let reached = probe::probe(&args.to).await;
    if !context.config.database.may_exist() {
        reached.as_ref().map_err(Clone::clone)?;
    }
    let input = match file {
        Some(file) => file,
        None => Input::standard(&context.config.data).await?,
    };
    let mut screen = Screen::new(Style::of(context.json, args.quiet));
    let store = context.open().await?;
    let run = Run { context, args: &args, input, store };
    let batch = run.batch(&reached, &mut screen).await?;
    let output_files = output_files.unwrap_or_else(|| OutputFiles {
        results: out.unwrap_or(OutputTarget::Standard),
        errors: context.config.data.join("runs").join(format!("{}.errors.jsonl", batch.id)),
    });
    let storage = context.open_storage()?;
    if batch.state.is_closed() {
        return run.rewrite(&storage, &batch, &output_files).await;
    }
    if batch.counts.unfinished() > 0 {
        reached?;
    }
    let batch_run = BatchRun {
        store: run.store.clone(),
        storage: storage.clone(),
        executor,
        options: context.config.bounds.engine.clone(),
        service: "windrow run",
        batch,
        give_up_after: Duration::from_secs(args.give_up_after),
    };
    let id = batch_run.batch.id;
    let outcome = batch_run.run(&mut screen).await?;
    let batch = run.store.batch(&context.scope(), id).await?;
    let mut signals = Signals::new().context("could not listen for signals")?;
    tokio::select! {
        ended = run.end(&storage, &batch, &outcome, &output_files) => ended,
        // Dropped halfway, a file that is being written leaves nothing behind.
        () = signals.next() => {
            let what = "stopped while writing the results";
            Err(CliError::new(Exit::Stopped, what, "run the same command again.").into())
        }
    }
}

/// Beside the results, or beside the input; never the input itself.
fn output_files(args: &Args, file: &Path) -> anyhow::Result<OutputFiles> {
    // `a.results.jsonl` and `a.jsonl` both go with `a.errors.jsonl`.
    let beside = |name: &Path, end: &str| {
        let stem = name.with_extension("");
        let stem = if stem.extension().is_some_and(|extension| extension == "results") {
            stem.with_extension("")
        } else {
            stem
        };
        stem.with_added_extension(end)
    };
    let usual = || OutputTarget::File(beside(&args.file, "results.jsonl"));
    let results = args.out.clone().map_or_else(usual, OutputTarget::of);
    let errors = match &results {
        OutputTarget::File(path) => beside(path, "errors.jsonl"),
        OutputTarget::Standard => beside(&args.file, "errors.jsonl"),
    };
    for path in [Some(&errors), results.path()].into_iter().flatten() {
        if path.canonicalize().is_ok_and(|path| path == file) {
            let what = format!("{} would be overwritten by its own results", file.display());
            return Err(CliError::usage(what, "name another file with --out.").into());
        }
    }
    Ok(OutputFiles { results, errors })
}

/// One `windrow run` while it runs.
struct Run<'a> {
    context: &'a Context,
    args: &'a Args,
    input: Input,
    store: Arc<dyn Store>,
}

impl Run<'_> {
    /// The batch of this command: the existing one, or a new one.
    async fn batch(
        &self,
        reached: &Result<(), CliError>,
        screen: &mut Screen,
    ) -> anyhow::Result<Batch> {
        let identity = Identity {
            owner: self.context.config.owner.clone(),
            source: self.input.source.clone(),
            to: self.args.to.clone(),
        };
        let found = identity.find(&*self.store).await?;
        match found.last {
            Some(batch) if !self.args.fresh => self.go_on(batch, screen).await,
            Some(_) | None => {
                reached.as_ref().map_err(Clone::clone)?;
                self.begin(&identity, found.free, screen).await
            }
        }
    }

    /// Resumes a batch, if the file is still the one it began with.
    async fn go_on(&self, batch: Batch, screen: &Screen) -> anyhow::Result<Batch> {
        let content = self.input.content().await?;
        if batch.metadata.get("content").is_some_and(|hash| *hash != content.hash) {
            return Err(self.changed(&batch, &content).into());
        }
        if batch.state == State::Paused {
            screen.print_line("The batch was paused; resuming it.");
            return Ok(self.store.resume_batch(&self.context.scope(), batch.id).await?);
        }
        let counts = &batch.counts;
        if !batch.state.is_closed() && counts.finished() > 0 {
            let (done, total) = (text::count(counts.finished()), text::count(counts.total));
            screen.print_line(&format!("Resuming: {done} of {total} lines are done already."));
        }
        Ok(batch)
    }

    fn changed(&self, batch: &Batch, now: &Content) -> CliError {
        let then = |key: &str| batch.metadata.get(key).map_or("?", String::as_str);
        let bytes = then("bytes").parse().map_or_else(|_| "?".to_owned(), text::count);
        let what = format!(
            "{} changed since its run began: then {bytes} bytes ({}), now {} bytes ({})",
            self.input.path.display(),
            text::short_id(then("content")),
            text::count(now.bytes),
            text::short_id(&now.hash),
        );
        let remedy = format!(
            "restore the old content to resume, or add --fresh to run the new content; the old run \
             keeps its results either way (windrow results {}).",
            batch.id
        );
        CliError::new(Exit::Changed, what, remedy)
    }

    /// Loads the file and creates a batch over it.
    async fn begin(
        &self,
        identity: &Identity,
        free: u32,
        screen: &mut Screen,
    ) -> anyhow::Result<Batch> {
        let started = Stopwatch::start();
        let (done, content) = self.take_in(screen).await?;
        if !done.errors.is_empty() {
            let _ = self.store.drop_file(&self.context.scope(), done.file.id).await;
            return Err(ingesting::invalid(&self.input.name, &done).into());
        }
        let (lines, size) = (text::count(done.file.lines), text::size(done.file.bytes));
        screen.print_line(&format!(
            "Loaded {lines} lines, {size}, in {}.",
            text::time(started.elapsed())
        ));
        let metadata = [
            ("content", content.hash.clone()),
            ("bytes", content.bytes.to_string()),
            ("path", self.input.path.display().to_string()),
            ("to", self.args.to.to_string()),
        ];
        let (owner, endpoint) = (self.context.config.owner.clone(), self.input.endpoint().await);
        let new = NewBatch {
            window_secs: self.args.window.map(|window| window.as_secs()),
            job_type: Some("run".to_owned()),
            metadata: metadata.map(|(key, value)| (key.to_owned(), value)).into(),
            ..NewBatch::over(done.file.id, owner, endpoint)
        };
        self.create(new, identity.ids_from(free), screen).await
    }

    /// Creates the batch under the first id that is free. A batch that was deleted keeps its id until
    /// the sweep has removed its rows.
    async fn create(
        &self,
        new: NewBatch,
        ids: impl Iterator<Item = BatchId>,
        screen: &Screen,
    ) -> anyhow::Result<Batch> {
        let (scope, file) = (self.context.scope(), new.file);
        let mut refused = None;
        for id in ids {
            let error = match self.store.create_batch(NewBatch { id, ..new.clone() }).await {
                Err(error) if error.kind == Kind::Conflict => error,
                made => return Ok(made?),
            };
            match self.store.batch(&scope, id).await {
                // The same command was started twice: the first one created the batch for both.
                Ok(batch) => {
                    let _ = self.store.drop_file(&scope, file).await;
                    return self.go_on(batch, screen).await;
                }
                Err(missing) if missing.kind == Kind::Missing => refused = Some(error),
                Err(error) => return Err(error.into()),
            }
        }
        let _ = self.store.drop_file(&scope, file).await;
        Err(refused.map_or_else(|| anyhow::anyhow!("there is no id for a new batch"), Into::into))
    }

    /// Loads the file, and gives the hash of what was read.
    async fn take_in(&self, screen: &mut Screen) -> anyhow::Result<(Ingested, Content)> {
        let file = NewFile {
            id: FileId::new(),
            owner: self.context.config.owner.clone(),
            name: self.input.name.clone(),
            purpose: "batch".to_owned(),
            expires_at: None,
        };
        let mut reader = self.input.open().await?;
        let (read, options) = (reader.counter(), self.context.config.bounds.ingest.clone());
        let size = self.input.path.metadata().map_or(0, |found| found.len());
        let taken = {
            let mut taking = std::pin::pin!(ingest(&*self.store, &mut reader, file, options));
            loop {
                tokio::select! {
                    taken = &mut taking => break taken,
                    () = clock::sleep(POLL_EVERY) => screen.take_in(read.get(), size),
                }
            }
        };
        screen.end();
        let taken = taken.with_context(|| {
            format!("could not load {}; nothing of it is kept", self.input.path.display())
        })?;
        Ok((taken, reader.content()))
    }

    /// A batch that is closed: nothing is sent; results that are missing or old are written again.
    async fn rewrite(
        &self,
        storage: &Storage,
        batch: &Batch,
        output_files: &OutputFiles,
    ) -> anyhow::Result<Exit> {
        let mut report = RunReport::new(batch, &Progress::default(), Duration::ZERO);
        let wrote = !is_in_place(batch, output_files);
        if wrote {
            self.write(storage, batch, output_files).await?;
        }
        self.fill(&mut report, batch, output_files).await?;
        let again =
            if wrote { "The results were written again." } else { "The results are in place." };
        self.print_result(&report, output_files, || {
            format!("{}\nThis run is finished; nothing was sent. {again}", report.text())
        })?;
        Ok(watch::exit_code(batch))
    }

    /// Prints how the run ended, and writes the results if the batch is closed.
    async fn end(
        &self,
        storage: &Storage,
        batch: &Batch,
        outcome: &RunOutcome,
        output_files: &OutputFiles,
    ) -> anyhow::Result<Exit> {
        let mut report = RunReport::new(batch, &outcome.progress, outcome.took);
        report.released = outcome.report.released;
        if batch.state.is_closed() {
            self.write(storage, batch, output_files).await?;
            self.fill(&mut report, batch, output_files).await?;
            self.print_result(&report, output_files, || {
                format!("{}{}", report.text(), retry_hint(&report))
            })?;
            return Ok(watch::exit_code(batch));
        }
        let released = text::count(outcome.report.released);
        let again = format!("released {released} lines; run the same command again to resume.");
        match &outcome.stop_reason {
            StopReason::Signal | StopReason::Closed => {
                let sentence = format!("Stopped: {again}");
                self.print_result(&report, output_files, || {
                    format!("{}\n{sentence}", report.text())
                })?;
                Ok(Exit::Stopped)
            }
            StopReason::Unreachable(trouble) => {
                let trouble = trouble.as_deref().unwrap_or("no response");
                let secs = self.args.give_up_after;
                let what = format!("{} was unreachable for {secs} s: {trouble}", self.args.to);
                Err(CliError::new(Exit::Unreachable, what, again).into())
            }
            StopReason::OutputFailed(error) => {
                let what = format!("could not write the outputs: {error}");
                let remedy = "free disk space or make the folder writable, and run the same command \
                              again: every line is kept, and nothing is sent twice.";
                Err(CliError::new(Exit::Outputs, what, remedy).into())
            }
        }
    }

    async fn write(
        &self,
        storage: &Storage,
        batch: &Batch,
        output_files: &OutputFiles,
    ) -> anyhow::Result<()> {
        let results = Results {
            store: &*self.store,
            storage: Some(storage),
            scope: &self.context.scope(),
            batch,
            bytes_max: self.context.config.bounds.engine.output_bytes_max,
        };
        results.put(OutputKind::Results, &output_files.results).await?;
        if has_errors(batch) {
            database::make_folder(output_files.errors.parent())?;
            return results
                .put(OutputKind::Errors, &OutputTarget::File(output_files.errors.clone()))
                .await;
        }
        match std::fs::remove_file(&output_files.errors) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(error).with_context(|| {
                    format!("could not remove the old {}", output_files.errors.display())
                })
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }

    async fn fill(
        &self,
        report: &mut RunReport,
        batch: &Batch,
        output_files: &OutputFiles,
    ) -> anyhow::Result<()> {
        report.results = output_files.results.path().cloned();
        report.errors = has_errors(batch).then(|| output_files.errors.clone());
        if has_errors(batch) {
            let found = report::reasons(&*self.store, &self.context.scope(), batch.id).await?;
            (report.reasons, report.more_reasons) = found;
        }
        Ok(())
    }

    /// The summary goes to standard output, unless the results do.
    fn print_result(
        &self,
        report: &RunReport,
        output_files: &OutputFiles,
        to_text: impl FnOnce() -> String,
    ) -> anyhow::Result<()> {
        let output = if self.context.json { serde_json::to_string(report)? } else { to_text() };
        match output_files.results {
            OutputTarget::Standard => eprintln!("{output}"),
            OutputTarget::File(_) => text::print_line(output.trim_start_matches('\n'))?,
        }
        Ok(())
    }
}

fn has_errors(batch: &Batch) -> bool {
    batch.counts.completed < batch.counts.total
}

/// How far the time of a file may be behind the clock: the kernel writes down that of its last tick.
const MODIFIED_STEP: std::time::Duration = std::time::Duration::from_millis(20);

/// Whether the files on disk are those of this closing.
fn is_in_place(batch: &Batch, output_files: &OutputFiles) -> bool {
    let OutputTarget::File(results) = &output_files.results else { return false };
    let Some(summary) = summary(batch) else { return false };
    let fits = |path: &Path, bytes: u64| {
        let Ok(found) = path.metadata() else { return false };
        let written = found.modified().ok().and_then(|at| jiff::Timestamp::try_from(at).ok());
        let closed = batch.closed_at.and_then(|at| at.checked_sub(MODIFIED_STEP).ok());
        found.len() == bytes && written >= closed
    };
    let errors = summary
        .errors
        .map_or(!output_files.errors.exists(), |errors| fits(&output_files.errors, errors.bytes));
    errors && fits(results, summary.output.map_or(0, |output| output.bytes))
}

fn retry_hint(report: &RunReport) -> String {
    let failed = report.counts.failed + report.counts.not_found;
    match failed {
        0 => String::new(),
        _ => format!(
            "\nTo retry the {} failed lines: windrow retry {}, then the same command.",
            text::count(failed),
            text::short_id(report.batch)
        ),
    }
}
