//! Errors as the command line prints them: what happened, why, what to do, and the exit code.

use std::fmt;

use serde_json::Value;
use windrow::store::{Error, Kind};

use crate::exit_code::Exit;
use crate::hint;

/// An error that carries its exit code and what the user can do about it.
#[derive(Clone, Debug)]
pub(crate) struct CliError {
    exit_code: Exit,
    what: String,
    remedy: String,
    list: Option<List>,
}

/// What an error lists below its sentence: lines for people, fields for programs.
#[derive(Clone, Debug)]
struct List {
    lines: String,
    fields: Value,
}

impl CliError {
    pub(crate) fn new(exit_code: Exit, what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { exit_code, what: what.into(), remedy: remedy.into(), list: None }
    }

    /// Adds a list: lines for people, and the fields of an object that programs get beside the message.
    pub(crate) fn with_list(mut self, lines: String, fields: Value) -> Self {
        self.list = Some(List { lines, fields });
        self
    }

    /// A wrong command line (exit code 2).
    pub(crate) fn usage(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::new(Exit::Usage, what, remedy)
    }
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for CliError {}

/// The exit code for this error; 1 when nothing in its chain names one.
pub(crate) fn exit_code(error: &anyhow::Error) -> Exit {
    // anyhow finds a `CliError` that was added as context before the cause under it.
    error.downcast_ref::<CliError>().map_or(Exit::Failed, |cli_error| cli_error.exit_code)
}

/// For people: the message, each cause and what to do, one a line.
pub(crate) fn to_text(error: &anyhow::Error) -> String {
    let mut text = format!("error: {error}\n");
    if let Some(list) = list(error) {
        text.push_str(&list.lines);
    }
    for cause in error.chain().skip(1) {
        text.push_str(&format!("  because {cause}\n"));
    }
    if let Some(remedy) = remedy(error) {
        text.push_str(&format!("  What to do: {remedy}\n"));
    }
    text
}

/// For programs: one JSON object on one line.
pub(crate) fn to_json(error: &anyhow::Error) -> String {
    let causes: Vec<String> = error.chain().skip(1).map(ToString::to_string).collect();
    let exit_code = exit_code(error);
    let mut object = serde_json::json!({
        "code": exit_code.as_str(),
        "exit_code": exit_code.code(),
        "message": error.to_string(),
        "because": causes,
        "what_to_do": remedy(error),
    });
    if let (Value::Object(object), Some(Value::Object(more))) =
        (&mut object, list(error).map(|list| list.fields.clone()))
    {
        object.extend(more);
    }
    format!("{}\n", serde_json::json!({ "error": object }))
}

/// A command line that could not be understood, as every other error; what clap calls a tip is what to
/// do.
pub(crate) fn usage_to_json(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let message = lines.next().unwrap_or_default().trim_start_matches("error: ").to_owned();
    let rest: Vec<&str> = lines.collect();
    let remedy = if rest.is_empty() { "see --help.".to_owned() } else { rest.join(" ") };
    to_json(&CliError::usage(message, remedy).into())
}

fn list(error: &anyhow::Error) -> Option<&List> {
    error.downcast_ref::<CliError>()?.list.as_ref()
}

fn remedy(error: &anyhow::Error) -> Option<String> {
    if let Some(cli_error) = error.downcast_ref::<CliError>() {
        return Some(cli_error.remedy.clone());
    }
    let store = error.chain().find_map(|cause| cause.downcast_ref::<Error>());
    store.map(hint)
}

fn hint(error: &Error) -> String {
    let remedy = match error.kind {
        Kind::Unavailable => {
            "check that the database is running, takes writes and has disk space, and that --database names it; then try again."
        }
        Kind::Busy | Kind::Contended => {
            "another process holds a lock on it; try again in a moment."
        }
        Kind::Missing => {
            let list = hint::command(&["batches"]);
            return format!(
                "check the id; it may have been deleted. To list those there are: {list}"
            );
        }
        Kind::Conflict => "it exists already, or is still in use; check its state first.",
        Kind::Refused => {
            let show = hint::command(&["status", "last"]);
            return format!(
                "the state of the batch does not allow it. To see the state of the last one: {show}"
            );
        }
        Kind::Invalid => "correct the value named in the message.",
        Kind::Limited => {
            "this owner has too many open batches: wait until one is closed, or cancel one."
        }
        Kind::LeaseLost => "another process took over; run the command again.",
        Kind::Corrupt => {
            let check = hint::command(&["doctor"]);
            return format!(
                "check that --database names a Windrow database of a version that this program supports. To check its contents: {check}"
            );
        }
    };
    remedy.to_owned()
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;

    use super::*;

    #[test]
    fn the_causes_and_the_remedy_follow_the_sentence() {
        let store = Error::new(Kind::Unavailable, "open", "database").because("disk full");
        let error = Err::<(), _>(store).context("could not open it").unwrap_err();
        let text = to_text(&error);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0], "error: could not open it");
        assert_eq!(lines[1], "  because could not open database: unavailable");
        assert_eq!(lines[2], "  because disk full");
        assert!(lines[3].starts_with("  What to do: check that the database is running"));
        assert_eq!(exit_code(&error), Exit::Failed);
    }

    #[test]
    fn an_error_that_knows_its_code_keeps_it_over_a_cause() {
        let cli_error = CliError::new(Exit::Outputs, "could not write x", "make room.");
        let error = Err::<(), _>(std::io::Error::other("full")).context(cli_error).unwrap_err();
        assert_eq!(exit_code(&error), Exit::Outputs);
        let text = to_text(&error);
        assert_eq!(text, "error: could not write x\n  because full\n  What to do: make room.\n");
        assert!(to_json(&error).contains(r#""exit_code":8"#));
    }
}
