//! What the holder of a key may do.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// What a key allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Everything with what belongs to the key's owner, and nothing else.
    Member,
    /// Everything, with what belongs to any owner.
    Admin,
}

impl Role {
    /// Every role there is.
    pub const ALL: [Role; 2] = [Role::Member, Role::Admin];

    /// The word that databases store.
    pub fn as_str(self) -> &'static str {
        match self {
            Role::Member => "member",
            Role::Admin => "admin",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A word that names no role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownRole(pub String);

impl fmt::Display for UnknownRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not a role: member or admin", self.0)
    }
}

impl std::error::Error for UnknownRole {}

impl FromStr for Role {
    type Err = UnknownRole;

    fn from_str(word: &str) -> Result<Self, UnknownRole> {
        let found = Role::ALL.into_iter().find(|role| role.as_str() == word);
        found.ok_or_else(|| UnknownRole(word.to_owned()))
    }
}
