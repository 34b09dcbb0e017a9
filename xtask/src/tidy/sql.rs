//! Statements live in files of their own: tagged, used, and the same on both backends.

use std::collections::{BTreeMap, BTreeSet};

use super::{Complaint, Workspace};

const BACKENDS: [&str; 2] = ["crates/store-postgres", "crates/store-sqlite"];
/// Where the backends differ on purpose: `` - `stage/name`, `stage/other`: the reason ``.
const DIFFERENCES: &str = "crates/store-postgres/sql/DIFFERENCES.md";
const VERBS: [&str; 5] = ["SELECT", "INSERT", "UPDATE", "DELETE", "WITH"];

pub(super) fn check(workspace: &Workspace, notes: &mut Vec<String>) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for backend in BACKENDS {
        complaints.extend(statements(workspace, backend));
        complaints.extend(text_in_rust(workspace, backend));
    }
    complaints.extend(differences(workspace, notes));
    complaints
}

/// `stage/name` of each statement of a backend, with its path.
fn names(workspace: &Workspace, backend: &str) -> BTreeMap<String, String> {
    let prefix = format!("{backend}/sql/");
    let name = |path: &str| Some(path.strip_prefix(&prefix)?.strip_suffix(".sql")?.to_owned());
    let files = workspace.tree.files();
    files.filter_map(|(path, _)| Some((name(path)?, path.to_owned()))).collect()
}

fn statements(workspace: &Workspace, backend: &str) -> Vec<Complaint> {
    let inside = format!("{backend}/src/");
    let sources = workspace.rust.iter().filter(|(path, _)| path.starts_with(&inside));
    let texts: Vec<&str> =
        sources.flat_map(|(_, facts)| &facts.texts).map(|text| text.value.as_str()).collect();
    let mut complaints = Vec::new();
    for (name, path) in names(workspace, backend) {
        let text = workspace.tree.text(&path).unwrap_or_default();
        let tag = format!("/* {name} */");
        let body = body(text);
        if !body.contains(&tag) || body.starts_with("/*") {
            let what = format!("put `{tag}` after the first word, where server statistics keep it");
            complaints.push(Complaint::new(&path, 1, what));
        }
        // Either the whole path, or the name handed to a macro that builds it.
        let file = format!("{name}.sql");
        let loads = |text: &&str| *text == name || text.ends_with(&file);
        if !texts.iter().any(loads) {
            let what = "no `include_str!` loads this statement: use it or delete it";
            complaints.push(Complaint::new(&path, 1, what));
        }
    }
    complaints
}

/// The statement without the comment lines at its head.
fn body(text: &str) -> &str {
    let mut rest = text.trim_start();
    while rest.starts_with("--") {
        rest = rest.split_once('\n').map_or("", |(_, after)| after).trim_start();
    }
    rest
}

/// Composed SQL is for list pages only.
fn text_in_rust(workspace: &Workspace, backend: &str) -> Vec<Complaint> {
    let inside = format!("{backend}/src/");
    let mut complaints = Vec::new();
    for (path, facts) in &workspace.rust {
        let Some(rest) = path.strip_prefix(&inside) else {
            continue;
        };
        let exempt = rest.starts_with("inspect") || rest.contains("tests");
        for text in facts.texts.iter().filter(|text| !exempt && !text.in_tests) {
            let first = text.value.split_whitespace().next().unwrap_or_default();
            if VERBS.contains(&first) {
                let what = "SQL belongs in sql/<stage>/<name>.sql; only inspect composes it";
                complaints.push(Complaint::new(path, text.line, what));
            }
        }
    }
    complaints
}

fn differences(workspace: &Workspace, notes: &mut Vec<String>) -> Vec<Complaint> {
    let [one, two] = BACKENDS.map(|backend| names(workspace, backend));
    let only: BTreeMap<&String, &String> = one
        .iter()
        .filter(|(name, _)| !two.contains_key(*name))
        .chain(two.iter().filter(|(name, _)| !one.contains_key(*name)))
        .collect();
    let Some(text) = workspace.tree.text(DIFFERENCES) else {
        if !only.is_empty() {
            notes.push(format!(
                "{} statements are in one backend only; list them with the reason in {DIFFERENCES}",
                only.len()
            ));
        }
        return Vec::new();
    };
    let (listed, mut complaints) = listed(text);
    let known: BTreeSet<&str> = listed.iter().map(|(name, _)| name.as_str()).collect();
    for (name, path) in &only {
        if !known.contains(name.as_str()) {
            let what = format!(
                "only one backend has `{name}`: add the other, or the reason to {DIFFERENCES}"
            );
            complaints.push(Complaint::new(path, 1, what));
        }
    }
    for (name, line) in listed {
        if !only.contains_key(&name) {
            let what = format!("`{name}` is no difference any more: remove it");
            complaints.push(Complaint::new(DIFFERENCES, line, what));
        }
    }
    complaints
}

/// Names with their lines; a list line without a reason is a complaint.
fn listed(text: &str) -> (Vec<(String, usize)>, Vec<Complaint>) {
    let (mut found, mut complaints) = (Vec::new(), Vec::new());
    for (index, line) in text.lines().enumerate() {
        let Some(entry) = line.strip_prefix("- `") else {
            continue;
        };
        let parts: Vec<&str> = entry.split('`').collect();
        let names = parts.iter().step_by(2).filter(|part| is_name(part));
        found.extend(names.map(|name| ((*name).to_owned(), index + 1)));
        let mut between = parts.iter().skip(1).step_by(2);
        if !between.any(|words| words.contains(char::is_alphabetic)) {
            complaints.push(Complaint::new(DIFFERENCES, index + 1, "say why the backends differ"));
        }
    }
    (found, complaints)
}

fn is_name(part: &str) -> bool {
    let usual = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '/';
    part.contains('/') && part.chars().all(usual)
}

#[cfg(test)]
mod tests {
    use super::super::{fixture, lines};
    use super::*;

    fn told(files: &[(&str, &str)]) -> (Vec<String>, usize) {
        let mut notes = Vec::new();
        let mut found = check(&fixture(files), &mut notes);
        found.sort();
        (lines(found), notes.len())
    }

    #[test]
    fn statements_are_tagged_and_loaded() {
        let (found, notes) = told(&[
            (
                "crates/store-sqlite/src/lib.rs",
                "const A: &str = include_str!(\"../sql/claim/a.sql\"); const B: &str = sql!(\"claim/b\");",
            ),
            ("crates/store-sqlite/sql/claim/a.sql", "-- Head.\nSELECT /* claim/a */ 1"),
            ("crates/store-sqlite/sql/claim/b.sql", "/* claim/b */ SELECT 1"),
            ("crates/store-sqlite/sql/claim/c.sql", "SELECT /* claim/c */ 1"),
        ]);
        let wanted =
            ["crates/store-sqlite/sql/claim/b.sql:1", "crates/store-sqlite/sql/claim/c.sql:1"];
        assert_eq!((found, notes), (wanted.map(str::to_owned).to_vec(), 1));
    }

    #[test]
    fn sql_in_rust_is_for_inspect_and_tests() {
        let (found, _) = told(&[
            (
                "crates/store-postgres/src/claim.rs",
                "\nconst A: &str = \"SELECT 1\";\n#[cfg(test)] mod tests { const B: &str = \"SELECT 1\"; }",
            ),
            ("crates/store-postgres/src/inspect.rs", "const A: &str = \"SELECT 1\";"),
            (
                "crates/store-postgres/src/error.rs",
                "/// \"SELECT\"\nconst A: &str = \"Selected with care\";",
            ),
        ]);
        assert_eq!(found, ["crates/store-postgres/src/claim.rs:2"]);
    }

    #[test]
    fn differences_are_listed_with_a_reason_and_only_while_they_last() {
        let (found, notes) = told(&[
            (
                "crates/store-postgres/src/lib.rs",
                "sql!(\"claim/a\"); sql!(\"claim/b\"); sql!(\"claim/c\");",
            ),
            ("crates/store-sqlite/src/lib.rs", "sql!(\"claim/a\");"),
            ("crates/store-postgres/sql/claim/a.sql", "SELECT /* claim/a */ 1"),
            ("crates/store-postgres/sql/claim/b.sql", "SELECT /* claim/b */ 1"),
            ("crates/store-postgres/sql/claim/c.sql", "SELECT /* claim/c */ 1"),
            ("crates/store-sqlite/sql/claim/a.sql", "SELECT /* claim/a */ 1"),
            (
                DIFFERENCES,
                "# Why\n- `claim/b`: SQLite has no `COPY`\n- `claim/a`: once\n- `claim/b`:",
            ),
        ]);
        let wanted = [
            "crates/store-postgres/sql/DIFFERENCES.md:3",
            "crates/store-postgres/sql/DIFFERENCES.md:4",
            "crates/store-postgres/sql/claim/c.sql:1",
        ];
        assert_eq!((found, notes), (wanted.map(str::to_owned).to_vec(), 0));
    }
}
