//! The names of outputs: `batches/<batch>/<token>-output.jsonl`, and `-errors` beside it.

use windrow_domain::BatchId;
use windrow_store::finalise::Finalisation;

/// The folder of all outputs.
pub(super) const FOLDER: &str = "batches";

/// The names that one finalisation may use.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct OutputNames {
    pub(super) output: String,
    pub(super) errors: String,
}

impl OutputNames {
    pub(super) fn of(held: &Finalisation) -> Self {
        let (folder, token) = (folder(held.batch), held.token);
        Self {
            output: format!("{folder}/{token}-output.jsonl"),
            errors: format!("{folder}/{token}-errors.jsonl"),
        }
    }
}

/// The folder of a batch's outputs.
pub(super) fn folder(batch: BatchId) -> String {
    format!("{FOLDER}/{batch}")
}

/// The batch that an output belongs to; none when it is not one of ours.
pub(super) fn batch_of(name: &str) -> Option<BatchId> {
    let (batch, _) = name.strip_prefix(FOLDER)?.strip_prefix('/')?.split_once('/')?;
    batch.parse().ok()
}

/// The token that an output was written under; none when it is not one of ours.
pub(super) fn token_of(name: &str) -> Option<u64> {
    let (_, file) = name.rsplit_once('/')?;
    file.split_once('-')?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use windrow_domain::{Counts, Ending, InstanceId};

    use super::*;

    /// The sweep finds by these names which outputs are not needed any more.
    #[test]
    fn outputs_are_named_so() {
        let batch = "01890a5d-ac96-774b-bcce-b302099a8057".parse().unwrap();
        let held = Finalisation {
            batch,
            instance: InstanceId::new(),
            token: 17,
            generation: 2,
            ending: Ending::Completed,
            counts: Counts::default(),
            expires_at: Timestamp::UNIX_EPOCH,
        };
        let names = OutputNames::of(&held);
        let folder = "batches/01890a5d-ac96-774b-bcce-b302099a8057";
        assert_eq!(names.output, format!("{folder}/17-output.jsonl"));
        assert_eq!(names.errors, format!("{folder}/17-errors.jsonl"));
    }

    #[test]
    fn names_are_read_back_and_others_are_nobodys() {
        let batch = BatchId::new();
        let name = format!("{}/17-output.jsonl", folder(batch));
        assert_eq!((batch_of(&name), token_of(&name)), (Some(batch), Some(17)));
        assert_eq!(token_of(&format!("{name}#1")), Some(17));
        for other in ["batches", "batches/x/1-output.jsonl", "else/1-output.jsonl"] {
            assert_eq!(batch_of(other), None);
        }
        assert_eq!(token_of("batches/x/notes.txt"), None);
    }
}
