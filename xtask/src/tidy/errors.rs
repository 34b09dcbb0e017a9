//! Every kind of error has its page and its row: an error without them leaves its reader alone.

use super::tree::line_of;
use super::{Complaint, Workspace};

/// Where the kinds are.
const SOURCE: &str = "crates/store/src/error.rs";
/// How their list begins and ends.
const OPENS: &str = "pub enum Kind {";
const CLOSES: &str = "}";
/// Where their pages are, and the table of them.
const PAGES: &str = "docs/errors/";
const TABLE: &str = "docs/errors/README.md";

pub(super) fn check(workspace: &Workspace) -> Vec<Complaint> {
    let Some(source) = workspace.tree.text(SOURCE) else {
        return Vec::new();
    };
    let table = workspace.tree.text(TABLE).unwrap_or_default();
    let kinds = kinds(source);
    let mut complaints = Vec::new();
    if kinds.is_empty() {
        complaints.push(Complaint::new(SOURCE, 1, format!("`{OPENS}` was not found here")));
    }
    for (kind, line) in &kinds {
        let page = format!("{PAGES}{kind}.md");
        if !workspace.tree.has(&page) {
            let what = format!("`{kind}` has no page: write {page} with cause and remedy");
            complaints.push(Complaint::new(SOURCE, *line, what));
        }
        if !table.contains(&format!("[{kind}]({kind}.md)")) {
            let what = format!("`{kind}` has no row in {TABLE}");
            complaints.push(Complaint::new(SOURCE, *line, what));
        }
    }
    for (page, _) in workspace.tree.files() {
        let word = page.strip_prefix(PAGES).and_then(|page| page.strip_suffix(".md"));
        if word.is_some_and(|word| word != "README" && !kinds.iter().any(|(kind, _)| kind == word))
            && !table.contains(&format!("({})", &page[PAGES.len()..]))
        {
            complaints.push(Complaint::new(page, 1, format!("{TABLE} does not lead here")));
        }
    }
    complaints
}

/// The kinds as they are written in answers and names of pages, with their lines.
fn kinds(source: &str) -> Vec<(String, usize)> {
    let first = line_of(source, |line| line == OPENS);
    let inside = source.lines().enumerate().skip(first).take_while(|(_, line)| *line != CLOSES);
    let kinds = inside.filter_map(|(index, line)| {
        let name = line.trim().strip_suffix(',')?;
        let is_name = name.starts_with(char::is_uppercase) && name.chars().all(char::is_alphabetic);
        is_name.then(|| (snake(name), index + 1))
    });
    kinds.collect()
}

fn snake(name: &str) -> String {
    name.chars().fold(String::new(), |mut snake, letter| {
        if letter.is_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.extend(letter.to_lowercase());
        snake
    })
}

#[cfg(test)]
mod tests {
    use super::super::{fixture, lines};
    use super::*;

    #[test]
    fn a_kind_without_a_page_or_a_row_is_found_and_a_page_that_nothing_leads_to() {
        let workspace = fixture(&[
            (SOURCE, "pub enum Kind {\n    /// Busy.\n    Busy,\n    LeaseLost,\n    Gone,\n}\n"),
            (TABLE, "| [busy](busy.md) |\n| [gone](gone.md) |\n| [codes](codes.md) |\n"),
            ("docs/errors/busy.md", ""),
            ("docs/errors/lease_lost.md", ""),
            ("docs/errors/codes.md", ""),
            ("docs/errors/old.md", ""),
        ]);
        let found: Vec<String> = check(&workspace).iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            [
                format!("{SOURCE}:4: `lease_lost` has no row in {TABLE}"),
                format!(
                    "{SOURCE}:5: `gone` has no page: write docs/errors/gone.md with cause and remedy"
                ),
                format!("docs/errors/old.md:1: {TABLE} does not lead here"),
            ]
        );
    }

    #[test]
    fn kinds_that_cannot_be_read_are_a_complaint() {
        assert_eq!(lines(check(&fixture(&[(SOURCE, "enum Sort {}\n")]))), [format!("{SOURCE}:1")]);
    }
}
