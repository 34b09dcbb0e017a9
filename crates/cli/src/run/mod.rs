//! `windrow run`: loads a file, runs its lines to the end, and writes the results beside it.
//!
//! Holds throughout: everything that can be checked is checked before anything is written; the same
//! command again resumes where it stopped and sends no finished line again; a file that changed in
//! between is never mixed with the one that the run began with.

mod identity;
mod input;
mod memory;
mod probe;
pub(crate) mod report;

use std::path::PathBuf;
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
use crate::destination::Destination;
use crate::error::CliError;
use crate::exit_code::Exit;
use crate::output_files::{self, OutputFiles, has_errors};
use crate::output_target::OutputTarget;
use crate::outputs::Results;
use crate::progress::{Screen, Style};
use crate::signals::Signals;
use crate::upstream::{UpstreamArgs, rebind};
use crate::{hint, ingest as ingesting, input_format, log, text, watch};
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
    /// Base URL of the upstream; the `url` of each line is appended to it [default: the upstream of the
    /// configuration]
    #[arg(long, value_name = "URL", value_parser = url)]
    to: Option<Url>,
    /// File for the results [default: NAME.results.jsonl beside the input; standard output for `-`];
    /// lines that did not complete are written to NAME.errors.jsonl beside it
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    upstream: UpstreamArgs,
    /// Let the run expire after this time, for example `90s`, `45m`, `24h` or `7d`; the errors list the
    /// lines that never ran [default: never]
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

pub(crate) fn window(text: &str) -> Result<Duration, String> {
    if text.chars().all(|c| c.is_ascii_digit()) {
        return Err(format!("{text} what? Give a unit: {text}s, {text}m, {text}h or {text}d"));
    }
    // A day is no fixed time in a calendar; here it has 24 hours.
    let days = text.strip_suffix('d').and_then(|days| days.trim().parse::<u64>().ok());
    if let Some(days) = days.filter(|days| *days > 0) {
        return Ok(Duration::from_secs(days.saturating_mul(24 * 3600)));
    }
    let time: Result<jiff::SignedDuration, _> = text.parse();
    let time =
        time.map_err(|_| "not a time; write it as 90s, 45m, 24h, 7d or `1h 30m`".to_owned())?;
    let time = Duration::try_from(time).ok().filter(|time| time.as_secs() > 0);
    time.ok_or_else(|| "must be at least one second".to_owned())
}

pub(crate) async fn run(context: &Context, args: Args) -> anyhow::Result<Exit> {
    let file = if Input::is_stream(&args.file) { None } else { Some(Input::file(&args.file)?) };
    let output_files = match file {
        Some(_) => Some(OutputFiles::beside(&args.file, args.out.as_ref())?),
        None => None,
    };
    let out = args.out.clone().map(OutputTarget::of);
    output_files
        .as_ref()
        .map(|output_files| &output_files.results)
        .or(out.as_ref())
        .map_or(Ok(()), OutputTarget::check)?;
    let _log = log::start_if_asked(&context.config)?;
    context.config.refuse_unused("run", &["engine", "ingest"])?;
    let to = args.upstream.destination(context, args.to.as_ref())?;
    let executor = args.upstream.executor(context, &to)?;
    // A finished run needs no upstream; any other does.
    let reached = probe::probe(&to.url, to.ca_file(context).as_deref()).await;
    if !context.config.database.may_exist() {
        reached.as_ref().map_err(Clone::clone)?;
    }
    let input = match file {
        Some(file) => file,
        None => Input::stream(&args.file, &context.config.data).await?,
    };
    let mut screen = Screen::new(Style::of(context.json, args.quiet));
    let store = context.open().await?;
    let kept = output_files.as_ref().and_then(OutputFiles::path_to_keep);
    let run = Run { context, args: &args, to, input, store, kept };
    let batch = run.batch(&reached, &mut screen).await?;
    let output_files = output_files.unwrap_or_else(|| OutputFiles {
        results: out.unwrap_or(OutputTarget::Standard),
        errors: context.config.data.join("runs").join(format!("{}.errors.jsonl", batch.id)),
    });
    let storage = context.open_storage()?;
    if batch.state.is_closed() {
        run.remember(&batch, &screen);
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
        takes_refusals: false,
    };
    let id = batch_run.batch.id;
    let outcome = batch_run.run(&mut screen).await?;
    let batch = run.store.batch(&context.scope(), id).await?;
    run.remember(&batch, &screen);
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

/// One `windrow run` while it runs.
struct Run<'a> {
    context: &'a Context,
    args: &'a Args,
    to: Destination,
    input: Input,
    store: Arc<dyn Store>,
    /// The path of the results, which is kept with the batch; none for standard output.
    kept: Option<String>,
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
            to: self.to.url.clone(),
        };
        let found = identity.find(&*self.store).await?;
        match found.last {
            Some(batch) if !self.args.fresh => self.go_on(batch, screen).await,
            Some(_) | None => {
                if !self.args.fresh
                    && let Some(batch) = self.check_earlier(&identity).await?
                {
                    return self.go_on(batch, screen).await;
                }
                reached.as_ref().map_err(Clone::clone)?;
                self.begin(&identity, found.free, screen).await
            }
        }
    }

    /// Refuses to pay again for a run that was removed, or that began under a slightly different URL.
    /// Gives the batch when the same command, started a moment earlier, has created it meanwhile.
    async fn check_earlier(&self, identity: &Identity) -> anyhow::Result<Option<Batch>> {
        let content = self.input.content().await?;
        let (file, to) = (self.args.file.display().to_string(), self.to.url.as_str());
        let command = ["run", &file, "--to", to];
        let scope = self.context.scope();
        if let Some(note) = memory::recall(self.context, identity.ids_from(0), &content.hash) {
            // A note is written after its batch: one that is not there now was removed.
            return match self.store.batch(&scope, note.batch).await {
                Ok(batch) => Ok(Some(batch)),
                Err(error) if error.kind == Kind::Missing => Err(note.refusal(&command).into()),
                Err(error) => Err(error.into()),
            };
        }
        let known_by = (&*self.input.source, &*content.hash);
        memory::check_other_urls(&*self.store, &scope, known_by, &self.to.url, &command).await?;
        if let Some(note) = memory::recall_similar(self.context, known_by, &self.to.url) {
            return match self.store.batch(&scope, note.batch).await {
                Err(error) if error.kind == Kind::Missing => Err(note.refusal(&command).into()),
                Ok(_) => Ok(None),
                Err(error) => Err(error.into()),
            };
        }
        Ok(None)
    }

    /// Resumes a batch, if the file is still the one it began with.
    async fn go_on(&self, batch: Batch, screen: &Screen) -> anyhow::Result<Batch> {
        let content = self.input.content().await?;
        if batch.metadata.get("content").is_some_and(|hash| *hash != content.hash) {
            return Err(self.changed(&batch, &content).into());
        }
        if batch.state.is_closed() {
            return Ok(batch);
        }
        // The same command is the person's word on where it goes.
        let (store, upstream) = (&*self.store, &self.to.upstream);
        let batch = rebind(self.context, store, batch, upstream, "windrow run").await?;
        let window = self.args.window.filter(|_| batch.is_late(clock::now()));
        if batch.state == State::Paused || window.is_some() {
            let was = if window.is_some() { "past its window" } else { "paused" };
            screen.print_line(&format!("The batch was {was}; resuming it."));
            let (scope, secs) = (self.context.scope(), window.map(|window| window.as_secs()));
            return Ok(self.store.resume_batch(&scope, batch.id, secs).await?);
        }
        let counts = &batch.counts;
        if !batch.state.is_closed() && counts.finished() > 0 {
            let (done, total) =
                (text::count(counts.finished()), text::plural(counts.total, "line"));
            screen.print_line(&format!("Resuming: {done} of {total} done already."));
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
             keeps its results either way: {}",
            hint::command(&["results", &batch.id.to_string()])
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
        let (lines, size) = (text::plural(done.file.lines, "line"), text::size(done.file.bytes));
        screen.print_line(&format!(
            "Loaded {lines}, {size}, in {}. Requests and results are kept in {}.",
            text::time(started.elapsed()),
            self.context.config.database,
        ));
        if let Some(warning) = ingesting::unknown_keys(&done) {
            screen.print_line(&warning);
        }
        let metadata = [
            ("content", Some(content.hash.clone())),
            ("bytes", Some(content.bytes.to_string())),
            ("path", self.input.lasting_path()),
            ("to", Some(self.to.url.to_string())),
            (output_files::RESULTS, self.kept.clone()),
        ];
        let metadata =
            metadata.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)));
        let (owner, endpoint) = (self.context.config.owner.clone(), self.input.endpoint().await);
        let new = NewBatch {
            upstreams: self.to.upstream.clone().into(),
            window_secs: self.args.window.map(|window| window.as_secs()),
            job_type: Some("run".to_owned()),
            metadata: metadata.collect(),
            ..NewBatch::over(done.file.id, owner, endpoint)
        };
        let batch = self.create(new, identity.ids_from(free), screen).await?;
        self.remember(&batch, screen);
        Ok(batch)
    }

    /// Notes how far the run is. Without the note, it would only not be known once it is removed.
    fn remember(&self, batch: &Batch, screen: &Screen) {
        if let Err(error) = memory::remember(self.context, batch, &self.input.source) {
            screen.print_line(&format!(
                "This run will not be remembered once it is removed: {error:#}"
            ));
        }
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
            expires_at: self.context.input_expires_at(),
        };
        let mut reader = self.input.open().await?;
        let (read, options) = (reader.counter(), self.context.config.bounds.ingest.clone());
        let size = self.input.path.metadata().map_or(0, |found| found.len());
        let taken = {
            let lines =
                input_format::lines(&self.args.file.display().to_string(), &mut reader).await?;
            let mut taking = std::pin::pin!(ingest(&*self.store, lines, file, options));
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
        // What follows the last packed line belongs to the content, too.
        tokio::io::copy(&mut reader, &mut tokio::io::sink()).await?;
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
        let wrote = !output_files.is_in_place(batch);
        if wrote {
            self.write(storage, batch, output_files).await?;
        }
        self.fill(&mut report, batch, output_files).await?;
        let again =
            if wrote { "The results were written again." } else { "The results are in place." };
        self.print_result(&report, output_files, || {
            let retry = retry_hint(&report);
            format!("{}\nThis run is finished; nothing was sent. {again}{retry}", report.text())
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
        let released = text::plural(outcome.report.released, "line");
        let again = format!("released {released}; run the same command again to resume.");
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
                let what = format!("{} was unreachable for {secs} s: {trouble}", self.to.url);
                Err(CliError::new(Exit::Unreachable, what, again).into())
            }
            StopReason::Refused(why) => {
                let requests = text::plural(outcome.progress.requests, "request");
                let what = format!("stopped after {requests}: {why}");
                let remedy = format!(
                    "check the key (--api-key-env, --api-key-file, --header) and what it may do; no line \
                     was used up: {again}"
                );
                Err(CliError::new(Exit::Config, what, remedy).into())
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
        let scope = self.context.scope();
        let results = Results {
            store: &*self.store,
            storage: Some(storage),
            scope: &scope,
            batch,
            bytes_max: self.context.config.bounds.engine.output_bytes_max,
        };
        output_files.write(&results).await
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

/// What a retry would run, and the command: of a stopped batch what never ran, and nothing else.
fn retry_hint(report: &RunReport) -> String {
    let counts = &report.counts;
    let lines = |number: u64, word: &str| match number {
        1 => format!("the {word}line"),
        _ => format!("the {} {word}lines", text::count(number)),
    };
    let failed = lines(counts.failed + counts.not_found, "failed ");
    let what = match (counts.unfinished(), counts.failed + counts.not_found) {
        (0, 0) => return String::new(),
        (0, _) => format!("retry {failed}"),
        (never, 0) => format!("run {} that never ran", lines(never, "")),
        (never, _) => format!("run {} that never ran (not {failed})", lines(never, "")),
    };
    format!("\nTo {what}: {}", hint::command(&["retry", &report.batch.to_string(), "--work"]))
}
