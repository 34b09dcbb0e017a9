//! What can be wrong with a configuration of upstreams. Nothing here happens while lines run.

use std::io;
use std::path::PathBuf;

use windrow_domain::Target;

/// Why there is no executor for a configuration.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The base URL cannot be used.
    #[error("upstream {upstream}: base_url {because}")]
    BaseUrl {
        /// The upstream, by its name.
        upstream: String,
        /// What is wrong with it.
        because: &'static str,
    },
    /// A value cannot be used.
    #[error("upstream {upstream}: {name} {because}")]
    Value {
        /// The upstream, by its name.
        upstream: String,
        /// The name of the value.
        name: &'static str,
        /// What is wrong with it.
        because: String,
    },
    /// The variable that holds the key does not.
    #[error("upstream {upstream}: the variable {var} that should hold the API key {because}")]
    KeyVariable {
        /// The upstream, by its name.
        upstream: String,
        /// The name of the variable.
        var: String,
        /// What is wrong with it.
        because: &'static str,
    },
    /// The file that holds the key does not.
    #[error("upstream {upstream}: the file {} that should hold the API key {because}", path.display())]
    KeyFile {
        /// The upstream, by its name.
        upstream: String,
        /// Where the file is.
        path: PathBuf,
        /// What is wrong with it.
        because: &'static str,
        /// Why it could not be read.
        #[source]
        source: Option<io::Error>,
    },
    /// The file of certificates cannot be used.
    #[error("upstream {upstream}: ca_file {} could not be read", path.display())]
    CaFile {
        /// The upstream, by its name.
        upstream: String,
        /// Where the file is.
        path: PathBuf,
        /// Why the file could not be used.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Two upstreams serve one target.
    #[error("two upstreams serve the target {0}")]
    TargetTwice(Target),
    /// The HTTP client could not be made.
    #[error("upstream {upstream}: the HTTP client could not be made")]
    Client {
        /// The upstream, by its name.
        upstream: String,
        /// Why the client could not be built.
        #[source]
        source: reqwest::Error,
    },
}

impl Error {
    pub(super) fn value(upstream: &str, name: &'static str, because: impl Into<String>) -> Self {
        Error::Value { upstream: upstream.to_owned(), name, because: because.into() }
    }
}
