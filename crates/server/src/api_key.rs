//! API keys: generated here, shown once, stored only as a hash.
//!
//! A key reads `wr_<id>_<secret>`: the id in clear, so that a key found in a log or a repository can be
//! revoked without knowing the rest, and 32 random bytes. What is hashed is the whole text. A plain
//! SHA-256 is enough: 32 random bytes cannot be guessed, and a slow hash would cost every request.

use std::fmt;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use jiff::Timestamp;
use sha2::{Digest as _, Sha256};
use windrow_domain::Role;
use windrow_domain::{KeyId, Owner};
use windrow_store::key::NewKey;

const PREFIX: &str = "wr";
const SECRET_BYTES: usize = 32;
/// Characters of the secret that lists show, to tell keys apart.
const HINT_CHARS: usize = 4;
/// Shortest key that an operator may choose.
const CHOSEN_BYTES_MIN: usize = 16;
/// Longest text that is accepted as a key.
const BYTES_MAX: usize = 512;

/// An API key in clear. Only [`ApiKey::reveal`] shows it.
pub struct ApiKey(String);

/// The owner, role, name and expiry of a new key.
#[derive(Clone, Debug)]
pub struct KeySpec {
    /// The owner whose objects the key reaches.
    pub owner: Owner,
    /// What the key allows.
    pub role: Role,
    /// A name for people, as lists show it.
    pub name: String,
    /// When the key expires; never, when none.
    pub expires_at: Option<Timestamp>,
}

/// A key chosen by an operator that is too short, too long or not printable ASCII.
#[derive(Debug, thiserror::Error)]
#[error("a key has {CHOSEN_BYTES_MIN} to {BYTES_MAX} plain characters without blanks")]
pub struct BadApiKey;

impl ApiKey {
    /// A random key, with the id that is part of its text.
    pub fn generate() -> Result<(KeyId, Self), getrandom::Error> {
        let mut bytes = [0; SECRET_BYTES];
        getrandom::fill(&mut bytes)?;
        let id = KeyId::new();
        let secret = BASE64_URL_SAFE_NO_PAD.encode(bytes);
        Ok((id, Self(format!("{PREFIX}_{}_{secret}", id.0.simple()))))
    }

    /// Reads the key of a request; none when the text cannot be a key.
    pub fn parse(text: &str) -> Option<Self> {
        let plain = text.bytes().all(|byte| byte.is_ascii_graphic());
        (plain && (1..=BYTES_MAX).contains(&text.len())).then(|| Self(text.to_owned()))
    }

    /// Reads a key that an operator chose.
    pub fn chosen(text: &str) -> Result<Self, BadApiKey> {
        Self::parse(text).filter(|secret| secret.0.len() >= CHOSEN_BYTES_MIN).ok_or(BadApiKey)
    }

    /// The hash that the store keeps.
    pub fn hash(&self) -> [u8; 32] {
        Sha256::digest(self.0.as_bytes()).into()
    }

    /// The last characters, to tell keys apart.
    fn hint(&self) -> String {
        let from = self.0.len().saturating_sub(HINT_CHARS);
        format!("…{}", &self.0[from..])
    }

    /// The key as the store takes it.
    pub fn to_new_key(&self, id: KeyId, spec: KeySpec) -> NewKey {
        let KeySpec { owner, role, name, expires_at } = spec;
        NewKey { id, hash: self.hash(), owner, role, name, hint: self.hint(), expires_at }
    }

    /// The key in clear, for the one time that it is shown.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_keys_are_alike_and_none_is_shown() {
        let ((id, one), (_, two)) = (ApiKey::generate().unwrap(), ApiKey::generate().unwrap());
        assert_ne!(one.hash(), two.hash());
        assert_eq!(one.hash(), ApiKey::parse(one.reveal()).unwrap().hash());
        assert!(one.reveal().starts_with(&format!("wr_{}_", id.0.simple())));
        assert_eq!(one.reveal().len(), 3 + 32 + 1 + 43);
        assert_eq!(format!("{one:?}"), "Secret");
        assert_eq!(one.hint().chars().count(), 1 + HINT_CHARS);
    }

    /// Keys that were handed out are known by it.
    #[test]
    fn the_hash_of_a_key_is_that_of_its_whole_text() {
        let hash = ApiKey::parse("wr_1_abc").unwrap().hash();
        let hash: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hash, "3a194fe352888292c3d1b21c8a4ab9d7cf836ed0a88e764eb467ffa7e2278932");
    }

    #[test]
    fn what_cannot_be_a_key_is_none() {
        for text in ["", "a b", "ü", "a\n", &"x".repeat(BYTES_MAX + 1)] {
            assert!(ApiKey::parse(text).is_none(), "{text:?}");
        }
        assert!(ApiKey::chosen("short").is_err());
        assert!(ApiKey::chosen("long-enough-to-be-one").is_ok());
    }
}
