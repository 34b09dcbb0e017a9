//! Which batch a command is about: an id as this program or the batch API prints it, the first
//! characters of one, or `last`.

use std::fmt;
use std::str::FromStr;

use windrow::domain::BatchId;
use windrow::store::batch::Batch;
use windrow::store::inspect::{BatchesQuery, PAGE_MAX};
use windrow::store::{Scope, Store};

use crate::context::Context;
use crate::error::CliError;
use crate::exit_code::Exit;
use crate::hint;

/// Fewest characters of an id that are accepted.
const PREFIX_CHARS_MIN: usize = 4;
/// Digits of a whole id.
const ID_CHARS: usize = 32;
/// What the batch API writes before the digits.
const API_PREFIX: &str = "batch_";
/// Ids that are listed when a prefix matches several batches.
const SHOWN_MAX: usize = 5;

/// A batch as the command line names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BatchSelector {
    Id(BatchId),
    /// In small letters, without hyphens.
    Prefix(String),
    Last,
}

impl FromStr for BatchSelector {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.eq_ignore_ascii_case("last") {
            return Ok(Self::Last);
        }
        let digits = text.strip_prefix(API_PREFIX).unwrap_or(text);
        if let Ok(id) = digits.parse() {
            return Ok(Self::Id(id));
        }
        let prefix = digits.replace('-', "").to_lowercase();
        if let Some(other) = prefix.chars().find(|c| !c.is_ascii_hexdigit()) {
            return Err(format!(
                "{other:?} is in no batch id, which has the digits 0-9 and a-f; give an id, its first \
                 {PREFIX_CHARS_MIN} or more digits, or `last`"
            ));
        }
        match prefix.len() {
            PREFIX_CHARS_MIN..ID_CHARS => Ok(Self::Prefix(prefix)),
            0..PREFIX_CHARS_MIN => Err(format!(
                "too short: give at least the first {PREFIX_CHARS_MIN} digits of the id, or `last`"
            )),
            _ => Err(format!("too long: a batch id has {ID_CHARS} digits")),
        }
    }
}

impl fmt::Display for BatchSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(id) => id.fmt(f),
            Self::Prefix(prefix) => f.write_str(prefix),
            Self::Last => f.write_str("last"),
        }
    }
}

impl BatchSelector {
    /// Reads the batch that is meant, with its counts.
    pub(crate) async fn find(&self, context: &Context, store: &dyn Store) -> anyhow::Result<Batch> {
        let scope = context.scope();
        match self {
            Self::Id(id) => Ok(store.batch(&scope, *id).await?),
            Self::Last => {
                let query = BatchesQuery { limit: 1, ..BatchesQuery::default() };
                let newest = store.batches(&scope, query).await?.rows.pop();
                newest.ok_or_else(|| not_found(context, "there is no batch yet").into())
            }
            Self::Prefix(prefix) => {
                let mut found = starting_with(store, &scope, prefix).await?;
                match found.len() {
                    1 => Ok(found.remove(0)),
                    0 => {
                        let what = format!("no batch id starts with {prefix}");
                        Err(not_found(context, what).into())
                    }
                    _ => Err(ambiguous(prefix, &found).into()),
                }
            }
        }
    }
}

async fn starting_with(
    store: &dyn Store,
    scope: &Scope,
    prefix: &str,
) -> anyhow::Result<Vec<Batch>> {
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let query = BatchesQuery { after, limit: PAGE_MAX, ..BatchesQuery::default() };
        let page = store.batches(scope, query).await?;
        let fits = |batch: &Batch| batch.id.0.as_simple().to_string().starts_with(prefix);
        found.extend(page.rows.into_iter().filter(fits));
        after = page.next;
        if after.is_none() || found.len() > SHOWN_MAX {
            return Ok(found);
        }
    }
}

fn not_found(context: &Context, what: impl Into<String>) -> CliError {
    let owner = &context.config.owner;
    let remedy = format!(
        "list the batches of owner {owner}: {}; --owner names another.",
        hint::command(&["batches"])
    );
    CliError::new(Exit::Failed, what, remedy)
}

fn ambiguous(prefix: &str, found: &[Batch]) -> CliError {
    let ids: Vec<String> = found.iter().take(SHOWN_MAX).map(|batch| batch.id.to_string()).collect();
    let more = if found.len() > SHOWN_MAX { ", …" } else { "" };
    let what = format!("several batch ids start with {prefix}: {}{more}", ids.join(", "));
    CliError::usage(what, "give more characters of the id.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_named_by_its_id_its_beginning_or_last() {
        let id = BatchId::new();
        assert_eq!(id.to_string().parse(), Ok(BatchSelector::Id(id)));
        assert_eq!("last".parse(), Ok(BatchSelector::Last));
        assert_eq!("AB12-c".parse(), Ok(BatchSelector::Prefix("ab12c".to_owned())));
        let api = format!("batch_{}", id.0.as_simple());
        assert_eq!(api.parse(), Ok(BatchSelector::Id(id)));
        assert_eq!("batch_ab12c".parse(), Ok(BatchSelector::Prefix("ab12c".to_owned())));
        for (text, why) in
            [("abc", "too short"), ("zzzz", "'z' is in no batch id"), (&api[5..], "'_'")]
        {
            assert!(text.parse::<BatchSelector>().unwrap_err().contains(why), "{text}");
        }
    }
}
