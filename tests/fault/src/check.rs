//! The check that every test ends with: each accepted line has exactly one result, counts equal
//! rows, outputs hold each line once, and the upstream saw no more than it had to.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use windrow::domain::attempt::Status;
use windrow::domain::{BatchId, State};
use windrow::store::batch::Batch;
use windrow::store::inspect::{FinishedLine, FinishedQuery, PAGE_MAX};
use windrow::store::{Scope, Store};
use windrow_testkit::upstream::Upstream;

use crate::Fixture;
use crate::input::custom_id;

/// A closed batch, checked: its results in the order of their lines.
pub struct Ended {
    /// The batch.
    pub batch: Batch,
    /// Its results.
    pub results: Vec<FinishedLine>,
}

impl Ended {
    /// Reads the batch and checks rows against counts, and outputs against rows. Each crash may have
    /// left the outputs of a closing that did not happen.
    ///
    /// # Panics
    /// When something contradicts the promise, with a sentence.
    pub async fn check(fixture: &Fixture, batch: BatchId, lines: u64, crashes: u64) -> Self {
        let ended = Self::rows(fixture, batch, lines).await;
        ended.check_outputs(&fixture.outputs(), crashes);
        ended
    }

    /// The same without outputs, for a batch whose outputs are elsewhere.
    ///
    /// # Panics
    /// When something contradicts the promise, with a sentence.
    pub async fn rows(fixture: &Fixture, batch: BatchId, lines: u64) -> Self {
        let store = fixture.store();
        let audit = store.verify(batch).await.expect("a batch can be audited");
        audit.check().unwrap_or_else(|wrong| panic!("the audit says: {wrong}"));
        let batch = store.batch(&Scope::All, batch).await.expect("the batch is there");
        assert_eq!(batch.state, State::Completed, "{batch:#?}");
        assert!(batch.counts.adds_up(), "{:?}", batch.counts);
        assert_eq!((batch.counts.total, batch.counts.finished()), (lines, lines));
        let results = results(store, batch.id).await;
        let numbers: Vec<u64> = results.iter().map(|line| line.result.line).collect();
        assert!(numbers.iter().copied().eq(1..=lines), "lines of the results: {numbers:?}");
        let ended = Self { batch, results };
        let counts = &ended.batch.counts;
        let counted = [counts.completed, counts.failed, counts.not_found, counts.skipped];
        assert_eq!(Status::ALL.map(|status| ended.count(status)), counted);
        ended
    }

    /// Results with that status.
    pub fn count(&self, status: Status) -> u64 {
        self.results.iter().filter(|line| line.result.status == status).count() as u64
    }

    /// The outputs that the summary names hold each line once, in order, and nothing is left of other
    /// closings but what crashes left.
    fn check_outputs(&self, folder: &Path, crashes: u64) {
        let [output, errors] = self.outputs(folder);
        self.check_files(output.as_deref(), errors.as_deref());
        let named = self.named(folder);
        let there = named.first().and_then(|path| path.parent()).map(list).unwrap_or_default();
        let left: Vec<&PathBuf> = there.iter().filter(|path| !named.contains(path)).collect();
        assert!(left.len() as u64 <= 2 * crashes, "left of other closings: {left:?}");
    }

    /// The outputs that the summary names.
    pub fn named(&self, folder: &Path) -> Vec<PathBuf> {
        self.outputs(folder).into_iter().flatten().collect()
    }

    /// Of completed lines, and of others.
    fn outputs(&self, folder: &Path) -> [Option<PathBuf>; 2] {
        let summary = self.batch.summary.as_deref().expect("a closed batch has a summary");
        let summary: Value = serde_json::from_str(summary).expect("a summary is JSON");
        ["output", "errors"]
            .map(|part| summary[part]["name"].as_str().map(|name| folder.join(name)))
    }

    /// These two files hold each line once, in order: completed ones in the first.
    ///
    /// # Panics
    /// When they do not.
    pub fn check_files(&self, output: Option<&Path>, errors: Option<&Path>) {
        let ids = |completed: bool| -> Vec<String> {
            let lines = self.results.iter().map(|line| &line.result);
            let wanted = lines.filter(|line| (line.status == Status::Completed) == completed);
            wanted.map(|line| custom_id(line.line)).collect()
        };
        assert_eq!(output.map(custom_ids).unwrap_or_default(), ids(true), "in the output");
        assert_eq!(errors.map(custom_ids).unwrap_or_default(), ids(false), "among the errors");
    }

    /// Every line was sent, none more often than its attempts and `crashes` explain, and a repeat
    /// that no answer explains had the same key.
    ///
    /// # Panics
    /// When one was.
    pub fn check_upstream(&self, upstream: &Upstream, crashes: u64) {
        let sent = sent(upstream, self.batch.id);
        for line in &self.results {
            let (line, attempts) = (line.result.line, u64::from(line.result.attempts));
            let keys = sent.get(&line).cloned().unwrap_or_default();
            let requests: u64 = keys.values().sum();
            let most = attempts + crashes;
            assert!((1..=most).contains(&requests), "line {line}: {attempts} attempts, {keys:?}");
            let last = keys.keys().max().copied().unwrap_or(0);
            assert!(last <= attempts, "line {line}: {attempts} attempts, {keys:?}");
        }
        let lines = self.results.len();
        assert_eq!(sent.len(), lines, "the upstream saw a line that is not in the batch");
    }
}

/// How often the upstream saw each line of the batch, by the last part of the key.
fn sent(upstream: &Upstream, batch: BatchId) -> BTreeMap<u64, HashMap<u64, u64>> {
    let mut sent = BTreeMap::<u64, HashMap<u64, u64>>::new();
    for (key, times) in upstream.keys() {
        let parts: Vec<&str> = key.split(':').collect();
        let [of, line, n] = parts[..] else { panic!("a key of another form: {key:?}") };
        if of == batch.to_string() {
            let line = line.parse().expect("a key holds the line");
            sent.entry(line).or_default().insert(n.parse().expect("a key ends in a number"), times);
        }
    }
    sent
}

async fn results(store: &dyn Store, batch: BatchId) -> Vec<FinishedLine> {
    let mut rows = Vec::new();
    let mut after = None;
    loop {
        let query = FinishedQuery {
            batch: Some(batch),
            limit: PAGE_MAX,
            after,
            ..FinishedQuery::default()
        };
        let page = store.finished(&Scope::All, query).await.expect("results can be listed");
        rows.extend(page.rows);
        after = page.next;
        if after.is_none() {
            return rows;
        }
    }
}

/// The ids of an output's lines, in its order.
///
/// # Panics
/// When it is no output.
pub fn custom_ids(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path);
    let text = text.unwrap_or_else(|why| panic!("could not read {}: {why}", path.display()));
    assert!(text.is_empty() || text.ends_with('\n'), "{} ends in a torn line", path.display());
    let id = |line: &str| {
        let line: Value = serde_json::from_str(line).expect("every line of an output is JSON");
        line["custom_id"].as_str().expect("a line of an output has its id").to_owned()
    };
    text.lines().map(id).collect()
}

fn list(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("the folder of outputs can be listed");
    entries.map(|entry| entry.expect("an entry of a folder").path()).collect()
}
