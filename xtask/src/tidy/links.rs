//! Links in documents lead somewhere.

use super::Complaint;
use super::tree::{Tree, folder_of, normal};

pub(super) fn check(tree: &Tree) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for (path, text) in tree.files().filter(|(path, _)| path.ends_with(".md")) {
        for (line, target) in targets(text) {
            let Some(file) = local(target) else { continue };
            let found =
                normal(&format!("{}/{file}", folder_of(path))).is_some_and(|to| tree.has(&to));
            if !found {
                let what = format!("`{file}` does not exist: mend the link");
                complaints.push(Complaint::new(path, line, what));
            }
        }
    }
    complaints
}

/// What each `[text](target)` outside code leads to, with its line.
fn targets(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut in_code = false;
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        } else if !in_code {
            // Odd pieces between backticks are code.
            for piece in line.split('`').step_by(2) {
                let ends = piece.split("](").skip(1).filter_map(|rest| rest.split(')').next());
                found.extend(ends.map(|target| (index + 1, target)));
            }
        }
    }
    found
}

/// The file part of a link inside the repository.
fn local(target: &str) -> Option<&str> {
    let file = target.split(['#', ' ']).next().unwrap_or_default();
    let outside = file.contains("://") || file.starts_with("mailto:") || file.is_empty();
    (!outside).then_some(file)
}

#[cfg(test)]
mod tests {
    use super::super::lines;
    use super::*;

    #[test]
    fn links_that_lead_nowhere_are_found() {
        let tree = Tree::of(&[
            (
                "docs/a.md",
                "[up](../README.md) [here](#x) [out](https://example.org)\n[no](b.md#part)\n\
                 `[code](c.md)`\n```\n[code](d.md)\n```\n[folder](../docs) [`code`](e.md)",
            ),
            ("README.md", ""),
        ]);
        assert_eq!(lines(check(&tree)), ["docs/a.md:2", "docs/a.md:7"]);
    }
}
