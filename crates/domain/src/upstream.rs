//! Which upstream the lines of a lane go to: the identity that a lane carries and a process serves.
//!
//! Holds throughout: two identities are the same upstream exactly when their texts are equal, so a
//! database can compare them. A configured upstream is its table's name, one that only a URL names is
//! the canonical URL: scheme, lower-case host, explicit port, path without the slash at its end.
//! Absent on purpose: looking names up. `localhost` and `127.0.0.1` are two upstreams.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Target;
use crate::ids::BadName;

/// Longest text of an upstream: a URL with its path.
pub const UPSTREAM_BYTES_MAX: usize = 1024;

/// Stands for an upstream that was not known when the batch was made; the first claim binds it.
pub const UNKNOWN: &str = "?";

/// The identity of an upstream. The default is the program's own executor.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct UpstreamId(String);

impl UpstreamId {
    /// A configured upstream by its name, or any stored text; empty for the program's own executor.
    pub fn new(text: impl Into<String>) -> Result<Self, BadName> {
        let name = text.into();
        if name.len() <= UPSTREAM_BYTES_MAX && !name.chars().any(char::is_control) {
            Ok(Self(name))
        } else {
            Err(BadName { what: "upstream", name })
        }
    }

    /// The executor of the program that embeds the engine.
    pub fn own() -> Self {
        Self::default()
    }

    /// An upstream that nobody knows yet: the first claim of the lane binds it.
    pub fn unknown() -> Self {
        Self(UNKNOWN.to_owned())
    }

    /// The upstream of a base URL, from its parts: as a URL parser gives them, with the port that
    /// the scheme has by default when the URL names none.
    pub fn of_url(scheme: &str, host: &str, port: u16, path: &str) -> Result<Self, BadName> {
        let (scheme, host) = (scheme.to_ascii_lowercase(), host.to_ascii_lowercase());
        Self::new(format!("{scheme}://{host}:{port}{}", path.trim_end_matches('/')))
    }

    /// Whether it is the executor of the program that embeds the engine.
    pub fn is_own(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether nobody knows it yet.
    pub fn is_unknown(&self) -> bool {
        self.0 == UNKNOWN
    }

    /// The identity as it is stored.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for UpstreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for UpstreamId {
    type Error = BadName;

    fn try_from(text: String) -> Result<Self, BadName> {
        Self::new(text)
    }
}

impl From<UpstreamId> for String {
    fn from(upstream: UpstreamId) -> String {
        upstream.0
    }
}

/// Where lines go: a target of an upstream.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Route {
    /// The upstream that is asked.
    pub upstream: UpstreamId,
    /// What it is asked for: a model, or one name for all lines without one.
    pub target: Target,
}

impl Route {
    /// A target of an upstream.
    pub fn new(upstream: UpstreamId, target: Target) -> Self {
        Self { upstream, target }
    }
}

impl From<Target> for Route {
    /// A target of the program's own executor.
    fn from(target: Target) -> Self {
        Self { upstream: UpstreamId::own(), target }
    }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.upstream.is_own() {
            true => self.target.fmt(f),
            false => write!(f, "{} of {}", self.target, self.upstream),
        }
    }
}

/// What the database keeps to tell one key of an upstream from another: a keyed hash, never the key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct MarkSecret(pub [u8; 32]);

impl fmt::Debug for MarkSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MarkSecret(…)")
    }
}
