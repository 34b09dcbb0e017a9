//! `windrow dead-letters`: messages that were given up on, sent again or forgotten.

use windrow::domain::DeadLetterId;
use windrow::prelude::*;
use windrow::store::inspect::PAGE_MAX;
use windrow::store::message::{DeadLetter, MessagesQuery, SEND_MAX};

use super::payload::{readable, with_payload};
use super::{ListArgs, MessageFilter, Rows, more, scope, short, user_error};
use crate::batches::when;
use crate::context::Context;
use crate::error::CliError;
use crate::exit_code::Exit;
use crate::table::Table;
use crate::text;

/// Most dead letters that one command sends again or forgets.
const LETTERS_MAX: usize = 100_000;

/// Lists messages that were given up on, sends them again, or forgets them.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    list: ListArgs,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Lists dead letters, newest first
    List(ListArgs),
    /// Sends dead letters again, each at the end of its stream, oldest first
    Replay(PickArgs),
    /// Forgets dead letters for ever
    Discard(PickArgs),
}

#[derive(Debug, clap::Args)]
#[group(id = "picked", required = true, multiple = false, args = ["ids", "every"])]
struct PickArgs {
    /// Ids, as `windrow dead-letters` shows them
    ids: Vec<DeadLetterId>,
    /// All that --queue and --stream leave
    #[arg(long)]
    every: bool,
    #[command(flatten)]
    filter: MessageFilter,
    /// Of every owner
    #[arg(long)]
    all: bool,
}

pub(crate) async fn run(context: &Context, args: Args) -> anyhow::Result<Exit> {
    match args.command {
        None => list(context, args.list).await,
        Some(Command::List(args)) => list(context, args).await,
        Some(Command::Replay(args)) => replay(context, args).await,
        Some(Command::Discard(args)) => discard(context, args).await,
    }
}

async fn list(context: &Context, args: ListArgs) -> anyhow::Result<Exit> {
    let store = context.open_existing().await?;
    let scope = args.page.scope(context);
    let MessageFilter { queue, stream } = args.filter;
    let query = MessagesQuery { queue, stream, after: args.page.after, limit: args.page.limit };
    let page = store.dead_letters(&scope, query).await.map_err(user_error)?;
    let next = page.next.as_deref();
    let rows = page.rows.iter();
    let rows =
        rows.map(|letter| with_payload(letter, &[("payload", &letter.message.payload)])).collect();
    context.print_result(&Rows { rows, next }, || {
        if page.rows.is_empty() {
            return "No dead letters.".to_owned();
        }
        let titles = ["id", "queue", "stream", "kind", "tries", "given up", "because", "payload"];
        let mut table = Table::new(&titles);
        table.right(&[4]);
        page.rows.iter().for_each(|letter| table.row(row(letter)));
        format!("{table}{}", more(next))
    })?;
    Ok(Exit::Success)
}

fn row(letter: &DeadLetter) -> [String; 8] {
    let message = &letter.message;
    [
        letter.id.to_string(),
        message.queue.to_string(),
        message.stream.to_string(),
        short(&message.kind),
        text::count(message.attempts.into()),
        when(letter.dead_at),
        short(&letter.error),
        short(&readable(&message.payload)),
    ]
}

/// Those that are meant, oldest first: the order in which they were in their streams.
async fn picked(
    store: &dyn Store,
    scope: &Scope,
    args: &PickArgs,
) -> anyhow::Result<Vec<DeadLetterId>> {
    if !args.every {
        return Ok(args.ids.clone());
    }
    let (mut ids, mut after) = (Vec::new(), None);
    loop {
        let MessageFilter { queue, stream } = args.filter.clone();
        let query = MessagesQuery { queue, stream, after, limit: PAGE_MAX };
        let page = store.dead_letters(scope, query).await.map_err(user_error)?;
        ids.extend(page.rows.iter().map(|letter| letter.id));
        after = page.next;
        if ids.len() > LETTERS_MAX {
            let what =
                format!("there are more than {} dead letters", text::count(LETTERS_MAX as u64));
            return Err(CliError::usage(what, "narrow it with --queue or --stream.").into());
        }
        if after.is_none() {
            ids.reverse();
            return Ok(ids);
        }
    }
}

async fn replay(context: &Context, args: PickArgs) -> anyhow::Result<Exit> {
    let store = context.open_existing().await?;
    let scope = scope(context, args.all);
    let mut replayed = 0;
    for ids in picked(&*store, &scope, &args).await?.chunks(SEND_MAX) {
        replayed += store.replay_dead(&scope, ids).await.map_err(user_error)?.len() as u64;
    }
    context.print_result(&serde_json::json!({ "replayed": replayed }), || {
        format!("Sent {} messages again.", text::count(replayed))
    })?;
    Ok(Exit::Success)
}

async fn discard(context: &Context, args: PickArgs) -> anyhow::Result<Exit> {
    let store = context.open_existing().await?;
    let scope = scope(context, args.all);
    let mut discarded = 0;
    for ids in picked(&*store, &scope, &args).await?.chunks(SEND_MAX) {
        discarded += store.discard_dead(&scope, ids).await.map_err(user_error)?;
    }
    context.print_result(&serde_json::json!({ "discarded": discarded }), || {
        format!("Forgot {} messages.", text::count(discarded))
    })?;
    Ok(Exit::Success)
}
