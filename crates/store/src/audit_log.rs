//! The audit log of a batch: which actor did what to it, from which address.
//!
//! Holds throughout: an entry is a note and decides nothing; it is deleted with its batch; of more than
//! [`AUDIT_ENTRIES_MAX`] the oldest are dropped.

use jiff::Timestamp;
use serde::Serialize;
use windrow_domain::AuditEntryId;

use crate::{Result, error};

/// Most entries that are kept of a batch, and read of it: the newest.
pub const AUDIT_ENTRIES_MAX: u32 = 1000;
/// Longest name of an actor, and longest address, in bytes.
pub const ACTOR_BYTES_MAX: usize = 512;
/// Longest words for what was done, in bytes: a word, and where a batch was moved to.
pub const ACTION_BYTES_MAX: usize = 64 + windrow_domain::upstream::UPSTREAM_BYTES_MAX;

/// An entry to be added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewAuditEntry {
    /// Made by the caller, so that the call can be repeated.
    pub id: AuditEntryId,
    /// The actor: an owner, a key, a program.
    pub actor: String,
    /// The client's address, as far as it is known.
    pub address: Option<String>,
    /// The action: `create`, `pause`, `resume`, `cancel`, `reprocess`, `delete`, `export`, `move to …`,
    /// `bind to …`.
    pub action: String,
}

impl NewAuditEntry {
    /// `Invalid` when a text is too long, or holds what no database keeps.
    pub fn check(&self) -> Result<()> {
        error::text("actor", &self.actor, ACTOR_BYTES_MAX)?;
        error::text("address", self.address.as_deref().unwrap_or(""), ACTOR_BYTES_MAX)?;
        error::text("action", &self.action, ACTION_BYTES_MAX)
    }
}

/// An entry as it is listed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AuditEntry {
    /// When it was done, by the database's clock.
    pub at: Timestamp,
    /// The actor: an owner, a key, a program.
    pub actor: String,
    /// The client's address, as far as it is known.
    pub address: Option<String>,
    /// The action, as it was added.
    pub action: String,
}
