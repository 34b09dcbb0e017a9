//! Fit: whether the lines of a file can be run for an endpoint, and what is wrong with those that
//! cannot.

use std::collections::BTreeMap;

use windrow_domain::Target;
use windrow_engine::ingest::Asked;
use windrow_store::ingest::LineError;

use crate::app::Unserved;

/// Targets that are named in the errors of a file that was not looked through.
const TARGETS_MAX: usize = 100;

/// What does not fit an endpoint.
#[derive(Clone, Debug)]
pub(crate) struct Misfit {
    pub(crate) endpoint: String,
    /// Whether there are lines that ask for something else.
    pub(crate) urls_differ: bool,
    /// Targets that are not served, and how many lines each has.
    pub(crate) unserved: BTreeMap<Target, (Unserved, u64)>,
}

/// What was found of it, line by line.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) errors: Vec<LineError>,
    /// The last line that was looked at.
    pub(crate) line: u64,
}

impl Found {
    /// What is wrong with this line, if anything is.
    pub(crate) fn judge(&mut self, asked: &Asked, endpoint: &str, unserved: Option<Unserved>) {
        let line = Some(self.line);
        if asked.path != endpoint {
            let message =
                format!("The line asks for {}, and the batch is for {endpoint}.", asked.path);
            self.errors.push(error("url_mismatch", line, "url", message));
        }
        match unserved {
            Some(Unserved::Target) => {
                let message = format!("There is no model {}.", asked.target);
                self.errors.push(error("model_not_found", line, "body.model", message));
            }
            Some(Unserved::Endpoint) => {
                let message = format!("The model {} does not serve {endpoint}.", asked.target);
                self.errors.push(error("unsupported_endpoint", line, "url", message));
            }
            None => {}
        }
    }
}

impl Misfit {
    pub(crate) fn why(&self, target: &str) -> Option<Unserved> {
        let target = Target::new(target.to_owned()).ok()?;
        self.unserved.get(&target).map(|(why, _)| *why)
    }

    /// What is known to be wrong, though no line of it was met in what was looked through.
    pub(crate) fn unmet(&self, found: &Found) -> Vec<LineError> {
        let so_far = format!("none of the first {} lines is one of them", found.line);
        let mut unmet = Vec::new();
        if self.urls_differ && !found.errors.iter().any(|error| error.code == "url_mismatch") {
            let message = format!(
                "There are lines that do not ask for {}; the file is too large to find them all, and \
                 {so_far}.",
                self.endpoint
            );
            unmet.push(error("url_mismatch", None, "url", message));
        }
        let unserved = self.unserved.iter().take(TARGETS_MAX);
        unmet.extend(unserved.filter_map(|(target, (why, lines))| {
            let (code, param, what) = match why {
                Unserved::Target => {
                    ("model_not_found", "body.model", format!("There is no model {target}"))
                }
                Unserved::Endpoint => {
                    let what = format!("The model {target} does not serve {}", self.endpoint);
                    ("unsupported_endpoint", "url", what)
                }
            };
            let met = |found: &LineError| found.code == code && found.message.starts_with(&what);
            let message = format!(
                "{what}, and {lines} lines ask for it; the file is too large to find them all, and \
                 {so_far}."
            );
            (!found.errors.iter().any(met)).then(|| error(code, None, param, message))
        }));
        unmet
    }
}

fn error(code: &str, line: Option<u64>, param: &str, message: String) -> LineError {
    LineError { code: code.to_owned(), line, message, param: Some(param.to_owned()) }
}
