//! The summary: what closing a batch wrote, kept with the batch as JSON.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use windrow_domain::{BatchId, Counts, Ending, OutputKind};
use windrow_store::batch::Batch;
use windrow_store::finalise::{Finalisation, NewOutput, Rows};

use super::names::OutputNames;
use crate::output::{FileTotals, Usage, Written};

/// What a closed batch came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// How the batch ended.
    pub ending: Ending,
    /// How many lines are in which place.
    pub counts: Counts,
    /// The completed lines; none when there are none, or when outputs are not kept.
    pub output: Option<OutputFile>,
    /// The file of lines that did not complete, if there is one.
    pub errors: Option<OutputFile>,
    /// What the answers say they cost; none when they say nothing.
    pub usage: Option<Usage>,
    /// When the last result was recorded.
    pub finished_at: Option<Timestamp>,
    /// Lines without a result that the outputs have with their earlier one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub earlier: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// One of a batch's outputs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputFile {
    /// Its name in the storage.
    pub name: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// How many lines it has.
    pub lines: u64,
}

impl Summary {
    /// The summary of a closed batch; none when it has none that this version can read.
    pub fn of(batch: &Batch) -> Option<Self> {
        serde_json::from_str(batch.summary.as_deref()?).ok()
    }

    pub(super) fn new(held: &Finalisation, written: Option<&Written>) -> Self {
        let names = OutputNames::of(held);
        let file = |name: String, totals: Option<FileTotals>| {
            let totals = totals.filter(|totals| totals.lines > 0)?;
            Some(OutputFile { name, bytes: totals.bytes, lines: totals.lines })
        };
        let usage = written.map(|written| written.usage);
        Self {
            ending: held.ending,
            counts: held.counts,
            output: file(names.output, written.map(|written| written.output)),
            errors: file(names.errors, written.map(|written| written.errors)),
            usage: usage.filter(|usage| *usage != Usage::default()),
            finished_at: written.and_then(|written| written.finished_at),
            earlier: written.map_or(0, |written| written.earlier),
        }
    }

    /// The outputs that become files with the closing, named for people.
    pub(super) fn outputs(&self, batch: BatchId) -> Vec<NewOutput> {
        let kinds = [(OutputKind::Output, &self.output), (OutputKind::Errors, &self.errors)];
        let output = |(kind, file): (OutputKind, &Option<OutputFile>)| {
            let OutputFile { name: place, bytes, lines } = file.clone()?;
            let name = format!("{batch}_{}.jsonl", kind.as_str());
            Some(NewOutput { kind, name, place, lines, bytes })
        };
        kinds.into_iter().filter_map(output).collect()
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self).map_err(|_| fmt::Error)?)
    }
}

/// The finished lines of the counts: what a batch without outputs is closed with.
pub(super) fn rows_of(counts: &Counts) -> Rows {
    let Counts { completed, failed, not_found, skipped, .. } = *counts;
    Rows { completed, failed, not_found, skipped }
}
