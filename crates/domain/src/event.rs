//! Events: what happened to a stream, in versions that count from one.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What an append expects to be the stream's last version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Expected {
    /// Any version: the append does not check it.
    Any,
    /// Exactly this one; zero for a stream without events.
    Version(u64),
}

/// Two versions that do not fit: what was expected, and what is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionConflict {
    /// The stream of the append.
    pub stream: String,
    /// The version that the writer believed to be the last.
    pub expected: u64,
    /// The version that is the last.
    pub actual: u64,
}

impl fmt::Display for VersionConflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { stream, expected, actual } = self;
        write!(f, "stream {stream} is at version {actual}, not at {expected} as expected")
    }
}

impl std::error::Error for VersionConflict {}
