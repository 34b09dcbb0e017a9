//! Tables as people read them in a terminal: no lines, two spaces between columns.

use std::fmt;

use comfy_table::{CellAlignment, ContentArrangement, presets};

/// Rows under a head.
pub(crate) struct Table(comfy_table::Table);

impl Table {
    pub(crate) fn new(head: &[&str]) -> Self {
        let mut table = comfy_table::Table::new();
        // Never wrapped: a terminal does that better, and `cut` and `awk` keep working.
        table.load_style(presets::NOTHING);
        table.set_content_arrangement(ContentArrangement::Disabled);
        table.set_header(head.iter().copied());
        for column in table.column_iter_mut() {
            column.set_padding((0, 2));
        }
        Self(table)
    }

    /// These columns hold numbers.
    pub(crate) fn right(&mut self, columns: &[usize]) {
        for column in columns {
            if let Some(column) = self.0.column_mut(*column) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.0.add_row(cells);
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.0.lines().map(|line| line.trim_end().to_owned()).collect();
        f.write_str(&lines.join("\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_right_and_nothing_trails() {
        let mut table = Table::new(&["name", "lines"]);
        table.right(&[1]);
        table.row(["a".to_owned(), "1,000".to_owned()]);
        table.row(["longer".to_owned(), "2".to_owned()]);
        assert_eq!(table.to_string(), "name    lines\na       1,000\nlonger      2");
    }
}
