//! What options of upstreams, webhooks and handlers have in common: headers, and the version of HTTP.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;

/// Headers by name. Their values may be secrets, so they are never shown.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Headers(pub BTreeMap<String, String>);

impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// The version of HTTP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Http {
    /// HTTP/1.1 over plain connections; over TLS what the upstream prefers.
    #[default]
    Auto,
    /// HTTP/1.1.
    Http1,
    /// HTTP/2, without asking first where there is no TLS.
    Http2,
}
