//! What is wrong with a recipe, with its place and, where a word is mistyped, the word that was meant.

use std::fmt;

use windrow_domain::suggest::suggest;

/// One recipe is told at most that many things.
const COMPLAINTS_MAX: usize = 50;
/// No similar word is looked for a longer one.
const WORD_BYTES_MAX: usize = 200;

/// One thing that is wrong, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Complaint {
    /// The line of the recipe, from 1.
    pub line: usize,
    /// The letter of that line, from 1.
    pub column: usize,
    /// What is wrong, as a sentence without an end.
    pub what: String,
    /// The known word that is most similar to the one that is there.
    pub instead: Option<String>,
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: {}", self.line, self.column, self.what)?;
        match &self.instead {
            Some(word) => write!(f, "; did you mean `{word}`?"),
            None => Ok(()),
        }
    }
}

/// Everything that is wrong with a recipe, in the order of its text. Never empty as an error.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Complaints(pub(crate) Vec<Complaint>);

impl Complaints {
    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = &Complaint> {
        self.0.iter()
    }

    /// A complaint about something that has no place in a text.
    pub(crate) fn one(what: impl Into<String>) -> Self {
        Self(vec![Complaint { line: 1, column: 1, what: what.into(), instead: None }])
    }

    pub(crate) fn add(&mut self, text: &str, at: usize, what: String, instead: Option<String>) {
        if self.0.len() < COMPLAINTS_MAX {
            let (line, column) = place(text, at);
            self.0.push(Complaint { line, column, what, instead });
        }
    }

    /// Nothing to complain of, or all of it by place.
    pub(crate) fn or_ok(mut self) -> Result<(), Self> {
        if self.0.is_empty() {
            return Ok(());
        }
        self.0.sort_by_key(|complaint| (complaint.line, complaint.column));
        self.0.dedup();
        Err(self)
    }
}

impl fmt::Display for Complaints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, complaint) in self.0.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            write!(f, "{complaint}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Complaints {}

/// Line and letter of an offset, both from 1.
fn place(text: &str, at: usize) -> (usize, usize) {
    let before = &text[..text.floor_char_boundary(at)];
    let line_start = before.rfind('\n').map_or(0, |end| end + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}

/// The known word that is most similar, as an owned one.
pub(crate) fn similar<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    // Comparing takes the product of the lengths, and a longer word is no slip of the finger.
    if word.len() > WORD_BYTES_MAX {
        return None;
    }
    suggest(word, known).map(str::to_owned)
}
