//! Rows on their way into a file: one lane, numbered as a spreadsheet numbers them, with the head of the file.
//!
//! Holds throughout: what is no row (names, empty lines, what stands before the names) is kept beside the lane,
//! so that the file reads back whole; a row that cannot be read is kept as a row and named, and stops no other.

use bytes::Bytes;
use windrow_domain::LaneNo;
use windrow_domain::ids::NO_MODEL;
use windrow_store::ingest::LineError;

use super::Options;
use super::chunks::Chunker;
use super::parse::{Give, Stopped, ValidationReport, too_many};
use super::sizer::Limit;
use crate::rows::{COLUMNS_MAX, Head, RowError};

/// Gathers the rows of one file.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) head: Head,
    pub(crate) report: ValidationReport,
    chunker: Chunker,
    lane: Option<LaneNo>,
    rows: u64,
    rows_max: u64,
}

impl Table {
    pub(crate) fn new(head: Head, options: &Options, rows: Limit) -> Self {
        Self {
            head,
            report: ValidationReport::default(),
            chunker: Chunker::new(options, rows),
            lane: None,
            rows: 0,
            rows_max: options.lines_max,
        }
    }

    /// Keeps bytes that are no row.
    pub(crate) fn keep(&mut self, line: u64, raw: Bytes, give: Give<'_>) -> Result<(), Stopped> {
        self.chunker.add(None, line, raw).map_or(Ok(()), give)
    }

    /// Adds a row.
    pub(crate) fn add(&mut self, line: u64, raw: Bytes, give: Give<'_>) -> Result<(), Stopped> {
        if self.rows >= self.rows_max {
            if self.rows == self.rows_max {
                self.report.note(too_many(self.rows_max).at(line));
                self.rows += 1;
            }
            return self.keep(line, raw, give);
        }
        self.rows += 1;
        // A lane is named by the chunk that has its first line: only a row makes one.
        let lane = match self.lane {
            Some(lane) => lane,
            None => self.chunker.lane(NO_MODEL).expect("a file may have one lane"),
        };
        self.lane = Some(lane);
        self.chunker.add(Some(lane), line, raw).map_or(Ok(()), give)
    }

    /// Whether so many rows were found that no more are taken.
    pub(crate) fn is_full(&self) -> bool {
        self.rows > self.rows_max
    }

    /// Notes what is wrong with the file itself.
    pub(crate) fn fail(&mut self, code: &str, line: Option<u64>, message: impl Into<String>) {
        let (code, message) = (code.to_owned(), message.into());
        self.report.note(LineError { code, line, message, param: None });
    }

    /// Notes a row that cannot be read.
    pub(crate) fn warn(&mut self, line: u64, error: RowError) {
        self.report.warn(LineError {
            code: error.code.to_owned(),
            line: Some(line),
            message: error.message,
            param: error.column,
        });
    }

    /// Sets the names of the columns.
    pub(crate) fn name_columns(&mut self, row: Option<u64>, headers: Vec<String>) {
        if headers.len() > COLUMNS_MAX {
            let message = format!("The file has more than {COLUMNS_MAX} columns.");
            self.fail("too_many_columns", row, message);
        }
        (self.head.header_row, self.head.headers) = (row, headers);
    }

    /// Gives out the last chunk and says what the file is worth.
    pub(crate) fn finish(mut self, give: Give<'_>) -> Result<ValidationReport, Stopped> {
        self.chunker.cut().map_or(Ok(()), give)?;
        if self.rows == 0 && self.report.errors_total == 0 {
            let message = match self.head.header_row {
                Some(row) => format!("The file holds no row behind its names in row {row}."),
                None => "The file holds no row.".to_owned(),
            };
            self.fail("empty_file", None, message);
        }
        if self.head.to_text().is_none() {
            let message = "The names of the columns are too long together.";
            self.fail("header_too_large", self.head.header_row, message);
            self.head.headers.clear();
        }
        self.report.head = Some(self.head);
        self.report.errors.sort_by_key(|error| error.line);
        Ok(self.report)
    }
}
