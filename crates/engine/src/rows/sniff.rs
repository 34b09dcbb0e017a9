//! What an input is: by what the caller said, by its first bytes, and by its name, in this order.
//!
//! Holds throughout: the bytes decide, and a name that contradicts them is refused with one sentence, so that
//! nothing is cut as what it is not; JSON lines with a `custom_id` are requests, as they always were.

use super::{Encoding, Fields, Head, InputOptions, RowFormat, is_blank_record};
use crate::ingest::CsvCutter;

/// Read of the beginning to know what an input is.
pub(crate) const SAMPLE_BYTES: usize = 64 << 10;
/// What may stand between cells without being told, the likeliest first.
const DELIMITERS: [u8; 4] = [b',', b';', b'\t', b'|'];
/// Records of the sample that are compared.
const RECORDS_COMPARED_MAX: usize = 100;

/// What an input is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sniffed {
    /// Lines of requests: `{"custom_id": …, "method": …, "url": …, "body": …}`.
    Requests,
    /// Rows; the head has no names yet.
    Rows(Head),
    /// A zip archive: a workbook or pictures, as its directory says.
    Zip,
}

/// An input that cannot be read, with a sentence that says why and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct WrongKind {
    /// A stable word: `wrong_kind`, `unknown_encoding`, `invalid_delimiter`.
    pub code: &'static str,
    /// The sentence.
    pub message: String,
}

impl WrongKind {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { code: "wrong_kind", message: message.into() }
    }
}

/// What kind of bytes the sample begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Magic {
    Zip,
    Picture,
    Other(&'static str),
}

/// Says what an input is that people call `name` and that begins with `sample` (unpacked).
pub fn sniff(name: &str, sample: &[u8], told: &InputOptions) -> Result<Sniffed, WrongKind> {
    let magic = magic(sample);
    let named = named(name);
    let format = match (told.format, magic) {
        (_, Some(Magic::Other(what))) => {
            return Err(WrongKind::new(format!("The input is {what}, which cannot be read.")));
        }
        (Some(format), magic) => {
            check_told(format, magic)?;
            Some(format)
        }
        (None, Some(magic)) => {
            check_name(named, magic)?;
            Some(if magic == Magic::Picture { RowFormat::Images } else { RowFormat::Xlsx })
        }
        (None, None) => None,
    };
    if magic == Some(Magic::Zip) {
        return Ok(Sniffed::Zip);
    }
    match format {
        Some(RowFormat::Images) => Ok(Sniffed::Rows(Head::new(RowFormat::Images))),
        format => sniff_text(name, sample, told, format),
    }
}

fn check_told(format: RowFormat, magic: Option<Magic>) -> Result<(), WrongKind> {
    let fits = match format {
        RowFormat::Csv | RowFormat::Jsonl => magic.is_none(),
        RowFormat::Xlsx => magic == Some(Magic::Zip),
        RowFormat::Images => magic.is_some(),
    };
    if fits {
        return Ok(());
    }
    let is = match magic {
        None => "text",
        Some(Magic::Zip) => "a zip archive",
        Some(Magic::Picture) => "a picture",
        Some(Magic::Other(what)) => what,
    };
    Err(WrongKind::new(format!("The input was said to be {}, and is {is}.", format.as_str())))
}

/// A name that says something else than the bytes is a mistake that somebody should know of.
fn check_name(named: Option<RowFormat>, magic: Magic) -> Result<(), WrongKind> {
    let (is, fits) = match magic {
        Magic::Zip => (
            "a zip archive or a workbook",
            matches!(named, None | Some(RowFormat::Xlsx | RowFormat::Images)),
        ),
        Magic::Picture | Magic::Other(_) => {
            ("a picture", matches!(named, None | Some(RowFormat::Images)))
        }
    };
    if fits {
        return Ok(());
    }
    let word = named.map_or("rows", RowFormat::as_str);
    Err(WrongKind::new(format!(
        "By its name the input is {word}, by its bytes {is}. Rename it, or say what it is."
    )))
}

/// What a name says.
fn named(name: &str) -> Option<RowFormat> {
    let name = name.to_ascii_lowercase();
    let name = name.strip_suffix(".gz").or(name.strip_suffix(".zst")).unwrap_or(&name);
    match name.rsplit_once('.')?.1 {
        "csv" | "tsv" | "tab" | "psv" => Some(RowFormat::Csv),
        "xlsx" | "xlsm" | "xls" => Some(RowFormat::Xlsx),
        "jsonl" | "ndjson" => Some(RowFormat::Jsonl),
        "zip" | "jpg" | "jpeg" | "png" | "gif" | "webp" | "bmp" | "tif" | "tiff" => {
            Some(RowFormat::Images)
        }
        _ => None,
    }
}

fn magic(sample: &[u8]) -> Option<Magic> {
    match sample {
        [b'P', b'K', 3, 4, ..] | [b'P', b'K', 5, 6, ..] => Some(Magic::Zip),
        [0xD0, 0xCF, 0x11, 0xE0, ..] => Some(Magic::Other(
            "an encrypted workbook or one of an old Excel (save it as .xlsx without a password)",
        )),
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Some(Magic::Other("packed with xz")),
        [b'B', b'Z', b'h', b'1'..=b'9', ..] => Some(Magic::Other("packed with bzip2")),
        [b'%', b'P', b'D', b'F', ..] => Some(Magic::Other("a PDF document")),
        _ if crate::pictures::kind(sample).is_some() => Some(Magic::Picture),
        _ => None,
    }
}

/// Text: JSON lines or records.
fn sniff_text(
    name: &str,
    sample: &[u8],
    told: &InputOptions,
    format: Option<RowFormat>,
) -> Result<Sniffed, WrongKind> {
    let encoding = match &told.encoding {
        Some(label) => Encoding::of(label).ok_or_else(|| WrongKind {
            code: "unknown_encoding",
            message: format!("No encoding is called {label:?}."),
        })?,
        None => Encoding::guess(sample),
    };
    let decoded = encoding.is_decoded_first().then(|| decode_sample(encoding, sample));
    let sample = decoded.as_deref().unwrap_or(sample);
    let sample = sample.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(sample);
    let named = named(name);
    match format.or(named) {
        Some(RowFormat::Xlsx | RowFormat::Images) => {
            let is = if is_markup(sample) { "HTML or XML" } else { "text" };
            return Err(WrongKind::new(format!(
                "By its name the input is a workbook or a picture, by its bytes {is}. Rename it, or say what \
                 it is."
            )));
        }
        Some(RowFormat::Csv) => {}
        Some(RowFormat::Jsonl) | None => {
            if let Some(found) = sniff_json(sample, told, format.or(named), encoding)? {
                return Ok(found);
            }
        }
    }
    csv_head(name, sample, told, encoding).map(Sniffed::Rows)
}

fn decode_sample(encoding: Encoding, sample: &[u8]) -> Vec<u8> {
    let mut text = String::with_capacity(sample.len() * 3 + 16);
    let _ = encoding.decoder().decode_to_string(sample, &mut text, false);
    text.into_bytes()
}

fn is_markup(sample: &[u8]) -> bool {
    sample.trim_ascii_start().starts_with(b"<")
}

/// JSON lines: requests, or rows. None when it is no JSON and nobody said so.
fn sniff_json(
    sample: &[u8],
    told: &InputOptions,
    format: Option<RowFormat>,
    encoding: Encoding,
) -> Result<Option<Sniffed>, WrongKind> {
    let text = sample.trim_ascii_start();
    let first = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let rows = || {
        let decoded_from = encoding.is_decoded_first().then_some(encoding);
        let encoding = if decoded_from.is_some() { Encoding::default() } else { encoding };
        let decimal = told.decimal;
        Sniffed::Rows(Head { encoding, decoded_from, decimal, ..Head::new(RowFormat::Jsonl) })
    };
    let whole_line = first.len() < text.len() || sample.len() < SAMPLE_BYTES;
    match text.first() {
        Some(b'{') if told.format == Some(RowFormat::Jsonl) => Ok(Some(rows())),
        Some(b'{') if whole_line => {
            let parsed: Option<serde_json::Map<String, serde_json::Value>> =
                serde_json::from_slice(first.trim_ascii()).ok();
            match parsed {
                Some(object) if !is_request(&object) => Ok(Some(rows())),
                // A line that is no JSON is for the ingest of requests to name.
                Some(_) | None => Ok(Some(Sniffed::Requests)),
            }
        }
        Some(b'{') => Ok(Some(Sniffed::Requests)),
        Some(b'[') => Err(WrongKind::new(
            "The input is a JSON array, not one object for each line: jq -c '.[]' makes lines of it.",
        )),
        Some(b'<') => Err(WrongKind::new(
            "The input is HTML or XML; check that it is the right file, a download may have failed.",
        )),
        _ if told.format == Some(RowFormat::Jsonl) => Ok(Some(rows())),
        _ if format == Some(RowFormat::Jsonl) || text.is_empty() => Ok(Some(Sniffed::Requests)),
        // A word and a line's end: no rows, and for the ingest of requests to name.
        _ if guess_delimiter(sample).is_none() => Ok(Some(Sniffed::Requests)),
        _ => Ok(None),
    }
}

fn is_request(object: &serde_json::Map<String, serde_json::Value>) -> bool {
    object.contains_key("custom_id")
        || (object.contains_key("url") && object.contains_key("method"))
}

fn csv_head(
    name: &str,
    sample: &[u8],
    told: &InputOptions,
    encoding: Encoding,
) -> Result<Head, WrongKind> {
    let said = said_in_file(sample);
    let by_name = name.to_ascii_lowercase();
    let is_tsv = by_name.trim_end_matches(".gz").trim_end_matches(".zst").ends_with(".tsv");
    let delimiter = match (told.delimiter, said) {
        (Some(told), _) => delimiter(told)?,
        (None, Some(said)) => said,
        (None, None) if is_tsv => b'\t',
        (None, None) => guess_delimiter(sample).unwrap_or(b','),
    };
    let decoded_from = encoding.is_decoded_first().then_some(encoding);
    let encoding = if decoded_from.is_some() { Encoding::default() } else { encoding };
    if encoding.may_hide(delimiter) {
        let (delimiter, encoding) = (char::from(delimiter), encoding.name());
        let message = format!(
            "In {encoding} the byte of {delimiter:?} is a part of other characters: it cannot stand \
             between cells."
        );
        return Err(WrongKind { code: "invalid_delimiter", message });
    }
    let header_row = match (told.header, said) {
        (None, Some(_)) => Some(2),
        (told, _) => told,
    };
    let (delimiter, decimal) = (Some(char::from(delimiter)), told.decimal);
    let head = Head::new(RowFormat::Csv);
    Ok(Head { delimiter, encoding, decoded_from, header_row, decimal, ..head })
}

/// A character that may stand between cells.
fn delimiter(told: char) -> Result<u8, WrongKind> {
    let byte = u8::try_from(told).ok().filter(u8::is_ascii);
    byte.filter(|byte| !byte.is_ascii_alphanumeric() && !b"\"\r\n\0".contains(byte)).ok_or_else(
        || WrongKind {
            code: "invalid_delimiter",
            message: format!(
                "{told:?} cannot stand between cells; an ASCII character does that is no letter, digit, \
                 quote or line ending."
            ),
        },
    )
}

/// What a spreadsheet wrote into a first line of its own: `sep=;`.
fn said_in_file(sample: &[u8]) -> Option<u8> {
    match sample {
        [b's' | b'S', b'e' | b'E', b'p' | b'P', b'=', said, b'\r' | b'\n', ..]
            if delimiter(char::from(*said)).is_ok() =>
        {
            Some(*said)
        }
        _ => None,
    }
}

/// What stands between cells: what gives most records of the sample the same number of cells, more than one.
fn guess_delimiter(sample: &[u8]) -> Option<u8> {
    let score = |delimiter: u8| {
        let records = CsvCutter::sample(sample, delimiter, RECORDS_COMPARED_MAX);
        let mut counts = records.iter().filter(|raw| !is_blank_record(raw));
        let first = Fields::count(counts.next()?, delimiter);
        if first < 2 {
            return None;
        }
        let (same, others) = counts.fold((1_usize, 0_usize), |(same, others), raw| {
            if Fields::count(raw, delimiter) == first {
                (same + 1, others)
            } else {
                (same, others + 1)
            }
        });
        // A share in per mille, then the number of cells.
        Some((same * 1000 / (same + others), first))
    };
    let scored = DELIMITERS.iter().filter_map(|byte| score(*byte).map(|score| (score, *byte)));
    // Of equals the first, which is the likeliest.
    scored.rev().max_by_key(|(score, _)| *score).map(|(_, byte)| byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(format: RowFormat) -> InputOptions {
        InputOptions { format: Some(format), ..InputOptions::default() }
    }

    fn found(name: &str, sample: &[u8]) -> String {
        match sniff(name, sample, &InputOptions::default()) {
            Ok(Sniffed::Requests) => "requests".to_owned(),
            Ok(Sniffed::Zip) => "zip".to_owned(),
            Ok(Sniffed::Rows(head)) => {
                let delimiter = head.delimiter.map(String::from).unwrap_or_default();
                format!("{}{delimiter}", head.format.as_str())
            }
            Err(error) => error.code.to_owned(),
        }
    }

    #[test]
    fn inputs_are_recognised() {
        for (name, sample, wanted) in [
            ("a.jsonl", &b"{\"custom_id\":\"a\"}\n"[..], "requests"),
            ("a.csv", b"id,name\n1,x\n", "csv,"),
            ("a", b"id;name\n1;x,y\n2;x,y\n", "csv;"),
            ("a.txt", b"id\tname\n1\tx\n", "csv\t"),
            ("a.tsv", b"id\n1\n", "csv\t"),
            ("a", b"id|a,b\n1|2\n", "csv|"),
            ("a.csv", b"\"a;b\",c\n\"d;e\",f\n", "csv,"),
            ("a.csv", b"sep=;\r\na,b;c,d\n", "csv;"),
            ("a.csv", b"word\nother\n", "csv,"),
            ("-", b"oops\n", "requests"),
            ("-", b"", "requests"),
            ("a.jsonl", b"{\"sku\":1}\n", "jsonl"),
            ("-", b"{\"sku\":1}", "jsonl"),
            ("a.jsonl", b"{oops\n", "requests"),
            ("-", b"[1]", "wrong_kind"),
            ("-", b"<html>", "wrong_kind"),
            ("a.xlsx", b"PK\x03\x04", "zip"),
            ("a.zip", b"PK\x03\x04", "zip"),
            ("a.csv", b"PK\x03\x04", "wrong_kind"),
            ("a.xlsx", b"id,name\n", "wrong_kind"),
            ("a.png", b"<svg></svg>", "wrong_kind"),
            ("a.csv", b"\x89PNG\r\n\x1a\n0000", "wrong_kind"),
            ("a.png", b"\x89PNG\r\n\x1a\n0000", "images"),
            ("a.xlsx", b"\xD0\xCF\x11\xE0", "wrong_kind"),
            ("a.csv", b"\xff\xfea\0;\0b\0\n\0", "csv;"),
        ] {
            assert_eq!(found(name, sample), wanted, "{name} {:?}", String::from_utf8_lossy(sample));
        }
    }

    #[test]
    fn what_is_told_wins_and_must_fit_the_bytes() {
        let csv = sniff("a.jsonl", b"{\"custom_id\":1}\n", &told(RowFormat::Csv)).unwrap();
        assert!(matches!(csv, Sniffed::Rows(Head { format: RowFormat::Csv, .. })));
        let rows = sniff("a", b"{\"custom_id\":1}\n", &told(RowFormat::Jsonl)).unwrap();
        assert!(matches!(rows, Sniffed::Rows(Head { format: RowFormat::Jsonl, .. })));
        assert!(sniff("a.csv", b"a,b\n", &told(RowFormat::Xlsx)).is_err());
        assert!(sniff("a.zip", b"PK\x03\x04", &told(RowFormat::Csv)).is_err());
        let bar = InputOptions {
            delimiter: Some('|'),
            encoding: Some("shift_jis".to_owned()),
            ..told(RowFormat::Csv)
        };
        assert_eq!(sniff("a.csv", b"a|b\n", &bar).unwrap_err().code, "invalid_delimiter");
        let unknown = InputOptions { encoding: Some("klingon".to_owned()), ..told(RowFormat::Csv) };
        assert_eq!(sniff("a.csv", b"a|b\n", &unknown).unwrap_err().code, "unknown_encoding");
        for bad in ['"', 'x', '\n', 'é'] {
            let told = InputOptions { delimiter: Some(bad), ..told(RowFormat::Csv) };
            assert_eq!(sniff("a.csv", b"a|b\n", &told).unwrap_err().code, "invalid_delimiter");
        }
    }
}
