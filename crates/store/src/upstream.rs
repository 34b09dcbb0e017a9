//! Upstreams: what the database knows of each, so that two processes that mean different hosts or keys
//! by one name are found out before a line is sent.
//!
//! Holds throughout: what is registered first stays until a person changes it; a key is never stored,
//! only a mark that was made of it with a secret of this database; the program's own executor and the
//! unknown upstream are never registered.

use async_trait::async_trait;
use serde::Serialize;
use windrow_domain::UpstreamId;
use windrow_domain::upstream::{MarkSecret, UPSTREAM_BYTES_MAX};

use crate::{Error, Result, error};

/// Most upstreams of one process, and of one poll.
pub const UPSTREAMS_MAX: usize = 1000;
/// Longest mark of a key, in bytes: a hash as hexadecimal digits.
pub const KEY_MARK_BYTES_MAX: usize = 64;

/// What is known of an upstream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Upstream {
    /// Its identity.
    pub upstream: UpstreamId,
    /// Where its requests go.
    pub base_url: String,
    /// The mark of its key and secret headers; empty for an upstream without any.
    pub key_mark: String,
}

impl Upstream {
    /// `Invalid` when it names no upstream that could be registered, or a text is too long.
    pub fn check(&self) -> Result<()> {
        if self.upstream.is_own() || self.upstream.is_unknown() {
            return Err(Error::invalid("upstream", "must be a name or a URL"));
        }
        error::text("base_url", &self.base_url, UPSTREAM_BYTES_MAX)?;
        error::text("key_mark", &self.key_mark, KEY_MARK_BYTES_MAX)
    }
}

/// What the database knows of upstreams.
#[async_trait]
pub trait Upstreams {
    /// The secret that marks of keys are made with; made with the database and never changed.
    async fn mark_secret(&self) -> Result<MarkSecret>;

    /// Registers an upstream, unless it is known already. Gives what the database knows of it: a
    /// process that would send elsewhere, or with another key, must not claim lines of it.
    async fn register_upstream(&self, upstream: Upstream) -> Result<Upstream>;

    /// A person's word: from now on the upstream is this, whatever it was.
    async fn set_upstream(&self, upstream: Upstream) -> Result<()>;

    /// All that are known, in the order of their names, at most [`UPSTREAMS_MAX`].
    async fn upstreams(&self) -> Result<Vec<Upstream>>;
}
