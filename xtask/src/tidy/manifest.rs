//! What a crate's `Cargo.toml` says, and that each follows the workspace's lints.

use toml::{Table, Value};

use super::tree::{folder_of, line_of};
use super::{Complaint, Workspace};

/// One dependency of a crate.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Dependency {
    /// The name in this manifest; `package` may differ from it.
    pub(super) name: String,
    pub(super) package: String,
    pub(super) kind: Kind,
    pub(super) from_workspace: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Normal,
    Dev,
    Build,
}

/// One crate.
#[derive(Debug)]
pub(super) struct Package {
    pub(super) name: String,
    pub(super) path: String,
    pub(super) folder: String,
    pub(super) dependencies: Vec<Dependency>,
    /// Dependencies that are there for what they do, not for a name in the code.
    pub(super) unnamed: Vec<String>,
    /// Sources that the manifest names itself.
    pub(super) roots: Vec<String>,
    pub(super) follows_lints: bool,
    /// Some target says `test = false`.
    pub(super) untested: bool,
    /// The library says `doctest = false`.
    pub(super) undoctested: bool,
}

impl Package {
    pub(super) fn read(path: &str, text: &str) -> Result<Self, Complaint> {
        let table: Table = text
            .parse()
            .map_err(|error| Complaint::new(path, 1, format!("is not a manifest: {error}")))?;
        let name = get(&table, &["package", "name"]).and_then(Value::as_str);
        let name = name.ok_or_else(|| Complaint::new(path, 1, "names no package"))?.to_owned();
        let ignored = get(&table, &["package", "metadata", "cargo-machete", "ignored"]);
        let ignored = ignored.and_then(Value::as_array).cloned().unwrap_or_default();
        Ok(Self {
            name,
            path: path.to_owned(),
            folder: folder_of(path).to_owned(),
            dependencies: dependencies(&table),
            unnamed: ignored.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            roots: roots(&table),
            follows_lints: get(&table, &["lints", "workspace"]).and_then(Value::as_bool)
                == Some(true),
            untested: targets(&table, &["lib", "bin"]).any(|target| is_off(target, "test")),
            undoctested: targets(&table, &["lib"]).any(|target| is_off(target, "doctest")),
        })
    }
}

/// The tables of these kinds of targets; a library is one, the others are lists.
fn targets<'a>(table: &'a Table, kinds: &'a [&str]) -> impl Iterator<Item = &'a Value> {
    let found = kinds.iter().filter_map(|kind| table.get(*kind));
    found.flat_map(|value| value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice))
}

fn is_off(target: &Value, key: &str) -> bool {
    target.get(key).and_then(Value::as_bool) == Some(false)
}

fn get<'a>(table: &'a Table, keys: &[&str]) -> Option<&'a Value> {
    let (last, before) = keys.split_last()?;
    let mut table = table;
    for key in before {
        table = table.get(*key)?.as_table()?;
    }
    table.get(*last)
}

fn dependencies(table: &Table) -> Vec<Dependency> {
    let mut found = Vec::new();
    let targets = table.get("target").and_then(Value::as_table);
    let tables = targets.into_iter().flat_map(|targets| targets.values());
    for table in tables.filter_map(Value::as_table).chain([table]) {
        for (key, kind) in [
            ("dependencies", Kind::Normal),
            ("dev-dependencies", Kind::Dev),
            ("build-dependencies", Kind::Build),
        ] {
            for (name, value) in table.get(key).and_then(Value::as_table).into_iter().flatten() {
                let package = value.get("package").and_then(Value::as_str).unwrap_or(name);
                let from_workspace = value.get("workspace").and_then(Value::as_bool) == Some(true);
                let (name, package) = (name.clone(), package.to_owned());
                found.push(Dependency { name, package, kind, from_workspace });
            }
        }
    }
    found
}

fn roots(table: &Table) -> Vec<String> {
    let kinds = ["bin", "test", "bench", "example", "lib"];
    let paths = targets(table, &kinds).filter_map(|target| target.get("path")?.as_str());
    paths.map(str::to_owned).collect()
}

/// The workspace's own dependencies, which its members take over by name.
pub(super) fn workspace_dependencies(text: &str) -> Vec<String> {
    let table: Table = text.parse().unwrap_or_default();
    let found = get(&table, &["workspace", "dependencies"]).and_then(Value::as_table);
    found.into_iter().flat_map(|table| table.keys().cloned()).collect()
}

/// The line of a dependency.
pub(super) fn line(text: &str, name: &str) -> usize {
    line_of(text, |line| {
        let rest = line.strip_prefix(name);
        rest.is_some_and(|rest| rest.starts_with([' ', '.', '=']))
    })
}

pub(super) fn check(workspace: &Workspace) -> Vec<Complaint> {
    let what = "add `[lints]` with `workspace = true`: lints are decided once, at the top";
    let strays = workspace.packages.iter().filter(|package| !package.follows_lints);
    strays.map(|package| Complaint::new(&package.path, 1, what)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::{fixture, lines};
    use super::*;

    #[test]
    fn a_crate_with_lints_of_its_own_is_found() {
        let workspace = fixture(&[
            ("crates/a/Cargo.toml", "[package]\nname = \"a\"\n[lints]\nworkspace = true"),
            ("crates/b/Cargo.toml", "[package]\nname = \"b\""),
        ]);
        assert_eq!(lines(check(&workspace)), ["crates/b/Cargo.toml:1"]);
    }

    #[test]
    fn dependencies_of_every_kind_are_read() {
        let text = "[package]\nname = \"a\"\n[dependencies]\nx.workspace = true\n\
                    y = { package = \"z\", version = \"1\" }\n[dev-dependencies]\nd = \"1\"\n\
                    [target.'cfg(unix)'.dependencies]\nu = \"1\"";
        let package = Package::read("a/Cargo.toml", text).unwrap();
        let read = |d: &Dependency| (d.name.clone(), d.package.clone(), d.kind, d.from_workspace);
        let own = |s: &str| s.to_owned();
        let found: Vec<_> = package.dependencies.iter().map(read).collect();
        let wanted = [
            (own("u"), own("u"), Kind::Normal, false),
            (own("x"), own("x"), Kind::Normal, true),
            (own("y"), own("z"), Kind::Normal, false),
            (own("d"), own("d"), Kind::Dev, false),
        ];
        assert_eq!(found, wanted);
        assert_eq!(line(text, "d"), 7);
    }
}
