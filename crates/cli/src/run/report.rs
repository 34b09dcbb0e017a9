//! The summary of a run, as text and as JSON.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use windrow::domain::attempt::Status;
use windrow::domain::{BatchId, Counts, State};
use windrow::engine::Progress;
use windrow::store::batch::Batch;
use windrow::store::inspect::{FinishedQuery, PAGE_MAX};
use windrow::store::{Scope, Store};

use crate::text;

/// Error codes that are shown.
const REASONS_SHOWN_MAX: usize = 5;
/// Pages of failed lines that are read to count reasons; more are not worth the wait.
const PAGES_MAX: u32 = 20;
/// Width of a message that is shown, in characters.
const MESSAGE_CHARS_MAX: usize = 100;

/// Why lines did not complete.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Reason {
    pub(crate) code: String,
    pub(crate) lines: u64,
    /// What the first of them says.
    pub(crate) sample: String,
}

/// How a run ended.
#[derive(Debug, Serialize)]
pub(crate) struct RunReport {
    pub(crate) batch: BatchId,
    pub(crate) state: State,
    pub(crate) counts: Counts,
    /// How long this process worked on it.
    pub(crate) took_ms: u64,
    /// Requests that this process sent.
    pub(crate) requests: u64,
    pub(crate) retries: u64,
    /// Lines that this process gave back at its end.
    pub(crate) released: u64,
    pub(crate) reasons: Vec<Reason>,
    /// There are more failed lines than were looked at.
    pub(crate) more_reasons: bool,
    /// Where the results are; none for standard output.
    pub(crate) results: Option<PathBuf>,
    /// Where the lines are that did not complete, if there are any.
    pub(crate) errors: Option<PathBuf>,
}

/// Why lines of a batch did not complete, the most frequent first.
pub(crate) async fn reasons(
    store: &dyn Store,
    scope: &Scope,
    batch: BatchId,
) -> windrow::store::Result<(Vec<Reason>, bool)> {
    let mut found = BTreeMap::<String, Reason>::new();
    let mut query = FinishedQuery {
        batch: Some(batch),
        statuses: vec![Status::Failed, Status::NotFound],
        limit: PAGE_MAX,
        ..FinishedQuery::default()
    };
    for _ in 0..PAGES_MAX {
        let page = store.finished(scope, query.clone()).await?;
        for line in page.rows {
            let result = line.result;
            let code = result.error_code.unwrap_or_else(|| result.status.as_str().to_owned());
            let fresh = || Reason {
                code: code.clone(),
                lines: 0,
                sample: text::one_line(&result.error.unwrap_or_default()),
            };
            found.entry(code.clone()).or_insert_with(fresh).lines += 1;
        }
        query.after = page.next;
        if query.after.is_none() {
            break;
        }
    }
    let mut reasons: Vec<_> = found.into_values().collect();
    reasons.sort_by_key(|reason| std::cmp::Reverse(reason.lines));
    Ok((reasons, query.after.is_some()))
}

impl RunReport {
    pub(crate) fn new(batch: &Batch, progress: &Progress, took: Duration) -> Self {
        Self {
            batch: batch.id,
            state: batch.state,
            counts: batch.counts,
            took_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            requests: progress.requests,
            retries: progress.retries,
            released: 0,
            reasons: Vec::new(),
            more_reasons: false,
            results: None,
            errors: None,
        }
    }

    /// The summary for people.
    pub(crate) fn text(&self) -> String {
        let mut output = format!("\n{}\n", self.head());
        for (number, word) in self.status_counts() {
            output.push_str(&format!("  {:>12}  {word}\n", text::count(number)));
        }
        if !self.reasons.is_empty() {
            let more = if self.more_reasons { " (of the first lines)" } else { "" };
            output.push_str(&format!("Why lines did not complete{more}:\n"));
            for reason in self.reasons.iter().take(REASONS_SHOWN_MAX) {
                let sample = text::short(&reason.sample, MESSAGE_CHARS_MAX);
                let lines = text::count(reason.lines);
                output.push_str(&format!("  {lines:>12}  {}: {sample}\n", reason.code));
            }
            if self.reasons.len() > REASONS_SHOWN_MAX {
                let more = self.reasons.len() - REASONS_SHOWN_MAX;
                let more = text::plural(more as u64, "other reason");
                output.push_str(&format!("  {:>12}  and {more}\n", ""));
            }
        }
        if let Some(path) = &self.results {
            output.push_str(&format!("Results:  {}\n", path.display()));
        }
        if let Some(path) = &self.errors {
            output.push_str(&format!("Errors:   {}\n", path.display()));
        }
        output.trim_end().to_owned()
    }

    fn head(&self) -> String {
        let took = Duration::from_millis(self.took_ms);
        let mut head = format!("batch {} is {}", self.batch, self.state);
        if self.requests > 0 {
            head.push_str(&format!(
                ": {} in {}, {}/s, {}",
                text::plural(self.requests, "request"),
                text::time(took),
                text::rate(self.requests, took),
                text::plural(self.retries, "retry"),
            ));
        }
        head
    }

    fn status_counts(&self) -> Vec<(u64, &'static str)> {
        let counts = &self.counts;
        let all = [
            (counts.completed, "completed"),
            (counts.failed, "failed"),
            (counts.not_found, "not found"),
            (counts.skipped, "skipped"),
            (counts.unfinished(), "without a result"),
        ];
        all.into_iter().filter(|(number, word)| *number > 0 || *word == "completed").collect()
    }
}
