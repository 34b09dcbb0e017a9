//! What is remembered of a run on this machine, so that nothing is paid for twice.
//!
//! A note for each run lies in the data folder: a batch that was deleted, or removed by its retention, is
//! known there by its id, its content and how it ended. Holds throughout: a note is small and has no
//! request and no answer in it; it counts for the database it names and for the content it names; what it
//! says never stops a run that is still in the database.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use url::{Host, Url};
use windrow::domain::{BatchId, Counts};
use windrow::store::batch::Batch;
use windrow::store::inspect::{BatchesQuery, PAGE_MAX};
use windrow::store::{Scope, Store};

use crate::batches::when;
use crate::context::Context;
use crate::database::{Database, make_folder};
use crate::error::CliError;
use crate::exit_code::Exit;
use crate::run::input::CONTENT_SOURCE;
use crate::{hint, text};

/// The folder of notes, in the data folder.
const FOLDER: &str = "runs";
/// Notes that are read to find one of a slightly different URL.
const NOTES_MAX: usize = 10_000;
/// Pages of earlier runs that are read to find one of the same file.
const PAGES_MAX: u32 = 2;

/// What is known of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RunNote {
    pub(crate) batch: BatchId,
    /// The database it is in, without its password.
    database: String,
    /// What the file is known by, and where its lines went; notes of earlier builds have neither.
    #[serde(default)]
    source: Option<String>,
    #[serde(default)]
    to: Option<String>,
    /// The hash of the file.
    content: String,
    created_at: Timestamp,
    closed_at: Option<Timestamp>,
    counts: Counts,
}

fn path_of(data: &Path, batch: BatchId) -> PathBuf {
    data.join(FOLDER).join(format!("{batch}.json"))
}

/// What a database is known by: however the path of a file is written, it is the same one.
fn known_as(database: &Database) -> String {
    let Database::File(path) = database else { return database.to_string() };
    let path = path.canonicalize().or_else(|_| std::path::absolute(path));
    path.map_or_else(|_| database.to_string(), |path| Database::File(path).to_string())
}

/// Writes down how far a run is of what is known by `source`.
pub(crate) fn remember(context: &Context, batch: &Batch, source: &str) -> anyhow::Result<()> {
    let note = RunNote {
        batch: batch.id,
        database: known_as(&context.config.database),
        source: Some(source.to_owned()),
        to: batch.metadata.get("to").cloned(),
        content: batch.metadata.get("content").cloned().unwrap_or_default(),
        created_at: batch.created_at,
        closed_at: batch.closed_at,
        counts: batch.counts,
    };
    let path = path_of(&context.config.data, batch.id);
    make_folder(path.parent())?;
    std::fs::write(&path, serde_json::to_vec(&note)?)
        .with_context(|| format!("could not write {}", path.display()))
}

/// The newest note among these ids, for this database and this content.
pub(crate) fn recall(
    context: &Context,
    ids: impl Iterator<Item = BatchId>,
    content: &str,
) -> Option<RunNote> {
    let notes = ids.filter_map(|id| read(&path_of(&context.config.data, id)));
    newest(context, notes.filter(|note| note.content == content))
}

/// The newest note of the same file and content under a URL that differs only slightly.
pub(crate) fn recall_similar(
    context: &Context,
    (source, content): (&str, &str),
    to: &Url,
) -> Option<RunNote> {
    let notes = std::fs::read_dir(context.config.data.join(FOLDER)).ok()?;
    let paths = notes.take(NOTES_MAX).filter_map(|entry| Some(entry.ok()?.path()));
    let notes = paths.filter(|path| path.extension().is_some_and(|end| end == "json"));
    let is_same = |note: &RunNote| {
        let same = note.content == content && note.source.as_deref() == Some(source);
        same && note
            .to
            .as_ref()
            .and_then(|other| other.parse().ok())
            .is_some_and(|other| is_similar(&other, to))
    };
    newest(context, notes.filter_map(|path| read(&path)).filter(is_same))
}

fn read(path: &Path) -> Option<RunNote> {
    serde_json::from_slice(&std::fs::read(path).ok()?).ok()
}

/// The newest one of this database. Earlier builds wrote it down as it was given.
fn newest(context: &Context, notes: impl Iterator<Item = RunNote>) -> Option<RunNote> {
    let (known, given) = (known_as(&context.config.database), context.config.database.to_string());
    let here = notes.filter(|note| note.database == known || note.database == given);
    here.max_by_key(|note| note.created_at)
}

impl RunNote {
    /// The refusal of a command whose run was removed.
    pub(crate) fn refusal(&self, command: &[&str]) -> CliError {
        let (batch, completed) = (self.batch, text::count(self.counts.completed));
        let total = text::plural(self.counts.total, "line");
        let what = match self.closed_at {
            Some(closed) => format!(
                "this run was finished on {} with {completed} of {total} completed, and batch {batch} \
                 was removed since then; nothing was sent",
                when(closed)
            ),
            None => format!(
                "this run of {total} was begun on {}, and batch {batch} was removed since then; nothing \
                 was sent",
                when(self.created_at)
            ),
        };
        fresh_refusal(what, command)
    }
}

/// The refusal of what would pay again, with the command that does.
fn fresh_refusal(what: String, command: &[&str]) -> CliError {
    let fresh = hint::command(&[command, &["--fresh"]].concat());
    CliError::new(Exit::Failed, what, format!("to send every line again: {fresh}"))
}

/// Refuses a file that was run already under a URL that differs only slightly.
pub(crate) async fn check_other_urls(
    store: &dyn Store,
    scope: &Scope,
    (source, content): (&str, &str),
    to: &Url,
    command: &[&str],
) -> anyhow::Result<()> {
    let job_type = Some("run".to_owned());
    let mut query = BatchesQuery { job_type, limit: PAGE_MAX, ..BatchesQuery::default() };
    for _ in 0..PAGES_MAX {
        let page = store.batches(scope, query.clone()).await?;
        let other = page.rows.iter().find_map(|batch| {
            let is = |key: &str, value: &str| batch.metadata.get(key).is_some_and(|v| v == value);
            let other: Url = batch.metadata.get("to")?.parse().ok()?;
            // What was read from standard input has no path; its copy is gone.
            let same_source = match source.starts_with(CONTENT_SOURCE) {
                true => batch.metadata.get("path").is_none_or(|path| !Path::new(path).exists()),
                false => is("path", source),
            };
            let same = same_source && is("content", content);
            (same && other != *to && is_similar(&other, to)).then_some((batch, other))
        });
        if let Some((batch, other)) = other {
            let (done, total) = (batch.counts.finished(), text::plural(batch.counts.total, "line"));
            let what = format!(
                "this file was run with --to {other} (batch {} is {}, {} of {total} done), and --to {to} \
                 would send every line again",
                batch.id,
                batch.state,
                text::count(done),
            );
            let there = hint::command(&["run", command[1], "--to", other.as_str()]);
            let fresh = hint::command(&[command, &["--fresh"]].concat());
            let remedy = format!("to go on there: {there}\n  To send every line again: {fresh}");
            return Err(CliError::new(Exit::Failed, what, remedy).into());
        }
        query.after = page.next;
        if query.after.is_none() {
            break;
        }
    }
    Ok(())
}

/// Whether two URLs lead to the same machine and port, as far as their text says: `http` and `https`,
/// names of this machine and paths do not tell them apart.
fn is_similar(one: &Url, other: &Url) -> bool {
    let host = |url: &Url| match url.host() {
        Some(Host::Domain("localhost")) => "this machine".to_owned(),
        Some(Host::Ipv4(ip)) if ip.is_loopback() => "this machine".to_owned(),
        Some(Host::Ipv6(ip)) if ip.is_loopback() => "this machine".to_owned(),
        Some(host) => host.to_string().trim_end_matches('.').to_lowercase(),
        None => String::new(),
    };
    host(one) == host(other) && one.port() == other.port()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_that_differ_slightly_are_similar() {
        let similar =
            |one: &str, other: &str| is_similar(&one.parse().unwrap(), &other.parse().unwrap());
        assert!(similar("http://h", "http://h/v1") && similar("http://h", "https://h"));
        assert!(similar("http://localhost:8000", "http://127.0.0.1:8000"));
        assert!(!similar("http://h:1", "http://h:2") && !similar("http://a", "http://b"));
    }
}
