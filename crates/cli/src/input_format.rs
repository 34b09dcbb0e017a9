//! What kind of file an input is: JSONL, packed JSONL, or something else that is named for what it is.
//!
//! Holds throughout: gzip and zstd are unpacked on the way in, whatever the file is called; a kind that
//! cannot be read is refused with one sentence before anything is stored. What is neither is left to the
//! ingest, which judges it line by line.

use anyhow::Context as _;
use tokio::io::AsyncRead;
use windrow::engine::ingest::{Packing, Reader, peek};

use crate::error::CliError;
use crate::exit_code::Exit;
use crate::hint::quoted;

/// Read of the beginning to recognise it.
const HEAD_BYTES: usize = 4096;

/// A reader of the lines, unpacked.
pub(crate) type Lines<'a> = Reader<'a>;

/// A kind of file that is no JSONL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WrongKind {
    Array,
    Pretty,
    Csv,
    Utf16,
    Zip,
    Xz,
    Bzip2,
    Html,
}

/// Reads the lines of a file that people call `name`: unpacked if it is packed, or refused if it is a
/// kind of file that has no lines of JSON.
pub(crate) async fn lines<'a>(
    name: &str,
    reader: impl AsyncRead + Send + Unpin + 'a,
) -> anyhow::Result<Lines<'a>> {
    let broken = || {
        let what = format!("could not load {name}; nothing of it is kept");
        CliError::new(Exit::Failed, what, "check that it can be read, and that it is whole.")
    };
    let (head, reader) = peek(reader, HEAD_BYTES).await.with_context(broken)?;
    let unpacked = match Packing::of(&head) {
        Some(packing) => packing.unpack(reader),
        None => reader,
    };
    let (head, reader) = peek(unpacked, HEAD_BYTES).await.with_context(broken)?;
    match wrong_kind(&head) {
        Some(kind) => Err(kind.refusal(name).into()),
        None => Ok(reader),
    }
}

fn wrong_kind(head: &[u8]) -> Option<WrongKind> {
    match head {
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => return Some(WrongKind::Utf16),
        // Without a mark at its beginning: every other byte of plain letters is zero.
        [b'{' | b'[', 0, ..] | [0, b'{' | b'[', ..] => return Some(WrongKind::Utf16),
        [b'P', b'K', 3, 4, ..] => return Some(WrongKind::Zip),
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => return Some(WrongKind::Xz),
        [b'B', b'Z', b'h', b'1'..=b'9', ..] => return Some(WrongKind::Bzip2),
        _ => {}
    }
    let text = String::from_utf8_lossy(head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head));
    let (first, rest) = text.trim_start().split_once('\n').unwrap_or((text.trim(), ""));
    let first = first.trim_end();
    match first.chars().next()? {
        '[' => Some(WrongKind::Array),
        // A line of JSONL is a whole object; the first line of a printed one is left open.
        '{' if first.ends_with(['{', '[', ',']) && !rest.is_empty() => Some(WrongKind::Pretty),
        '<' => Some(WrongKind::Html),
        '{' => None,
        _ if first.matches([',', ';', '\t']).count() > 0 && !first.contains('{') => {
            Some(WrongKind::Csv)
        }
        _ => None,
    }
}

impl WrongKind {
    fn refusal(self, name: &str) -> CliError {
        let file = quoted(name);
        let (is, remedy) = match self {
            WrongKind::Array => (
                "a JSON array, not one request per line",
                format!("write one line for each of its elements: jq -c '.[]' {file} > lines.jsonl"),
            ),
            WrongKind::Pretty => (
                "JSON that spans several lines, not one request per line",
                format!("write each object on one line: jq -c . {file} > lines.jsonl"),
            ),
            WrongKind::Csv => (
                "not JSON; it looks like CSV",
                "make a request of each row: one {\"custom_id\", \"method\", \"url\", \"body\"} per line."
                    .to_owned(),
            ),
            WrongKind::Utf16 => (
                "UTF-16 text, and JSON lines are UTF-8",
                format!("convert it: iconv -f UTF-16 -t UTF-8 {file} > lines.jsonl"),
            ),
            WrongKind::Zip => (
                "a zip archive or a spreadsheet, not one request per line",
                format!("unpack it (unzip {file}), or write one request per line."),
            ),
            WrongKind::Xz => {
                ("packed with xz, which is not read", format!("unpack it: xz -dk {file}"))
            }
            WrongKind::Bzip2 => {
                ("packed with bzip2, which is not read", format!("unpack it: bzip2 -dk {file}"))
            }
            WrongKind::Html => (
                "HTML or XML, not one request per line",
                "check that it is the right file; a download may have failed.".to_owned(),
            ),
        };
        CliError::new(Exit::Invalid, format!("{name} is {is}; nothing was sent"), remedy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_recognised_by_their_beginning() {
        for (head, wanted) in [
            (&b"{\"custom_id\":\"a\"}\n"[..], None),
            (b"\xef\xbb\xbf{\"a\":1}\n{", None),
            (b"", None),
            (b"oops\n", None),
            (b"{\"a\":1,", None),
            (b" \n[{\"a\":1}]", Some(WrongKind::Array)),
            (b"{\n  \"a\": 1\n}", Some(WrongKind::Pretty)),
            (b"{\"a\": 1,\n\"b\": 2}", Some(WrongKind::Pretty)),
            (b"id,prompt\n1,hello\n", Some(WrongKind::Csv)),
            (b"\xff\xfe{\0", Some(WrongKind::Utf16)),
            (b"{\0\"\0", Some(WrongKind::Utf16)),
            (b"PK\x03\x04", Some(WrongKind::Zip)),
            (b"<html>", Some(WrongKind::Html)),
        ] {
            assert_eq!(wrong_kind(head), wanted, "{:?}", String::from_utf8_lossy(head));
        }
    }
}
