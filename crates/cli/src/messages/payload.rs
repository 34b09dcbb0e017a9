//! Payloads: bytes that come in from the command line, and how they are shown.
//!
//! Holds throughout: bytes go in as they are; those that are JSON are shown as JSON, text as text for
//! people, and everything else as Base64.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::path::PathBuf;
use std::str::FromStr;

use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use windrow::domain::message::PAYLOAD_BYTES_MAX;

use crate::error::CliError;
use crate::text;

/// Where a payload comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PayloadArg {
    Text(String),
    File(PathBuf),
    Standard,
}

impl FromStr for PayloadArg {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(match text.strip_prefix('@') {
            Some(path) => Self::File(path.into()),
            None if text == "-" => Self::Standard,
            None => Self::Text(text.to_owned()),
        })
    }
}

impl PayloadArg {
    /// The bytes; none given are none.
    pub(super) async fn read(given: Option<PayloadArg>) -> anyhow::Result<Bytes> {
        let bytes = match given {
            None => Bytes::new(),
            Some(Self::Text(text)) => text.into(),
            Some(Self::Standard) => {
                all(tokio::io::stdin()).await.context("could not read standard input")?
            }
            Some(Self::File(path)) => {
                let read = async { all(tokio::fs::File::open(&path).await?).await };
                read.await.with_context(|| {
                    let what = format!("could not read {}", path.display());
                    CliError::usage(what, "give a readable file after the @.")
                })?
            }
        };
        if bytes.len() <= PAYLOAD_BYTES_MAX {
            return Ok(bytes);
        }
        let what =
            format!("a payload must not exceed {} bytes", text::count(PAYLOAD_BYTES_MAX as u64));
        Err(CliError::usage(what, "send a reference to large data instead.").into())
    }
}

/// All of it, as far as a payload may go and one byte more.
async fn all(from: impl AsyncRead + Unpin) -> std::io::Result<Bytes> {
    let mut bytes = Vec::new();
    from.take(PAYLOAD_BYTES_MAX as u64 + 1).read_to_end(&mut bytes).await?;
    Ok(bytes.into())
}

/// A row with its bytes, as machines read it.
#[derive(Debug, Serialize)]
pub(super) struct WithPayload<'a, T> {
    #[serde(flatten)]
    row: &'a T,
    #[serde(flatten)]
    bytes: BTreeMap<String, Box<RawValue>>,
}

/// A row with these of its bytes: under their name when they are JSON, else as `NAME_base64`.
pub(super) fn with_payload<'a, T>(row: &'a T, bytes: &[(&str, &[u8])]) -> WithPayload<'a, T> {
    let shown =
        bytes.iter().filter(|(_, bytes)| !bytes.is_empty()).filter_map(
            |(name, bytes)| match as_json(bytes) {
                Some(json) => Some(((*name).to_owned(), json)),
                None => {
                    let text = to_raw_value(&STANDARD.encode(bytes)).ok()?;
                    Some((format!("{name}_base64"), text))
                }
            },
        );
    WithPayload { row, bytes: shown.collect() }
}

fn as_json(bytes: &[u8]) -> Option<Box<RawValue>> {
    // What common readers cannot read is no JSON for them.
    serde_json::from_slice::<serde_json::Value>(bytes).ok()?;
    let text = std::str::from_utf8(bytes).ok()?;
    RawValue::from_string(text.to_owned()).ok()
}

/// For people: the text, in one line.
pub(super) fn readable(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text::one_line(text),
        Err(_) => format!("base64:{}", STANDARD.encode(bytes)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_shown_as_what_they_are() {
        #[derive(Serialize)]
        struct Row {
            id: u8,
        }
        let output = |bytes: &[u8]| {
            serde_json::to_string(&with_payload(&Row { id: 1 }, &[("payload", bytes)])).unwrap()
        };
        assert_eq!(
            output(b"{ \"n\": 1.000000000000000000001 }"),
            r#"{"id":1,"payload":{ "n": 1.000000000000000000001 }}"#
        );
        assert_eq!(output(b"\xff"), r#"{"id":1,"payload_base64":"/w=="}"#);
        assert_eq!(output(b""), r#"{"id":1}"#);
        assert_eq!((readable(b"a\nb"), readable(b"\xff")), ("a b".into(), "base64:/w==".into()));
    }

    #[tokio::test]
    async fn a_payload_is_a_text_or_a_file_and_has_a_bound() {
        assert_eq!("-".parse(), Ok(PayloadArg::Standard));
        assert_eq!("@a.json".parse(), Ok(PayloadArg::File("a.json".into())));
        let large = PayloadArg::Text("x".repeat(PAYLOAD_BYTES_MAX + 1));
        assert!(PayloadArg::read(Some(large)).await.is_err());
        assert_eq!(PayloadArg::read(Some(PayloadArg::Text("{}".into()))).await.unwrap(), "{}");
        assert!(PayloadArg::read(Some(PayloadArg::File("/no/such".into()))).await.is_err());
        assert_eq!(PayloadArg::read(None).await.unwrap(), "");
    }
}
