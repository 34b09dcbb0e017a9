//! The commands that look at messages, calls and events, and send them.
//!
//! Holds throughout: they read and write the database themselves, so they need no server, and what
//! they send is run by whoever runs the messages of that database; an owner's commands see what is
//! the owner's unless they are told `--all`.

pub(crate) mod call;
pub(crate) mod calls;
pub(crate) mod dead_letters;
pub(crate) mod events;
pub(crate) mod grants;
pub(crate) mod health;
pub(crate) mod members;
pub(crate) mod payload;
pub(crate) mod queues;

use serde::Serialize;
use windrow::domain::{Queue, Stream};
use windrow::prelude::*;
use windrow::store::inspect::PAGE_MAX;
use windrow::store::message::Headers;
use windrow::store::{Error, Kind};

use crate::context::Context;
use crate::error::CliError;
use crate::exit_code::Exit;
use crate::text;

/// Which part of a list, and whose.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct PageArgs {
    /// Most rows
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=i64::from(PAGE_MAX)))]
    limit: u32,
    /// Goes on where a list ended, with the text it gave
    #[arg(long, value_name = "CURSOR")]
    after: Option<String>,
    /// Of every owner
    #[arg(long)]
    all: bool,
}

impl PageArgs {
    fn scope(&self, context: &Context) -> Scope {
        scope(context, self.all)
    }
}

fn scope(context: &Context, all: bool) -> Scope {
    if all { Scope::All } else { context.scope() }
}

/// Which messages.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct MessageFilter {
    /// Only of this queue: inbox, outbox or calls
    #[arg(long)]
    queue: Option<Queue>,
    /// Only of this stream
    #[arg(long, value_parser = stream)]
    stream: Option<Stream>,
}

/// A list of messages, on their way or given up on.
#[derive(Debug, clap::Args)]
struct ListArgs {
    #[command(flatten)]
    filter: MessageFilter,
    #[command(flatten)]
    page: PageArgs,
}

/// A page as machines read it.
#[derive(Debug, Serialize)]
struct Rows<'a, T> {
    rows: Vec<T>,
    next: Option<&'a str>,
}

/// Longest text of a column.
const CHARS_MAX: usize = 60;

/// A text as a column shows it.
fn short(text: &str) -> String {
    text::short(&text::one_line(text), CHARS_MAX)
}

/// The line under a table that has more behind it.
fn more(next: Option<&str>) -> String {
    next.map(|next| format!("\nmore: --after {next}")).unwrap_or_default()
}

fn stream(name: &str) -> Result<Stream, String> {
    Stream::new(name).map_err(|bad| bad.to_string())
}

/// Pairs as headers; the last of a name counts.
fn headers(pairs: Vec<(String, String)>) -> Headers {
    pairs.into_iter().collect()
}

/// What the database refused, with what to do.
fn user_error(error: Error) -> anyhow::Error {
    let user_error = match error.kind {
        Kind::Refused => CliError::new(
            Exit::Failed,
            "nobody has run messages on this database yet",
            "start `windrow serve` or `windrow work` once with a handler or a publisher in its \
             configuration; docs/operate/messages.md has an example.",
        ),
        Kind::Missing if error.pruned().is_some() => CliError::new(
            Exit::Failed,
            "old events of this stream were pruned",
            "read from the version that the stream begins at (--from); its snapshot stands for the rest.",
        ),
        Kind::Missing => CliError::new(
            Exit::Failed,
            "there is no such thing for this owner",
            "check the id; --owner names another owner.",
        ),
        Kind::Conflict if error.version_conflict().is_some() => CliError::new(
            Exit::Failed,
            "the stream has another version than was expected",
            "read what was appended since (`windrow events read`), and decide again.",
        ),
        Kind::Conflict => CliError::new(
            Exit::Failed,
            "that id was used before, for something else",
            "repeat it with the same content, or choose another --id.",
        ),
        _ => return error.into(),
    };
    anyhow::Error::new(error).context(user_error)
}
