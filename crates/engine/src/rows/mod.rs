//! Rows: what the rows of a file are, told or sniffed when it comes in, and the one reader of a stored row.
//!
//! A file of rows keeps a [`Head`] (the store keeps it as text): its format, how it was cut, the names of its
//! columns. With that head and the bytes of one stored row, [`read_row`] gives the row's cells.
//!
//! Holds throughout: a row is read by its own bytes and the head alone, never by its neighbours; a row that
//! cannot be read is an error of that row, with a code, a sentence and the column; cells of texts are texts
//! (`007` stays `007`), and only workbooks and JSON have numbers.

mod encoding;
mod fields;
mod json;
mod read;
mod sniff;

use serde::{Deserialize, Serialize};
use windrow_recipe::Columns;

pub use encoding::Encoding;
pub(crate) use fields::{Fields, QUOTE, is_blank_record};
pub(crate) use json::row_line;
pub(crate) use read::members;
pub use read::{RowError, read_row};
pub(crate) use sniff::SAMPLE_BYTES;
pub use sniff::{Sniffed, WrongKind, sniff};

/// Most columns of a file, as a workbook has.
pub const COLUMNS_MAX: usize = 16_384;
/// Largest head, as text: what the store keeps of one.
pub const HEAD_BYTES_MAX: usize = 256 << 10;
/// The names of the columns of pictures.
pub const PICTURE_COLUMNS: [&str; 6] = ["name", "width", "height", "bytes", "mime", "taken_at"];

/// What kind of rows a file has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RowFormat {
    /// Records of cells, whatever stands between them.
    Csv,
    /// A sheet of a workbook.
    Xlsx,
    /// One JSON object for each line.
    Jsonl,
    /// Pictures.
    Images,
}

impl RowFormat {
    /// Every format there is.
    pub const ALL: [RowFormat; 4] =
        [RowFormat::Csv, RowFormat::Xlsx, RowFormat::Jsonl, RowFormat::Images];

    /// Its word.
    pub fn as_str(self) -> &'static str {
        match self {
            RowFormat::Csv => "csv",
            RowFormat::Xlsx => "xlsx",
            RowFormat::Jsonl => "jsonl",
            RowFormat::Images => "images",
        }
    }
}

impl std::str::FromStr for RowFormat {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let found = RowFormat::ALL.into_iter().find(|format| format.as_str() == word);
        found.ok_or_else(|| format!("{word:?} is no format: csv, xlsx, jsonl or images"))
    }
}

/// What a caller says about an input; what is left out is sniffed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct InputOptions {
    /// The kind of its rows.
    pub format: Option<RowFormat>,
    /// What stands between cells: one ASCII character.
    pub delimiter: Option<char>,
    /// The encoding of its text, by a label of the Encoding Standard.
    pub encoding: Option<String>,
    /// The sheet of a workbook; the first visible one when left out.
    pub sheet: Option<String>,
    /// The number of the row with the names of the columns, from 1; 0 when there is none.
    pub header: Option<u64>,
    /// What stands before the decimals of numbers in texts.
    pub decimal: Option<char>,
}

/// What is known of the rows of a file: how they were cut and are read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// The kind of its rows.
    pub format: RowFormat,
    /// What stands between cells of [`RowFormat::Csv`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delimiter: Option<char>,
    /// The encoding of the stored rows.
    #[serde(default)]
    pub encoding: Encoding,
    /// The encoding that the input had, when it was decoded on its way in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decoded_from: Option<Encoding>,
    /// The sheet of a workbook.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sheet: Option<String>,
    /// The number of the row with the names; none when there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub header_row: Option<u64>,
    /// What stands before the decimals of numbers in texts, when it was said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decimal: Option<char>,
    /// The names of the columns as the file has them; empty ones for a file without names.
    pub headers: Vec<String>,
}

impl Head {
    /// A head without names.
    pub fn new(format: RowFormat) -> Self {
        Self {
            format,
            delimiter: None,
            encoding: Encoding::default(),
            decoded_from: None,
            sheet: None,
            header_row: None,
            decimal: None,
            headers: Vec::new(),
        }
    }

    /// The columns, by their folded names.
    pub fn columns(&self) -> Columns {
        Columns::fold(&self.headers)
    }

    /// The head as the store keeps it; none when it is larger than [`HEAD_BYTES_MAX`].
    pub fn to_text(&self) -> Option<String> {
        let text = serde_json::to_string(self).expect("a head is plain values");
        (text.len() <= HEAD_BYTES_MAX).then_some(text)
    }

    /// Reads what the store kept.
    pub fn from_text(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// What stands between cells, as the byte that it is.
    pub(crate) fn delimiter_byte(&self) -> u8 {
        self.delimiter.and_then(|found| u8::try_from(found).ok()).unwrap_or(b',')
    }
}
