//! `cargo xtask gen`: documents that are written from the code, so that they cannot be wrong.

use std::fmt::Write as _;
use std::fs;
use std::process::ExitCode;

use anyhow::{Context, Result};
use windrow_domain::batch::{Event, State, apply};

use crate::shell;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Changes nothing; fails when a file is not what would be written
    #[arg(long)]
    check: bool,
}

/// Each generated file and its text.
fn files() -> Vec<(&'static str, String)> {
    vec![("docs/states.md", states())]
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let stale = stale()?;
    if args.check {
        return Ok(report(&stale));
    }
    for (path, text) in files() {
        let file = shell::root().join(path);
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder)
                .with_context(|| format!("could not make {path}'s folder"))?;
        }
        fs::write(file, text).with_context(|| format!("could not write {path}"))?;
        shell::say(&format!("wrote {path}"));
    }
    Ok(ExitCode::SUCCESS)
}

/// Says which files differ from what the code would write.
pub(crate) fn check() -> Result<bool> {
    Ok(report(&stale()?) == ExitCode::SUCCESS)
}

fn report(stale: &[&str]) -> ExitCode {
    for path in stale {
        println!("{path}:1: differs from what the code says; run `cargo xtask gen`");
    }
    if stale.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn stale() -> Result<Vec<&'static str>> {
    let differs = |(path, text): &(&'static str, String)| {
        fs::read_to_string(shell::root().join(path)).ok().as_ref() != Some(text)
    };
    Ok(files().into_iter().filter(differs).map(|(path, _)| path).collect())
}

fn states() -> String {
    let mut text = String::from(
        "# The states of a batch\n\n\
         Written by `cargo xtask gen` from `windrow_domain::batch::apply`; do not edit.\n\n\
         ```mermaid\nstateDiagram-v2\n    [*] --> in_progress: created\n    \
         [*] --> failed: created over an invalid file\n",
    );
    for from in State::ALL {
        for (to, events) in moves(from) {
            let _ = writeln!(text, "    {from} --> {to}: {}", events.join(", "));
        }
    }
    for state in State::ALL.into_iter().filter(|state| state.is_closed()) {
        let _ = writeln!(text, "    {state} --> [*]");
    }
    text.push_str("```\n\nEvery state and event. `·` changes nothing, so that a repeat is safe; ");
    text.push_str("an empty field is refused.\n\n");
    text.push_str(&table());
    text
}

/// Where a state leads, with the events that lead there; repeats left out.
fn moves(from: State) -> Vec<(State, Vec<&'static str>)> {
    let mut found: Vec<(State, Vec<&'static str>)> = Vec::new();
    for event in Event::ALL {
        let Ok(to) = apply(from, event) else { continue };
        if to == from {
            continue;
        }
        match found.iter_mut().find(|(state, _)| *state == to) {
            Some((_, events)) => events.push(event.as_str()),
            None => found.push((to, vec![event.as_str()])),
        }
    }
    found
}

fn table() -> String {
    let words: Vec<&str> = Event::ALL.iter().map(|event| event.as_str()).collect();
    let mut text = format!("| state | {} |\n", words.join(" | "));
    let _ = writeln!(text, "|{}", "---|".repeat(words.len() + 1));
    for from in State::ALL {
        let cells = Event::ALL.map(|event| match apply(from, event) {
            Ok(to) if to == from => "·".to_owned(),
            Ok(to) => format!("`{to}`"),
            Err(_) => String::new(),
        });
        let _ = writeln!(text, "| `{from}` | {} |", cells.join(" | "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_has_a_row_and_the_diagram_leaves_repeats_out() {
        let text = states();
        for state in State::ALL {
            assert!(text.contains(&format!("| `{state}` |")), "{state}");
        }
        assert!(text.contains("in_progress --> paused: paused"));
        assert!(!text.contains("paused --> paused"));
    }
}
