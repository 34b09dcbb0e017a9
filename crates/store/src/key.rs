//! API keys: the secrets by which people and programs are let in, as an owner with a role.
//!
//! Holds throughout: a key is found by the hash of its secret, and neither leaves the store again; a
//! key that was revoked stays known and is never let in again.
//! Absent on purpose: making secrets and hashing them, which is the server's.

use async_trait::async_trait;
use jiff::Timestamp;
use serde::Serialize;
use windrow_domain::{KeyId, Owner, Role};

use crate::inspect::Page;
use crate::{Result, Scope, error};

/// Longest name of a key, in bytes.
pub const KEY_NAME_BYTES_MAX: usize = 200;
/// Longest hint at a key's secret, in bytes.
pub const KEY_HINT_BYTES_MAX: usize = 32;
/// Most keys that one call of [`Keys::touch_keys`] names.
pub const KEYS_TOUCHED_MAX: usize = 1000;

/// A key to be let in from now on.
#[derive(Clone, PartialEq, Eq)]
pub struct NewKey {
    /// Made by the caller, so that the call can be repeated.
    pub id: KeyId,
    /// The hash of its secret.
    pub hash: [u8; 32],
    /// In whose name its holder acts.
    pub owner: Owner,
    /// The role, which says what the key allows.
    pub role: Role,
    /// What people call it.
    pub name: String,
    /// A few letters of the secret, by which people tell it from others.
    pub hint: String,
    /// When it ends by itself.
    pub expires_at: Option<Timestamp>,
}

/// Without the hash: a log says which key it was, and no more.
impl std::fmt::Debug for NewKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { id, owner, role, name, .. } = self;
        let mut shown = f.debug_struct("NewKey");
        shown.field("id", id).field("owner", owner).field("role", role).field("name", name);
        shown.finish_non_exhaustive()
    }
}

impl NewKey {
    /// `Invalid` when a text is too long, or holds what no database keeps.
    pub fn check(&self) -> Result<()> {
        error::text("name", &self.name, KEY_NAME_BYTES_MAX)?;
        error::text("hint", &self.hint, KEY_HINT_BYTES_MAX)
    }

    /// Whether adding it again would give this key. Its hash is the caller's to compare.
    pub fn is(&self, key: &Key) -> bool {
        // Databases keep microseconds.
        let micros = |at: Option<Timestamp>| at.map(Timestamp::as_microsecond);
        (self.id, &self.owner, self.role) == (key.id, &key.owner, key.role)
            && (&self.name, &self.hint) == (&key.name, &key.hint)
            && micros(self.expires_at) == micros(key.expires_at)
    }
}

/// A key as others see it: never its secret, nor the hash of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Key {
    /// Its identity.
    pub id: KeyId,
    /// In whose name its holder acts.
    pub owner: Owner,
    /// The role, which says what the key allows.
    pub role: Role,
    /// What people call it.
    pub name: String,
    /// A few letters of its secret.
    pub hint: String,
    /// When it was added.
    pub created_at: Timestamp,
    /// When it ends by itself.
    pub expires_at: Option<Timestamp>,
    /// When it was last used, as far as was noted.
    pub last_used_at: Option<Timestamp>,
    /// When it was revoked.
    pub revoked_at: Option<Timestamp>,
}

/// Which keys to list, newest first. Those that ended are listed too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeysQuery {
    /// Where the last page ended.
    pub after: Option<String>,
    /// Most rows, up to [`crate::inspect::PAGE_MAX`].
    pub limit: u32,
}

/// `Invalid` when too many keys are named at once.
pub fn check_touched(keys: &[KeyId]) -> Result<()> {
    error::at_most("keys", keys.len(), KEYS_TOUCHED_MAX)
}

/// API keys: added, looked up by their hash, revoked and listed.
#[async_trait]
pub trait Keys {
    /// Adds a key. A repeat with the same id and content gives the same key; an id or a hash that is
    /// in other use is a `Conflict`.
    async fn add_key(&self, key: NewKey) -> Result<Key>;

    /// The key with this hash, if it may be used now: `Missing` when there is none, when it was
    /// revoked, or when its time has passed by the database's clock.
    async fn find_key(&self, hash: &[u8; 32]) -> Result<Key>;

    /// Notes that these keys (up to [`KEYS_TOUCHED_MAX`]) were used now. Unknown ones have no effect.
    async fn touch_keys(&self, keys: &[KeyId]) -> Result<()>;

    /// Takes a key out of use for ever. A repeat gives the same revoked key.
    async fn revoke_key(&self, scope: &Scope, key: KeyId) -> Result<Key>;

    /// Lists keys, newest first.
    async fn keys(&self, scope: &Scope, query: KeysQuery) -> Result<Page<Key>>;
}
