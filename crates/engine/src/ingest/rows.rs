//! Rows of text: records of CSV and lines of JSON, cut, judged and gathered as they come.
//!
//! Holds throughout: the names of the columns are known before the first row of CSV is kept, and after the
//! last line of JSON; a row is judged by the one reader of stored rows, so that what is said here is what
//! happens when it is run.

use std::collections::HashMap;

use bytes::Bytes;

use super::Options;
use super::csv::{CsvCutter, OpenQuote};
use super::parse::{Give, Parse, Stopped, ValidationReport, too_long};
use super::sizer::Limit;
use super::split::{Cut, Piece, Splitter};
use super::table::Table;
use crate::rows::{COLUMNS_MAX, Fields, Head, RowFormat, is_blank_record, members, read_row};

/// Turns blocks of text into chunks of rows.
pub(crate) struct RowParser {
    decoder: Option<Decoder>,
    cutter: Cutter,
    validator: RowValidator,
}

enum Cutter {
    Csv(CsvCutter),
    Lines(Splitter),
}

/// Text that is decoded before it is cut.
struct Decoder {
    decoder: encoding_rs::Decoder,
    replaced: bool,
}

impl RowParser {
    /// A parser of CSV or of JSON lines; the head says how they are cut, and which row has the names.
    pub(crate) fn new(mut head: Head, options: &Options, rows: Limit) -> Self {
        let decoder = head.decoded_from.map(|encoding| encoding.decoder());
        let (told, delimiter) = (head.header_row.take(), head.delimiter_byte());
        let cutter = match head.format {
            RowFormat::Csv => Cutter::Csv(CsvCutter::new(delimiter, options.line_bytes_max)),
            _ => Cutter::Lines(Splitter::new(options.line_bytes_max)),
        };
        Self {
            decoder: decoder.map(|decoder| Decoder { decoder, replaced: false }),
            cutter,
            validator: RowValidator {
                told,
                named: false,
                delimiter,
                line_bytes_max: options.line_bytes_max,
                positions: HashMap::new(),
                table: Table::new(head, options, rows),
            },
        }
    }
}

impl Decoder {
    fn decode(&mut self, block: &[u8], last: bool) -> Bytes {
        let room = self.decoder.max_utf8_buffer_length(block.len()).unwrap_or(block.len() * 3);
        let mut text = String::with_capacity(room);
        let (_, _, replaced) = self.decoder.decode_to_string(block, &mut text, last);
        self.replaced |= replaced;
        Bytes::from(text)
    }
}

impl Cutter {
    fn push(
        &mut self,
        block: Bytes,
        give: &mut dyn FnMut(Piece) -> Result<(), Stopped>,
    ) -> Result<(), Stopped> {
        match self {
            Cutter::Csv(cutter) => cutter.push(block, give),
            Cutter::Lines(cutter) => Cut::push(cutter, block, give),
        }
    }
}

impl Parse for RowParser {
    fn lines(&self) -> u64 {
        match &self.cutter {
            Cutter::Csv(cutter) => cutter.lines(),
            Cutter::Lines(cutter) => cutter.lines(),
        }
    }

    fn push(&mut self, block: Bytes, give: Give<'_>) -> Result<(), Stopped> {
        let block = match &mut self.decoder {
            Some(decoder) => decoder.decode(&block, false),
            None => block,
        };
        let validator = &mut self.validator;
        self.cutter.push(block, &mut |piece| validator.take(piece, give))
    }

    fn finish(mut self: Box<Self>, give: Give<'_>) -> Result<ValidationReport, Stopped> {
        let mut validator = self.validator;
        if let Some(decoder) = &mut self.decoder {
            let rest = decoder.decode(b"", true);
            self.cutter.push(rest, &mut |piece| validator.take(piece, give))?;
            if decoder.replaced {
                validator.warn_replaced();
            }
        }
        match &mut self.cutter {
            Cutter::Csv(cutter) => {
                cutter.finish(&mut |piece| validator.take(piece, give))?;
                if let Some(quote) = cutter.open_quote() {
                    validator.fail_open_quote(quote);
                }
            }
            Cutter::Lines(cutter) => Cut::finish(cutter, &mut |piece| validator.take(piece, give))?,
        }
        validator.finish(give)
    }
}

/// Says what each piece is.
struct RowValidator {
    /// The row with the names, as it was told: 0 for none.
    told: Option<u64>,
    /// The names of the columns are known.
    named: bool,
    delimiter: u8,
    line_bytes_max: usize,
    /// Where each name of JSON lines stands.
    positions: HashMap<String, usize>,
    table: Table,
}

impl RowValidator {
    fn take(&mut self, piece: Piece, give: Give<'_>) -> Result<(), Stopped> {
        match piece {
            Piece::Mark(raw) => self.table.keep(0, raw, give),
            Piece::Part { line, raw, first } => {
                if first {
                    self.table.report.note(too_long(self.line_bytes_max).at(line));
                }
                self.table.keep(line, raw, give)
            }
            Piece::Line { line, raw } => match self.table.head.format {
                RowFormat::Csv => self.record(line, raw, give),
                _ => self.object(line, raw, give),
            },
        }
    }

    fn record(&mut self, line: u64, raw: Bytes, give: Give<'_>) -> Result<(), Stopped> {
        if is_blank_record(&raw) {
            return self.table.keep(line, raw, give);
        }
        if !self.named {
            match self.told {
                Some(0) => {
                    let columns = Fields::count(&raw, self.delimiter);
                    self.named = true;
                    self.table.name_columns(None, vec![String::new(); columns]);
                }
                Some(told) if line < told => return self.table.keep(line, raw, give),
                Some(told) if line > told => {
                    self.named = true;
                    let message = format!("Row {told} was said to have the names, and is empty.");
                    self.table.fail("header_missing", Some(told), message);
                    return self.table.keep(line, raw, give);
                }
                Some(_) | None => {
                    self.name(line, &raw);
                    return self.table.keep(line, raw, give);
                }
            }
        }
        self.judge(line, &raw);
        self.table.add(line, raw, give)
    }

    fn name(&mut self, line: u64, raw: &[u8]) {
        self.named = true;
        let (mut headers, encoding) = (Vec::new(), self.table.head.encoding);
        for (index, field) in Fields::new(raw, self.delimiter).enumerate() {
            match encoding.decode(&field) {
                Some(text) => headers.push(text.into_owned()),
                None => {
                    let message = format!(
                        "The name of column {} holds bytes that mean nothing in {}.",
                        index + 1,
                        encoding.name()
                    );
                    self.table.fail("header_encoding", Some(line), message);
                    headers.push(String::new());
                }
            }
        }
        self.table.name_columns(Some(line), headers);
    }

    /// Notes a record that cannot be read. Quick for those that can.
    fn judge(&mut self, line: u64, raw: &[u8]) {
        let head = &self.table.head;
        let fits = Fields::count(raw, self.delimiter) == head.headers.len();
        if fits && (!head.encoding.is_utf8() || std::str::from_utf8(raw).is_ok()) {
            return;
        }
        if let Err(error) = read_row(head, raw) {
            self.table.warn(line, error);
        }
    }

    fn object(&mut self, line: u64, raw: Bytes, give: Give<'_>) -> Result<(), Stopped> {
        if super::jsonl::is_blank(&raw) {
            return self.table.keep(line, raw, give);
        }
        let text = self.table.head.encoding.decode(&raw);
        let found = match &text {
            Some(text) => members(text).map(|members| self.note_names(line, &members.0)),
            // With its sentence.
            None => read_row(&self.table.head, &raw).map(drop),
        };
        if let Err(error) = found {
            self.table.warn(line, error);
        }
        self.table.add(line, raw, give)
    }

    fn note_names<V>(&mut self, line: u64, members: &[(std::borrow::Cow<'_, str>, V)]) {
        for (place, (name, _)) in members.iter().enumerate() {
            let headers = &mut self.table.head.headers;
            if headers.get(place).is_some_and(|header| header == name)
                || self.positions.contains_key(&**name)
                || headers.len() > COLUMNS_MAX
            {
                continue;
            }
            if headers.len() == COLUMNS_MAX {
                let message = format!("The lines have more than {COLUMNS_MAX} different names.");
                // One more than there may be: said once.
                headers.push(String::new());
                return self.table.fail("too_many_columns", Some(line), message);
            }
            self.positions.insert(name.to_string(), headers.len());
            headers.push(name.to_string());
        }
    }

    fn warn_replaced(&mut self) {
        let from = self.table.head.decoded_from.unwrap_or_default().name();
        let message = format!("Some bytes mean nothing in {from}; a mark stands in their place.");
        self.table.report.warn(windrow_store::ingest::LineError {
            code: "encoding_replaced".to_owned(),
            line: None,
            message,
            param: None,
        });
    }

    fn fail_open_quote(&mut self, quote: OpenQuote) {
        let OpenQuote { row, column } = quote;
        let name = self.table.head.headers.get(column - 1).filter(|name| !name.is_empty());
        let named = name.map_or(String::new(), |name| format!(" ({name})"));
        let message = format!(
            "A quote opens in row {row}, column {column}{named}, and is not closed within {} bytes or at the \
             end of the file.",
            self.line_bytes_max
        );
        // An overlong record is the same fault, and this sentence says more.
        let report = &mut self.table.report;
        let before = report.errors.len();
        report.errors.retain(|error| error.line != Some(row));
        report.errors_total -= (before - report.errors.len()) as u64;
        self.table.fail("open_quote", Some(row), message);
    }

    fn finish(mut self, give: Give<'_>) -> Result<ValidationReport, Stopped> {
        if !self.named
            && let (Some(told @ 1..), RowFormat::Csv) = (self.told, self.table.head.format)
        {
            let message = format!("Row {told} was said to have the names, and is not there.");
            self.table.fail("header_missing", Some(told), message);
        }
        self.table.finish(give)
    }
}
