//! The TOML of a recipe, read key by key, with a place for every byte of every text.
//!
//! Holds throughout: what is wrong becomes a complaint and reading goes on, so that one look shows all
//! of it.

use std::ops::Range;
use std::rc::Rc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::complaint::{Complaints, similar};
use crate::grammar::Fault;
use crate::names::Offsets;

/// A recipe's text and what is wrong with it so far.
pub(crate) struct Source<'t> {
    pub(crate) text: &'t str,
    pub(crate) complaints: Complaints,
}

/// A table whose keys are taken one by one, in the order of the text.
pub(crate) struct Table<'t> {
    pub(crate) at: usize,
    /// How messages call it: `[input]`.
    name: String,
    fields: Vec<(String, usize, Field<'t>)>,
    known: Vec<&'static str>,
}

/// A value with its place.
pub(crate) struct Field<'t> {
    pub(crate) range: Range<usize>,
    pub(crate) value: DeValue<'t>,
}

/// A text with the place of each of its bytes.
#[derive(Debug, Clone)]
pub(crate) struct Text {
    pub(crate) value: String,
    offsets: Rc<Vec<usize>>,
}

impl Text {
    /// Where the byte at this offset, and those behind it, stand in the recipe.
    pub(crate) fn places(&self, from: usize) -> Offsets {
        Offsets { offsets: Rc::clone(&self.offsets), from }
    }

    /// Where this byte stands in the recipe.
    pub(crate) fn place(&self, at: usize) -> usize {
        self.places(0).find(at)
    }

    /// A text that the recipe does not spell out, standing where another one does.
    pub(crate) fn instead(&self, value: String) -> Self {
        let at = self.place(0);
        Self { offsets: Rc::new(vec![at; value.len() + 1]), value }
    }
}

impl<'t> Source<'t> {
    pub(crate) fn new(text: &'t str) -> Self {
        Self { text, complaints: Complaints::default() }
    }

    /// The whole document; nothing when it is no TOML.
    pub(crate) fn document(&mut self) -> Option<Table<'t>> {
        match DeTable::parse(self.text) {
            Ok(table) => Some(Table::new("a recipe".to_owned(), 0, table.into_inner())),
            Err(error) => {
                let at = error.span().map_or(0, |span| span.start);
                self.complain(at, format!("no TOML: {}", error.message().replace('\n', ", ")));
                None
            }
        }
    }

    pub(crate) fn complain(&mut self, at: usize, what: impl Into<String>) {
        self.complaints.add(self.text, at, what.into(), None);
    }

    pub(crate) fn complain_of_word<'a>(
        &mut self,
        at: usize,
        what: impl Into<String>,
        word: &str,
        known: impl IntoIterator<Item = &'a str>,
    ) {
        self.complaints.add(self.text, at, what.into(), similar(word, known));
    }

    /// What is wrong in an expression of a text.
    pub(crate) fn faults(&mut self, places: &Offsets, part: &str, faults: Vec<Fault>) {
        for Fault { at, what, instead } in faults {
            let what = format!("{part}: {what}");
            self.complaints.add(self.text, places.find(at), what, instead);
        }
    }

    fn wrong_kind(&mut self, key: &str, field: &Field<'_>, wanted: &str) {
        let found = field.value.type_str();
        self.complain(field.range.start, format!("`{key}` is {wanted}, not {}", a(found)));
    }

    pub(crate) fn text_of(&mut self, key: &str, field: Field<'t>) -> Option<Text> {
        if !field.value.is_str() {
            self.wrong_kind(key, &field, "a text");
            return None;
        }
        let DeValue::String(value) = field.value else { return None };
        let value = value.into_owned();
        let offsets = offsets(self.text, field.range, &value);
        Some(Text { value, offsets: Rc::new(offsets) })
    }

    pub(crate) fn text(&mut self, table: &mut Table<'t>, key: &'static str) -> Option<Text> {
        let field = table.take(key)?;
        self.text_of(key, field)
    }

    /// A text of one line that is not empty and not long.
    pub(crate) fn word(&mut self, table: &mut Table<'t>, key: &'static str) -> Option<Text> {
        const WORD_BYTES_MAX: usize = 200;
        let text = self.text(table, key)?;
        let good = !text.value.trim().is_empty()
            && text.value.len() <= WORD_BYTES_MAX
            && !text.value.contains(char::is_control);
        if !good {
            let what = format!("`{key}` is one line of 1 to {WORD_BYTES_MAX} bytes");
            self.complain(text.place(0), what);
            return None;
        }
        Some(text)
    }

    /// One of a few words.
    pub(crate) fn choice<T: Copy>(
        &mut self,
        table: &mut Table<'t>,
        key: &'static str,
        choices: &[(&str, T)],
    ) -> Option<T> {
        let text = self.text(table, key)?;
        let found = choices.iter().find(|(word, _)| *word == text.value);
        if found.is_none() {
            let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
            let what = format!("`{key}` is one of {}", words.join(", "));
            self.complain_of_word(text.place(0), what, &text.value, words);
        }
        found.map(|(_, choice)| *choice)
    }

    pub(crate) fn whole(
        &mut self,
        table: &mut Table<'t>,
        key: &'static str,
        range: std::ops::RangeInclusive<u32>,
    ) -> Option<u32> {
        let field = table.take(key)?;
        let found = field.value.as_integer();
        let number =
            found.and_then(|number| u32::from_str_radix(number.as_str(), number.radix()).ok());
        match number.filter(|number| range.contains(number)) {
            Some(number) => Some(number),
            None => {
                let wanted = format!("a whole number of {} to {}", range.start(), range.end());
                self.complain(field.range.start, format!("`{key}` is {wanted}"));
                None
            }
        }
    }

    pub(crate) fn boolean(&mut self, table: &mut Table<'t>, key: &'static str) -> Option<bool> {
        let field = table.take(key)?;
        let found = field.value.as_bool();
        if found.is_none() {
            self.wrong_kind(key, &field, "true or false");
        }
        found
    }

    /// A list of texts, or one text alone.
    pub(crate) fn texts(&mut self, table: &mut Table<'t>, key: &'static str) -> Option<Vec<Text>> {
        let field = table.take(key)?;
        match field.value {
            DeValue::Array(values) => {
                let fields = values.into_iter().map(Field::new);
                Some(fields.filter_map(|field| self.text_of(key, field)).collect())
            }
            _ => self.text_of(key, field).map(|text| vec![text]),
        }
    }

    pub(crate) fn table(&mut self, table: &mut Table<'t>, key: &'static str) -> Option<Table<'t>> {
        let field = table.take(key)?;
        let name = if table.at == 0 { format!("[{key}]") } else { format!("`{key}`") };
        self.table_of(&name, key, field)
    }

    pub(crate) fn table_of(
        &mut self,
        name: &str,
        key: &str,
        field: Field<'t>,
    ) -> Option<Table<'t>> {
        if !field.value.is_table() {
            self.wrong_kind(key, &field, "a table");
            return None;
        }
        let DeValue::Table(inner) = field.value else { return None };
        Some(Table::new(name.to_owned(), field.range.start, inner))
    }

    /// Complains of the keys that were not taken.
    pub(crate) fn finish(&mut self, table: Table<'t>) {
        for (key, at, _) in &table.fields {
            let what = format!("there is no key `{key}` in {}", table.name);
            self.complain_of_word(*at, what, key, table.known.iter().copied());
        }
    }
}

impl<'t> Field<'t> {
    pub(crate) fn new(spanned: Spanned<DeValue<'t>>) -> Self {
        Self { range: spanned.span(), value: spanned.into_inner() }
    }
}

impl<'t> Table<'t> {
    fn new(name: String, at: usize, table: DeTable<'t>) -> Self {
        let mut fields: Vec<_> = table
            .into_iter()
            .map(|(key, value)| {
                let at = key.span().start;
                (key.into_inner().into_owned(), at, Field::new(value))
            })
            .collect();
        // The parser sorts by key; people read from top to bottom.
        fields.sort_by_key(|(_, at, _)| *at);
        Self { at, name, fields, known: Vec::new() }
    }

    pub(crate) fn take(&mut self, key: &'static str) -> Option<Field<'t>> {
        self.known.push(key);
        let found = self.fields.iter().position(|(name, _, _)| name == key)?;
        Some(self.fields.remove(found).2)
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.fields.iter().any(|(name, _, _)| name == key)
    }

    /// Where a key stands that is there.
    pub(crate) fn key_at(&self, key: &str) -> Option<usize> {
        self.fields.iter().find(|(name, _, _)| name == key).map(|(_, at, _)| *at)
    }

    /// All of it, in order: key, its place, value.
    pub(crate) fn into_fields(self) -> Vec<(String, usize, Field<'t>)> {
        self.fields
    }
}

fn a(kind: &str) -> String {
    let vowel = kind.starts_with(['a', 'e', 'i', 'o', 'u']);
    format!("{} {kind}", if vowel { "an" } else { "a" })
}

/// For each byte of a decoded text, and for its end, where it stands in the TOML.
fn offsets(toml: &str, range: Range<usize>, value: &str) -> Vec<usize> {
    let raw = toml.get(range.clone()).unwrap_or_default();
    let (quote, literal) = match raw.get(..3) {
        Some("\"\"\"") => (3, false),
        Some("'''") => (3, true),
        _ => (1, raw.starts_with('\'')),
    };
    let mut at = quote.min(raw.len());
    if quote == 3 {
        let rest = &raw[at..];
        let line_end = rest.strip_prefix("\r\n").or_else(|| rest.strip_prefix('\n'));
        at = line_end.map_or(at, |rest| raw.len() - rest.len());
    }
    let mut offsets = Vec::with_capacity(value.len() + 1);
    for letter in value.chars() {
        // A backslash at the end of a line takes the blanks behind it away.
        while !literal && quote == 3 && raw[at..].starts_with('\\') {
            let rest = raw[at + 1..].trim_start_matches([' ', '\t']);
            if !rest.starts_with(['\n', '\r']) {
                break;
            }
            at = raw.len() - rest.trim_start_matches([' ', '\t', '\n', '\r']).len();
        }
        offsets.extend(std::iter::repeat_n(range.start + at, letter.len_utf8()));
        let found = raw[at..].chars().next();
        at += match (found, raw[at..].chars().nth(1)) {
            (Some('\\'), Some('x')) if !literal => 4,
            (Some('\\'), Some('u')) if !literal => 6,
            (Some('\\'), Some('U')) if !literal => 10,
            (Some('\\'), Some(escaped)) if !literal => 1 + escaped.len_utf8(),
            // A line ending of two letters may have been read as one.
            (Some('\r'), Some('\n')) if letter == '\n' => 2,
            (Some(found), _) => found.len_utf8(),
            (None, _) => 0,
        };
        at = raw.floor_char_boundary(at);
    }
    offsets.push(range.start + at);
    offsets
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The places of each letter of a text, found again by what stands there.
    fn letters(toml: &str, letter: char) -> Vec<usize> {
        let mut source = Source::new(toml);
        let mut table = source.document().unwrap();
        let text = source.text(&mut table, "a").unwrap();
        text.value.match_indices(letter).map(|(at, _)| text.place(at)).collect()
    }

    #[test]
    fn every_letter_of_a_text_has_its_place() {
        assert_eq!(letters("a = 'xüx'", 'x'), [5, 8]);
        assert_eq!(letters(r#"a = "x\n\u00fcx\"x""#, 'x'), [5, 14, 17]);
        assert_eq!(letters("a = \"\"\"\nx\\\n   y\nx\"\"\"", 'x'), [8, 16]);
        assert_eq!(letters("a = '''\nx\nx'''", 'x'), [8, 10]);
        assert_eq!(letters("a = \"\"\"x \\  \n  x\"\"\"", 'x'), [7, 15]);
    }
}
