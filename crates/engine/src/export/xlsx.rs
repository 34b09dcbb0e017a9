//! A workbook that is written row by row: what is done is on disk, and a row at a time in memory.
//!
//! Holds throughout: a cell is a number or a text, never a formula; a sheet that is full is followed
//! by the next, with the same header; a text too long for a cell is cut.

use std::fs::File;
use std::io::{self, BufWriter, Seek as _, SeekFrom};

use rust_xlsxwriter::{Workbook, XlsxError};

use super::cell::Cell;

/// Rows of a sheet, its header included.
const SHEET_ROWS_MAX: u32 = 1_048_576;
/// Longest text of a cell, in the units of UTF-16 that spreadsheets count.
const TEXT_UNITS_MAX: usize = 32_767;
/// What the end of a text becomes that was cut.
const CUT: &str = "…";
/// Text beyond which the file may need the form for large ones, which not every reader knows.
const SMALL_BYTES_MAX: u64 = 1 << 30;

/// A workbook that is being filled.
pub(super) struct Book {
    workbook: Workbook,
    header: Vec<String>,
    sheets: usize,
    sheet_rows_max: u32,
    /// Rows of the last sheet.
    rows: u32,
    /// Text in all cells.
    bytes: u64,
}

impl Book {
    pub(super) fn new(header: Vec<String>) -> io::Result<Self> {
        Self::with_sheets_of(SHEET_ROWS_MAX, header)
    }

    fn with_sheets_of(sheet_rows_max: u32, header: Vec<String>) -> io::Result<Self> {
        let workbook = Workbook::new();
        let mut book = Self { workbook, header, sheets: 0, sheet_rows_max, rows: 0, bytes: 0 };
        book.begin_sheet()?;
        Ok(book)
    }

    pub(super) fn add_row<'a>(&mut self, cells: impl Iterator<Item = Cell<'a>>) -> io::Result<()> {
        if self.rows >= self.sheet_rows_max {
            self.begin_sheet()?;
        }
        self.put(cells)
    }

    /// The whole file, to be read from its beginning. It has no name and goes when it is closed.
    pub(super) fn finish(mut self) -> io::Result<File> {
        self.workbook.use_zip_large_file(self.bytes > SMALL_BYTES_MAX);
        let mut out = BufWriter::new(tempfile::tempfile()?);
        self.workbook.save_to_writer(&mut out).map_err(failed)?;
        let mut file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.seek(SeekFrom::Start(0))?;
        Ok(file)
    }

    fn begin_sheet(&mut self) -> io::Result<()> {
        let sheet = self.workbook.add_worksheet_with_constant_memory().map_err(failed)?;
        // The header stays in sight.
        sheet.set_freeze_panes(1, 0).map_err(failed)?;
        (self.sheets, self.rows) = (self.sheets + 1, 0);
        let header = self.header.clone();
        self.put(header.iter().map(|name| Cell::Text(name.into())))
    }

    fn put<'a>(&mut self, cells: impl Iterator<Item = Cell<'a>>) -> io::Result<()> {
        let sheet = self.workbook.worksheet_from_index(self.sheets - 1).map_err(failed)?;
        for (column, cell) in (0_u16..).zip(cells) {
            match cell {
                Cell::Empty => {}
                Cell::Number(number) => {
                    sheet.write_number(self.rows, column, number).map_err(failed)?;
                }
                Cell::Text(text) => {
                    self.bytes += text.len() as u64;
                    sheet.write_string(self.rows, column, fitting(&text)).map_err(failed)?;
                }
            }
        }
        self.rows += 1;
        Ok(())
    }
}

/// As much of a text as a cell takes, without the two characters that no XML may hold.
fn fitting(text: &str) -> String {
    let mut text = text.replace(['\u{fffe}', '\u{ffff}'], "\u{fffd}");
    // A character has at least as many bytes as units, so most texts need no counting.
    if text.len() > TEXT_UNITS_MAX && text.encode_utf16().count() > TEXT_UNITS_MAX {
        let (mut units, mut end) = (CUT.encode_utf16().count(), 0);
        for (at, letter) in text.char_indices() {
            units += letter.len_utf16();
            if units > TEXT_UNITS_MAX {
                end = at;
                break;
            }
        }
        text.truncate(end);
        text.push_str(CUT);
    }
    text
}

fn failed(error: XlsxError) -> io::Error {
    match error {
        XlsxError::IoError(error) => error,
        other => io::Error::other(other),
    }
}

#[cfg(test)]
mod tests {
    use calamine::{Data, Reader as _, Xlsx};

    use super::*;

    #[test]
    fn a_full_sheet_is_followed_by_the_next_with_the_same_header() {
        let mut book = Book::with_sheets_of(3, vec!["line".to_owned()]).unwrap();
        for line in 1..=5 {
            book.add_row([Cell::Number(f64::from(line))].into_iter()).unwrap();
        }
        let mut read = Xlsx::new(book.finish().unwrap()).unwrap();
        let sheets: Vec<Vec<Data>> = read
            .worksheets()
            .into_iter()
            .map(|(_, range)| range.cells().map(|(_, _, cell)| cell.clone()).collect())
            .collect();
        let header = || Data::String("line".to_owned());
        let expected = [
            vec![header(), Data::Float(1.0), Data::Float(2.0)],
            vec![header(), Data::Float(3.0), Data::Float(4.0)],
            vec![header(), Data::Float(5.0)],
        ];
        assert_eq!(sheets, expected);
    }

    #[test]
    fn a_long_text_is_cut_where_a_character_ends() {
        assert_eq!(fitting("short"), "short");
        let whole = "x".repeat(TEXT_UNITS_MAX);
        assert_eq!(fitting(&whole), whole);
        for letter in ["x", "ü", "😀"] {
            let cut = fitting(&letter.repeat(TEXT_UNITS_MAX + 1));
            assert!(cut.ends_with(CUT));
            let units = cut.encode_utf16().count();
            assert!((TEXT_UNITS_MAX - 1..=TEXT_UNITS_MAX).contains(&units), "{letter} {units}");
        }
    }
}
