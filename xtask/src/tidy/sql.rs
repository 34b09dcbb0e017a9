//! Statements live in files of their own: tagged, used, and the same on both backends.

use std::collections::{BTreeMap, BTreeSet};

use super::{Complaint, Workspace};

const BACKENDS: [&str; 2] = ["crates/store-postgres", "crates/store-sqlite"];
/// Why the shapes of the statements differ: a paragraph for each folder, under `` ## `folder` ``; one that
/// only one backend has says so in its heading: `` ## `folder`, PostgreSQL only ``.
const FOLDERS: &str = "crates/store-postgres/sql/README.md";
const ONLY: [&str; 2] = ["PostgreSQL only", "SQLite only"];
/// Writes calls of functions from their names.
const CALLS: &str = "function.rs";
const VERBS: [&str; 5] = ["SELECT", "INSERT", "UPDATE", "DELETE", "WITH"];

pub(super) fn check(workspace: &Workspace) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for backend in BACKENDS {
        complaints.extend(statements(workspace, backend));
        complaints.extend(text_in_rust(workspace, backend));
    }
    complaints.extend(folders(workspace));
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
        let exempt = rest.starts_with("inspect") || rest == CALLS || rest.contains("tests");
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

/// Both backends have the same folders, and each folder says why its statements differ.
fn folders(workspace: &Workspace) -> Vec<Complaint> {
    let found = BACKENDS.map(|backend| {
        let names = names(workspace, backend).into_keys();
        names.filter_map(|name| Some(name.split_once('/')?.0.to_owned())).collect::<BTreeSet<_>>()
    });
    let described = described(workspace.tree.text(FOLDERS).unwrap_or_default());
    let mut complaints = Vec::new();
    for folder in found[0].union(&found[1]) {
        let has = [found[0].contains(folder), found[1].contains(folder)];
        let only = (has != [true, true]).then(|| ONLY[usize::from(has[1])]);
        let complaint = match described.iter().find(|paragraph| paragraph.folder == *folder) {
            None => Some((1, format!("say why the statements of `{folder}` differ, or do not"))),
            Some(it) if it.only != only.map(str::to_owned) => {
                let wanted = only.map_or("in both backends".to_owned(), str::to_owned);
                Some((it.line, format!("`{folder}` is {wanted}: both have the same folders")))
            }
            Some(it) if !it.has_text => Some((it.line, "say why the shapes differ".to_owned())),
            Some(_) => None,
        };
        complaints.extend(complaint.map(|(line, what)| Complaint::new(FOLDERS, line, what)));
    }
    for it in described.iter().filter(|it| !found.iter().any(|has| has.contains(&it.folder))) {
        complaints.push(Complaint::new(FOLDERS, it.line, "there is no such folder any more"));
    }
    complaints
}

/// What is said of a folder.
struct Paragraph {
    folder: String,
    line: usize,
    only: Option<String>,
    has_text: bool,
}

fn described(text: &str) -> Vec<Paragraph> {
    let mut found: Vec<Paragraph> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if let Some((folder, rest)) = line.strip_prefix("## `").and_then(|it| it.split_once('`')) {
            let only = rest.strip_prefix(", ").map(str::to_owned);
            let folder = folder.to_owned();
            found.push(Paragraph { folder, line: index + 1, only, has_text: false });
        } else if let Some(last) = found.last_mut() {
            last.has_text |= line.contains(char::is_alphabetic);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::{fixture, lines};
    use super::*;

    fn told(files: &[(&str, &str)]) -> Vec<String> {
        let mut found = check(&fixture(files));
        found.sort();
        lines(found)
    }

    #[test]
    fn statements_are_tagged_and_loaded() {
        let found = told(&[
            (
                "crates/store-sqlite/src/lib.rs",
                "const A: &str = include_str!(\"../sql/claim/a.sql\"); const B: &str = sql!(\"claim/b\");",
            ),
            ("crates/store-sqlite/sql/claim/a.sql", "-- Head.\nSELECT /* claim/a */ 1"),
            ("crates/store-sqlite/sql/claim/b.sql", "/* claim/b */ SELECT 1"),
            ("crates/store-sqlite/sql/claim/c.sql", "SELECT /* claim/c */ 1"),
            (FOLDERS, "## `claim`, SQLite only\nBecause."),
        ]);
        let wanted =
            ["crates/store-sqlite/sql/claim/b.sql:1", "crates/store-sqlite/sql/claim/c.sql:1"];
        assert_eq!(found, wanted);
    }

    #[test]
    fn sql_in_rust_is_for_inspect_and_tests() {
        let found = told(&[
            (
                "crates/store-postgres/src/claim.rs",
                "\nconst A: &str = \"SELECT 1\";\n#[cfg(test)] mod tests { const B: &str = \"SELECT 1\"; }",
            ),
            ("crates/store-postgres/src/inspect.rs", "const A: &str = \"SELECT 1\";"),
            ("crates/store-postgres/src/function.rs", "const A: &str = \"SELECT 1\";"),
            (
                "crates/store-postgres/src/error.rs",
                "/// \"SELECT\"\nconst A: &str = \"Selected with care\";",
            ),
        ]);
        assert_eq!(found, ["crates/store-postgres/src/claim.rs:2"]);
    }

    #[test]
    fn both_backends_have_the_same_folders_and_each_says_why_its_statements_differ() {
        let found = told(&[
            ("crates/store-postgres/src/lib.rs", "sql!(\"a/x\"); sql!(\"b/x\"); sql!(\"c/x\");"),
            ("crates/store-sqlite/src/lib.rs", "sql!(\"a/y\"); sql!(\"d/y\"); sql!(\"e/y\");"),
            ("crates/store-postgres/sql/a/x.sql", "SELECT /* a/x */ 1"),
            ("crates/store-postgres/sql/b/x.sql", "SELECT /* b/x */ 1"),
            ("crates/store-postgres/sql/c/x.sql", "SELECT /* c/x */ 1"),
            ("crates/store-sqlite/sql/a/y.sql", "SELECT /* a/y */ 1"),
            ("crates/store-sqlite/sql/d/y.sql", "SELECT /* d/y */ 1"),
            ("crates/store-sqlite/sql/e/y.sql", "SELECT /* e/y */ 1"),
            (
                FOLDERS,
                "# Why\n## `a`\nSo.\n## `b`, PostgreSQL only\nSo.\n## `c`\nSo.\n## `d`, SQLite only\n\n\
                 ## `f`\nSo.",
            ),
        ]);
        assert_eq!(found, [1, 6, 8, 10].map(|line| format!("{FOLDERS}:{line}")));
    }
}
