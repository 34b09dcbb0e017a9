//! `test = false` and `doctest = false` in a manifest are true: there is nothing that they leave out.

use super::manifest::Package;
use super::{Complaint, Workspace};

pub(super) fn check(workspace: &Workspace) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for package in &workspace.packages {
        let sources = format!("{}/src/", package.folder);
        for (path, text) in workspace.tree.files().filter(|(path, _)| path.starts_with(&sources)) {
            complaints.extend(left_out(package, path, text));
        }
    }
    complaints
}

fn left_out(package: &Package, path: &str, text: &str) -> Vec<Complaint> {
    let mut found = Vec::new();
    let mut in_block = false;
    for (index, line) in text.lines().enumerate().map(|(index, line)| (index + 1, line.trim())) {
        if package.untested && matches!(line, "#[test]" | "#[cfg(test)]") {
            let what = format!("{} says `test = false`, and this is a test", package.path);
            found.push(Complaint::new(path, index, what));
        }
        let doc = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"));
        let Some(language) = doc.and_then(|text| text.trim().strip_prefix("```")) else { continue };
        in_block = !in_block;
        if in_block && package.undoctested && matches!(language, "" | "rust" | "no_run") {
            let what = format!("{} says `doctest = false`, and this is one", package.path);
            found.push(Complaint::new(path, index, what));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::{fixture, lines};
    use super::*;

    const QUIET: &str = "[package]\nname = \"a\"\n[lib]\ntest = false\ndoctest = false\n";
    const SOURCE: &str = "/// ```json\n/// {}\n/// ```\n///\n/// ```\n/// f();\n/// ```\n\
                          fn f() {}\n#[cfg(test)]\nmod tests {}\n";

    #[test]
    fn what_a_manifest_leaves_out_is_found() {
        let files = [("a/Cargo.toml", QUIET), ("a/src/lib.rs", SOURCE), ("a/tests/t.rs", SOURCE)];
        assert_eq!(lines(check(&fixture(&files))), ["a/src/lib.rs:5", "a/src/lib.rs:9"]);
        let loud = [("a/Cargo.toml", "[package]\nname = \"a\"\n"), ("a/src/lib.rs", SOURCE)];
        assert_eq!(lines(check(&fixture(&loud))), Vec::<String>::new());
    }
}
