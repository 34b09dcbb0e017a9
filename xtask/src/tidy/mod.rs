//! `cargo xtask tidy`: the house rules that no other tool knows.
//!
//! Holds throughout: a rule is a pure function from the tree to complaints, so each is tested on a
//! small tree made of strings. A complaint says where, and what to do.

use std::fmt;
use std::process::ExitCode;

use anyhow::Result;

use crate::shell;

mod adr;
mod errors;
mod graph;
mod links;
mod manifest;
mod modules;
mod retired;
mod rust;
mod sizes;
mod sql;
mod tree;
mod untested;
mod unused;
mod words;

use manifest::Package;
use rust::Facts;
use tree::Tree;

/// Something to mend.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Complaint {
    path: String,
    line: usize,
    what: String,
}

impl Complaint {
    fn new(path: &str, line: usize, what: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, what: what.into() }
    }
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.what)
    }
}

/// The tree and what several rules need to know about it.
struct Workspace {
    tree: Tree,
    packages: Vec<Package>,
    rust: Vec<(String, Facts)>,
}

impl Workspace {
    /// Reads manifests and sources; what cannot be read is a complaint.
    fn new(tree: Tree) -> (Self, Vec<Complaint>) {
        let mut complaints = Vec::new();
        let mut packages = Vec::new();
        let mut rust = Vec::new();
        for (path, text) in tree.files() {
            if path.ends_with("/Cargo.toml") {
                match Package::read(path, text) {
                    Ok(package) => packages.push(package),
                    Err(complaint) => complaints.push(complaint),
                }
            } else if path.ends_with(".rs") {
                match Facts::read(path, text) {
                    Ok(facts) => rust.push((path.to_owned(), facts)),
                    Err(complaint) => complaints.push(complaint),
                }
            }
        }
        (Self { tree, packages, rust }, complaints)
    }

    /// The Rust files of a package, with what they hold.
    fn rust_of<'a>(
        &'a self,
        package: &'a Package,
    ) -> impl Iterator<Item = (&'a str, &'a Facts)> + 'a {
        let inside = move |path: &str| path.starts_with(&format!("{}/", package.folder));
        let files = self.rust.iter().filter(move |(path, _)| inside(path));
        files.map(|(path, facts)| (path.as_str(), facts))
    }
}

fn judge(tree: Tree) -> (Vec<Complaint>, Vec<String>) {
    let (workspace, mut complaints) = Workspace::new(tree);
    let notes = Vec::new();
    complaints.extend(modules::check(&workspace));
    complaints.extend(graph::check(&workspace));
    complaints.extend(manifest::check(&workspace));
    complaints.extend(unused::check(&workspace));
    complaints.extend(untested::check(&workspace));
    complaints.extend(sql::check(&workspace));
    complaints.extend(sizes::check(&workspace));
    complaints.extend(words::check(&workspace));
    complaints.extend(retired::check(&workspace));
    complaints.extend(adr::check(&workspace.tree));
    complaints.extend(errors::check(&workspace));
    complaints.extend(links::check(&workspace.tree));
    complaints.sort();
    complaints.dedup();
    (complaints, notes)
}

/// Prints every complaint; whether there was none.
pub(crate) fn check() -> Result<bool> {
    shell::say("tidy");
    let (complaints, notes) = judge(Tree::read(&shell::root())?);
    for note in notes {
        println!("note: {note}");
    }
    for complaint in &complaints {
        println!("{complaint}");
    }
    if !complaints.is_empty() {
        println!("{} complaint(s)", complaints.len());
    }
    Ok(complaints.is_empty())
}

pub(crate) fn run() -> Result<ExitCode> {
    Ok(if check()? { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Reads a tree of strings; for the tests of the rules.
#[cfg(test)]
fn fixture(files: &[(&str, &str)]) -> Workspace {
    let (workspace, complaints) = Workspace::new(Tree::of(files));
    assert_eq!(complaints, []);
    workspace
}

#[cfg(test)]
fn lines(complaints: Vec<Complaint>) -> Vec<String> {
    complaints.into_iter().map(|c| format!("{}:{}", c.path, c.line)).collect()
}
