//! What people and programs outside rely on, one item a line in `tests/frozen`: commands, keys of the
//! configuration, migrations, codes and headers here; what a run says, stores and sends in `scene`.
//!
//! Holds throughout: everything is read through the binary, its files and the sources' own literals, so
//! that a type may be renamed and a contract may not.

mod scene;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use windrow_server::error::Code;
use windrow_testkit::kept::{assert_kept, assert_none_gone};

use crate::support::Workdir;

fn crate_folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name)
}

fn kept(name: &str) -> PathBuf {
    crate_folder("cli").join("tests/frozen").join(name)
}

/// Fails when the lines are not those that are kept.
fn hold(name: &str, lines: impl IntoIterator<Item = String>) {
    let made: String = lines.into_iter().map(|line| format!("{line}\n")).collect();
    assert_kept(kept(name), &made);
}

#[test]
fn migrations_stay_byte_for_byte() {
    let mut lines = BTreeSet::new();
    for store in ["store-postgres", "store-sqlite"] {
        for entry in fs::read_dir(crate_folder(store).join("migrations")).unwrap() {
            let path = entry.unwrap().path();
            let (name, sum) = (path.file_name().unwrap(), blake3::hash(&fs::read(&path).unwrap()));
            lines.insert(format!("{store} {} {}", name.display(), sum.to_hex()));
        }
    }
    hold("migrations.txt", lines);
}

/// What the help of a command names: commands below it, options, how many arguments, and their values.
/// Options of every command are told once, at the top.
async fn add_command(workdir: &Workdir, path: &[&str], lines: &mut Vec<String>) {
    let said = workdir.windrow(&[path, &["--help"]].concat()).await;
    assert_eq!(said.code, 0, "{said:?}");
    let (called, mut section, mut below) = (["windrow"].iter().chain(path), "", Vec::new());
    let called = called.copied().collect::<Vec<_>>().join(" ");
    let of_all: Vec<String> =
        lines.iter().filter_map(|line| line.strip_prefix("windrow -")).map(str::to_owned).collect();
    for line in said.out.lines() {
        let (words, indent) = (line.trim_start(), line.len() - line.trim_start().len());
        match (section, words.chars().next()) {
            _ if indent == 0 && line.ends_with(':') => section = line,
            ("Commands:", Some(_)) if indent == 2 => {
                below.extend(words.split(' ').next().filter(|name| *name != "help"));
            }
            ("Arguments:", Some('<')) if indent == 2 => lines.push(format!("{called} <required>")),
            ("Arguments:", Some('[')) if indent == 2 => lines.push(format!("{called} [optional]")),
            (_, Some('-')) if indent <= 6 => {
                let names = words.split("  ").next().unwrap_or_default().split([' ', ',']);
                let names: Vec<&str> = names.filter(|word| word.starts_with('-')).collect();
                if !of_all.iter().any(|other| names.join(" ")[1..] == **other) {
                    lines.push(format!("{called} {}", names.join(" ")));
                }
            }
            _ => {}
        }
    }
    let text = said.out.split_whitespace().collect::<Vec<_>>().join(" ");
    for piece in text.split("[possible values: ").skip(1) {
        let values = piece.split(']').next().unwrap_or_default();
        lines.push(format!("{called} one of {values}"));
    }
    for name in below {
        lines.push(format!("{called} {name}"));
        Box::pin(add_command(workdir, &[path, &[name]].concat(), lines)).await;
    }
}

#[tokio::test]
async fn commands_and_options_keep_their_names() {
    let mut lines = Vec::new();
    add_command(&Workdir::new(), &[], &mut lines).await;
    hold("commands.txt", lines);
}

/// Every key with the variables that set it, as `windrow config` tells where a value came from.
#[tokio::test]
async fn keys_of_the_configuration_keep_their_names_and_variables() {
    let workdir = Workdir::new();
    let config = workdir.windrow(&["config", "--json"]).await.json();
    let values = config["values"].as_object().unwrap().clone();
    let text = |value: &Value| match value {
        Value::Null => "none".to_owned(),
        Value::String(text) if text.is_empty() => "http://127.0.0.1/".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let bare = |key: &str| key.to_uppercase().replace('.', "_");
    let own = |key: &str| match key {
        "database" => "WINDROW_DATABASE_URL".to_owned(),
        key => format!("WINDROW_{}", bare(key)),
    };
    let named: [&dyn Fn(&str) -> String; 2] = [&own, &bare];
    let mut from = Vec::new();
    for name in named {
        let pairs = values.iter().map(|(key, value)| (name(key), text(&value["value"])));
        let pairs: Vec<(String, String)> = pairs.collect();
        let pairs: Vec<(&str, &str)> =
            pairs.iter().map(|(name, text)| (&**name, &**text)).collect();
        let said = workdir.windrow_with(&["config", "--json"], &pairs).await;
        assert_eq!(said.code, 0, "{said:?}");
        from.push(said.json()["values"].clone());
    }
    hold(
        "config.txt",
        values.keys().map(|key| {
            let names = from.iter().filter_map(|from| from[key]["from"].as_str());
            let names = names.filter_map(|from| from.strip_prefix("environment, "));
            format!("{key} {}", names.collect::<Vec<_>>().join(" "))
        }),
    );
}

/// A file with every key of every table that has no bound: each must still be known.
#[tokio::test]
async fn tables_of_the_configuration_keep_their_keys() {
    let workdir = Workdir::new();
    workdir.write("windrow.toml", &fs::read_to_string(kept("tables.toml")).unwrap());
    let said = workdir.windrow(&["config", "--json"]).await;
    assert_eq!(said.code, 0, "{said:?}");
}

/// The sources of a crate, without their tests.
fn sources(folder: &Path, texts: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, texts);
        } else if path.extension().is_some_and(|end| end == "rs") && !path.ends_with("tests.rs") {
            let text = fs::read_to_string(&path).unwrap();
            texts.push(text.split("#[cfg(test)]").next().unwrap_or_default().to_owned());
        }
    }
}

/// All texts between quotes that are one word, with what stands before each.
fn words(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.match_indices('"').filter_map(|(at, _)| {
        let (before, rest) = (&text[..at], &text[at + 1..]);
        let (word, _) = rest.split_once('"')?;
        let is_word = !word.is_empty()
            && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte));
        is_word.then_some((word, before))
    })
}

/// Words of several parts, which are codes, headers, variables, metrics, fields and kinds. A new one may
/// come; one that is gone was perhaps somebody's.
#[test]
fn no_word_that_machines_read_is_gone() {
    let mut found = BTreeSet::new();
    for name in ["brokers", "cli", "domain", "engine", "server", "store"] {
        let mut texts = Vec::new();
        sources(&crate_folder(name).join("src"), &mut texts);
        for text in &texts {
            let words = words(text).map(|(word, _)| word);
            let parts = |word: &&str| {
                let mut parts = word.split(['_', '-', '.']);
                let is_several = word.contains(['_', '-', '.']) && !parts.any(str::is_empty);
                is_several && word.starts_with(|first: char| first.is_ascii_alphabetic())
            };
            found.extend(words.filter(parts).map(str::to_owned));
            // The code of an answer is made of its status.
            if text.contains("\"http_{status}\"") {
                found.extend((400..600).map(|status| format!("http_{status}")));
            }
        }
    }
    assert_none_gone(kept("words.txt"), &found);
}

/// The stable word of a refusal, with its status.
#[test]
fn refusals_of_the_api_keep_their_status_and_code() {
    let named = |code: &Code| {
        let status = code.status().canonical_reason().unwrap_or_default();
        format!("{} {}", status.to_uppercase().replace(' ', "_"), code.as_str())
    };
    let found: BTreeSet<String> = Code::ALL.iter().map(named).collect();
    assert_none_gone(kept("refusals.txt"), &found);
}

/// The label `verb` of a metric has the names of the store's calls.
#[test]
fn calls_of_the_store_are_measured_under_these_names() {
    let labels = windrow::store::verbs::labels();
    let found: BTreeSet<String> = labels.into_iter().map(str::to_owned).collect();
    assert_none_gone(kept("verbs.txt"), &found);
}
