//! `windrow dead-letters`: lists messages that were given up on, replays or discards them.

use windrow::domain::DeadLetterId;
use windrow::store::inspect::PAGE_MAX;
use windrow::store::message::{DeadLetter, MessagesQuery, SEND_MAX};
use windrow::store::{Scope, Store};

use super::payload::{readable, with_payload};
use super::{ListArgs, MessageFilter, short, user_error};
use crate::batches::when;
use crate::context::Context;
use crate::error::CliError;
use crate::exit_code::Exit;
use crate::list::{Columns, ListOr, OwnerArgs, print_page};
use crate::text;

/// Most dead letters that one command replays or discards.
const LETTERS_MAX: usize = 100_000;

pub(crate) type Args = ListOr<Command, ListArgs>;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// List dead letters, newest first
    List(ListArgs),
    /// Send dead letters again, each at the end of its stream, oldest first
    Replay(SelectArgs),
    /// Delete dead letters for good
    Discard(SelectArgs),
}

#[derive(Debug, clap::Args)]
#[group(id = "selected", required = true, multiple = false, args = ["ids", "every"])]
pub(crate) struct SelectArgs {
    /// Ids, as `windrow dead-letters` prints them
    #[arg(value_parser = letter_id)]
    ids: Vec<DeadLetterId>,
    /// All dead letters that match --queue and --stream
    #[arg(long)]
    every: bool,
    #[command(flatten)]
    filter: MessageFilter,
    #[command(flatten)]
    owner: OwnerArgs,
}

fn letter_id(text: &str) -> Result<DeadLetterId, String> {
    text.parse()
        .map_err(|_| "not the id of a dead letter; `windrow dead-letters` shows them".to_owned())
}

pub(crate) async fn run(context: &Context, args: Args) -> anyhow::Result<Exit> {
    match args.command.unwrap_or(Command::List(args.list)) {
        Command::List(args) => list(context, args).await,
        Command::Replay(args) => replay(context, args).await,
        Command::Discard(args) => discard(context, args).await,
    }
}

async fn list(context: &Context, args: ListArgs) -> anyhow::Result<Exit> {
    let store = context.open_existing().await?;
    let scope = args.owner.scope(context);
    let page = store.dead_letters(&scope, args.into_query()).await.map_err(user_error)?;
    let columns = Columns {
        titles: &["id", "queue", "stream", "kind", "attempts", "given up", "error", "payload"],
        right: &[4],
        row,
        empty: "No dead letters.",
    };
    print_page(
        context,
        &page,
        |letter| with_payload(letter, &[("payload", &letter.message.payload)]),
        &columns,
    )
}

fn row(letter: &DeadLetter) -> Vec<String> {
    let message = &letter.message;
    vec![
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

/// The selected ones, oldest first: the order in which they were in their streams.
async fn selected(
    store: &dyn Store,
    scope: &Scope,
    args: &SelectArgs,
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
            return Err(
                CliError::usage(what, "narrow the selection with --queue or --stream.").into()
            );
        }
        if after.is_none() {
            ids.reverse();
            return Ok(ids);
        }
    }
}

async fn replay(context: &Context, args: SelectArgs) -> anyhow::Result<Exit> {
    let store = context.open_existing().await?;
    let scope = args.owner.scope(context);
    let mut replayed = 0;
    for ids in selected(&*store, &scope, &args).await?.chunks(SEND_MAX) {
        replayed += store.replay_dead(&scope, ids).await.map_err(user_error)?.len() as u64;
    }
    context.print_result(&serde_json::json!({ "replayed": replayed }), || {
        format!("Replayed {}.", text::plural(replayed, "message"))
    })?;
    Ok(Exit::Success)
}

async fn discard(context: &Context, args: SelectArgs) -> anyhow::Result<Exit> {
    let store = context.open_existing().await?;
    let scope = args.owner.scope(context);
    let mut discarded = 0;
    for ids in selected(&*store, &scope, &args).await?.chunks(SEND_MAX) {
        discarded += store.discard_dead(&scope, ids).await.map_err(user_error)?;
    }
    context.print_result(&serde_json::json!({ "discarded": discarded }), || {
        format!("Discarded {}.", text::plural(discarded, "message"))
    })?;
    Ok(Exit::Success)
}
