//! Functions past 70 lines and files past 600 are listed, and the lists only shrink.

use std::collections::BTreeMap;

use super::{Complaint, Workspace};

const FUNCTION_LINES_MAX: usize = 70;
const FILE_LINES_MAX: usize = 600;
const FUNCTIONS: &str = "xtask/long-functions.txt";
const FILES: &str = "xtask/long-files.txt";

/// How long something is now, and where.
struct Measure {
    path: String,
    line: usize,
    lines: usize,
}

pub(super) fn check(workspace: &Workspace) -> Vec<Complaint> {
    let mut functions: BTreeMap<String, Measure> = BTreeMap::new();
    let mut files = BTreeMap::new();
    for (path, facts) in &workspace.rust {
        if facts.lines > FILE_LINES_MAX {
            files.insert(path.clone(), Measure { path: path.clone(), line: 1, lines: facts.lines });
        }
        for function in facts.functions.iter().filter(|f| f.lines > FUNCTION_LINES_MAX) {
            let measure =
                Measure { path: path.clone(), line: function.line, lines: function.lines };
            let key = format!("{path} {}", function.name);
            let longest = functions.get(&key).is_none_or(|other| other.lines < measure.lines);
            if longest {
                functions.insert(key, measure);
            }
        }
    }
    let mut complaints = compare(workspace, FUNCTIONS, &functions, "function: move its leaves out");
    complaints.extend(compare(workspace, FILES, &files, "file: split it"));
    complaints
}

/// Each line of a list is the thing, its length, and for files the reason.
fn compare(
    workspace: &Workspace,
    list: &str,
    found: &BTreeMap<String, Measure>,
    remedy: &str,
) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    let mut listed = BTreeMap::new();
    for (index, line) in workspace.tree.text(list).unwrap_or_default().lines().enumerate() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        match entry(line) {
            Some((key, lines)) => {
                listed.insert(key, (lines, index + 1));
            }
            None => complaints.push(Complaint::new(list, index + 1, "no length on this line")),
        }
    }
    for (key, measure) in found {
        let allowed = listed.get(key).map_or(0, |(lines, _)| *lines);
        if measure.lines > allowed {
            let what = format!(
                "{} lines are too long for a {remedy} ({list} only shrinks)",
                measure.lines
            );
            complaints.push(Complaint::new(&measure.path, measure.line, what));
        }
    }
    for (key, (lines, line)) in listed {
        match found.get(&key) {
            None => complaints.push(Complaint::new(
                list,
                line,
                format!("{key} is short now: remove it"),
            )),
            Some(measure) if measure.lines < lines => {
                let what = format!("{key} has {} lines now: lower the number", measure.lines);
                complaints.push(Complaint::new(list, line, what));
            }
            Some(_) => {}
        }
    }
    complaints
}

/// `path name 82` or `path 700 reason`: the key is what stands before the first number.
fn entry(line: &str) -> Option<(String, usize)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let at = words.iter().position(|word| word.parse::<usize>().is_ok())?;
    Some((words[..at].join(" "), words[at].parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::super::{fixture, lines};
    use super::*;

    fn function(name: &str, lines: usize) -> String {
        format!("fn {name}() {{\n{}}}\n", "    step();\n".repeat(lines - 2))
    }

    #[test]
    fn long_functions_are_listed_and_the_list_only_shrinks() {
        let text = format!("{}{}{}", function("new", 71), function("old", 80), function("ok", 70));
        let list = "# Only shrinks.\na.rs old 80\na.rs gone 90\n";
        let found = check(&fixture(&[("a.rs", &text), (FUNCTIONS, list)]));
        assert_eq!(lines(found), ["a.rs:1", "xtask/long-functions.txt:3"]);
        let grown = check(&fixture(&[("a.rs", &function("old", 81)), (FUNCTIONS, "a.rs old 80")]));
        assert_eq!(lines(grown), ["a.rs:1"]);
        let shrunk = check(&fixture(&[("a.rs", &function("old", 75)), (FUNCTIONS, "a.rs old 80")]));
        assert_eq!(lines(shrunk), ["xtask/long-functions.txt:1"]);
    }

    #[test]
    fn long_files_need_a_line() {
        let text = "// one\n".repeat(601);
        assert_eq!(lines(check(&fixture(&[("a.rs", &text)]))), ["a.rs:1"]);
        let list = (FILES, "a.rs 601 a table");
        assert_eq!(lines(check(&fixture(&[("a.rs", &text), list]))), Vec::<String>::new());
    }
}
