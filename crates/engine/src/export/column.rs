//! The columns that an export may have, and their names. What a cell of each holds is in `cell.rs`.
//!
//! Three places repeat the names by hand: the API's description (`crates/server/src/rest/export.rs`), the help of
//! `windrow export` (`crates/cli/src/results.rs`), both held by tests, and `docs/export.md`.

use std::fmt;
use std::str::FromStr;

/// A column of an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Column {
    /// The line's number in the file.
    Line,
    /// The request's own id.
    CustomId,
    /// The target that the line went to.
    Target,
    /// The status of the line: completed, failed, not found or skipped.
    Status,
    /// Attempts that the line took.
    Attempts,
    /// The HTTP status of the last answer.
    HttpStatus,
    /// A stable word for what went wrong.
    ErrorCode,
    /// A sentence about what went wrong.
    Error,
    /// When it finished.
    FinishedAt,
    /// Whether it is a result of an earlier generation, which the line has until it has run again.
    Earlier,
    /// The whole answer.
    Response,
    /// A part of the answer, by its JSON pointer: `response:/choices/0/message/content`.
    Part(String),
}

/// What a part of the answer begins with.
const PART: &str = "response:";

impl Column {
    /// Every column with a name of its own.
    pub const NAMED: [Column; 11] = [
        Column::Line,
        Column::CustomId,
        Column::Target,
        Column::Status,
        Column::Attempts,
        Column::HttpStatus,
        Column::ErrorCode,
        Column::Error,
        Column::FinishedAt,
        Column::Earlier,
        Column::Response,
    ];

    /// What an export has unless it is told otherwise.
    pub fn usual() -> Vec<Column> {
        Column::NAMED.into_iter().filter(|column| *column != Column::Earlier).collect()
    }

    pub(super) fn is_of_response(&self) -> bool {
        matches!(self, Column::Response | Column::Part(_))
    }

    fn name(&self) -> &str {
        match self {
            Column::Line => "line",
            Column::CustomId => "custom_id",
            Column::Target => "target",
            Column::Status => "status",
            Column::Attempts => "attempts",
            Column::HttpStatus => "http_status",
            Column::ErrorCode => "error_code",
            Column::Error => "error",
            Column::FinishedAt => "finished_at",
            Column::Earlier => "earlier",
            Column::Response => "response",
            Column::Part(pointer) => pointer,
        }
    }
}

impl fmt::Display for Column {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if let Column::Part(_) = self { PART } else { "" };
        write!(f, "{kind}{}", self.name())
    }
}

/// A word that names no column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownColumn(pub String);

impl fmt::Display for UnknownColumn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown column {:?}; known are ", self.0)?;
        for column in Column::NAMED {
            write!(f, "{column}, ")?;
        }
        f.write_str("and response:/json/pointer for a part of the response")
    }
}

impl std::error::Error for UnknownColumn {}

impl FromStr for Column {
    type Err = UnknownColumn;

    fn from_str(word: &str) -> Result<Self, UnknownColumn> {
        let unknown = || UnknownColumn(word.to_owned());
        match word.strip_prefix(PART) {
            Some(pointer) if pointer.starts_with('/') => Ok(Column::Part(pointer.to_owned())),
            Some(_) => Err(unknown()),
            None => Column::NAMED.into_iter().find(|c| c.name() == word).ok_or_else(unknown),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_column_is_read_back_from_its_name() {
        for column in Column::NAMED.into_iter().chain([Column::Part("/a/0".to_owned())]) {
            assert_eq!(column.to_string().parse(), Ok(column));
        }
    }

    #[test]
    fn an_unknown_column_is_told_the_known_ones() {
        for word in ["colour", "response:", "response:a", "/a", ""] {
            let text = word.parse::<Column>().unwrap_err().to_string();
            assert!(
                text.starts_with(&format!("unknown column {word:?}; known are line, custom_id"))
            );
        }
    }
}
