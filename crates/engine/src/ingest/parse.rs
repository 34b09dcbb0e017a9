//! Parsing: pieces are judged and gathered into chunks; what is wrong is remembered in line order.
//!
//! Holds throughout: no error stops the reading, so that a file's bytes are kept whole and its
//! author sees all that is wrong at once (the first [`ERRORS_MAX`]).

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io;

use bytes::Bytes;
use windrow_store::ingest::{Chunk, ERRORS_MAX, LineError};

use super::Options;
use super::chunks::{Chunker, TooManyLanes};
use super::duplicates::{Duplicate, Duplicates};
use super::jsonl::{self, Fault};
use super::sizer::Limit;
use super::split::{Piece, Splitter};
use crate::rows::Head;

/// Different names that nothing is done with, as far as they are counted.
const UNKNOWN_NAMES_MAX: usize = 8;
/// What is kept of such a name, in characters.
const UNKNOWN_CHARS_MAX: usize = 64;

/// Why parsing stopped before the end.
#[derive(Debug)]
pub(crate) enum Stopped {
    /// Chunks are not taken any more.
    Unwanted,
    /// The temporary file failed.
    Spill(io::Error),
    /// What is kept in the storage could not be read.
    Read(io::Error),
}

/// What the whole file showed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ValidationReport {
    /// The first errors, in line order; none for a file that may be run.
    pub(crate) errors: Vec<LineError>,
    /// How many there are, kept or not.
    pub(crate) errors_total: u64,
    /// What every request asks for, when it is the same.
    pub(crate) endpoint: Option<String>,
    /// How many lines have a name that nothing is done with, by name.
    pub(crate) unknown_keys: BTreeMap<String, u64>,
    /// What the rows are; none for requests.
    pub(crate) head: Option<Head>,
    /// Rows that cannot be read, the first of them; they stop no other row.
    pub(crate) warnings: Vec<LineError>,
    /// How many there are, kept or not.
    pub(crate) warnings_total: u64,
}

/// Takes chunks as they fill.
pub(crate) type Give<'g> = &'g mut dyn FnMut(Chunk) -> Result<(), Stopped>;

/// What turns the blocks of an input into chunks.
pub(crate) trait Parse: Send {
    /// Lines that were read to their end.
    fn lines(&self) -> u64;

    /// Takes the next block; gives out chunks as they fill.
    fn push(&mut self, block: Bytes, give: Give<'_>) -> Result<(), Stopped>;

    /// Gives out the last chunk and says what the file is worth.
    fn finish(self: Box<Self>, give: Give<'_>) -> Result<ValidationReport, Stopped>;
}

impl ValidationReport {
    /// Notes what is wrong with the file.
    pub(crate) fn note(&mut self, error: LineError) {
        self.errors_total += 1;
        if self.errors.len() < ERRORS_MAX {
            self.errors.push(error);
        }
    }

    /// Notes a row that cannot be read.
    pub(crate) fn warn(&mut self, warning: LineError) {
        self.warnings_total += 1;
        if self.warnings.len() < ERRORS_MAX {
            self.warnings.push(warning);
        }
    }

    /// Counts names that nothing is done with, the first few of them.
    fn note_unknown(&mut self, names: &[Cow<'_, str>]) {
        for name in names {
            let name: String = name.chars().take(UNKNOWN_CHARS_MAX).collect();
            if self.unknown_keys.len() < UNKNOWN_NAMES_MAX || self.unknown_keys.contains_key(&name)
            {
                *self.unknown_keys.entry(name).or_default() += 1;
            }
        }
    }
}

/// Turns blocks into chunks.
#[derive(Debug)]
pub(crate) struct Parser {
    splitter: Splitter,
    validator: Validator,
}

impl Parser {
    pub(crate) fn new(options: Options, rows: Limit) -> Self {
        let splitter = Splitter::new(options.line_bytes_max);
        let validator = Validator {
            chunker: Chunker::new(&options, rows),
            duplicates: Duplicates::new(options.duplicates_bytes_max),
            report: ValidationReport::default(),
            endpoint: Endpoint::None,
            requests: 0,
            options,
        };
        Self { splitter, validator }
    }
}

impl Parse for Parser {
    fn lines(&self) -> u64 {
        self.splitter.lines()
    }

    fn push(&mut self, block: Bytes, give: Give<'_>) -> Result<(), Stopped> {
        let validator = &mut self.validator;
        self.splitter.push(block, &mut |piece| validator.take(piece, give))
    }

    fn finish(self: Box<Self>, give: Give<'_>) -> Result<ValidationReport, Stopped> {
        let mut validator = self.validator;
        self.splitter.finish(&mut |piece| validator.take(piece, give))?;
        validator.chunker.cut().map_or(Ok(()), give)?;
        validator.verdict()
    }
}

#[derive(Debug)]
struct Validator {
    options: Options,
    chunker: Chunker,
    duplicates: Duplicates,
    report: ValidationReport,
    endpoint: Endpoint,
    requests: u64,
}

/// What the requests so far ask for.
#[derive(Debug)]
enum Endpoint {
    None,
    One(String),
    Many,
}

impl Endpoint {
    fn note(&mut self, path: &str) {
        match self {
            Endpoint::None => *self = Endpoint::One(path.to_owned()),
            Endpoint::One(one) if one != path => *self = Endpoint::Many,
            Endpoint::One(_) | Endpoint::Many => {}
        }
    }
}

impl Validator {
    fn take(&mut self, piece: Piece, give: Give<'_>) -> Result<(), Stopped> {
        let full = match piece {
            // Line 0 sorts before line 1, to which the mark does not belong.
            Piece::Mark(raw) => self.chunker.add(None, 0, raw),
            Piece::Line { line, raw } => {
                let lane = self.lane(line, &raw)?;
                self.chunker.add(lane, line, raw)
            }
            Piece::Part { line, raw, first } => {
                if first {
                    self.note(too_long(self.options.line_bytes_max).at(line));
                }
                self.chunker.add(None, line, raw)
            }
        };
        full.map_or(Ok(()), give)
    }

    /// The lane of a request; none for everything else, which is noted unless it is blank.
    fn lane(&mut self, line: u64, raw: &Bytes) -> Result<Option<u16>, Stopped> {
        if self.requests > self.options.lines_max || jsonl::is_blank(raw) {
            return Ok(None);
        }
        self.requests += 1;
        if self.requests > self.options.lines_max {
            self.note(too_many(self.options.lines_max).at(line));
            return Ok(None);
        }
        let request = match jsonl::read(raw, &self.options) {
            Ok(request) => request,
            Err(fault) => {
                self.note(fault.at(line));
                return Ok(None);
            }
        };
        self.report.note_unknown(&request.unknown);
        self.duplicates.insert(&request.custom_id, line).map_err(Stopped::Spill)?;
        self.endpoint.note(request.path());
        match self.chunker.lane(request.target()) {
            Ok(lane) => Ok(Some(lane)),
            Err(TooManyLanes) => {
                self.note(too_many_lanes(self.options.lanes_max).at(line));
                Ok(None)
            }
        }
    }

    fn note(&mut self, error: LineError) {
        self.report.note(error);
    }

    fn verdict(self) -> Result<ValidationReport, Stopped> {
        let mut report = self.report;
        if let Endpoint::One(path) = self.endpoint {
            report.endpoint = Some(path);
        }
        if self.requests == 0 && report.errors_total == 0 {
            report.errors_total = 1;
            report.errors.push(LineError {
                code: "empty_file".to_owned(),
                line: None,
                message: "The file holds no request.".to_owned(),
                param: None,
            });
        }
        let found = self.duplicates.finish(ERRORS_MAX).map_err(Stopped::Spill)?;
        report.errors_total += found.total;
        report.errors.extend(found.kept.into_iter().map(duplicate));
        // Stable: two errors of one line stay in the order in which they were found.
        report.errors.sort_by_key(|error| error.line);
        report.errors.truncate(ERRORS_MAX);
        Ok(report)
    }
}

pub(crate) fn too_long(bytes_max: usize) -> Fault {
    let message = format!("The line is longer than {bytes_max} bytes.");
    Fault { code: "line_too_long", message, param: None }
}

pub(crate) fn too_many(lines_max: u64) -> Fault {
    let message = format!("The file holds more than {lines_max} requests; the rest was not read.");
    Fault { code: "too_many_tasks", message, param: None }
}

fn too_many_lanes(lanes_max: usize) -> Fault {
    let message = format!("The file names more than {lanes_max} different models.");
    Fault { code: "too_many_lanes", message, param: Some("body.model") }
}

fn duplicate(Duplicate { line, first }: Duplicate) -> LineError {
    let message = format!("`custom_id` is the same as on line {first}.");
    Fault { code: "duplicate_custom_id", message, param: Some("custom_id") }.at(line)
}
