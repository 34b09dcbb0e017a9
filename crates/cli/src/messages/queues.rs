//! `windrow messages`: lists the messages that wait in the queues, and sends new ones.

use jiff::Timestamp;
use windrow::domain::{Queue, Stream};
use windrow::store::message::{Message, NewMessage};

use super::payload::{PayloadArg, readable, with_payload};
use super::{ListArgs, headers, short, stream, user_error};
use crate::batches::when;
use crate::config::pair;
use crate::context::Context;
use crate::exit_code::Exit;
use crate::list::{Columns, ListOr, print_page};
use crate::text;

pub(crate) type Args = ListOr<Command, ListArgs>;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// List waiting messages by stream, in their order
    List(ListArgs),
    /// Send a message
    Send(SendArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct SendArgs {
    /// The stream; messages of one stream are handled in order
    #[arg(value_parser = stream)]
    stream: Stream,
    /// The kind of message, for example order.placed
    kind: String,
    /// The payload: a text, @FILE, or - for standard input
    payload: Option<PayloadArg>,
    /// Publish it (outbox), or pass it to a handler (inbox)
    #[arg(long, default_value = "outbox", value_parser = ["outbox", "inbox"])]
    to: String,
    /// The id of the message; the same id is sent only once [default: a new one]
    #[arg(long)]
    id: Option<String>,
    /// Header of the message; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    header: Vec<(String, String)>,
    /// Deliver it, and later messages of its stream, not before this time, for example
    /// 2030-01-31T12:00:00Z
    #[arg(long, value_name = "TIME")]
    not_before: Option<Timestamp>,
    /// Name of a consumer that must handle it; may be repeated [default: those whose patterns match]
    #[arg(long, value_name = "NAME")]
    consumer: Vec<String>,
}

pub(crate) async fn run(context: &Context, args: Args) -> anyhow::Result<Exit> {
    match args.command.unwrap_or(Command::List(args.list)) {
        Command::List(args) => list(context, args).await,
        Command::Send(args) => send(context, args).await,
    }
}

async fn list(context: &Context, args: ListArgs) -> anyhow::Result<Exit> {
    let store = context.open_existing().await?;
    let scope = args.owner.scope(context);
    let page = store.messages(&scope, args.into_query()).await.map_err(user_error)?;
    let columns = Columns {
        titles: &[
            "queue", "stream", "position", "kind", "id", "sent", "attempts", "due", "error",
            "payload",
        ],
        right: &[2, 6],
        row,
        empty: "No messages waiting.",
    };
    print_page(
        context,
        &page,
        |message| with_payload(message, &[("payload", &message.payload)]),
        &columns,
    )
}

fn row(message: &Message) -> Vec<String> {
    vec![
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
        ..NewMessage::new(queue, context.config.owner.clone(), args.stream, id.clone())
    };
    let stream = message.stream.clone();
    let sent = store.send(vec![message]).await.map_err(user_error)?;
    let sent = sent.first().ok_or_else(|| anyhow::anyhow!("nothing was sent"))?;
    let value = serde_json::json!({
        "id": id, "queue": queue, "stream": stream, "at": sent.at, "is_duplicate": sent.is_duplicate,
    });
    context.print_result(&value, || {
        if sent.is_duplicate {
            format!("Message {id} was sent before; nothing was sent now.")
        } else {
            format!("Sent message {id} to the {queue}, stream {stream}.")
        }
    })?;
    Ok(Exit::Success)
}
