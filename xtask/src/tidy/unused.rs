//! No dependency that the code does not name.
//!
//! A dependency that works without being named (a feature switched on, say) is listed in
//! `[package.metadata.cargo-machete] ignored`, where cargo-machete looks as well.

use super::manifest::{self, Kind, workspace_dependencies};
use super::{Complaint, Workspace};

pub(super) fn check(workspace: &Workspace) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for package in &workspace.packages {
        let text = workspace.tree.text(&package.path).unwrap_or_default();
        for dependency in &package.dependencies {
            let word = dependency.name.replace('-', "_");
            let is_place = |path: &str| match dependency.kind {
                Kind::Normal => path[package.folder.len()..].starts_with("/src/"),
                Kind::Dev => true,
                Kind::Build => path.ends_with("/build.rs"),
            };
            let mut files = workspace.rust_of(package).filter(|(path, _)| is_place(path));
            let named = files.any(|(_, facts)| facts.words.contains(&word));
            if !named && !package.unnamed.contains(&dependency.name) {
                let line = manifest::line(text, &dependency.name);
                let what = format!("nothing uses `{}`: remove it", dependency.name);
                complaints.push(Complaint::new(&package.path, line, what));
            }
        }
    }
    complaints.extend(at_the_top(workspace));
    complaints
}

fn at_the_top(workspace: &Workspace) -> Vec<Complaint> {
    let text = workspace.tree.text("Cargo.toml").unwrap_or_default();
    let dependencies = || workspace.packages.iter().flat_map(|package| &package.dependencies);
    let taken = |name: &str| dependencies().any(|d| d.from_workspace && d.name == name);
    // Our own crates keep their line there, for whoever needs them next.
    let ours = |name: &str| workspace.packages.iter().any(|package| package.name == name);
    let idle = workspace_dependencies(text).into_iter().filter(|name| !taken(name) && !ours(name));
    idle.map(|name| {
        let what = format!("no crate takes `{name}` from the workspace: remove it");
        Complaint::new("Cargo.toml", manifest::line(text, &name), what)
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::super::{fixture, lines};
    use super::*;

    #[test]
    fn dependencies_that_nothing_names_are_found() {
        let workspace = fixture(&[
            ("Cargo.toml", "[workspace.dependencies]\nused = \"1\"\nidle = \"1\""),
            (
                "crates/a/Cargo.toml",
                "[package]\nname = \"a\"\n[dependencies]\nused.workspace = true\ntwo-words = \"1\"\n\
                 only-tests = \"1\"\nsilent = \"1\"\n[dev-dependencies]\ntests-too = \"1\"\n\
                 [package.metadata.cargo-machete]\nignored = [\"silent\"]",
            ),
            ("crates/a/src/lib.rs", "use used::x; fn f() { two_words::y() } // idle"),
            ("crates/a/tests/all.rs", "use only_tests::x; use tests_too::y;"),
        ]);
        assert_eq!(lines(check(&workspace)), ["crates/a/Cargo.toml:6", "Cargo.toml:3"]);
    }
}
