//! `windrow events`: reads, follows and appends the events of streams.

use std::time::Duration;

use anyhow::Context as _;
use windrow::domain::{Expected, Stream};
use windrow::store::event::{Append, Event, NewEvent};
use windrow::store::inspect::PAGE_MAX;

use super::payload::{PayloadArg, readable, with_payload};
use super::{headers, short, snapshots, stream, user_error};
use crate::batches::when;
use crate::clock;
use crate::config::pair;
use crate::context::Context;
use crate::exit_code::Exit;
use crate::list::{OwnerArgs, Rows};
use crate::ranges;
use crate::signals::Signals;
use crate::table::Table;

/// How often `follow` checks for new events.
const POLL_EVERY: Duration = Duration::from_millis(500);

/// Read, follow and append events; read and keep snapshots.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Read the events of a stream, in order
    Read(ReadArgs),
    /// Append an event to a stream
    Append(AppendArgs),
    /// Print the events of a stream as they are appended, until stopped
    Follow(FollowArgs),
    /// Read the events of all streams, in the order in which they were committed
    Feed(FeedArgs),
    /// Show the snapshot of a stream, or keep a new one
    Snapshot(snapshots::Args),
}

#[derive(Debug, clap::Args)]
struct ReadArgs {
    /// The stream
    #[arg(value_parser = stream)]
    stream: Stream,
    /// First version to read
    #[arg(long, value_name = "VERSION", default_value_t = 1)]
    from: u64,
    /// Maximum number of events
    #[arg(long, default_value_t = 100, value_parser = ranges::whole(1, PAGE_MAX))]
    limit: u32,
}

#[derive(Debug, clap::Args)]
struct AppendArgs {
    /// The stream
    #[arg(value_parser = stream)]
    stream: Stream,
    /// The kind of event, for example money.deposited
    kind: String,
    /// The payload: a text, @FILE, or - for standard input
    payload: Option<PayloadArg>,
    /// Append only if the stream is at this version; 0 for a new stream
    #[arg(long, value_name = "VERSION")]
    expected: Option<u64>,
    /// The id of the event [default: a new one]
    #[arg(long)]
    id: Option<String>,
    /// Header of the event; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    header: Vec<(String, String)>,
}

#[derive(Debug, clap::Args)]
struct FollowArgs {
    /// The stream
    #[arg(value_parser = stream)]
    stream: Stream,
    /// First version to print [default: the next one that is appended]
    #[arg(long, value_name = "VERSION")]
    from: Option<u64>,
}

#[derive(Debug, clap::Args)]
struct FeedArgs {
    /// Continue after the previous page, with the cursor that it printed
    #[arg(long, value_name = "CURSOR")]
    after: Option<String>,
    /// Maximum number of events
    #[arg(long, default_value_t = 100, value_parser = ranges::whole(1, PAGE_MAX))]
    limit: u32,
    #[command(flatten)]
    owner: OwnerArgs,
}

pub(crate) async fn run(context: &Context, args: Args) -> anyhow::Result<Exit> {
    match args.command {
        Command::Read(args) => read(context, args).await,
        Command::Append(args) => append(context, args).await,
        Command::Follow(args) => follow(context, args).await,
        Command::Feed(args) => feed(context, args).await,
        Command::Snapshot(args) => snapshots::run(context, args).await,
    }
}

async fn read(context: &Context, args: ReadArgs) -> anyhow::Result<Exit> {
    let store = context.open_existing().await?;
    let owner = &context.config.owner;
    let events = store.read_stream(owner, &args.stream, args.from, args.limit).await;
    print_events(context, &events.map_err(user_error)?, None)
}

async fn feed(context: &Context, args: FeedArgs) -> anyhow::Result<Exit> {
    let store = context.open_existing().await?;
    let scope = args.owner.scope(context);
    let page =
        store.read_all(&scope, args.after.as_deref(), args.limit).await.map_err(user_error)?;
    print_events(context, &page.rows, page.next.as_deref())
}

fn print_events(context: &Context, events: &[Event], next: Option<&str>) -> anyhow::Result<Exit> {
    let rows =
        events.iter().map(|event| with_payload(event, &[("payload", &event.payload)])).collect();
    context.print_result(&Rows { rows, next }, || {
        let next = next.map(|next| format!("\nNext: --after {next}")).unwrap_or_default();
        if events.is_empty() {
            return format!("No events.{next}");
        }
        let mut table = Table::new(&["stream", "version", "at", "kind", "id", "payload"]);
        table.right(&[1]);
        events.iter().for_each(|event| table.row(row(event)));
        format!("{table}{next}")
    })?;
    Ok(Exit::Success)
}

fn row(event: &Event) -> [String; 6] {
    [
        event.stream.to_string(),
        event.version.to_string(),
        when(event.at),
        short(&event.kind),
        short(&event.id),
        short(&readable(&event.payload)),
    ]
}

async fn append(context: &Context, args: AppendArgs) -> anyhow::Result<Exit> {
    let store = context.open().await?;
    let event = NewEvent {
        id: args.id.unwrap_or_else(|| uuid::Uuid::now_v7().to_string()),
        kind: args.kind,
        payload: PayloadArg::read(args.payload).await?,
        headers: headers(args.header),
    };
    let append = Append {
        owner: context.config.owner.clone(),
        stream: args.stream.clone(),
        expected: args.expected.map_or(Expected::Any, Expected::Version),
        events: vec![event],
    };
    let appended = store.append(vec![append]).await.map_err(user_error)?;
    let version = appended.first().map_or(0, |appended| appended.last);
    let stream = &args.stream;
    context.print_result(&serde_json::json!({ "stream": stream, "version": version }), || {
        format!("Stream {stream} is at version {version}.")
    })?;
    Ok(Exit::Success)
}

/// Prints one line for each event, until a signal stops it.
async fn follow(context: &Context, args: FollowArgs) -> anyhow::Result<Exit> {
    let store = context.open_existing().await?;
    let mut signals = Signals::new().context("could not listen for signals")?;
    let (owner, stream) = (&context.config.owner, &args.stream);
    let mut from = match args.from {
        Some(from) => from,
        None => store.stream_version(owner, stream).await.map_err(user_error)? + 1,
    };
    loop {
        let events = store.read_stream(owner, stream, from, PAGE_MAX).await.map_err(user_error)?;
        for event in &events {
            let value = with_payload(event, &[("payload", &event.payload)]);
            context.print_result(&value, || row(event).join("  "))?;
            from = event.version + 1;
        }
        if events.len() == PAGE_MAX as usize {
            continue;
        }
        tokio::select! {
            () = clock::sleep(POLL_EVERY) => {}
            () = signals.next() => return Ok(Exit::Success),
        }
    }
}
