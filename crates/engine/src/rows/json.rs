//! Cells as JSON: how rows of workbooks are stored, and what lines of JSON say.
//!
//! Holds throughout: a whole number within 64 bits is an integer, one beyond stays a text, so that no digit is
//! lost; what is nested is the text of its JSON; nothing recurses, whatever the depth.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use windrow_recipe::Cell;

/// The members of an object, in the order in which they stand.
pub(crate) struct Members<'a>(pub(crate) Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de: 'a, 'a> serde::Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Each;
        impl<'de> Visitor<'de> for Each {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
                let mut members = Vec::new();
                while let Some((name, value)) = map.next_entry::<Name<'de>, &'de RawValue>()? {
                    members.push((name.0, value));
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Each)
    }
}

/// A name, borrowed unless it has escapes.
#[derive(serde::Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

/// The cell of a JSON value.
pub(crate) fn cell(value: &RawValue) -> Cell {
    let text = value.get();
    match text.as_bytes().first() {
        None | Some(b'n') => Cell::Empty,
        Some(b't') => Cell::Bool(true),
        Some(b'f') => Cell::Bool(false),
        Some(b'"') => match serde_json::from_str(text) {
            Ok(text) => Cell::Text(text),
            // Escapes of half a character: JSON as it stands.
            Err(_) => Cell::Text(text.to_owned()),
        },
        Some(b'{' | b'[') => Cell::Text(text.to_owned()),
        Some(_) => number(text),
    }
}

fn number(text: &str) -> Cell {
    if !text.contains(['.', 'e', 'E']) {
        return text.parse().map_or_else(|_| Cell::Text(text.to_owned()), Cell::Integer);
    }
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() => Cell::Number(number),
        Ok(_) | Err(_) => Cell::Text(text.to_owned()),
    }
}

/// Appends a cell as JSON.
pub(crate) fn write_cell(cell: &Cell, line: &mut Vec<u8>) {
    let written = match cell {
        Cell::Empty => serde_json::to_writer(line, &()),
        Cell::Text(text) => serde_json::to_writer(line, text),
        Cell::Integer(number) => serde_json::to_writer(line, number),
        Cell::Number(number) => serde_json::to_writer(line, number),
        Cell::Bool(value) => serde_json::to_writer(line, value),
    };
    written.expect("a cell is a plain value, and memory takes it");
}

/// A stored row of cells: one line of JSON.
pub(crate) fn row_line(cells: &[Cell]) -> Vec<u8> {
    let mut line = Vec::with_capacity(16 * cells.len() + 3);
    line.push(b'[');
    for (index, cell) in cells.iter().enumerate() {
        if index > 0 {
            line.push(b',');
        }
        write_cell(cell, &mut line);
    }
    line.extend_from_slice(b"]\n");
    line
}
