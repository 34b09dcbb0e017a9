//! `windrow messages`: what waits in the queues, and what is put there.

use jiff::Timestamp;
use windrow::domain::{Queue, Stream};
use windrow::engine::messages;
use windrow::store::message::{Message, MessagesQuery, NewMessage};

use super::payload::{PayloadArg, readable, with_payload};
use super::{ListArgs, MessageFilter, Rows, headers, more, short, stream, user_error};
use crate::batches::when;
use crate::config::pair;
use crate::context::Context;
use crate::exit_code::Exit;
use crate::table::Table;
use crate::text;

/// Lists messages that wait, or sends one.
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
    /// Lists messages that wait, by stream and in their order
    List(ListArgs),
    /// Sends a message
    Send(SendArgs),
}

#[derive(Debug, clap::Args)]
struct SendArgs {
    /// What it is in order with
    #[arg(value_parser = stream)]
    stream: Stream,
    /// What it is about: order.placed
    kind: String,
    /// What it says: a text, @FILE, or - for standard input
    payload: Option<PayloadArg>,
    /// To be published (outbox), or handled here (inbox)
    #[arg(long, default_value = "outbox", value_parser = ["outbox", "inbox"])]
    to: String,
    /// Its id: the same one again counts once [default: a new one]
    #[arg(long)]
    id: Option<String>,
    /// What travels with it; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    header: Vec<(String, String)>,
    /// It, and what is behind it in its stream, waits until then: 2030-01-31T12:00:00Z
    #[arg(long, value_name = "TIME")]
    not_before: Option<Timestamp>,
    /// Who must be done with it, by name; may be repeated [default: whoever takes it]
    #[arg(long, value_name = "NAME")]
    consumer: Vec<String>,
}

pub(crate) async fn run(context: &Context, args: Args) -> anyhow::Result<Exit> {
    match args.command {
        None => list(context, args.list).await,
        Some(Command::List(args)) => list(context, args).await,
        Some(Command::Send(args)) => send(context, args).await,
    }
}

async fn list(context: &Context, args: ListArgs) -> anyhow::Result<Exit> {
    let store = context.open_existing().await?;
    let scope = args.page.scope(context);
    let MessageFilter { queue, stream } = args.filter;
    let query = MessagesQuery { queue, stream, after: args.page.after, limit: args.page.limit };
    let page = store.messages(&scope, query).await.map_err(user_error)?;
    let next = page.next.as_deref();
    let rows =
        page.rows.iter().map(|message| with_payload(message, &[("payload", &message.payload)]));
    context.print_result(&Rows { rows: rows.collect(), next }, || {
        if page.rows.is_empty() {
            return "No messages wait.".to_owned();
        }
        let titles = [
            "queue", "stream", "position", "kind", "id", "sent", "tries", "due", "error", "payload",
        ];
        let mut table = Table::new(&titles);
        table.right(&[2, 6]);
        page.rows.iter().for_each(|message| table.row(row(message)));
        format!("{table}{}", more(next))
    })?;
    Ok(Exit::Success)
}

fn row(message: &Message) -> [String; 10] {
    [
        message.queue.to_string(),
        message.stream.to_string(),
        text::count(message.at.position),
        short(&message.kind),
        short(&message.id),
        when(message.sent_at),
        text::count(message.attempts.into()),
        message.not_before.map_or("now".to_owned(), when),
        short(message.error.as_deref().unwrap_or("-")),
        short(&readable(&message.payload)),
    ]
}

async fn send(context: &Context, args: SendArgs) -> anyhow::Result<Exit> {
    let store = context.open_existing().await?;
    let queue = if args.to == "inbox" { Queue::Inbox } else { Queue::Outbox };
    let dedupe = args.id.is_some();
    let id = args.id.unwrap_or_else(|| uuid::Uuid::now_v7().to_string());
    let message = NewMessage {
        kind: args.kind,
        payload: PayloadArg::read(args.payload).await?,
        headers: headers(args.header),
        not_before: args.not_before,
        consumers: args.consumer,
        dedupe,
        ..messages::message(queue, context.config.owner.clone(), args.stream, id.clone())
    };
    let stream = message.stream.clone();
    let sent = store.send(vec![message]).await.map_err(user_error)?;
    let sent = sent.first().ok_or_else(|| anyhow::anyhow!("nothing was sent"))?;
    let value = serde_json::json!({
        "id": id, "queue": queue, "stream": stream, "at": sent.at, "is_duplicate": sent.is_duplicate,
    });
    context.print_result(&value, || match sent.is_duplicate {
        true => format!("Message {id} was there before; nothing was sent."),
        false => format!("Sent message {id} to the {queue}, stream {stream}."),
    })?;
    Ok(Exit::Success)
}
