//! Acts: who did what to a batch, from which address, kept with it.
//!
//! Holds throughout: an act is a note and decides nothing; it goes with its batch; one more than are
//! kept takes the place of the oldest.

use jiff::Timestamp;
use serde::Serialize;
use windrow_domain::AuditEntryId;

use crate::{Result, error};

/// Most acts that are kept of a batch, and read of it: the newest.
pub const AUDIT_ENTRIES_MAX: u32 = 1000;
/// Longest name of who acted, and longest address, in bytes.
pub const ACTOR_BYTES_MAX: usize = 512;
/// Longest word for what was done, in bytes.
pub const ACTION_BYTES_MAX: usize = 64;

/// Something that somebody does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewAuditEntry {
    /// Made by the caller, so that the call can be repeated.
    pub id: AuditEntryId,
    /// Who: an owner, a key, a program.
    pub actor: String,
    /// From where, as far as is known.
    pub address: Option<String>,
    /// What: `create`, `pause`, `resume`, `cancel`, `reprocess`, `delete`, `export`.
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

/// Something that somebody did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AuditEntry {
    /// When.
    pub at: Timestamp,
    /// Who.
    pub actor: String,
    /// From where, as far as is known.
    pub address: Option<String>,
    /// What.
    pub action: String,
}
