//! Cutting CSV: blocks of bytes, cut anywhere, become records that share the blocks' memory.
//!
//! Holds throughout: the pieces, joined in order, are exactly the bytes that came in; a record ends with its
//! own line ending (LF, CR LF or CR) and the next one never begins with it; an empty line is a record of its
//! own. A quote counts only where a field begins, as the `csv` crate has it. No more than one record's bound is
//! held back; a quote that is open beyond it, or at the end, ends the cutting: the rest is kept in parts.

use bytes::{Bytes, BytesMut};

use super::split::{Cut, PIECE_BYTES_MAX, Piece, take_mark};
use crate::rows::{Fields, QUOTE};

/// Where the cutter stands within a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Plain,
    Quoted,
    /// Behind a quote that closes the field, unless another one follows.
    QuoteSeen,
    /// Behind a CR, which a LF may follow.
    ReturnSeen,
}

/// A quote that was never closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OpenQuote {
    /// The row where it stands.
    pub(crate) row: u64,
    /// The column where it stands, from 1.
    pub(crate) column: usize,
}

/// Cuts blocks into records.
#[derive(Debug)]
pub(crate) struct CsvCutter {
    delimiter: u8,
    line_bytes_max: usize,
    /// The number of the record that is being read.
    row: u64,
    /// What has been read of it and not yet given out.
    tail: BytesMut,
    state: State,
    /// Where the last quote of the record opened, in bytes from its beginning.
    quote_at: usize,
    at_start: bool,
    /// Parts of the record that is being read were already given out.
    overlong: bool,
    /// The last byte of those parts.
    given: Option<u8>,
    open_quote: Option<OpenQuote>,
}

type Give<'g, E> = &'g mut dyn FnMut(Piece) -> Result<(), E>;

impl CsvCutter {
    pub(crate) fn new(delimiter: u8, line_bytes_max: usize) -> Self {
        Self {
            delimiter,
            line_bytes_max,
            row: 1,
            tail: BytesMut::new(),
            state: State::Plain,
            quote_at: 0,
            at_start: true,
            overlong: false,
            given: None,
            open_quote: None,
        }
    }

    /// The quote that nothing closed, once it is known.
    pub(crate) fn open_quote(&self) -> Option<OpenQuote> {
        self.open_quote
    }

    /// The first whole records of a sample; what there is of one when it holds none.
    pub(crate) fn sample(sample: &[u8], delimiter: u8, records_max: usize) -> Vec<Bytes> {
        let mut cutter = Self::new(delimiter, sample.len().max(1));
        let mut records = Vec::new();
        let mut give = |piece: Piece| match piece {
            Piece::Line { raw, .. } if records.len() < records_max => {
                records.push(raw);
                Ok(())
            }
            Piece::Mark(_) => Ok(()),
            Piece::Line { .. } | Piece::Part { .. } => Err(()),
        };
        let _ = cutter.push(Bytes::copy_from_slice(sample), &mut give);
        if records.is_empty() && !cutter.tail.is_empty() {
            records.push(cutter.tail.freeze());
        }
        records
    }

    /// Where the record that is being read ends in `block`, from `at` on; none when it goes on behind it.
    /// `from` is where the record, or its part in this block, begins.
    fn find_end(&mut self, block: &[u8], from: usize, mut at: usize) -> Option<usize> {
        loop {
            match self.state {
                State::Plain => {
                    let found = at + memchr::memchr3(QUOTE, b'\n', b'\r', &block[at..])?;
                    at = found + 1;
                    match block[found] {
                        QUOTE if self.begins_field(block, from, found) => {
                            self.quote_at = self.tail.len() + found - from;
                            self.state = State::Quoted;
                        }
                        QUOTE => {}
                        b'\n' => return Some(at),
                        _ => self.state = State::ReturnSeen,
                    }
                }
                State::Quoted => {
                    at += memchr::memchr(QUOTE, &block[at..])? + 1;
                    self.state = State::QuoteSeen;
                }
                State::QuoteSeen if *block.get(at)? == QUOTE => {
                    self.state = State::Quoted;
                    at += 1;
                }
                State::QuoteSeen => self.state = State::Plain,
                State::ReturnSeen => {
                    let follows = usize::from(*block.get(at)? == b'\n');
                    return Some(at + follows);
                }
            }
        }
    }

    fn begins_field(&self, block: &[u8], from: usize, at: usize) -> bool {
        let before = if at > from { Some(block[at - 1]) } else { self.tail.last().copied() };
        before.or(self.given).is_none_or(|before| before == self.delimiter)
    }

    /// `rest` ends the record that is being read.
    fn end_record<E>(&mut self, rest: Bytes, give: Give<'_, E>) -> Result<(), E> {
        let line = self.row;
        if self.overlong || self.tail.len() + rest.len() > self.line_bytes_max {
            self.give_parts(rest, give)?;
        } else if self.tail.is_empty() {
            give(Piece::Line { line, raw: rest })?;
        } else {
            self.tail.extend_from_slice(&rest);
            give(Piece::Line { line, raw: self.tail.split().freeze() })?;
        }
        (self.overlong, self.given, self.state) = (false, None, State::Plain);
        self.row += 1;
        Ok(())
    }

    /// `rest` belongs to a record whose end is in a later block.
    fn hold_back<E>(&mut self, rest: Bytes, give: Give<'_, E>) -> Result<(), E> {
        let held = self.tail.len() + rest.len();
        if !self.overlong && held <= self.line_bytes_max {
            self.tail.extend_from_slice(&rest);
            return Ok(());
        }
        if !self.overlong && self.state == State::Quoted {
            self.note_open_quote(&rest);
        }
        self.give_parts(rest, give)
    }

    /// Remembers where the quote opened, while what stands before it is still held.
    fn note_open_quote(&mut self, rest: &[u8]) {
        let mut before = self.tail.to_vec();
        before
            .extend_from_slice(&rest[..rest.len().min(self.quote_at.saturating_sub(before.len()))]);
        before.truncate(self.quote_at);
        let column = Fields::count(&before, self.delimiter);
        self.open_quote = Some(OpenQuote { row: self.row, column });
    }

    fn give_parts<E>(&mut self, rest: Bytes, give: Give<'_, E>) -> Result<(), E> {
        for mut bytes in [self.tail.split().freeze(), rest] {
            while !bytes.is_empty() {
                let raw = bytes.split_to(bytes.len().min(PIECE_BYTES_MAX));
                self.given = raw.last().copied();
                give(Piece::Part { line: self.row, raw, first: !self.overlong })?;
                self.overlong = true;
            }
        }
        Ok(())
    }
}

impl Cut for CsvCutter {
    fn lines(&self) -> u64 {
        self.row - 1
    }

    fn push<E>(
        &mut self,
        mut block: Bytes,
        give: &mut dyn FnMut(Piece) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.at_start {
            let Some((mark, rest)) = take_mark(&mut self.tail, &block) else { return Ok(()) };
            (self.at_start, block) = (false, rest);
            mark.map_or(Ok(()), |mark| give(Piece::Mark(mark)))?;
        }
        if self.open_quote.is_some() {
            return self.give_parts(block, give);
        }
        let mut from = 0;
        while let Some(end) = self.find_end(&block, from, from) {
            self.end_record(block.slice(from..end), give)?;
            from = end;
        }
        self.hold_back(block.slice(from..), give)
    }

    fn finish<E>(&mut self, give: &mut dyn FnMut(Piece) -> Result<(), E>) -> Result<(), E> {
        if self.open_quote.is_some() {
            return Ok(());
        }
        if self.state == State::Quoted {
            if !self.overlong {
                self.note_open_quote(b"");
            }
            return self.give_parts(Bytes::new(), give);
        }
        if self.tail.is_empty() && !self.overlong {
            return Ok(());
        }
        self.end_record(Bytes::new(), give)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cut(bytes: &[u8], cuts: &[usize], line_bytes_max: usize) -> (Vec<Piece>, Option<OpenQuote>) {
        let (mut cutter, mut pieces) = (CsvCutter::new(b',', line_bytes_max), Vec::new());
        let mut give = |piece| {
            pieces.push(piece);
            Ok::<_, std::convert::Infallible>(())
        };
        let mut rest = Bytes::copy_from_slice(bytes);
        for at in cuts {
            let block = rest.split_to((*at).min(rest.len()));
            cutter.push(block, &mut give).unwrap();
        }
        cutter.push(rest, &mut give).unwrap();
        cutter.finish(&mut give).unwrap();
        (pieces, cutter.open_quote())
    }

    fn raw(piece: &Piece) -> &Bytes {
        match piece {
            Piece::Mark(raw) | Piece::Line { raw, .. } | Piece::Part { raw, .. } => raw,
        }
    }

    fn records(bytes: &[u8]) -> Vec<String> {
        let (pieces, _) = cut(bytes, &[], 1000);
        pieces.iter().map(|piece| String::from_utf8_lossy(raw(piece)).into_owned()).collect()
    }

    #[test]
    fn records_end_with_their_own_line_ending() {
        assert_eq!(records(b"a,b\r\n\r\nc\n\rd\re"), ["a,b\r\n", "\r\n", "c\n", "\r", "d\r", "e"]);
        assert_eq!(records(b"\"a\r\n\"\"b\n\",c\nd\n"), ["\"a\r\n\"\"b\n\",c\n", "d\n"]);
        assert_eq!(records(b"a\"b\nc\n"), ["a\"b\n", "c\n"], "a quote within a field is none");
        assert_eq!(records(b"\xEF\xBB\xBF\"a\nb\"\n"), ["\u{feff}", "\"a\nb\"\n"]);
        assert_eq!(records(b""), Vec::<String>::new());
    }

    #[test]
    fn an_open_quote_is_named_where_it_opened() {
        let text = b"id,name\n1,ok\n2,\"x, y\",\"open\n3,ok\n";
        for cuts in [&[][..], &[20], &[8, 8, 8]] {
            let (pieces, quote) = cut(text, cuts, 1000);
            assert_eq!(quote, Some(OpenQuote { row: 3, column: 3 }), "{cuts:?}");
            let joined: Vec<u8> = pieces.iter().flat_map(|piece| raw(piece).to_vec()).collect();
            assert_eq!(joined, text);
        }
        let (pieces, quote) = cut(text, &[30, 1], 10);
        assert_eq!(quote, Some(OpenQuote { row: 3, column: 3 }), "found before the end");
        assert_eq!(pieces.iter().map(|piece| raw(piece).len()).sum::<usize>(), text.len());
    }

    #[test]
    fn an_overlong_record_comes_in_parts_and_the_next_one_is_whole() {
        let text = [&b"a\n"[..], &[b'x'; 200], b"\nb\n"].concat();
        let (pieces, quote) = cut(&text, &[50, 50, 50], 60);
        assert_eq!(quote, None);
        assert!(matches!(pieces[1], Piece::Part { line: 2, first: true, .. }), "{pieces:?}");
        assert_eq!(
            *pieces.last().unwrap(),
            Piece::Line { line: 3, raw: Bytes::from_static(b"b\n") }
        );
    }

    fn model(bytes: &[u8]) -> Vec<Vec<Vec<u8>>> {
        let mut reader =
            csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(bytes);
        let read = |record: csv::Result<csv::ByteRecord>| {
            record.unwrap().iter().map(<[u8]>::to_vec).collect()
        };
        reader.byte_records().map(read).collect()
    }

    fn soup() -> impl Strategy<Value = Vec<u8>> {
        let byte = prop_oneof![
            3 => Just(b'"'), 3 => Just(b','), 2 => Just(b'\n'), 2 => Just(b'\r'), 2 => Just(b'a'),
            1 => Just(0xEF), 1 => any::<u8>()
        ];
        prop::collection::vec(byte, 0..120)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn any_bytes_read_back_exactly_and_read_as_the_csv_crate_reads_them(
            bytes in soup(), mark: bool, cuts in prop::collection::vec(0_usize..20, 0..12),
        ) {
            let bytes = if mark { [b"\xEF\xBB\xBF", &bytes[..]].concat() } else { bytes };
            let (pieces, open) = cut(&bytes, &cuts, 1000);
            let joined: Vec<u8> = pieces.iter().flat_map(|piece| raw(piece).to_vec()).collect();
            prop_assert_eq!(&joined, &bytes);
            prop_assert_eq!((&pieces, open), (&cut(&bytes, &[], 1000).0, open), "cut anywhere");
            let mut rows: Vec<Vec<Vec<u8>>> = Vec::new();
            for piece in &pieces {
                let raw = raw(piece);
                let blank = crate::rows::is_blank_record(raw);
                prop_assert!(blank || !matches!(raw[0], b'\r' | b'\n'), "begins with an ending");
                if let (Piece::Line { .. }, false) = (piece, blank) {
                    rows.push(Fields::new(raw, b',').map(std::borrow::Cow::into_owned).collect());
                }
            }
            let wanted: Vec<Vec<Vec<u8>>> = model(&bytes);
            match open {
                None => prop_assert_eq!(rows, wanted),
                // The last record, which the other reader takes for what it is.
                Some(_) => prop_assert_eq!(&rows[..], &wanted[..wanted.len() - 1]),
            }
        }

        #[test]
        fn no_more_than_the_bound_is_held(
            bytes in soup(), cuts in prop::collection::vec(0_usize..20, 0..12), bound in 1_usize..30,
        ) {
            let (pieces, _) = cut(&bytes, &cuts, bound);
            let joined: Vec<u8> = pieces.iter().flat_map(|piece| raw(piece).to_vec()).collect();
            prop_assert_eq!(&joined, &bytes);
            for piece in &pieces {
                if let Piece::Line { raw, .. } = piece {
                    prop_assert!(raw.len() <= bound);
                }
            }
        }
    }
}
