//! Words that stay out: notes to oneself, one machine's paths, names that say nothing.

use super::{Complaint, Workspace};

/// This file must be able to name them.
const EXEMPT: &str = "xtask/src/tidy/words.rs";
const NOTES: [&str; 3] = ["TODO", "FIXME", "XXX"];
const PLACES: [&str; 3] = ["/root/", "/home/", "/Users/"];
/// A name may not end in one of these, nor a module be called so.
const EMPTY_NAMES: [&str; 6] = ["Manager", "Helper", "Helpers", "Util", "Utils", "Common"];
/// Folders that other people's systems use, which are looked in but not relied on.
const KNOWN: [&str; 1] = ["/home/linuxbrew/"];

pub(super) fn check(workspace: &Workspace) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for (path, text) in workspace.tree.files().filter(|(path, _)| *path != EXEMPT) {
        for (index, line) in text.lines().enumerate() {
            complaints.extend(in_line(line).map(|what| Complaint::new(path, index + 1, what)));
        }
    }
    for (path, facts) in workspace.rust.iter().filter(|(path, _)| path != EXEMPT) {
        for (name, line) in facts.names.iter().filter(|(name, _)| is_empty_name(name)) {
            let what = format!("`{name}` says nothing: name it by its duty");
            complaints.push(Complaint::new(path, *line, what));
        }
    }
    complaints
}

fn in_line(line: &str) -> Option<String> {
    if let Some(word) = NOTES.into_iter().find(|word| has_word(line, word)) {
        return Some(format!("`{word}` is a note to oneself: do it, or open an issue"));
    }
    let known = KNOWN.into_iter().any(|place| line.contains(place));
    let place = PLACES.into_iter().find(|place| !known && starts_path(line, place))?;
    Some(format!("`{place}` is a path of one machine: make it relative, or a setting"))
}

fn has_word(line: &str, word: &str) -> bool {
    let parts = line.split(|c: char| !c.is_alphanumeric() && c != '_');
    parts.into_iter().any(|part| part == word)
}

/// Whether an absolute path starts so, and not the middle of a relative one.
fn starts_path(line: &str, place: &str) -> bool {
    line.match_indices(place).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || "./_-}*<>".contains(c))
    })
}

fn is_empty_name(name: &str) -> bool {
    EMPTY_NAMES.iter().any(|word| name.ends_with(word) || name == word.to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::super::{fixture, lines};
    use super::*;

    #[test]
    fn notes_places_and_empty_names_are_found() {
        let workspace = fixture(&[
            ("a.rs", "// TODO: later\nstruct JobManager;\nmod utils {}\nstruct Managed;\n"),
            ("docs/a.md", "see /home/me\nsee docs/home/me and ../home/x\nTODOS are fine\n"),
        ]);
        let wanted = ["a.rs:1", "docs/a.md:1", "a.rs:2", "a.rs:3"];
        assert_eq!(lines(check(&workspace)), wanted);
    }
}
