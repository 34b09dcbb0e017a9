//! Ids as OpenAI's API writes them: `file-…` and `batch_…` before the 32 digits of ours.

use uuid::Uuid;
use windrow_domain::{BatchId, FileId};

use crate::error::{Error, Result};

const FILE: &str = "file-";
const BATCH: &str = "batch_";

pub(crate) fn file(id: FileId) -> String {
    format!("{FILE}{}", id.0.simple())
}

pub(crate) fn batch(id: BatchId) -> String {
    format!("{BATCH}{}", id.0.simple())
}

/// A text that is not an id names nothing.
pub(crate) fn parse_file(text: &str) -> Result<FileId> {
    read(FILE, text).map(FileId).ok_or_else(|| file_not_found(text))
}

pub(crate) fn parse_batch(text: &str) -> Result<BatchId> {
    read(BATCH, text).map(BatchId).ok_or_else(|| batch_not_found(text))
}

pub(crate) fn file_not_found(text: &str) -> Error {
    Error::missing("file", text)
}

pub(crate) fn batch_not_found(text: &str) -> Error {
    Error::missing("batch", text)
}

/// The error of an `after` that is not an id.
pub(crate) fn invalid_cursor(what: &str) -> Error {
    Error::invalid("after", format!("`after` must be the id of a {what}."))
}

/// A plain UUID is accepted as well, in lower case and without braces.
fn read(prefix: &str, text: &str) -> Option<Uuid> {
    let digits = text.strip_prefix(prefix).unwrap_or(text);
    let plain = digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f' | b'-'));
    Uuid::try_parse(digits).ok().filter(|_| plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_back_and_other_texts_name_nothing() {
        let (file_id, batch_id) = (FileId::new(), BatchId::new());
        assert_eq!(parse_file(&file(file_id)).unwrap(), file_id);
        assert_eq!(parse_batch(&batch(batch_id)).unwrap(), batch_id);
        assert_eq!(parse_batch(&batch_id.to_string()).unwrap(), batch_id);
        for bad in [
            "",
            "file-",
            "file-xyz",
            "../etc",
            "batch_00",
            "file-00000000000000000000000000000000z",
        ] {
            assert!(parse_file(bad).is_err(), "{bad}");
        }
    }
}
