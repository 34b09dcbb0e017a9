//! Whether the lines of a file can be run for an endpoint, and the errors of those that cannot.

use std::collections::BTreeMap;

use windrow_domain::Target;
use windrow_domain::ids::NO_MODEL;
use windrow_engine::ingest::Asked;
use windrow_store::ingest::LineError;

use crate::app::Unserved;

/// Targets that the errors of a file name when the file was not read to its end.
const TARGETS_MAX: usize = 100;

/// Why a file cannot be run for an endpoint.
#[derive(Clone, Debug)]
pub(crate) struct EndpointMismatch {
    pub(crate) endpoint: String,
    /// Whether there are lines that request another endpoint.
    pub(crate) urls_differ: bool,
    /// Targets that are not served, and how many lines each has.
    pub(crate) unserved: BTreeMap<Target, (Unserved, u64)>,
}

/// The errors found so far, line by line.
#[derive(Debug, Default)]
pub(crate) struct LineFindings {
    pub(crate) errors: Vec<LineError>,
    /// The last line that was checked.
    pub(crate) line: u64,
}

impl LineFindings {
    /// Adds the errors of this line, if it has any.
    pub(crate) fn judge(&mut self, asked: &Asked, endpoint: &str, unserved: Option<Unserved>) {
        let line = Some(self.line);
        if asked.path != endpoint {
            let message =
                format!("The line requests {}, but the batch is for {endpoint}.", asked.path);
            self.errors.push(error("url_mismatch", line, "url", message));
        }
        match unserved {
            Some(Unserved::Target) => {
                let message = format!("{}.", no_model(&asked.target));
                self.errors.push(error("model_not_found", line, "body.model", message));
            }
            Some(Unserved::Endpoint) => {
                let message = format!("{}.", not_served(&asked.target, endpoint));
                self.errors.push(error("unsupported_endpoint", line, "url", message));
            }
            None => {}
        }
    }

    /// Adds that the upstream of this line does not take its method.
    pub(crate) fn refuse_method(&mut self, asked: &Asked) {
        let message = format!(
            "The line uses {}, which its upstream does not take (`methods` of its table would allow \
             it).",
            asked.method
        );
        self.errors.push(error("invalid_field", Some(self.line), "method", message));
    }
}

impl EndpointMismatch {
    pub(crate) fn unserved_reason(&self, target: &str) -> Option<Unserved> {
        let target = Target::new(target.to_owned()).ok()?;
        self.unserved.get(&target).map(|(unserved_reason, _)| *unserved_reason)
    }

    /// Errors that are known to exist, though none of their lines was among those that were
    /// checked.
    pub(crate) fn unnamed(&self, findings: &LineFindings) -> Vec<LineError> {
        let so_far = format!("none of the first {} lines is one of them", findings.line);
        let mut unnamed = Vec::new();
        if self.urls_differ && !findings.errors.iter().any(|error| error.code == "url_mismatch") {
            let message = format!(
                "Some lines do not request {}; the file is too large to list them all, and \
                    {so_far}.",
                self.endpoint
            );
            unnamed.push(error("url_mismatch", None, "url", message));
        }
        let unserved = self.unserved.iter().take(TARGETS_MAX);
        unnamed.extend(unserved.filter_map(|(target, (unserved_reason, lines))| {
            let (code, param, what) = match unserved_reason {
                Unserved::Target => ("model_not_found", "body.model", no_model(target.as_str())),
                Unserved::Endpoint => {
                    ("unsupported_endpoint", "url", not_served(target.as_str(), &self.endpoint))
                }
            };
            let met =
                |findings: &LineError| findings.code == code && findings.message.starts_with(&what);
            let message = format!(
                "{what}, and {lines} lines request it; the file is too large to list them all, \
                    and {so_far}."
            );
            (!findings.errors.iter().any(met)).then(|| error(code, None, param, message))
        }));
        unnamed
    }
}

/// That nobody serves a target. Lines without a model are served where an upstream says which paths may
/// be asked for.
fn no_model(target: &str) -> String {
    match target {
        NO_MODEL => {
            "No upstream here takes lines without a model (`paths` of its table would allow them)"
                .to_owned()
        }
        target => format!("There is no model {target}"),
    }
}

/// That the upstream of a target does not take an endpoint.
fn not_served(target: &str, endpoint: &str) -> String {
    match target {
        NO_MODEL => format!(
            "No upstream here takes {endpoint} from lines without a model (`paths` of its table would \
             allow it)"
        ),
        target => format!("The model {target} does not serve {endpoint}"),
    }
}

fn error(code: &str, line: Option<u64>, param: &str, message: String) -> LineError {
    LineError { code: code.to_owned(), line, message, param: Some(param.to_owned()) }
}
