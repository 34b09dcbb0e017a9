//! No Rust file outside a `mod`: a file that nothing names is neither compiled nor tested. One habit
//! for modules with a folder: `foo/mod.rs`, never `foo.rs` beside `foo/`.

use std::collections::BTreeSet;

use super::rust::Module;
use super::tree::{folder_of, normal};
use super::{Complaint, Workspace};

pub(super) fn check(workspace: &Workspace) -> Vec<Complaint> {
    let mut reached = BTreeSet::new();
    let mut waiting: Vec<String> = Vec::new();
    for package in &workspace.packages {
        let is_root = |path: &str| package.roots.iter().any(|r| r == path) || is_usual_root(path);
        for (path, _) in workspace.rust_of(package) {
            let inner = &path[package.folder.len() + 1..];
            if is_root(inner) {
                waiting.push(path.to_owned());
            }
        }
    }
    let roots: BTreeSet<String> = waiting.iter().cloned().collect();
    while let Some(path) = waiting.pop() {
        if !reached.insert(path.clone()) {
            continue;
        }
        let found = workspace.rust.iter().find(|(file, _)| *file == path);
        let modules = found.map(|(_, facts)| facts.modules.as_slice()).unwrap_or_default();
        for module in modules {
            waiting.extend(homes(&path, roots.contains(&path), module));
        }
    }
    let outside = workspace.rust.iter().filter(|(path, _)| !reached.contains(path));
    let outside = outside.map(|(path, _)| {
        Complaint::new(path, 1, "no `mod` names this file: declare it or delete it")
    });
    outside.chain(beside_folders(workspace, &roots)).collect()
}

/// Files that stand beside the folder of their own modules. A crate's root has its modules beside
/// it anyway.
fn beside_folders<'a>(
    workspace: &'a Workspace,
    roots: &'a BTreeSet<String>,
) -> impl Iterator<Item = Complaint> + 'a {
    let files = workspace.rust.iter().map(|(path, _)| path).filter(|path| !roots.contains(*path));
    files.filter_map(|path| {
        let folder = path.strip_suffix(".rs")?;
        let inner = format!("{folder}/");
        let has_folder = workspace.rust.iter().any(|(other, _)| other.starts_with(&inner));
        has_folder.then(|| Complaint::new(path, 1, format!("move it to {folder}/mod.rs")))
    })
}

/// Files that cargo compiles without being told.
fn is_usual_root(inner: &str) -> bool {
    let parts: Vec<&str> = inner.split('/').collect();
    matches!(
        parts.as_slice(),
        ["build.rs"]
            | ["src", "lib.rs" | "main.rs"]
            | ["tests" | "benches" | "examples", _]
            | ["tests" | "benches" | "examples", _, "main.rs"]
            | ["src", "bin", _]
            | ["src", "bin", _, "main.rs"]
    )
}

/// The files in which a module may live.
fn homes(path: &str, is_root: bool, module: &Module) -> Vec<String> {
    let folder = folder_of(path);
    let file = path.rsplit('/').next().unwrap_or(path);
    let stem = file.trim_end_matches(".rs");
    let own =
        if is_root || file == "mod.rs" { folder.to_owned() } else { format!("{folder}/{stem}") };
    let within: Vec<&str> =
        std::iter::once(own.as_str()).chain(module.within.iter().map(String::as_str)).collect();
    let base = within.join("/");
    let name = module.name.trim_start_matches("r#");
    let homes = match &module.path {
        Some(path) if module.within.is_empty() => vec![format!("{folder}/{path}")],
        Some(path) => vec![format!("{base}/{path}")],
        None => vec![format!("{base}/{name}.rs"), format!("{base}/{name}/mod.rs")],
    };
    homes.iter().filter_map(|home| normal(home)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::{fixture, lines};
    use super::*;

    #[test]
    fn a_file_that_nothing_names_is_found() {
        let workspace = fixture(&[
            ("crates/a/Cargo.toml", "[package]\nname = \"a\"\n[[bin]]\npath = \"tool/go.rs\""),
            ("crates/a/src/lib.rs", "mod one; mod two { mod three; }"),
            ("crates/a/src/one.rs", "#[path = \"named.rs\"] mod four; mod five;"),
            ("crates/a/src/named.rs", ""),
            ("crates/a/src/one/five.rs", ""),
            ("crates/a/src/two/three.rs", ""),
            ("crates/a/src/lost.rs", ""),
            ("crates/a/tool/go.rs", ""),
            ("crates/a/tests/all.rs", "mod common;"),
            ("crates/a/tests/common/mod.rs", ""),
            ("crates/a/tests/common/lost.rs", ""),
        ]);
        let mut found = lines(check(&workspace));
        found.retain(|line| line != "crates/a/src/one.rs:1");
        assert_eq!(found, ["crates/a/src/lost.rs:1", "crates/a/tests/common/lost.rs:1"]);
    }

    #[test]
    fn a_file_beside_its_own_folder_is_found() {
        let workspace = fixture(&[
            ("crates/a/Cargo.toml", "[package]\nname = \"a\""),
            ("crates/a/src/lib.rs", "mod one; mod two;"),
            ("crates/a/src/one.rs", "mod three;"),
            ("crates/a/src/one/three.rs", ""),
            ("crates/a/src/two/mod.rs", "mod four;"),
            ("crates/a/src/two/four.rs", ""),
        ]);
        assert_eq!(lines(check(&workspace)), ["crates/a/src/one.rs:1"]);
    }
}
