//! The arrows between crates point one way: `cli → server → engine → store → domain`, and
//! `engine → recipe → domain`.

use super::manifest::{self, Kind};
use super::{Complaint, Workspace};

const DOMAIN: &str = "windrow-domain";
const STORE: &str = "windrow-store";
const RECIPE: &str = "windrow-recipe";
const ENGINE: &str = "windrow-engine";
const SQLITE: &str = "windrow-store-sqlite";
const POSTGRES: &str = "windrow-store-postgres";
const TESTKIT: &str = "windrow-testkit";

/// Each crate and the crates of ours that it may name. Tests may name any.
const ARROWS: &[(&str, &[&str])] = &[
    (DOMAIN, &[]),
    (STORE, &[DOMAIN]),
    (SQLITE, &[DOMAIN, STORE]),
    (POSTGRES, &[DOMAIN, STORE]),
    ("windrow-store-conformance", &[DOMAIN, STORE]),
    (RECIPE, &[DOMAIN]),
    (ENGINE, &[DOMAIN, STORE, RECIPE]),
    ("windrow-brokers", &[DOMAIN, STORE, ENGINE]),
    ("windrow-server", &[DOMAIN, STORE, RECIPE, ENGINE]),
    ("windrow", &[DOMAIN, STORE, ENGINE, SQLITE, POSTGRES]),
    (
        "windrow-cli",
        &[
            DOMAIN,
            STORE,
            RECIPE,
            ENGINE,
            SQLITE,
            POSTGRES,
            "windrow",
            "windrow-brokers",
            "windrow-server",
        ],
    ),
    (TESTKIT, &[DOMAIN]),
    ("windrow-sim", &[DOMAIN, STORE, ENGINE, SQLITE, TESTKIT]),
    ("windrow-bench", &[DOMAIN, STORE, RECIPE, ENGINE, SQLITE, POSTGRES, TESTKIT]),
    ("windrow-fault", &["windrow", TESTKIT]),
    ("windrow-e2e", &["windrow", "windrow-fault", TESTKIT]),
    // Kept light, since every command waits for it to build.
    ("xtask", &[DOMAIN, TESTKIT]),
];

/// `domain` is pure: values, their text forms and hashes, and points in time.
const DOMAIN_OUTSIDE: &[&str] = &["jiff", "serde", "sha2", "uuid"];
/// Libraries give typed errors; only programs may say "something went wrong".
const ANYHOW: &[&str] = &["windrow-bench", "windrow-cli", "xtask"];

pub(super) fn check(workspace: &Workspace) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    let is_ours = |name: &str| workspace.packages.iter().any(|package| package.name == name);
    for package in &workspace.packages {
        let Some((_, allowed)) = ARROWS.iter().find(|(name, _)| *name == package.name) else {
            let what = format!("give `{}` its place in xtask/src/tidy/graph.rs", package.name);
            complaints.push(Complaint::new(&package.path, 1, what));
            continue;
        };
        let text = workspace.tree.text(&package.path).unwrap_or_default();
        for dependency in package.dependencies.iter().filter(|d| d.kind != Kind::Dev) {
            let name = dependency.package.as_str();
            let what = if is_ours(name) {
                let may = allowed.contains(&name) || package.name == name;
                (!may).then(|| {
                    format!("`{}` may not depend on `{name}`: work moves one way", package.name)
                })
            } else if package.name == DOMAIN && !DOMAIN_OUTSIDE.contains(&name) {
                Some(format!("the domain stays pure: it may not depend on `{name}`"))
            } else if name == "anyhow" && !ANYHOW.contains(&package.name.as_str()) {
                Some("a library gives typed errors: anyhow is for programs and tests".to_owned())
            } else {
                None
            };
            let line = manifest::line(text, &dependency.name);
            complaints.extend(what.map(|what| Complaint::new(&package.path, line, what)));
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::super::{fixture, lines};
    use super::*;

    #[test]
    fn backward_arrows_are_found_and_tests_are_exempt() {
        let workspace = fixture(&[
            (
                "crates/domain/Cargo.toml",
                "[package]\nname = \"windrow-domain\"\n[dependencies]\nserde = \"1\"\ntokio = \"1\"\n\
                 windrow-store = { path = \"../store\" }",
            ),
            (
                "crates/store/Cargo.toml",
                "[package]\nname = \"windrow-store\"\n[dependencies]\nanyhow = \"1\"\n\
                 windrow-domain.workspace = true\n[dev-dependencies]\nwindrow-new = \"1\"",
            ),
            ("crates/new/Cargo.toml", "[package]\nname = \"windrow-new\""),
        ]);
        let wanted = [
            "crates/domain/Cargo.toml:5",
            "crates/domain/Cargo.toml:6",
            "crates/new/Cargo.toml:1",
            "crates/store/Cargo.toml:4",
        ];
        assert_eq!(lines(check(&workspace)), wanted);
    }
}
