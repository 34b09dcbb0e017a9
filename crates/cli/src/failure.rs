//! Errors as people read them: what happened, why, and what to do; and how the process ends.

use std::fmt;

use windrow::store::{Error, Kind};

use crate::ending::Ending;

/// An error that knows its exit code and its remedy.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    ending: Ending,
    what: String,
    remedy: String,
}

impl Told {
    pub(crate) fn new(ending: Ending, what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { ending, what: what.into(), remedy: remedy.into() }
    }

    /// The command line asks for something that is not there.
    pub(crate) fn usage(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::new(Ending::Usage, what, remedy)
    }
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for Told {}

/// How the process ends with that error.
pub(crate) fn ending(error: &anyhow::Error) -> Ending {
    // A context that is `Told` stands before its cause.
    error.downcast_ref::<Told>().map_or(Ending::Failed, |told| told.ending)
}

/// The sentences, one a line.
pub(crate) fn explain(error: &anyhow::Error) -> String {
    let mut text = format!("error: {error}\n");
    for cause in error.chain().skip(1) {
        text.push_str(&format!("  because {cause}\n"));
    }
    if let Some(remedy) = remedy(error) {
        text.push_str(&format!("  What to do: {remedy}\n"));
    }
    text
}

/// The same for machines.
pub(crate) fn explain_json(error: &anyhow::Error) -> String {
    let causes: Vec<String> = error.chain().skip(1).map(ToString::to_string).collect();
    let ending = ending(error);
    let told = serde_json::json!({ "error": {
        "code": ending.as_str(),
        "exit_code": ending.code(),
        "message": error.to_string(),
        "because": causes,
        "what_to_do": remedy(error),
    }});
    format!("{told}\n")
}

fn remedy(error: &anyhow::Error) -> Option<String> {
    if let Some(told) = error.downcast_ref::<Told>() {
        return Some(told.remedy.clone());
    }
    let store = error.chain().find_map(|cause| cause.downcast_ref::<Error>());
    store.map(|error| hint(error).to_owned())
}

fn hint(error: &Error) -> &'static str {
    match error.kind {
        Kind::Unavailable => {
            "check that the database runs, has room, and that --database names it; then try again."
        }
        Kind::Busy | Kind::Contended => "another process is at work on it; try again in a moment.",
        Kind::Missing => "check the id (`windrow batches` lists them); it may have been deleted.",
        Kind::Conflict => "it is there already, or still needed; look at it first.",
        Kind::Refused => "the batch's state does not allow it; look at its `windrow status`.",
        Kind::Invalid => "correct the value that the message names.",
        Kind::Limited => "wait until some of the owner's batches have ended, or cancel one.",
        Kind::LeaseLost => "another process took over; start again.",
        Kind::Corrupt => {
            "check that --database names a Windrow database, made by a version that this program knows; `windrow doctor` looks closer."
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
        let text = explain(&error);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0], "error: could not open it");
        assert_eq!(lines[1], "  because could not open database: unavailable");
        assert_eq!(lines[2], "  because disk full");
        assert!(lines[3].starts_with("  What to do: check that the database runs"));
        assert_eq!(ending(&error), Ending::Failed);
    }

    #[test]
    fn an_error_that_knows_its_code_keeps_it_over_a_cause() {
        let told = Told::new(Ending::Outputs, "could not write x", "make room.");
        let error = Err::<(), _>(std::io::Error::other("full")).context(told).unwrap_err();
        assert_eq!(ending(&error), Ending::Outputs);
        let text = explain(&error);
        assert_eq!(text, "error: could not write x\n  because full\n  What to do: make room.\n");
        assert!(explain_json(&error).contains(r#""exit_code":8"#));
    }
}
