//! Export: finished lines as a table, JSONL, CSV or a workbook, straight from the database.
//!
//! Holds throughout: lines come in input order, paged by key in short reads, so an export of a
//! running batch disturbs nothing and memory does not grow with it; columns are an allow-list; a text
//! that a spreadsheet would take for a formula is escaped where that was asked for, and nowhere else.

mod cell;
mod column;
mod xlsx;

use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::str::FromStr;
use std::sync::Arc;

use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use windrow_domain::attempt::Status;
use windrow_domain::{BatchId, LaneNo, Target};
use windrow_store::inspect::{FinishedLine, FinishedQuery, PAGE_MAX};
use windrow_store::{Scope, Store};

use cell::Row;
pub use column::{Column, UnknownColumn};
use xlsx::Book;

/// Most bytes of results in memory.
const PAGE_BYTES_MAX: u64 = 8 << 20;
/// Bytes of a finished workbook that are read at once.
const PIECE_BYTES: usize = 256 << 10;

/// How rows are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// One JSON object per line.
    #[default]
    Jsonl,
    /// A header and comma-separated values (RFC 4180, lines end with LF).
    Csv,
    /// A workbook (Office Open XML). It is made on disk before its first byte is written.
    Xlsx,
}

/// Which lines and columns to export, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// How rows are written.
    pub format: Format,
    /// The columns, in this order.
    pub columns: Vec<Column>,
    /// Only lines with one of these outcomes; empty for all.
    pub statuses: Vec<Status>,
    /// Whether cells of CSV and workbooks that a spreadsheet would take for a formula get an
    /// apostrophe before them. Numbers stay as they are.
    pub defuse: bool,
}

impl Default for Export {
    fn default() -> Self {
        let columns = Column::usual();
        Self { format: Format::default(), columns, statuses: Vec::new(), defuse: false }
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
        match self.format {
            Format::Jsonl | Format::Csv => {
                self.write_text(store, scope, batch, &targets, out).await
            }
            Format::Xlsx => self.write_book(store, scope, batch, targets, out).await,
        }
    }

    fn query(&self, batch: BatchId) -> FinishedQuery {
        FinishedQuery {
            batch: Some(batch),
            statuses: self.statuses.clone(),
            bodies: self.columns.iter().any(Column::is_of_response),
            limit: PAGE_MAX,
            bytes_max: Some(PAGE_BYTES_MAX),
            earlier: true,
            ..FinishedQuery::default()
        }
    }

    async fn write_text(
        &self,
        store: &dyn Store,
        scope: &Scope,
        batch: BatchId,
        targets: &Targets,
        out: &mut (impl AsyncWrite + Send + Unpin),
    ) -> Result<u64, Error> {
        let (mut query, mut rows) = (self.query(batch), 0);
        // At once: the reader sees that it has begun.
        out.write_all(&self.header()?).await?;
        out.flush().await?;
        loop {
            let page = store.finished(scope, query.clone()).await?;
            let mut text = Vec::new();
            self.add_rows(&mut text, &page.rows, targets)?;
            out.write_all(&text).await?;
            rows += page.rows.len() as u64;
            match page.next {
                Some(next) => query.after = Some(next),
                None => break,
            }
        }
        out.flush().await?;
        Ok(rows)
    }

    async fn write_book(
        &self,
        store: &dyn Store,
        scope: &Scope,
        batch: BatchId,
        targets: Targets,
        out: &mut (impl AsyncWrite + Send + Unpin),
    ) -> Result<u64, Error> {
        let (mut query, mut rows) = (self.query(batch), 0);
        let (columns, targets) = (Arc::new(self.columns.clone()), Arc::new(targets));
        let header = columns.iter().map(ToString::to_string).collect();
        let mut book = blocking(move || Book::new(header)).await?;
        loop {
            let page = store.finished(scope, query.clone()).await?;
            rows += page.rows.len() as u64;
            let (columns, targets, defuse) = (columns.clone(), targets.clone(), self.defuse);
            book = blocking(move || {
                for line in &page.rows {
                    let row = Row::of(line, targets.get(&line.lane), &columns);
                    book.add_row(columns.iter().map(|column| row.cell(column, defuse)))?;
                }
                Ok(book)
            })
            .await?;
            match page.next {
                Some(next) => query.after = Some(next),
                None => break,
            }
        }
        pour(blocking(move || book.finish()).await?, out).await?;
        Ok(rows)
    }

    fn header(&self) -> io::Result<Vec<u8>> {
        match self.format {
            Format::Jsonl | Format::Xlsx => Ok(Vec::new()),
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
        targets: &Targets,
    ) -> io::Result<()> {
        let mut csv = csv::Writer::from_writer(Vec::new());
        for line in lines {
            let row = Row::of(line, targets.get(&line.lane), &self.columns);
            match self.format {
                Format::Jsonl => row.put_json(text, &self.columns),
                Format::Csv | Format::Xlsx => {
                    for column in &self.columns {
                        csv.write_field(row.text(column, self.defuse).as_ref())?;
                    }
                    csv.write_record(None::<&[u8]>)?;
                }
            }
        }
        text.extend(csv.into_inner().map_err(|error| error.into_error())?);
        Ok(())
    }
}

/// Where the lines of each lane go.
type Targets = HashMap<LaneNo, Target>;

/// Work that computes for long, or waits for a disk.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(error.into()))
}

/// Writes a whole file, a piece at a time.
async fn pour(mut file: File, out: &mut (impl AsyncWrite + Send + Unpin)) -> io::Result<()> {
    loop {
        let piece;
        (file, piece) = blocking(move || {
            let mut piece = Vec::with_capacity(PIECE_BYTES);
            (&file).take(PIECE_BYTES as u64).read_to_end(&mut piece)?;
            Ok((file, piece))
        })
        .await?;
        if piece.is_empty() {
            return out.flush().await;
        }
        out.write_all(&piece).await?;
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
            "xlsx" => Ok(Format::Xlsx),
            _ => Err(UnknownWord {
                what: "format",
                word: word.to_owned(),
                known: "jsonl, csv, xlsx".to_owned(),
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
