//! Why a server could not be started, in one sentence for a person.

use std::fmt;

/// What could not be done, and what to do about it where that is known.
#[derive(Debug)]
pub struct Failure(String);

impl Failure {
    pub(crate) fn new(sentence: impl Into<String>) -> Self {
        Failure(sentence.into())
    }

    /// Somebody took the port between our finding it free and the server's listening on it.
    pub(crate) fn is_port_taken(&self) -> bool {
        self.0.contains("ddress already in use")
    }

    /// Turns a lower error into a sentence that starts with what was attempted.
    pub(crate) fn while_doing<E: fmt::Display>(attempt: &str) -> impl FnOnce(E) -> Failure {
        move |cause| Failure(format!("could not {attempt}: {cause}"))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failure {}
