//! The report of the demo, as text and as JSON.

use std::collections::HashSet;
use std::time::Duration;

use anyhow::Context as _;
use futures_util::TryStreamExt as _;
use serde::Deserialize;
use serde_json::{Value, json};
use windrow::engine::storage::Storage;
use windrow::store::batch::Batch;

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

/// All that the demo prints.
pub(crate) struct DemoReport {
    pub(crate) faults: FaultCounts,
    pub(crate) taken_in: Duration,
    pub(crate) outcome: RunOutcome,
    pub(crate) outputs: Outputs,
    /// The inconsistency that the check of the rows found.
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
            "Loaded the file in {}; then sent {} requests in {} ({}/s).\n\n",
            text::time(self.taken_in),
            text::count(progress.requests),
            text::time(took),
            text::rate(progress.requests, took),
        );
        output.push_str(&self.faults_text());
        output.push_str(&self.counts_text());
        output.push_str("Some results from the output files:\n");
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
            (faults.server_errors, "500 server error", "retried"),
            (faults.rate_limited, "429 with Retry-After", "waited, retried"),
            (faults.timed_out, "no response", "timed out, retried"),
            (faults.connection_lost, "connection closed within the response", "retried"),
            (faults.not_found, "404 not found", "retried once, then not found"),
            (faults.bad_requests, "400 bad request", "failed at once, without a retry"),
        ];
        let mut output = "Faults of the upstream:\n".to_owned();
        for (times, what, then) in all.into_iter().filter(|(times, _, _)| *times > 0) {
            output.push_str(&format!("  {:>7} × {what:<40} → {then}\n", text::count(times)));
        }
        output.push_str(&format!(
            "  {:>7}   retries in all; concurrency was adapted to what it could handle\n\n",
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
        let mut output = format!("Results of the {} lines:\n", text::count(counts.total));
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
            return format!("\nINCONSISTENT: {why}");
        }
        format!(
            "\nChecked against the rows and the outputs: every line is in exactly one place, and each \
             of the\n{total} has exactly one result.\n\nNow try your own:\n  windrow run requests.jsonl --to \
             http://localhost:8000    # kill it and run it again: it resumes\n  windrow batches                                          \
             # list batches; then status, watch, retry\n  windrow --help"
        )
    }
}
