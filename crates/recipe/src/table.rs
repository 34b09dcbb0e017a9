//! A row as a recipe sees it: cells under the folded names of their headers, and perhaps a picture.
//!
//! Holds throughout: a column has one name, made from its header alone and the headers before it, so
//! that the same file always has the same names.

use std::collections::HashMap;
use std::fmt;

use bytes::Bytes;
use unicode_ident::{is_xid_continue, is_xid_start};
use unicode_normalization::UnicodeNormalization;

/// At most that many characters of a header become its name.
const NAME_CHARS_MAX: usize = 64;

/// What stands in one place of a table. Dates come as ISO texts.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// Nothing stands there.
    Empty,
    /// A text; every cell of a CSV file is one.
    Text(String),
    /// A whole number.
    Integer(i64),
    /// Any other number.
    Number(f64),
    /// True or false.
    Bool(bool),
}

impl fmt::Display for Cell {
    /// As a template prints it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => Ok(()),
            Self::Text(text) => f.write_str(text),
            Self::Integer(number) => write!(f, "{number}"),
            Self::Number(number) => f.write_str(&number_text(*number)),
            Self::Bool(value) => write!(f, "{value}"),
        }
    }
}

/// Sheets keep every number as a fraction: whole ones are printed without `.0`, since `1234.0` in a
/// URL is another thing than `1234`.
pub(crate) fn number_text(number: f64) -> String {
    /// From here on fractions have gaps of more than one.
    const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;
    if number.fract() == 0.0 && number.abs() <= WHOLE_MAX {
        // `-0.0` is printed as `0`.
        return format!("{:.0}", number + 0.0);
    }
    format!("{number:?}")
}

/// The columns of an input: the text of each header and the name that recipes use for it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Columns {
    headers: Vec<String>,
    names: Vec<String>,
    positions: HashMap<String, usize>,
}

impl Columns {
    /// Gives each header its name: letters and digits of any script are kept in lower case, everything
    /// between them becomes `_`. A name that is taken gets `_2`, an empty one is `column_3`, and one
    /// that begins with a digit gets a `_` before it, since `2024` is a number.
    pub fn fold<S: AsRef<str>>(headers: &[S]) -> Self {
        let mut columns = Self::default();
        for (index, header) in headers.iter().map(AsRef::as_ref).enumerate() {
            let name = columns.free(folded(header, index + 1));
            columns.positions.insert(name.clone(), index);
            columns.names.push(name);
            columns.headers.push(header.to_owned());
        }
        columns
    }

    /// The names, in the order of the file.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// The texts of the headers, as the file has them.
    pub fn headers(&self) -> &[String] {
        &self.headers
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Where the column of this name stands.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.positions.get(name).copied()
    }

    /// The name, or the first one with a number behind it that no column before has.
    fn free(&self, name: String) -> String {
        let taken = |name: &String| self.positions.contains_key(name);
        if !taken(&name) {
            return name;
        }
        let numbered = (2..).map(|number: u32| format!("{name}_{number}"));
        numbered.into_iter().find(|name| !taken(name)).expect("there are more numbers than columns")
    }
}

/// The name of one header, whatever the others are called.
fn folded(header: &str, number: usize) -> String {
    let mut name = String::with_capacity(header.len());
    // Composed, so that a name that is typed equals one that another system wrote in pieces.
    for letter in header.nfc().flat_map(char::to_lowercase).take(NAME_CHARS_MAX * 2) {
        if is_xid_continue(letter) && letter != '_' {
            name.push(letter);
        } else if !name.is_empty() && !name.ends_with('_') {
            name.push('_');
        }
        if name.chars().count() >= NAME_CHARS_MAX {
            break;
        }
    }
    // Lower case may take letters apart (`İ`).
    let name: String = name.trim_end_matches('_').nfc().collect();
    match name.chars().next() {
        None => format!("column_{number}"),
        Some(first) if is_xid_start(first) => name,
        Some(_) => format!("_{name}"),
    }
}

/// The picture of a row. Columns may use what is known about it; a request gets its data.
#[derive(Debug, Clone, PartialEq)]
pub struct Image {
    /// Its name in the zip or the folder.
    pub name: String,
    /// In pixels, as it came in.
    pub width: u32,
    /// In pixels, as it came in.
    pub height: u32,
    /// Its size as it came in.
    pub bytes: u64,
    /// Its kind as it came in: `image/jpeg`.
    pub mime: String,
    /// When it was taken, if it says so, as an ISO text.
    pub taken_at: Option<String>,
    /// Where its small copy is kept.
    pub thumbnail: Option<String>,
    /// What is sent. Only given where a request is rendered, since it is large.
    pub data: Option<ImageData>,
}

/// A picture as it is sent: scaled and encoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageData {
    /// Its kind, which scaling may have changed.
    pub mime: String,
    /// The encoded picture.
    pub bytes: Bytes,
}

/// One row of an input.
#[derive(Debug, Clone, Copy)]
pub struct Row<'a> {
    /// What the cells are called.
    pub columns: &'a Columns,
    /// In the order of the columns. A row that ends early lacks its last cells.
    pub cells: &'a [Cell],
    /// Its number in the file, which is its key.
    pub number: u64,
    /// Its picture, when it has one.
    pub image: Option<&'a Image>,
}

impl<'a> Row<'a> {
    /// The cell of the column of this name; nothing when the file has no such column or the row ends
    /// before it.
    pub fn cell(&self, name: &str) -> Option<&'a Cell> {
        self.cells.get(self.columns.position(name)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(headers: &[&str]) -> Vec<String> {
        Columns::fold(headers).names().map(str::to_owned).collect()
    }

    #[test]
    fn headers_fold_to_names_of_any_script() {
        let table: &[(&str, &str)] = &[
            ("Product Name", "product_name"),
            ("product-name", "product_name"),
            ("  SKU ", "sku"),
            ("Price (€)", "price"),
            ("Größe", "größe"),
            ("Gro\u{308}ße", "größe"),
            ("Цена, руб.", "цена_руб"),
            ("商品名", "商品名"),
            ("मूल्य", "मूल्य"),
            ("2024 Sales", "_2024_sales"),
            ("__a__b__", "a_b"),
            ("a\nb", "a_b"),
            ("İd", "i\u{307}d"),
        ];
        for (header, name) in table {
            assert_eq!(names(&[header]), [*name], "{header}");
        }
    }

    #[test]
    fn repeated_and_empty_headers_get_numbers() {
        assert_eq!(names(&["a", "A", "a_2", ""]), ["a", "a_2", "a_2_2", "column_4"]);
        assert_eq!(names(&["", "column_1"]), ["column_1", "column_1_2"]);
        let columns = Columns::fold(&["Product Name", "Brand"]);
        assert_eq!((columns.position("brand"), columns.position("Brand")), (Some(1), None));
        assert_eq!((columns.len(), columns.headers()[0].as_str()), (2, "Product Name"));
    }

    #[test]
    fn a_long_header_is_cut() {
        assert!(names(&["ab ".repeat(1_000).as_str()])[0].chars().count() <= NAME_CHARS_MAX);
    }

    #[test]
    fn cells_print_as_people_read_them() {
        let table = [
            (Cell::Empty, ""),
            (Cell::Text("007".to_owned()), "007"),
            (Cell::Integer(-7), "-7"),
            (Cell::Number(1234.0), "1234"),
            (Cell::Number(-0.0), "0"),
            (Cell::Number(0.1), "0.1"),
            (Cell::Number(1e300), "1e300"),
            (Cell::Bool(true), "true"),
        ];
        for (cell, text) in table {
            assert_eq!(cell.to_string(), text);
        }
    }
}
