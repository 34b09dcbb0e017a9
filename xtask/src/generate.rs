//! `cargo xtask gen`: documents that are written from the code, so that they cannot be wrong.

use std::fmt::{Display, Write as _};
use std::fs;
use std::process::ExitCode;

use anyhow::{Context, Result};
use windrow_domain::batch;
use windrow_domain::call::{CallEvent, CallState};

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

/// A machine of the domain, as far as a page shows it.
struct Machine<S: 'static, E: 'static> {
    states: &'static [S],
    events: &'static [E],
    word: fn(E) -> &'static str,
    apply: fn(S, E) -> Option<S>,
    /// How something comes into being.
    births: &'static [&'static str],
    is_over: fn(S) -> bool,
}

const BATCHES: Machine<batch::State, batch::Event> = Machine {
    states: &batch::State::ALL,
    events: &batch::Event::ALL,
    word: batch::Event::as_str,
    apply: |state, event| batch::apply(state, event).ok(),
    births: &["in_progress: created", "failed: created over an invalid file"],
    is_over: batch::State::is_closed,
};

const CALLS: Machine<CallState, CallEvent> = Machine {
    states: &CallState::ALL,
    events: &CallEvent::ALL,
    word: CallEvent::as_str,
    apply: |state, event| state.apply(event).ok(),
    births: &["pending: asked"],
    is_over: |state| state == CallState::Expired,
};

fn states() -> String {
    let mut text = String::from(
        "# The states of a batch\n\n\
         Written by `cargo xtask gen` from `windrow_domain::batch::apply`; do not edit.\n\n",
    );
    text.push_str(&BATCHES.shown());
    text.push_str(
        "\n# The states of a call\n\n\
         From `windrow_domain::call::CallState::apply`. A call is *seen running* when its handler has run for a while; \
         whoever says so may\nbe late, so an answer stays. It is *forgotten* when its answer was kept as long as was wanted; \
         its id still refuses to run again. Asking\nagain changes no state. \
         It has *expired unanswered* when `expires_at` passed while it waited.\n\n",
    );
    text.push_str(&CALLS.shown());
    text
}

impl<S: Copy + PartialEq + Display, E: Copy> Machine<S, E> {
    /// As a diagram and as a table.
    fn shown(&self) -> String {
        let mut text = String::from("```mermaid\nstateDiagram-v2\n");
        for birth in self.births {
            let _ = writeln!(text, "    [*] --> {birth}");
        }
        for from in self.states {
            for (to, events) in self.moves(*from) {
                let _ = writeln!(text, "    {from} --> {to}: {}", events.join(", "));
            }
        }
        for state in self.states.iter().filter(|state| (self.is_over)(**state)) {
            let _ = writeln!(text, "    {state} --> [*]");
        }
        text.push_str(
            "```\n\nEvery state and event. `·` changes nothing, so that a repeat is safe; ",
        );
        text.push_str("an empty field is refused.\n\n");
        text.push_str(&self.table());
        text
    }

    /// Where a state leads, with the events that lead there; repeats left out.
    fn moves(&self, from: S) -> Vec<(S, Vec<&'static str>)> {
        let mut found: Vec<(S, Vec<&'static str>)> = Vec::new();
        for event in self.events {
            let to = (self.apply)(from, *event).filter(|to| *to != from);
            let (Some(to), word) = (to, (self.word)(*event)) else { continue };
            match found.iter_mut().find(|(state, _)| *state == to) {
                Some((_, events)) => events.push(word),
                None => found.push((to, vec![word])),
            }
        }
        found
    }

    fn table(&self) -> String {
        let words: Vec<&str> = self.events.iter().map(|event| (self.word)(*event)).collect();
        let mut text = format!("| state | {} |\n", words.join(" | "));
        let _ = writeln!(text, "|{}", "---|".repeat(words.len() + 1));
        for from in self.states {
            let cell = |event: &E| match (self.apply)(*from, *event) {
                Some(to) if to == *from => "·".to_owned(),
                Some(to) => format!("`{to}`"),
                None => String::new(),
            };
            let cells: Vec<String> = self.events.iter().map(cell).collect();
            let _ = writeln!(text, "| `{from}` | {} |", cells.join(" | "));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_has_a_row_and_the_diagram_leaves_repeats_out() {
        let text = states();
        for state in batch::State::ALL.map(|state| state.to_string()) {
            assert!(text.contains(&format!("| `{state}` |")), "{state}");
        }
        for state in CallState::ALL {
            assert!(text.contains(&format!("| `{state}` |")), "{state}");
        }
        assert!(text.contains("in_progress --> paused: paused"));
        assert!(!text.contains("paused --> paused"));
        assert!(text.contains("pending --> processing: started, seen running"));
    }
}
