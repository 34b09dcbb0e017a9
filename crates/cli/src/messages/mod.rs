//! The commands for messages, calls and events: they list, show and send them.
//!
//! Holds throughout: they read and write the database directly, so they need no server; what they send
//! is handled by the `windrow serve` and `windrow work` processes of that database; they see the rows of
//! one owner unless `--all` is given.

pub(crate) mod call;
mod call_file;
pub(crate) mod calls;
pub(crate) mod dead_letters;
pub(crate) mod events;
pub(crate) mod grants;
pub(crate) mod health;
pub(crate) mod members;
pub(crate) mod payload;
pub(crate) mod queues;
mod snapshots;

use windrow::domain::{Queue, Stream};
use windrow::store::message::{Headers, MessagesQuery};
use windrow::store::{Error, Kind};

use crate::error::CliError;
use crate::exit_code::Exit;
use crate::list::{OwnerArgs, PageArgs};
use crate::{hint, text};

/// Which messages.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct MessageFilter {
    /// Only this queue: inbox, outbox or calls
    #[arg(long)]
    queue: Option<Queue>,
    /// Only this stream
    #[arg(long, value_parser = stream)]
    stream: Option<Stream>,
}

/// A list of messages, waiting or given up on.
#[derive(Debug, clap::Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    filter: MessageFilter,
    #[command(flatten)]
    page: PageArgs,
    #[command(flatten)]
    owner: OwnerArgs,
}

impl ListArgs {
    fn into_query(self) -> MessagesQuery {
        let MessageFilter { queue, stream } = self.filter;
        let PageArgs { limit, after } = self.page;
        MessagesQuery { queue, stream, after, limit }
    }
}

/// Longest text of a column.
const CHARS_MAX: usize = 60;

/// A text as a column shows it.
fn short(text: &str) -> String {
    text::short(&text::one_line(text), CHARS_MAX)
}

fn stream(name: &str) -> Result<Stream, String> {
    Stream::new(name).map_err(|bad| bad.to_string())
}

/// Pairs as headers; the last of a name counts.
fn headers(pairs: Vec<(String, String)>) -> Headers {
    pairs.into_iter().collect()
}

/// An error of the store, in the words of messages and with what to do.
fn user_error(error: Error) -> anyhow::Error {
    let (what, remedy) = match (error.kind, error.pruned()) {
        (Kind::Refused, _) => (
            "messages were never run on this database".to_owned(),
            "start `windrow serve` or `windrow work` once with a handler or a publisher in its \
             configuration; docs/operate/messages.md has an example."
                .to_owned(),
        ),
        (Kind::Missing, Some(pruned)) => (
            format!("events of this stream before version {} were pruned", pruned.first),
            format!(
                "read its snapshot: {}; then the events from version {} on: {}",
                hint::command(&["events", "snapshot", pruned.stream.as_str()]),
                pruned.first,
                hint::command(&[
                    "events",
                    "read",
                    pruned.stream.as_str(),
                    "--from",
                    &pruned.first.to_string()
                ]),
            ),
        ),
        (Kind::Missing, None) => (
            "not found for this owner".to_owned(),
            "check the id; --owner names another owner.".to_owned(),
        ),
        (Kind::Conflict, _) if error.version_conflict().is_some() => (
            "the stream is not at the expected version".to_owned(),
            "read what was appended since (`windrow events read`), and decide again.".to_owned(),
        ),
        (Kind::Conflict, _) => (
            "this id was already used with other content".to_owned(),
            "repeat it with the same content, or choose another --id.".to_owned(),
        ),
        _ => return error.into(),
    };
    anyhow::Error::new(error).context(CliError::new(Exit::Failed, what, remedy))
}
