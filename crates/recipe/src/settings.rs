//! The parts of a recipe that are plain settings: `[input]`, `[show]`, `[retry]`.

/// How the input is to be read. All of it may be left out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Input {
    /// Otherwise by name and first bytes.
    pub format: Option<Format>,
    /// What stands between the cells of a CSV file.
    pub delimiter: Option<char>,
    /// The name of an encoding: `windows-1252`.
    pub encoding: Option<String>,
    /// The name of a sheet; the first one when it is left out.
    pub sheet: Option<String>,
    /// The row of the header, from 1; 0 when there is none.
    pub header: Option<u32>,
    /// `.` or `,`.
    pub decimal: Option<char>,
    /// The column that labels rows for people.
    pub id: Option<String>,
    /// Columns that may be missing, and then are empty.
    pub optional: Vec<String>,
    /// The column that names a row's picture.
    pub image: Option<String>,
    /// Pictures are scaled to at most that many pixels a side.
    pub side_max: Option<u32>,
}

impl Input {
    pub(crate) fn decimal_sign(&self) -> char {
        self.decimal.unwrap_or('.')
    }
}

/// What a file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Cells between delimiters.
    Csv,
    /// A workbook.
    Xlsx,
    /// A JSON object a line.
    Jsonl,
    /// Pictures: a zip, several files or a folder.
    Images,
}

impl Format {
    /// Every format with its word.
    pub const ALL: [(&'static str, Self); 4] = [
        ("csv", Self::Csv),
        ("xlsx", Self::Xlsx),
        ("jsonl", Self::Jsonl),
        ("images", Self::Images),
    ];

    /// As a recipe writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::Xlsx => "xlsx",
            Self::Jsonl => "jsonl",
            Self::Images => "images",
        }
    }
}

/// What the grid and lists show of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Show {
    /// Input columns in the grid; all when it is left out.
    pub keep: Option<Vec<String>>,
    /// Input columns in lists of pending rows; the first three when it is left out.
    pub summary: Option<Vec<String>>,
    /// Whether the raw answer is kept, from which columns can be made anew.
    pub answer: bool,
}

impl Default for Show {
    fn default() -> Self {
        Self { keep: None, summary: None, answer: true }
    }
}

/// How often and how slowly a row is repeated; the engine keeps both within the operator's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RetryBounds {
    /// Attempts of one strategy.
    pub attempts: Option<u32>,
    /// Between two attempts, at least.
    pub wait_secs: Option<u32>,
}
