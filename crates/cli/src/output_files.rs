//! The two files that a run writes beside its input: the results, and the lines that did not complete.
//!
//! Holds throughout: the place is decided when the run begins and kept with the batch, so that `windrow
//! retry --work` writes where `windrow run` wrote; a batch without errors leaves no old errors file.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use windrow::store::batch::Batch;

use crate::database;
use crate::error::CliError;
use crate::output_target::OutputTarget;
use crate::outputs::{OutputKind, Results, summary};

/// The key of a batch's metadata that holds the path of its results.
pub(crate) const RESULTS: &str = "results";
/// How far the time of a file may be behind the clock: the kernel writes down that of its last tick.
const MODIFIED_STEP: std::time::Duration = std::time::Duration::from_millis(20);

/// Where the results and the errors are written.
#[derive(Clone, Debug)]
pub(crate) struct OutputFiles {
    pub(crate) results: OutputTarget,
    pub(crate) errors: PathBuf,
}

impl OutputFiles {
    /// Beside the results, or beside the input; never the input itself.
    pub(crate) fn beside(input: &Path, out: Option<&PathBuf>) -> anyhow::Result<Self> {
        let usual = || OutputTarget::File(usual(input));
        let results = out.cloned().map_or_else(usual, OutputTarget::of);
        let errors = match &results {
            OutputTarget::File(path) => sibling(path, "errors.jsonl"),
            OutputTarget::Standard => sibling(input, "errors.jsonl"),
        };
        let same = |path: &PathBuf| {
            input
                .canonicalize()
                .is_ok_and(|input| path.canonicalize().is_ok_and(|path| path == input))
        };
        if [Some(&errors), results.path()].into_iter().flatten().any(same) {
            let what = format!("{} would be overwritten by its own results", input.display());
            return Err(CliError::usage(what, "name another file with --out.").into());
        }
        Ok(Self { results, errors })
    }

    /// Where the run of a batch wrote them; none when it wrote to standard output, or is no run.
    pub(crate) fn of(batch: &Batch) -> Option<Self> {
        let results = PathBuf::from(batch.metadata.get(RESULTS)?);
        let errors = sibling(&results, "errors.jsonl");
        Some(Self { results: OutputTarget::File(results), errors })
    }

    /// Whether results of an input are where they are without `--out`.
    pub(crate) fn is_usual(input: &Path, results: &Path) -> bool {
        usual(input) == results
    }

    /// The absolute path of the results, to be kept with the batch.
    pub(crate) fn path_to_keep(&self) -> Option<String> {
        let path = std::path::absolute(self.results.path()?).ok()?;
        path.into_os_string().into_string().ok()
    }

    /// Writes both. Errors of an earlier closing are removed when there are none any more.
    pub(crate) async fn write(&self, results: &Results<'_>) -> anyhow::Result<()> {
        results.put(OutputKind::Results, &self.results).await?;
        if has_errors(results.batch) {
            database::make_folder(self.errors.parent())?;
            return results.put(OutputKind::Errors, &OutputTarget::File(self.errors.clone())).await;
        }
        match std::fs::remove_file(&self.errors) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error)
                .with_context(|| format!("could not remove the old {}", self.errors.display())),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Whether the files on disk are those of this closing.
    pub(crate) fn is_in_place(&self, batch: &Batch) -> bool {
        let OutputTarget::File(results) = &self.results else { return false };
        let Some(summary) = summary(batch) else { return false };
        let fits = |path: &Path, bytes: u64| {
            let Ok(found) = path.metadata() else { return false };
            let written = found.modified().ok().and_then(|at| jiff::Timestamp::try_from(at).ok());
            let closed = batch.closed_at.and_then(|at| at.checked_sub(MODIFIED_STEP).ok());
            found.len() == bytes && written >= closed
        };
        let errors =
            summary.errors.map_or(!self.errors.exists(), |errors| fits(&self.errors, errors.bytes));
        errors && fits(results, summary.output.map_or(0, |output| output.bytes))
    }
}

/// Whether some line did not complete.
pub(crate) fn has_errors(batch: &Batch) -> bool {
    batch.counts.completed < batch.counts.total
}

/// Where the results of an input are without `--out`. A packed file has the name of the plain one, unless
/// that is there, too: two inputs never share their results.
fn usual(input: &Path) -> PathBuf {
    let plain = input.with_extension("");
    match is_packed(input) && plain.exists() {
        true => input.with_added_extension("results.jsonl"),
        false => sibling(input, "results.jsonl"),
    }
}

fn is_packed(name: &Path) -> bool {
    name.extension().is_some_and(|end| end == "gz" || end == "zst")
}

/// `a.results.jsonl`, `a.jsonl` and `a.jsonl.gz` all go with `a.errors.jsonl`.
fn sibling(name: &Path, end: &str) -> PathBuf {
    let name = if is_packed(name) { name.with_extension("") } else { name.to_owned() };
    let stem = name.with_extension("");
    let is_results = stem.extension().is_some_and(|end| end == "results");
    let stem = if is_results { stem.with_extension("") } else { stem };
    stem.with_added_extension(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packed_file_beside_the_plain_one_has_results_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        assert_eq!(usual(&path("a.jsonl.gz")), path("a.results.jsonl"));
        std::fs::write(path("a.jsonl"), "").unwrap();
        assert_eq!(usual(&path("a.jsonl")), path("a.results.jsonl"));
        assert_eq!(usual(&path("a.jsonl.gz")), path("a.jsonl.gz.results.jsonl"));
        let errors = sibling(&path("a.jsonl.gz.results.jsonl"), "errors.jsonl");
        assert_eq!(errors, path("a.jsonl.gz.errors.jsonl"));
    }

    #[test]
    fn all_names_of_a_file_have_the_same_siblings() {
        for name in ["d/a.jsonl", "d/a.results.jsonl", "d/a.jsonl.gz", "d/a.jsonl.zst", "d/a"] {
            assert_eq!(sibling(Path::new(name), "errors.jsonl"), Path::new("d/a.errors.jsonl"));
        }
    }
}
