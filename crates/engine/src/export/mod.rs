//! Export: finished lines as a table, JSONL or CSV, straight from the database.
//!
//! Holds throughout: lines come in input order, paged by key in short reads, so an export of a
//! running batch disturbs nobody and memory does not grow with it; columns are an allow-list.
//! Absent on purpose: defusing cells that a spreadsheet would take for a formula. A cell holds what
//! the target answered, byte by byte; docs/export.md says how to open it safely.

mod cell;
mod column;

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::str::FromStr;

use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use windrow_domain::attempt::Status;
use windrow_domain::{BatchId, LaneNo, Target};
use windrow_store::inspect::{FinishedLine, FinishedQuery, PAGE_MAX};
use windrow_store::{Scope, Store};

use cell::Row;
pub use column::{Column, UnknownColumn};

/// Most bytes of results in memory.
const PAGE_BYTES_MAX: u64 = 8 << 20;

/// How rows are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// One JSON object per line.
    #[default]
    Jsonl,
    /// A header and comma-separated values (RFC 4180, lines end with LF).
    Csv,
}

/// Which lines and columns to export, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// How rows are written.
    pub format: Format,
    /// In this order.
    pub columns: Vec<Column>,
    /// Only lines with one of these outcomes; empty for all.
    pub statuses: Vec<Status>,
}

impl Default for Export {
    fn default() -> Self {
        Self { format: Format::default(), columns: Column::USUAL.to_vec(), statuses: Vec::new() }
    }
}

/// An export that broke off. What was written before is whole rows.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The results could not be read.
    #[error("could not read the results")]
    Store(#[from] windrow_store::Error),
    /// They could not be written.
    #[error("could not write the export")]
    Write(#[from] io::Error),
}

impl Export {
    /// Writes the finished lines of a batch; returns how many.
    pub async fn write(
        &self,
        store: &dyn Store,
        scope: &Scope,
        batch: BatchId,
        out: &mut (impl AsyncWrite + Send + Unpin),
    ) -> Result<u64, Error> {
        let lanes = store.lanes(scope, batch).await?;
        let targets = lanes.into_iter().map(|lane| (lane.lane, lane.target)).collect();
        let mut query = FinishedQuery {
            batch: Some(batch),
            statuses: self.statuses.clone(),
            bodies: self.columns.iter().any(Column::is_of_response),
            limit: PAGE_MAX,
            bytes_max: Some(PAGE_BYTES_MAX),
            ..FinishedQuery::default()
        };
        let (mut rows, mut text) = (0, self.header()?);
        loop {
            let page = store.finished(scope, query.clone()).await?;
            self.add_rows(&mut text, &page.rows, &targets)?;
            out.write_all(&text).await?;
            text.clear();
            rows += page.rows.len() as u64;
            match page.next {
                Some(next) => query.after = Some(next),
                None => break,
            }
        }
        out.flush().await?;
        Ok(rows)
    }

    fn header(&self) -> io::Result<Vec<u8>> {
        match self.format {
            Format::Jsonl => Ok(Vec::new()),
            Format::Csv => {
                let mut csv = csv::Writer::from_writer(Vec::new());
                csv.write_record(self.columns.iter().map(ToString::to_string))?;
                csv.into_inner().map_err(|error| error.into_error())
            }
        }
    }

    fn add_rows(
        &self,
        text: &mut Vec<u8>,
        lines: &[FinishedLine],
        targets: &HashMap<LaneNo, Target>,
    ) -> io::Result<()> {
        let mut csv = csv::Writer::from_writer(Vec::new());
        for line in lines {
            let row = Row::of(line, targets.get(&line.lane), &self.columns);
            match self.format {
                Format::Jsonl => row.put_json(text, &self.columns),
                Format::Csv => {
                    for column in &self.columns {
                        csv.write_field(row.text(column).as_ref())?;
                    }
                    csv.write_record(None::<&[u8]>)?;
                }
            }
        }
        text.extend(csv.into_inner().map_err(|error| error.into_error())?);
        Ok(())
    }
}

/// A word that names no format or outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownWord {
    what: &'static str,
    word: String,
    known: String,
}

impl fmt::Display for UnknownWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown {} {:?}; known are {}", self.what, self.word, self.known)
    }
}

impl std::error::Error for UnknownWord {}

impl FromStr for Format {
    type Err = UnknownWord;

    fn from_str(word: &str) -> Result<Self, UnknownWord> {
        match word {
            "jsonl" => Ok(Format::Jsonl),
            "csv" => Ok(Format::Csv),
            _ => Err(UnknownWord {
                what: "format",
                word: word.to_owned(),
                known: "jsonl, csv".to_owned(),
            }),
        }
    }
}

/// The outcome with that name.
pub fn status(word: &str) -> Result<Status, UnknownWord> {
    let found = Status::ALL.into_iter().find(|status| status.as_str() == word);
    found.ok_or_else(|| UnknownWord {
        what: "status",
        word: word.to_owned(),
        known: Status::ALL.map(Status::as_str).join(", "),
    })
}
