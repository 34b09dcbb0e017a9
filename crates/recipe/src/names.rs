//! The names of a recipe: columns of the file, names of `[let]`, and the reserved ones.
//!
//! Holds throughout: a name is looked up once, when the recipe is read. A name that is not defined and
//! not reserved is a column, and [`Names::columns`] says where each was first used, so that all of
//! them can be compared with a file before the first request.

use std::collections::HashMap;

use unicode_normalization::UnicodeNormalization;

/// What has to be known before something can be computed, from early to late.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// The row alone; these names are kept as the row's normalised form.
    Row,
    /// Which strategy asks.
    Try,
    /// The answer.
    Answer,
    /// What was picked from the answer.
    It,
}

/// The reserved names. A column whose header folds to one of them is `row.name`.
pub const RESERVED: [&str; 7] = ["row", "answer", "it", "try", "http", "image", "meta"];

/// What reserved names have.
pub(crate) const MEMBERS: [(&str, &[&str]); 3] = [
    ("http", &["status"]),
    ("image", &["name", "width", "height", "bytes", "mime", "taken_at", "thumbnail"]),
    ("meta", &["tokens_in", "tokens_out", "cost"]),
];

/// What a name means.
pub(crate) enum Known {
    Column(usize),
    Let(usize, Level),
    Reserved(Level),
}

/// A column that the recipe uses.
#[derive(Debug, Clone)]
pub(crate) struct Used {
    pub(crate) name: String,
    /// Where in the recipe it is first used.
    pub(crate) at: usize,
}

/// All names, and in which part of the recipe they are being used.
#[derive(Debug, Default)]
pub(crate) struct Names {
    columns: Vec<Used>,
    slots: HashMap<String, usize>,
    lets: Vec<(String, Level)>,
    /// All names of `[let]`, also those that come further down.
    declared: Vec<String>,
    /// The one that is being defined: in its own definition it means the column.
    defining: Option<String>,
    /// Some expression uses the row as a whole.
    pub(crate) whole_row: bool,
    /// Where the texts of the present expression stand in the recipe.
    places: Option<Offsets>,
}

/// From offsets of an expression to offsets of the recipe.
#[derive(Debug, Clone)]
pub(crate) struct Offsets {
    pub(crate) offsets: std::rc::Rc<Vec<usize>>,
    pub(crate) from: usize,
}

impl Offsets {
    /// Where that byte of the expression stands in the recipe.
    pub(crate) fn find(&self, at: usize) -> usize {
        let index = (self.from + at).min(self.offsets.len().saturating_sub(1));
        self.offsets.get(index).copied().unwrap_or_default()
    }
}

impl Names {
    /// Says which names `[let]` will define.
    pub(crate) fn declare(&mut self, names: Vec<String>) {
        self.declared = names;
    }

    /// Begins the definition of a name.
    pub(crate) fn define(&mut self, name: &str) {
        self.defining = Some(name.to_owned());
    }

    /// Ends the definition of a name, which from now on means this.
    pub(crate) fn defined(&mut self, name: &str, level: Level) {
        self.defining = None;
        self.lets.push((name.to_owned(), level));
    }

    /// Says where the expression stands that is read next.
    pub(crate) fn at(&mut self, places: Offsets) {
        self.places = Some(places);
    }

    /// The columns that were used, by slot.
    pub(crate) fn into_columns(self) -> Vec<Used> {
        self.columns
    }

    /// What a name means here.
    pub(crate) fn find(&mut self, name: &str, at: usize) -> Result<Known, String> {
        let level = match name {
            "row" | "image" => Some(Level::Row),
            "try" => Some(Level::Try),
            "answer" | "http" | "meta" => Some(Level::Answer),
            "it" => Some(Level::It),
            _ => None,
        };
        if let Some(level) = level {
            return Ok(Known::Reserved(level));
        }
        let name: String = name.nfc().collect();
        if let Some(slot) = self.lets.iter().position(|(known, _)| *known == name) {
            return Ok(Known::Let(slot, self.lets[slot].1));
        }
        let later = self.declared.contains(&name) && self.defining.as_ref() != Some(&name);
        if later && self.defining.is_some() {
            return Err(format!("`{name}` is defined further down: names go from top to bottom"));
        }
        Ok(Known::Column(self.column(&name, at)))
    }

    /// The slot of a column.
    pub(crate) fn column(&mut self, name: &str, at: usize) -> usize {
        let name: String = name.nfc().collect();
        if let Some(slot) = self.slots.get(&name) {
            return *slot;
        }
        let at = self.places.as_ref().map_or(at, |places| places.find(at));
        let slot = self.columns.len();
        self.slots.insert(name.clone(), slot);
        self.columns.push(Used { name, at });
        slot
    }
}
