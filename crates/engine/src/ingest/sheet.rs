//! Rows of a sheet: the cells of a workbook, streamed, become one line of JSON for each row.
//!
//! Holds throughout: the workbook was checked before it is opened; one row is in memory, and the texts that its
//! sheets share; a row has the number that the spreadsheet shows; rows without a cell are no rows. Whole
//! numbers are integers, dates and times are ISO texts.

use std::io::{Read, Seek};

use calamine::{DataRef, Reader as _, SheetType, SheetVisible, Xlsx, XlsxError};
use windrow_recipe::Cell;

use super::parse::{Give, Stopped};
use super::table::Table;
use crate::rows::{COLUMNS_MAX, row_line};

/// Sheets that are named in an error.
const SHEETS_NAMED_MAX: usize = 10;
/// From here on numbers of a sheet have gaps.
const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;
const SECONDS_OF_DAY: f64 = 86_400.0;

/// Reads a sheet into a table. What is wrong with the workbook is noted there.
pub(crate) fn read<R: Read + Seek>(
    reader: R,
    table: &mut Table,
    told: Option<u64>,
    line_bytes_max: usize,
    give: Give<'_>,
) -> Result<(), Stopped> {
    let opened = Xlsx::new(reader).map_err(|error| refusal(&error));
    let mut workbook = match opened {
        Ok(workbook) => workbook,
        Err((code, message)) => {
            table.fail(code, None, message);
            return Ok(());
        }
    };
    let Some(sheet) = choose(&workbook, table) else { return Ok(()) };
    table.head.sheet = Some(sheet.clone());
    let mut cells = match workbook.worksheet_cells_reader(&sheet) {
        Ok(cells) => cells,
        Err(error) => {
            let (code, message) = refusal(&error);
            table.fail(code, None, message);
            return Ok(());
        }
    };
    let mut rows = Rows { told, line_bytes_max, named: false, number: 0, cells: Vec::new() };
    loop {
        match cells.next_cell() {
            Ok(Some(cell)) => {
                let (row, column) = cell.get_position();
                let (row, column) = (u64::from(row) + 1, column as usize);
                if row < rows.number || column >= COLUMNS_MAX {
                    let message = format!("Row {row}, column {}: a cell out of order.", column + 1);
                    table.fail("invalid_workbook", Some(row), message);
                    return Ok(());
                }
                if row > rows.number {
                    rows.end(table, give)?;
                    rows.number = row;
                }
                rows.put(column, value(cell.get_value()));
                if table.is_full() {
                    return Ok(());
                }
            }
            Ok(None) => {
                rows.end(table, give)?;
                return rows.finish(table);
            }
            Err(error) => {
                let (code, message) = refusal(&error);
                table.fail(code, (rows.number > 0).then_some(rows.number), message);
                return Ok(());
            }
        }
    }
}

/// The sheet that was asked for, or the first one that people see.
fn choose<R: Read + Seek>(workbook: &Xlsx<R>, table: &mut Table) -> Option<String> {
    let sheets = workbook.sheets_metadata();
    let names = || {
        let names = sheets.iter().take(SHEETS_NAMED_MAX).map(|sheet| format!("{:?}", sheet.name));
        names.collect::<Vec<_>>().join(", ")
    };
    let found = match &table.head.sheet {
        Some(told) => sheets.iter().find(|sheet| sheet.name == *told),
        None => sheets.iter().find(|sheet| {
            sheet.typ == SheetType::WorkSheet && sheet.visible == SheetVisible::Visible
        }),
    };
    if found.is_none() {
        let message = match &table.head.sheet {
            Some(told) => format!("The workbook has no sheet {told:?}; it has {}.", names()),
            None => "The workbook has no sheet that is shown.".to_owned(),
        };
        table.fail("no_such_sheet", None, message);
    }
    found.map(|sheet| sheet.name.clone())
}

fn refusal(error: &XlsxError) -> (&'static str, String) {
    match error {
        XlsxError::Password => ("encrypted", "The workbook is encrypted.".to_owned()),
        error => ("invalid_workbook", format!("The workbook cannot be read: {error}.")),
    }
}

/// The row that is being read.
struct Rows {
    told: Option<u64>,
    line_bytes_max: usize,
    named: bool,
    number: u64,
    cells: Vec<Cell>,
}

impl Rows {
    fn put(&mut self, column: usize, cell: Cell) {
        if cell == Cell::Empty {
            return;
        }
        if self.cells.len() <= column {
            self.cells.resize(column + 1, Cell::Empty);
        }
        self.cells[column] = cell;
    }

    fn end(&mut self, table: &mut Table, give: Give<'_>) -> Result<(), Stopped> {
        let mut cells = std::mem::take(&mut self.cells);
        if cells.is_empty() {
            return Ok(());
        }
        let number = self.number;
        if !self.named {
            match self.told {
                Some(0) => table.name_columns(None, vec![String::new(); cells.len()]),
                Some(told) if number < told => {
                    return table.keep(number, row_line(&cells).into(), give);
                }
                Some(told) if number > told => {
                    let message = format!("Row {told} was said to have the names, and is empty.");
                    table.fail("header_missing", Some(told), message);
                }
                Some(_) | None => {
                    let names = cells.iter().map(Cell::to_string).collect();
                    table.name_columns(Some(number), names);
                }
            }
            self.named = true;
            if self.told != Some(0) {
                return table.keep(number, row_line(&cells).into(), give);
            }
        }
        // One cell too many shows that there are more: a far one would make a small file large.
        cells.truncate(table.head.headers.len() + 1);
        while cells.len() > table.head.headers.len() && cells.last() == Some(&Cell::Empty) {
            *cells.last_mut().expect("there is one more") = Cell::Text("…".to_owned());
        }
        let line = row_line(&cells);
        if line.len() > self.line_bytes_max {
            table.report.note(super::parse::too_long(self.line_bytes_max).at(number));
            return Ok(());
        }
        if cells.len() > table.head.headers.len()
            && let Err(error) = crate::rows::read_row(&table.head, &line)
        {
            table.warn(number, error);
        }
        table.add(number, line.into(), give)
    }

    fn finish(&self, table: &mut Table) -> Result<(), Stopped> {
        if let (Some(told @ 1..), false) = (self.told, self.named) {
            let message = format!("Row {told} was said to have the names, and is not there.");
            table.fail("header_missing", Some(told), message);
        }
        Ok(())
    }
}

fn value(value: &DataRef<'_>) -> Cell {
    match value {
        DataRef::Int(number) => Cell::Integer(*number),
        DataRef::Float(number) => number_cell(*number),
        DataRef::String(text) => text_cell(text),
        DataRef::SharedString(text) => text_cell(text),
        DataRef::Bool(value) => Cell::Bool(*value),
        DataRef::DateTime(time) => Cell::Text(time_text(time)),
        DataRef::DateTimeIso(text) | DataRef::DurationIso(text) => text_cell(text),
        DataRef::Error(error) => Cell::Text(error.to_string()),
        DataRef::Empty => Cell::Empty,
    }
}

fn text_cell(text: &str) -> Cell {
    if text.is_empty() { Cell::Empty } else { Cell::Text(text.to_owned()) }
}

#[expect(clippy::cast_possible_truncation, reason = "whole and within the bound")]
fn number_cell(number: f64) -> Cell {
    if number.fract() == 0.0 && number.abs() <= WHOLE_MAX {
        return Cell::Integer(number as i64);
    }
    if number.is_finite() { Cell::Number(number) } else { Cell::Text(number.to_string()) }
}

/// A date, a time or both, as ISO has them; a span of time as hours, minutes and seconds.
fn time_text(time: &calamine::ExcelDateTime) -> String {
    if time.is_duration() {
        let seconds = (time.as_f64() * SECONDS_OF_DAY).round();
        let (sign, seconds) = (if seconds < 0.0 { "-" } else { "" }, seconds.abs());
        let (hours, rest) = ((seconds / 3600.0).floor(), seconds % 3600.0);
        return format!("{sign}PT{hours}H{}M{}S", (rest / 60.0).floor(), rest % 60.0);
    }
    let (year, month, day, hour, minute, second, milli) = time.to_ymd_hms_milli();
    let clock = if milli == 0 {
        format!("{hour:02}:{minute:02}:{second:02}")
    } else {
        format!("{hour:02}:{minute:02}:{second:02}.{milli:03}")
    };
    let days = time.as_f64();
    if (0.0..1.0).contains(&days) {
        return clock;
    }
    let date = format!("{year:04}-{month:02}-{day:02}");
    if days.fract() == 0.0 { date } else { format!("{date}T{clock}") }
}
