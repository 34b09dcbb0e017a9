//! What the demo found, for people and for machines.

use std::collections::HashSet;
use std::time::Duration;

use anyhow::Context as _;
use futures_util::TryStreamExt as _;
use serde::Deserialize;
use serde_json::{Value, json};
use windrow::engine::storage::Storage;
use windrow::prelude::*;

use super::echo::Moods;
use crate::drive::Driven;
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
pub(crate) struct Found {
    pub(crate) moods: Moods,
    pub(crate) taken_in: Duration,
    pub(crate) driven: Driven,
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

impl Found {
    /// Every line has exactly one result, in the rows and in the outputs.
    pub(crate) fn is_sound(&self) -> bool {
        let total = self.batch.counts.total;
        let ids = self.outputs.ids.len() as u64;
        self.contradiction.is_none()
            && (self.batch.counts.finished(), self.outputs.lines, ids) == (total, total, total)
    }

    pub(crate) fn value(&self) -> Value {
        let (moods, progress) = (&self.moods, &self.driven.progress);
        json!({
            "batch": self.batch,
            "took_ms": u64::try_from(self.driven.took.as_millis()).unwrap_or(u64::MAX),
            "requests": progress.requests,
            "retries": progress.retries,
            "failures": progress.failures,
            "upstream": {
                "requests": moods.requests, "failed": moods.stumbled, "throttled": moods.throttled,
                "hung": moods.hung, "cut": moods.hung_up, "not_found": moods.never_heard,
                "refused": moods.refused,
            },
            "outputs": { "lines": self.outputs.lines, "ids": self.outputs.ids.len() },
            "sound": self.is_sound(),
            "contradiction": self.contradiction,
        })
    }

    pub(crate) fn text(&self) -> String {
        let (took, progress) = (self.driven.took, &self.driven.progress);
        let mut said = format!(
            "Took the file in, in {}; then {} requests in {} ({}/s).\n\n",
            text::time(self.taken_in),
            text::count(progress.requests),
            text::time(took),
            text::rate(progress.requests, took),
        );
        said.push_str(&self.went_wrong());
        said.push_str(&self.came_of_it());
        said.push_str("Some results, as the output files have them:\n");
        for line in &self.outputs.shown {
            said.push_str(&format!("  {}\n", text::short(&text::one_line(line), SHOWN_CHARS_MAX)));
        }
        said.push_str(&self.verdict());
        said
    }

    fn went_wrong(&self) -> String {
        let moods = &self.moods;
        let all = [
            (moods.stumbled, "failed with a 500", "tried again"),
            (moods.throttled, "throttled with a 429 and a Retry-After", "waited, tried again"),
            (moods.hung, "gave no answer at all", "timed out, tried again"),
            (moods.hung_up, "hung up in the middle of an answer", "tried again"),
            (moods.never_heard, "said 404", "tried once more, then not found"),
            (moods.refused, "said 400", "failed at once: no retry can help"),
        ];
        let mut said = "What the upstream did on the way:\n".to_owned();
        for (times, what, then) in all.into_iter().filter(|(times, _, _)| *times > 0) {
            said.push_str(&format!("  {:>7} × {what:<40} → {then}\n", text::count(times)));
        }
        said.push_str(&format!(
            "  {:>7}   retries in all, and the pace was adapted to what it could bear\n\n",
            text::count(self.driven.progress.retries)
        ));
        said
    }

    fn came_of_it(&self) -> String {
        let counts = &self.batch.counts;
        let places = [
            (counts.completed, "completed"),
            (counts.failed, "failed"),
            (counts.not_found, "not found"),
            (counts.unfinished(), "without a result"),
        ];
        let mut said = format!("What became of the {} lines:\n", text::count(counts.total));
        for (number, word) in places {
            said.push_str(&format!("  {:>7}   {word}\n", text::count(number)));
        }
        said.push('\n');
        said
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
