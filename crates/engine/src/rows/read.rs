//! Reading one stored row: its bytes and the head of its file become cells.
//!
//! Holds throughout: as many cells as the head has columns, or an error that names the first column that is
//! wrong. Where a line of JSON does not have a name, its cell is empty.

use serde_json::value::RawValue;
use windrow_recipe::Cell;

use super::json::{self, Members};
use super::{Fields, Head, RowFormat};

/// A row that cannot be read. Others can.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct RowError {
    /// A stable word: `row_ragged`, `row_encoding`, `row_invalid`, `picture_invalid`.
    pub code: &'static str,
    /// A sentence for people.
    pub message: String,
    /// The column as the file calls it, or by its number.
    pub column: Option<String>,
}

impl RowError {
    fn invalid(message: impl Into<String>) -> Self {
        Self { code: "row_invalid", message: message.into(), column: None }
    }
}

/// The cells of a stored row, one for each column of the head.
pub fn read_row(head: &Head, raw: &[u8]) -> Result<Vec<Cell>, RowError> {
    match head.format {
        RowFormat::Csv => read_record(head, raw),
        RowFormat::Jsonl => read_object(head, raw),
        RowFormat::Xlsx => read_array(head, raw),
        RowFormat::Images => {
            let picture = crate::pictures::Picture::read(raw)?;
            Ok(picture.cells())
        }
    }
}

fn read_record(head: &Head, raw: &[u8]) -> Result<Vec<Cell>, RowError> {
    let (delimiter, columns) = (head.delimiter_byte(), head.headers.len());
    let mut cells = Vec::with_capacity(columns);
    for (index, field) in Fields::new(raw, delimiter).enumerate() {
        if index >= columns {
            if field.is_empty() {
                continue;
            }
            let found = Fields::count(raw, delimiter);
            return Err(ragged(found, columns, (index + 1).to_string()));
        }
        let text = head.encoding.decode(&field).ok_or_else(|| {
            let (name, encoding) = (column_name(head, index), head.encoding.name());
            let message =
                format!("The cell in column {name:?} holds bytes that mean nothing in {encoding}.");
            RowError { code: "row_encoding", message, column: Some(name) }
        })?;
        cells.push(if text.is_empty() { Cell::Empty } else { Cell::Text(text.into_owned()) });
    }
    if cells.len() < columns {
        return Err(ragged(cells.len(), columns, column_name(head, cells.len())));
    }
    Ok(cells)
}

/// The name of a column for people: its header, or its number where it has none.
fn column_name(head: &Head, index: usize) -> String {
    let name = head.headers.get(index).filter(|name| !name.trim().is_empty());
    name.cloned().unwrap_or_else(|| (index + 1).to_string())
}

fn ragged(cells: usize, columns: usize, column: String) -> RowError {
    let s = if cells == 1 { "" } else { "s" };
    let message = if cells < columns {
        format!(
            "The row has {cells} cell{s} and the file {columns} columns: {column:?} is missing."
        )
    } else {
        format!(
            "The row has {cells} cell{s} and the file {columns} columns: column {column} has no name. A cell \
             with a delimiter in it needs quotes."
        )
    };
    RowError { code: "row_ragged", message, column: Some(column) }
}

fn read_object(head: &Head, raw: &[u8]) -> Result<Vec<Cell>, RowError> {
    let text = head.encoding.decode(raw).ok_or_else(|| {
        RowError::invalid(format!(
            "The line holds bytes that mean nothing in {}.",
            head.encoding.name()
        ))
    })?;
    let Members(members) = members(&text)?;
    let mut cells = vec![Cell::Empty; head.headers.len()];
    for (place, (name, value)) in members.iter().enumerate() {
        // Most lines have the names of the file in the order of the file.
        let here = head.headers.get(place).is_some_and(|header| header == name);
        let column =
            if here { Some(place) } else { head.headers.iter().position(|header| header == name) };
        if let Some(column) = column {
            cells[column] = json::cell(value);
        }
    }
    Ok(cells)
}

/// The members of a line that is one JSON object.
pub(crate) fn members(text: &str) -> Result<Members<'_>, RowError> {
    serde_json::from_str(text.trim()).map_err(|error| {
        if error.is_data() {
            return RowError::invalid("The line is not a JSON object.");
        }
        let column = error.column();
        let what = error.to_string();
        let what = what.split(" at line ").next().unwrap_or_default();
        RowError::invalid(format!("The line is not valid JSON: {what} at column {column}."))
    })
}

fn read_array(head: &Head, raw: &[u8]) -> Result<Vec<Cell>, RowError> {
    let values: Vec<&RawValue> = serde_json::from_slice(raw)
        .map_err(|_| RowError::invalid("The row is not what was stored."))?;
    if values.len() > head.headers.len() {
        let column = (head.headers.len() + 1).to_string();
        let message = format!(
            "The row has a cell behind the {} columns of the sheet that have names.",
            head.headers.len()
        );
        return Err(RowError { code: "row_ragged", message, column: Some(column) });
    }
    let mut cells: Vec<Cell> = values.into_iter().map(json::cell).collect();
    // A row is stored up to its last cell.
    cells.resize(head.headers.len(), Cell::Empty);
    Ok(cells)
}

#[cfg(test)]
mod tests {
    use super::super::Encoding;
    use super::*;

    fn csv(headers: &[&str]) -> Head {
        let headers = headers.iter().map(|header| (*header).to_owned()).collect();
        Head { headers, delimiter: Some(','), ..Head::new(RowFormat::Csv) }
    }

    fn text(text: &str) -> Cell {
        Cell::Text(text.to_owned())
    }

    #[test]
    fn texts_stay_texts_and_empty_cells_are_empty() {
        let cells = read_row(&csv(&["a", "b", "c"]), b"007,,\"1,5\"\r\n").unwrap();
        assert_eq!(cells, [text("007"), Cell::Empty, text("1,5")]);
        let cells = read_row(&csv(&["a"]), b"x,,\n").unwrap();
        assert_eq!(cells, [text("x")], "empty cells without a name are no harm");
    }

    #[test]
    fn a_ragged_row_names_its_column() {
        let few = read_row(&csv(&["a", "b", "c"]), b"1,2\n").unwrap_err();
        assert_eq!((few.code, few.column.as_deref()), ("row_ragged", Some("c")));
        assert_eq!(few.message, "The row has 2 cells and the file 3 columns: \"c\" is missing.");
        let many = read_row(&csv(&["a"]), b"1,2\n").unwrap_err();
        assert_eq!((many.code, many.column.as_deref()), ("row_ragged", Some("2")));
    }

    #[test]
    fn other_encodings_are_decoded_by_cell() {
        let head =
            |label: &str| Head { encoding: Encoding::of(label).unwrap(), ..csv(&["a", "b"]) };
        assert_eq!(
            read_row(&head("latin1"), b"n\xe4me,x").unwrap(),
            [text("n\u{e4}me"), text("x")]
        );
        assert_eq!(
            read_row(&head("shift_jis"), b"\x83\x5c,\"\x83\x7c\"").unwrap(),
            [text("ソ"), text("ポ")]
        );
        let bad = read_row(&head("utf-8"), b"x,n\xe4me").unwrap_err();
        assert_eq!((bad.code, bad.column.as_deref()), ("row_encoding", Some("b")));
    }

    #[test]
    fn lines_of_json_keep_their_types() {
        let headers = ["a", "b", "c", "d", "e", "f", "g"].map(str::to_owned).to_vec();
        let head = Head { headers, ..Head::new(RowFormat::Jsonl) };
        let line = br#"{"a":1,"b":2.5,"c":"x\n","e":true,"d":null,"f":{"n":[1]},"g":123456789012345678901}"#;
        let cells = read_row(&head, line).unwrap();
        let wanted = [
            Cell::Integer(1),
            Cell::Number(2.5),
            text("x\n"),
            Cell::Empty,
            Cell::Bool(true),
            text("{\"n\":[1]}"),
            text("123456789012345678901"),
        ];
        assert_eq!(cells, wanted);
        for bad in ["[1]", "7", "{", "{} x"] {
            assert_eq!(read_row(&head, bad.as_bytes()).unwrap_err().code, "row_invalid", "{bad}");
        }
    }

    #[test]
    fn stored_cells_come_back_as_they_were() {
        let headers = ["a", "b", "c", "d", "e"].map(str::to_owned).to_vec();
        let head = Head { headers, ..Head::new(RowFormat::Xlsx) };
        let cells = [text("é\"\n"), Cell::Integer(-7), Cell::Empty, Cell::Number(0.1)];
        let mut wanted = cells.to_vec();
        wanted.push(Cell::Empty);
        assert_eq!(read_row(&head, &json::row_line(&cells)).unwrap(), wanted);
    }
}
