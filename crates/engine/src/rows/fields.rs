//! The fields of one CSV record, as the `csv` crate reads them.
//!
//! Holds throughout: a quote counts only where a field begins; two quotes within a quoted field are one; what
//! follows a closing quote belongs to the field as it stands; nothing is copied unless a field has quotes.

use std::borrow::Cow;

/// What quotes a field.
pub(crate) const QUOTE: u8 = b'"';

/// Whether a record is an empty line: no row, as every reader of CSV has it.
pub(crate) fn is_blank_record(raw: &[u8]) -> bool {
    raw.iter().all(|byte| matches!(byte, b'\r' | b'\n'))
}

/// Walks the fields of one record.
#[derive(Clone, Debug)]
pub(crate) struct Fields<'a> {
    rest: Option<&'a [u8]>,
    delimiter: u8,
}

impl<'a> Fields<'a> {
    /// The fields of a whole record, with or without its line ending.
    pub(crate) fn new(record: &'a [u8], delimiter: u8) -> Self {
        Self { rest: Some(record), delimiter }
    }

    /// How many fields a record has.
    pub(crate) fn count(record: &[u8], delimiter: u8) -> usize {
        if memchr::memchr(QUOTE, record).is_none() {
            return memchr::memchr_iter(delimiter, record).count() + 1;
        }
        Fields::new(record, delimiter).map(drop).count()
    }

    /// A field without quotes: up to the delimiter or the end of the record.
    fn plain(&mut self, from: &'a [u8]) -> &'a [u8] {
        let Some(at) = memchr::memchr3(self.delimiter, b'\r', b'\n', from) else {
            self.rest = None;
            return from;
        };
        self.rest = (from[at] == self.delimiter).then(|| &from[at + 1..]);
        &from[..at]
    }

    /// A field that begins with a quote; `from` is what follows it.
    fn quoted(&mut self, mut from: &'a [u8]) -> Cow<'a, [u8]> {
        let mut before = Vec::new();
        loop {
            let Some(at) = memchr::memchr(QUOTE, from) else {
                // Open to the end: what is there is the field.
                self.rest = None;
                return join(before, from, b"");
            };
            if from.get(at + 1) == Some(&QUOTE) {
                before.extend_from_slice(&from[..=at]);
                from = &from[at + 2..];
                continue;
            }
            let tail = self.plain(&from[at + 1..]);
            return join(before, &from[..at], tail);
        }
    }
}

fn join<'a>(mut before: Vec<u8>, within: &'a [u8], tail: &[u8]) -> Cow<'a, [u8]> {
    if before.is_empty() && tail.is_empty() {
        return Cow::Borrowed(within);
    }
    before.extend_from_slice(within);
    before.extend_from_slice(tail);
    Cow::Owned(before)
}

impl<'a> Iterator for Fields<'a> {
    type Item = Cow<'a, [u8]>;

    fn next(&mut self) -> Option<Cow<'a, [u8]>> {
        let from = self.rest?;
        match from.split_first() {
            Some((&QUOTE, within)) => Some(self.quoted(within)),
            _ => Some(Cow::Borrowed(self.plain(from))),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn fields(record: &[u8]) -> Vec<Vec<u8>> {
        Fields::new(record, b',').map(Cow::into_owned).collect()
    }

    /// As the `csv` crate reads it; none when it finds no record or more than one.
    fn model(record: &[u8]) -> Option<Vec<Vec<u8>>> {
        let mut reader =
            csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(record);
        let records: Vec<_> = reader.byte_records().map(Result::unwrap).collect();
        match records.as_slice() {
            [one] => Some(one.iter().map(<[u8]>::to_vec).collect()),
            _ => None,
        }
    }

    #[test]
    fn fields_are_what_people_expect() {
        for (record, wanted) in [
            (&b"a,b\n"[..], &["a", "b"][..]),
            (b"a,\r\n", &["a", ""]),
            (b"\"a,b\",\"c\"\"d\"\n", &["a,b", "c\"d"]),
            (b"\"a\nb\",c", &["a\nb", "c"]),
            (b"\"a\"b\"c,d", &["ab\"c", "d"]),
            (b"a\"b,c", &["a\"b", "c"]),
            (b"\"\"", &[""]),
        ] {
            let wanted: Vec<Vec<u8>> = wanted.iter().map(|cell| cell.as_bytes().to_vec()).collect();
            assert_eq!(fields(record), wanted, "{}", String::from_utf8_lossy(record));
            assert_eq!(Fields::count(record, b','), wanted.len());
        }
    }

    proptest! {
        #[test]
        fn a_record_reads_as_the_csv_crate_reads_it(
            record in prop::collection::vec(prop_oneof![
                Just(b'"'), Just(b','), Just(b'\n'), Just(b'\r'), Just(b'a'), any::<u8>()
            ], 1..40),
        ) {
            // Only what is one record, and was not cut out of a mark: the cutter's own test has the rest.
            if let Some(wanted) = model(&record)
                && !matches!(record[0], b'\r' | b'\n' | 0xEF)
            {
                prop_assert_eq!(Fields::count(&record, b','), wanted.len());
                prop_assert_eq!(fields(&record), wanted);
            }
        }
    }
}
