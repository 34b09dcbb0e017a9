//! `windrow batches` and `status`: lists batches, shows one of them, and moves one to another upstream.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use url::Url;
use windrow::domain::suggest::suggest;
use windrow::domain::{Counts, FileId, State, UpstreamId};
use windrow::store::batch::Batch;
use windrow::store::inspect::{BatchesQuery, LaneStatus, Page};
use windrow::store::{Kind, Store};

use crate::batch_selector::BatchSelector;
use crate::context::Context;
use crate::destination::start_hint;
use crate::error::CliError;
use crate::exit_code::Exit;
use crate::list::{Columns, ListOr, PageArgs, print_page};
use crate::run::report::{self, Reason};
use crate::run::url;
use crate::table::Table;
use crate::upstream::{rebind, upstream_of};
use crate::upstreams::Served;
use crate::workers::{LiveProcesses, Workers};
use crate::{hint, text, upstreams};

/// Reasons of failures that `windrow status` shows.
const REASONS_SHOWN_MAX: usize = 5;
/// Width of what it shows of a message, in characters.
const SAMPLE_CHARS_MAX: usize = 100;

/// List batches, or move one to another upstream.
pub(crate) type Args = ListOr<Command, ListArgs>;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Send what is left of a batch to another upstream
    Move(MoveArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct MoveArgs {
    /// The batch: its id, the first characters of it, or `last`
    batch: BatchSelector,
    /// Base URL of the upstream
    #[arg(long, value_name = "URL", value_parser = url, required_unless_present = "upstream", conflicts_with = "upstream")]
    to: Option<Url>,
    /// Name of the upstream: a table of the configuration
    #[arg(long, value_name = "NAME")]
    upstream: Option<String>,
}

/// List batches, newest first.
#[derive(Debug, clap::Args)]
pub(crate) struct ListArgs {
    /// Only batches in these states, separated by commas: in_progress, paused, cancelling, expiring,
    /// finalizing_completed, finalizing_cancelled, finalizing_expired, completed, failed, cancelled,
    /// expired
    #[arg(long, value_name = "STATE", value_delimiter = ',', value_parser = state)]
    state: Vec<State>,
    #[command(flatten)]
    page: PageArgs,
}

/// Show one batch with its counts, by target.
#[derive(Debug, clap::Args)]
pub(crate) struct StatusArgs {
    /// The batch: its id, the first characters of it, or `last`
    batch: BatchSelector,
}

fn state(word: &str) -> Result<State, String> {
    word.parse().map_err(|_| {
        let known: Vec<_> = State::ALL.iter().map(|state| state.as_str()).collect();
        format!("not a state; the states are {}", known.join(", "))
    })
}

pub(crate) async fn run(context: &Context, args: Args) -> anyhow::Result<Exit> {
    match args.command {
        None => list(context, args.list).await,
        Some(Command::Move(args)) => move_batch(context, args).await,
    }
}

/// Sends what is left of a batch elsewhere, and says who works on it there.
async fn move_batch(context: &Context, args: MoveArgs) -> anyhow::Result<Exit> {
    let store = context.open_existing().await?;
    let batch = args.batch.find(context, &*store).await?;
    let upstream = match (&args.to, args.upstream) {
        (Some(to), _) => upstream_of(to)?,
        (None, name) => UpstreamId::new(name.unwrap_or_default())
            .ok()
            .filter(|upstream| !upstream.is_own() && !upstream.is_unknown())
            .ok_or_else(|| {
                CliError::usage("not the name of an upstream", "name a table of the configuration.")
            })?,
    };
    if args.to.is_none() {
        check_known(context, &*store, &upstream).await?;
    }
    let batch = rebind(context, &*store, batch, &upstream, "windrow batches move").await?;
    let served = Served::read(context, &*store).await?;
    let value = serde_json::json!({ "batch": batch, "served_by": served.by(&upstream) });
    context.print_result(&value, || {
        let (id, by) = (batch.id, served.shown(&upstream));
        let start = match (&args.to, served.by(&upstream).is_empty()) {
            (_, false) => String::new(),
            (Some(_), true) => hint::command(&["work", "--to", upstream.as_str()]),
            (None, true) => hint::command(&["work"]),
        };
        let start = if start.is_empty() { start } else { format!("\nTo run it: {start}") };
        format!("Batch {id} goes to {upstream} now; served by {by}.{start}")
    })?;
    Ok(Exit::Success)
}

/// Refuses the name of an upstream that neither the configuration nor the database knows: nobody would
/// ever run the batch.
async fn check_known(
    context: &Context,
    store: &dyn Store,
    upstream: &UpstreamId,
) -> anyhow::Result<()> {
    let registered = store.upstreams().await?;
    let registered = registered.iter().map(|known| known.upstream.as_str());
    let tables = context.config.upstreams.keys().map(String::as_str);
    let known: BTreeSet<&str> = tables.chain(registered).collect();
    if known.contains(upstream.as_str()) {
        return Ok(());
    }
    let what = format!("there is no upstream {:?}", upstream.as_str());
    let remedy = match suggest(upstream.as_str(), known.iter().copied()) {
        Some(meant) => format!("did you mean {meant:?}?"),
        None => "name a table of the configuration, or one that `windrow upstreams` lists.".into(),
    };
    Err(CliError::usage(what, remedy).into())
}

async fn list(context: &Context, args: ListArgs) -> anyhow::Result<Exit> {
    let store = context.open_existing().await?;
    let (states, PageArgs { limit, after }) = (args.state, args.page);
    let query = BatchesQuery { states, after, limit, ..BatchesQuery::default() };
    let Page { rows, next } = store.batches(&context.scope(), query).await?;
    let mut names = FileNames::default();
    let live = LiveProcesses::read(context, &*store).await?;
    let mut listed = Vec::new();
    for batch in rows {
        let source = names.source(context, &*store, &batch).await?;
        let is_open = !batch.state.is_closed();
        let is_worked_on = is_open.then(|| Workers::of(&live, &batch).any());
        listed.push(Listed { batch, source, is_worked_on });
    }
    let page = Page { rows: listed, next };
    let columns = Columns {
        titles: &[
            "batch",
            "state",
            "done",
            "lines",
            "failed",
            "worked on",
            "created",
            "source",
            "upstream",
        ],
        right: &[2, 3, 4],
        row,
        empty: "No batches.",
    };
    print_page(context, &page, |listed| &listed.batch, &columns)
}

/// A batch with what it was made from.
struct Listed {
    batch: Batch,
    source: String,
    /// Whether anybody works on it; none for a closed one.
    is_worked_on: Option<bool>,
}

/// The names of files that were read, each once.
#[derive(Default)]
struct FileNames(BTreeMap<FileId, String>);

impl FileNames {
    /// The path that the batch was made from, else the name of its file. A file that is gone leaves the
    /// endpoint.
    async fn source(
        &mut self,
        context: &Context,
        store: &dyn Store,
        batch: &Batch,
    ) -> windrow::store::Result<String> {
        if let Some(path) = batch.metadata.get("path") {
            return Ok(path.clone());
        }
        if let Some(name) = self.0.get(&batch.file) {
            return Ok(name.clone());
        }
        let name = match store.file(&context.scope(), batch.file).await {
            Ok(file) if !file.name.is_empty() => text::one_line(&file.name),
            Err(error) if error.kind != Kind::Missing => return Err(error),
            Ok(_) | Err(_) => batch.endpoint.clone(),
        };
        Ok(self.0.entry(batch.file).or_insert(name).clone())
    }
}

fn row(listed: &Listed) -> Vec<String> {
    let Listed { batch, source, is_worked_on } = listed;
    let worked_on = match is_worked_on {
        Some(true) => "yes",
        Some(false) => "no",
        None => "-",
    };
    let counts = &batch.counts;
    vec![
        batch.id.to_string(),
        batch.state.to_string(),
        text::percent(counts.finished(), counts.total),
        text::count(counts.total),
        text::count(counts.failed + counts.not_found),
        worked_on.to_owned(),
        when(batch.created_at),
        source.clone(),
        upstream_names(batch),
    ]
}

/// The upstreams of a batch's lanes.
fn upstream_names(batch: &Batch) -> String {
    let names: Vec<_> = batch.upstreams.iter().map(|upstream| upstream.as_str()).collect();
    text::short(&names.join(", "), 40)
}

/// Where a batch goes, and who works on it there.
fn upstream_lines(batch: &Batch, served: &Served) -> Vec<(&'static str, String)> {
    let open = !batch.state.is_closed();
    let lines = batch.upstreams.iter().flat_map(|upstream| {
        let served_by = open.then(|| ("served by", served.shown(upstream)));
        std::iter::once(("upstream", upstreams::shown(upstream))).chain(served_by)
    });
    lines.collect()
}

/// To the second, in UTC.
pub(crate) fn when(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M:%SZ").to_string()
}

pub(crate) async fn status(context: &Context, args: StatusArgs) -> anyhow::Result<Exit> {
    let store = context.open_existing().await?;
    let batch = args.batch.find(context, &*store).await?;
    let lanes = store.lanes(&context.scope(), batch.id).await?;
    let served = Served::read(context, &*store).await?;
    let same_url = match batch.state.is_closed() {
        true => None,
        false => served.same_url(&*store, &batch).await?,
    };
    let about = About {
        same_url,
        start: start_hint(context, &batch),
        source: FileNames::default().source(context, &*store, &batch).await?,
        workers: match batch.state.is_closed() {
            true => None,
            false => Some(Workers::read(context, &*store, &batch).await?),
        },
        reasons: match batch.counts.failed + batch.counts.not_found {
            0 => Vec::new(),
            _ => report::reasons(&*store, &context.scope(), batch.id).await?.0,
        },
        served,
    };
    let by = |upstream: &UpstreamId| (upstream.to_string(), about.served.by(upstream));
    let served_by: BTreeMap<_, _> = batch.upstreams.iter().map(by).collect();
    let value = serde_json::json!({
        "batch": batch, "lanes": lanes, "source": about.source, "reasons": about.reasons,
        "is_worked_on": about.workers.map(Workers::any), "served_by": served_by,
    });
    context.print_result(&value, || shown(&batch, &lanes, &about))?;
    Ok(Exit::Success)
}

/// What is known of a batch beside its row.
struct About {
    source: String,
    /// None for a closed batch.
    workers: Option<Workers>,
    /// Why lines did not complete, the most frequent first.
    reasons: Vec<Reason>,
    /// Which processes serve which upstream.
    served: Served,
    /// How to have it run on.
    start: String,
    /// An upstream with the same URL that somebody serves, when nobody serves the batch's own.
    same_url: Option<UpstreamId>,
}

fn shown(batch: &Batch, lanes: &[LaneStatus], about: &About) -> String {
    let mut output = format!("batch     {}\nstate     {}\n", batch.id, batch.state);
    let mut line = |word: &str, value: String| output.push_str(&format!("{word:<10}{value}\n"));
    if let Some(workers) = about.workers {
        line("workers", workers.text());
        match batch.state {
            State::Paused => {
                line(
                    "",
                    format!("to continue: {}", hint::command(&["resume", &batch.id.to_string()])),
                );
            }
            _ if !workers.any() => {
                line("", format!("to run it: {}", about.start));
            }
            _ => {}
        }
    }
    line("source", about.source.clone());
    if let Some(to) = batch.metadata.get("to") {
        line("to", to.clone());
    }
    for (word, value) in upstream_lines(batch, &about.served) {
        line(word, value);
    }
    if let Some(name) = &about.same_url {
        let words = ["batches", "move", &batch.id.to_string(), "--upstream", name.as_str()];
        line("", format!("{name} has the same URL; to let it run it: {}", hint::command(&words)));
    }
    line("file", batch.file.to_string());
    line("created", when(batch.created_at));
    let times = [
        ("deadline", batch.deadline),
        ("cancelled", batch.cancelling_at),
        ("closed", batch.closed_at),
    ];
    for (word, at) in times {
        if let Some(at) = at {
            line(word, when(at));
        }
    }
    if batch.generation > 0 {
        line("retried", text::plural(batch.generation.into(), "time"));
    }
    if let Some(error) = &batch.last_error {
        line("error", error.clone());
    }
    for error in batch.errors.iter().take(5) {
        let at = error.line.map_or(String::new(), |line| format!("line {line}: "));
        line("invalid", format!("{at}{}", error.message));
    }
    for reason in about.reasons.iter().take(REASONS_SHOWN_MAX) {
        let sample = text::short(&reason.sample, SAMPLE_CHARS_MAX);
        line("failed", format!("{} {}: {sample}", text::count(reason.lines), reason.code));
    }
    output.push('\n');
    output + &places(batch, lanes)
}

/// Where the lines of each lane are.
fn places(batch: &Batch, lanes: &[LaneStatus]) -> String {
    let mut table = Table::new(&[
        "target",
        "phase",
        "lines",
        "untouched",
        "returned",
        "leased",
        "completed",
        "failed",
        "not found",
        "skipped",
    ]);
    table.right(&[2, 3, 4, 5, 6, 7, 8, 9]);
    let mut row = |target: &str, phase: &str, counts: &Counts| {
        let numbers = [
            counts.total,
            counts.untouched,
            counts.returned,
            counts.leased,
            counts.completed,
            counts.failed,
            counts.not_found,
            counts.skipped,
        ];
        let words = [text::short(target, 40), phase.to_owned()];
        table.row(words.into_iter().chain(numbers.map(text::count)));
    };
    for lane in lanes {
        row(lane.target.as_str(), lane.phase.as_str(), &lane.counts);
    }
    if lanes.len() > 1 {
        row("all", "", &batch.counts);
    }
    table.to_string()
}
