//! What the demo found, for people and for machines.

use std::collections::HashSet;
use std::time::Duration;

use anyhow::Context as _;
use futures_util::TryStreamExt as _;
use serde::Deserialize;
use serde_json::{Value, json};
use windrow::engine::storage::Storage;
use windrow::prelude::*;

use super::echo::FaultCounts;
use crate::batch_run::RunOutcome;
use crate::outputs;
use crate::text;

/// Results that are shown.
const SHOWN_MAX: usize = 2;
/// Width of a result that is shown, in characters.
const SHOWN_CHARS_MAX: usize = 150;

/// What the outputs hold.
#[derive(Debug, Default)]
pub(crate) struct Outputs {
    /// Lines in both files.
    lines: u64,
    /// Different ids in them.
    ids: HashSet<String>,
    /// The first lines of each file.
    shown: Vec<String>,
}

/// Everything that there is to tell.
pub(crate) struct DemoReport {
    pub(crate) faults: FaultCounts,
    pub(crate) taken_in: Duration,
    pub(crate) outcome: RunOutcome,
    pub(crate) outputs: Outputs,
    /// What the audit of the rows complains about.
    pub(crate) contradiction: Option<String>,
    pub(crate) batch: Batch,
}

impl Outputs {
    /// Reads both files of a closed batch.
    pub(crate) async fn read(storage: &Storage, batch: &Batch) -> anyhow::Result<Self> {
        #[derive(Deserialize)]
        struct Id {
            custom_id: String,
        }
        let summary = outputs::summary(batch).context("a closed batch has a summary")?;
        let mut outputs = Self::default();
        for stored in [summary.output, summary.errors].into_iter().flatten() {
            let pieces: Vec<_> = storage.read(&stored.name).await?.try_collect().await?;
            let text = String::from_utf8(pieces.concat()).context("outputs are text")?;
            outputs.shown.extend(text.lines().take(SHOWN_MAX).map(str::to_owned));
            for line in text.lines() {
                outputs.lines += 1;
                outputs.ids.insert(serde_json::from_str::<Id>(line)?.custom_id);
            }
        }
        Ok(outputs)
    }
}

impl DemoReport {
    /// Every line has exactly one result, in the rows and in the outputs.
    pub(crate) fn is_sound(&self) -> bool {
        let total = self.batch.counts.total;
        let ids = self.outputs.ids.len() as u64;
        self.contradiction.is_none()
            && (self.batch.counts.finished(), self.outputs.lines, ids) == (total, total, total)
    }

    pub(crate) fn value(&self) -> Value {
        let (faults, progress) = (&self.faults, &self.outcome.progress);
        json!({
            "batch": self.batch,
            "took_ms": u64::try_from(self.outcome.took.as_millis()).unwrap_or(u64::MAX),
            "requests": progress.requests,
            "retries": progress.retries,
            "failures": progress.failures,
            "upstream": {
                "requests": faults.requests, "failed": faults.server_errors, "throttled": faults.rate_limited,
                "hung": faults.timed_out, "cut": faults.connection_lost, "not_found": faults.not_found,
                "refused": faults.bad_requests,
            },
            "outputs": { "lines": self.outputs.lines, "ids": self.outputs.ids.len() },
            "sound": self.is_sound(),
            "contradiction": self.contradiction,
        })
    }

    pub(crate) fn text(&self) -> String {
        let (took, progress) = (self.outcome.took, &self.outcome.progress);
        let mut output = format!(
            "Took the file in, in {}; then {} requests in {} ({}/s).\n\n",
            text::time(self.taken_in),
            text::count(progress.requests),
            text::time(took),
            text::rate(progress.requests, took),
        );
        output.push_str(&self.faults_text());
        output.push_str(&self.counts_text());
        output.push_str("Some results, as the output files have them:\n");
        for line in &self.outputs.shown {
            output
                .push_str(&format!("  {}\n", text::short(&text::one_line(line), SHOWN_CHARS_MAX)));
        }
        output.push_str(&self.verdict());
        output
    }

    fn faults_text(&self) -> String {
        let faults = &self.faults;
        let all = [
            (faults.server_errors, "failed with a 500", "tried again"),
            (faults.rate_limited, "throttled with a 429 and a Retry-After", "waited, tried again"),
            (faults.timed_out, "gave no answer at all", "timed out, tried again"),
            (faults.connection_lost, "hung up in the middle of an answer", "tried again"),
            (faults.not_found, "said 404", "tried once more, then not found"),
            (faults.bad_requests, "said 400", "failed at once: no retry can help"),
        ];
        let mut output = "What the upstream did on the way:\n".to_owned();
        for (times, what, then) in all.into_iter().filter(|(times, _, _)| *times > 0) {
            output.push_str(&format!("  {:>7} × {what:<40} → {then}\n", text::count(times)));
        }
        output.push_str(&format!(
            "  {:>7}   retries in all, and the pace was adapted to what it could bear\n\n",
            text::count(self.outcome.progress.retries)
        ));
        output
    }

    fn counts_text(&self) -> String {
        let counts = &self.batch.counts;
        let places = [
            (counts.completed, "completed"),
            (counts.failed, "failed"),
            (counts.not_found, "not found"),
            (counts.unfinished(), "without a result"),
        ];
        let mut output = format!("What became of the {} lines:\n", text::count(counts.total));
        for (number, word) in places {
            output.push_str(&format!("  {:>7}   {word}\n", text::count(number)));
        }
        output.push('\n');
        output
    }

    fn verdict(&self) -> String {
        let total = text::count(self.batch.counts.total);
        if !self.is_sound() {
            let why =
                self.contradiction.as_deref().unwrap_or("the outputs do not hold each line once");
            return format!("\nCONTRADICTION: {why}");
        }
        format!(
            "\nChecked against the rows and the outputs: every line is in exactly one place, and each \
             of the\n{total} has exactly one result.\n\nNow yours:\n  windrow run requests.jsonl --to \
             http://localhost:8000    # kill it and run it again: it goes on\n  windrow batches                                          \
             # what there is; then status, watch, retry\n  windrow --help"
        )
    }
}
