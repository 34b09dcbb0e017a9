//! Errors as the command line prints them: what happened, why, what to do, and the exit code.

use std::fmt;

use windrow::store::{Error, Kind};

use crate::exit_code::Exit;

/// An error that carries its exit code and what the user can do about it.
#[derive(Clone, Debug)]
pub(crate) struct CliError {
    exit_code: Exit,
    what: String,
    remedy: String,
}

impl CliError {
    pub(crate) fn new(exit_code: Exit, what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { exit_code, what: what.into(), remedy: remedy.into() }
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
    let object = serde_json::json!({ "error": {
        "code": exit_code.as_str(),
        "exit_code": exit_code.code(),
        "message": error.to_string(),
        "because": causes,
        "what_to_do": remedy(error),
    }});
    format!("{object}\n")
}

fn remedy(error: &anyhow::Error) -> Option<String> {
    if let Some(cli_error) = error.downcast_ref::<CliError>() {
        return Some(cli_error.remedy.clone());
    }
    let store = error.chain().find_map(|cause| cause.downcast_ref::<Error>());
    store.map(|error| hint(error).to_owned())
}

fn hint(error: &Error) -> &'static str {
    match error.kind {
        Kind::Unavailable => {
            "check that the database is running and has disk space, and that --database names it; then try again."
        }
        Kind::Busy | Kind::Contended => {
            "another process holds a lock on it; try again in a moment."
        }
        Kind::Missing => "check the id (`windrow batches` lists them); it may have been deleted.",
        Kind::Conflict => "it exists already, or is still in use; check its state first.",
        Kind::Refused => "the state of the batch does not allow it; see `windrow status`.",
        Kind::Invalid => "correct the value named in the message.",
        Kind::Limited => {
            "this owner has too many open batches: wait until one is closed, or cancel one."
        }
        Kind::LeaseLost => "another process took over; run the command again.",
        Kind::Corrupt => {
            "check that --database names a Windrow database of a version that this program supports; `windrow doctor` checks its contents."
        }
    }
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
