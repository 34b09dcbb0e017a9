//! The configuration file: TOML with known keys only; every error names its line.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue};
use windrow::domain::suggest::suggest;
use windrow::engine::execute::http::Upstream;

use super::tables::{self, Tables};
use super::{TEXTS, keys};
use crate::error::CliError;
use crate::exit_code::Exit;

/// A value as it stands in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) value: String,
    pub(crate) line: usize,
}

/// What a file says.
#[derive(Debug, Default)]
pub(crate) struct File {
    pub(crate) path: PathBuf,
    /// Its whole text.
    pub(crate) text: String,
    /// Bounds and texts by their names.
    pub(crate) entries: BTreeMap<String, Entry>,
    pub(crate) upstreams: BTreeMap<String, Upstream>,
    pub(crate) tables: Tables,
}

/// The table of upstreams.
const UPSTREAMS: &str = "upstreams";
/// The table whose keys are named with it and a full stop: `messages.partitions`.
const MESSAGES: &str = "messages";

#[derive(Deserialize)]
struct Upstreams {
    #[serde(default)]
    upstreams: BTreeMap<String, Upstream>,
}

/// Reads a file that must be there.
pub(crate) fn read(path: &Path) -> anyhow::Result<File> {
    let text = std::fs::read_to_string(path).with_context(|| {
        let what = format!("could not read the configuration {}", path.display());
        CliError::new(Exit::Config, what, "check the path given with --config or WINDROW_CONFIG.")
    })?;
    parse(path, &text)
}

fn parse(path: &Path, text: &str) -> anyhow::Result<File> {
    let mut table =
        DeTable::parse(text).map_err(|error| bad_toml(path, text, &error))?.into_inner();
    let source = ConfigText { path, text };
    let tables = Tables::take_from(&mut table, source)?;
    let mut entries = BTreeMap::new();
    for (name, value) in &table {
        match (name.get_ref().as_ref(), value.get_ref()) {
            (UPSTREAMS, _) => {}
            (MESSAGES, DeValue::Table(inner)) => {
                for (key, value) in inner {
                    let known = format!("{MESSAGES}.{}", key.get_ref());
                    source.entry(&mut entries, known, key.span().start, value)?;
                }
            }
            (known, _) => source.entry(&mut entries, known.to_owned(), name.span().start, value)?,
        }
    }
    let upstreams: Upstreams =
        toml::from_str(text).map_err(|error| bad_toml(path, text, &error))?;
    let (path, text) = (path.to_owned(), text.to_owned());
    Ok(File { path, text, entries, upstreams: upstreams.upstreams, tables })
}

/// A file while it is read.
#[derive(Clone, Copy)]
pub(super) struct ConfigText<'a> {
    pub(super) path: &'a Path,
    pub(super) text: &'a str,
}

impl ConfigText<'_> {
    /// What the reader of TOML says, with its line.
    pub(super) fn bad(self, error: &toml::de::Error) -> CliError {
        bad_toml(self.path, self.text, error)
    }

    /// An unknown key, by the position where it starts.
    pub(super) fn unknown<'a>(
        self,
        at: usize,
        name: &str,
        known: impl IntoIterator<Item = &'a str>,
    ) -> CliError {
        unknown((self.path, line_of(self.text, at)), name, known)
    }

    /// The file and the line of a place in it.
    pub(super) fn line(self, at: usize) -> String {
        format!("{}:{}", self.path.display(), line_of(self.text, at))
    }

    fn entry(
        self,
        entries: &mut BTreeMap<String, Entry>,
        known: String,
        at: usize,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<(), CliError> {
        if keys::find(&known).is_none() && !TEXTS.contains(&known.as_str()) {
            return Err(self.unknown(at, &known, all_names()));
        }
        let output = &self.text[value.span()];
        let value = value.get_ref().as_str().unwrap_or(output).to_owned();
        entries.insert(known, Entry { value, line: line_of(self.text, at) });
        Ok(())
    }
}

fn all_names() -> impl Iterator<Item = &'static str> {
    let bounds = keys::KEYS.iter().map(|key| key.name);
    bounds.chain(TEXTS.iter().copied()).chain([UPSTREAMS]).chain(tables::NAMES)
}

fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes()[..at.min(text.len())].iter().filter(|byte| **byte == b'\n').count() + 1
}

/// The error of a key that is not known.
fn unknown<'a>(
    (path, line): (&Path, usize),
    name: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> CliError {
    let what = format!("{}:{line}: unknown key `{name}`", path.display());
    if let Some(place) = place_of(name) {
        return CliError::new(Exit::Config, what, format!("move it: {place}."));
    }
    let remedy = match suggest(name, known) {
        Some(found) => format!("did you mean `{found}`? `windrow config` lists every key."),
        None => "remove it; `windrow config` lists every key.".to_owned(),
    };
    CliError::new(Exit::Config, what, remedy)
}

/// Where a key belongs that stands where it is not known.
pub(super) fn place_of(name: &str) -> Option<String> {
    let is_key = |name: &str| keys::find(name).is_some() || TEXTS.contains(&name);
    let top = name.strip_prefix(&format!("{MESSAGES}.")).unwrap_or(name);
    if is_key(top) {
        Some(format!("`{top}` belongs at the top of the file, before the first table"))
    } else if is_key(&format!("{MESSAGES}.{name}")) {
        Some(format!("`{name}` belongs below [{MESSAGES}]"))
    } else if upstream_names().iter().any(|known| known == top) {
        Some(format!("`{top}` belongs below [{UPSTREAMS}.NAME], for example [{UPSTREAMS}.default]"))
    } else {
        None
    }
}

/// The keys of an upstream, as the reader of its table knows them.
pub(super) fn upstream_names() -> Vec<String> {
    let error = toml::from_str::<Upstream>("no_such_key = 0").err();
    let message = error.as_ref().map_or("", |error| error.message());
    message.split('`').skip(1).step_by(2).skip(1).map(str::to_owned).collect()
}

/// What the reader of TOML says, with its line; an unknown field with the nearest known one.
fn bad_toml(path: &Path, text: &str, error: &toml::de::Error) -> CliError {
    let line = error.span().map_or(1, |span| line_of(text, span.start));
    let quoted: Vec<&str> = error.message().split('`').skip(1).step_by(2).collect();
    if let (true, Some((name, known))) =
        (error.message().starts_with("unknown field"), quoted.split_first())
    {
        return unknown((path, line), name, known.iter().copied());
    }
    let what = format!("{}:{line}: {}", path.display(), error.message().trim_end());
    CliError::new(Exit::Config, what, "correct that line; docs/configuration.md has an example.")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaint(text: &str) -> String {
        let error = parse(Path::new("w.toml"), text).unwrap_err();
        assert_eq!(crate::error::exit_code(&error), Exit::Config);
        crate::error::to_text(&error)
    }

    #[test]
    fn known_keys_are_read_with_their_lines() {
        let text = "# bounds\nclaim_max = 1_00\n\nowner = \"ann\"\nsafety_factor = 0.5\n";
        let file = parse(Path::new("w.toml"), text).unwrap();
        let entry = |value: &str, line| Entry { value: value.to_owned(), line };
        assert_eq!(file.entries["claim_max"], entry("1_00", 2));
        assert_eq!(file.entries["owner"], entry("ann", 4));
        assert_eq!(file.entries["safety_factor"], entry("0.5", 5));
    }

    #[test]
    fn an_unknown_key_is_named_with_its_line_and_the_nearest_one() {
        let output = complaint("claim_min = 1\nclaim_mx = 3\n");
        assert!(output.starts_with("error: w.toml:2: unknown key `claim_mx`\n"), "{output}");
        assert!(output.contains("did you mean `claim_max`?"), "{output}");
        let output = complaint("[upstreams.a]\nbase_url = \"http://h\"\nconnect_ms_mx = 3\n");
        assert!(output.starts_with("error: w.toml:3: unknown key `connect_ms_mx`"), "{output}");
        assert!(output.contains("did you mean `connect_ms_max`?"), "{output}");
    }

    #[test]
    fn a_key_in_the_wrong_place_is_told_the_right_one() {
        for (text, wanted) in [
            ("concurrency_max = 3\n", "below [upstreams.NAME]"),
            ("partitions = 3\n", "below [messages]"),
            ("[messages]\nclaim_max = 3\n", "at the top of the file"),
            ("[upstreams.a]\nbase_url = \"http://h\"\nclaim_max = 3\n", "at the top of the file"),
        ] {
            let output = complaint(text);
            assert!(
                output.contains("What to do: move it: ") && output.contains(wanted),
                "{output}"
            );
        }
    }

    #[test]
    fn keys_of_messages_have_a_table_of_their_own() {
        let text = "[messages]\npartitions = 64\nservice = \"shop\"\n";
        let file = parse(Path::new("w.toml"), text).unwrap();
        let entry = |value: &str, line| Entry { value: value.to_owned(), line };
        assert_eq!(file.entries["messages.partitions"], entry("64", 2));
        assert_eq!(file.entries["messages.service"], entry("shop", 3));
        let output = complaint("[messages]\npartition = 3\n");
        assert!(
            output.starts_with("error: w.toml:2: unknown key `messages.partition`"),
            "{output}"
        );
        assert!(output.contains("did you mean `messages.partitions`?"), "{output}");
    }

    #[test]
    fn what_is_no_toml_is_told_with_its_line() {
        assert!(complaint("a = 1\nb = \n").starts_with("error: w.toml:2: "));
    }
}
