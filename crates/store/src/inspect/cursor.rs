//! Cursors: opaque text that says where a page ended, and is checked when it comes back.
//!
//! Holds throughout: a cursor fits only the query it was made for. Its check is no secret: what a
//! caller may see is decided by the scope inside the query, not by the cursor.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{Error, Result};

const CHECK_BYTES: usize = 8;
const TEXT_BYTES_MAX: usize = 1024;

/// What a cursor belongs to: the page's name and everything that chooses its rows.
#[derive(Clone, Debug)]
pub struct Binding(String);

impl Binding {
    /// Binds to a page, a scope and the filters of a query (anything with a stable `Debug` text).
    pub fn new(page: &str, scope: &crate::Scope, filters: &impl std::fmt::Debug) -> Self {
        Self(format!("{page}|{scope:?}|{filters:?}"))
    }

    fn check(&self, payload: &[u8]) -> [u8; CHECK_BYTES] {
        let mut hasher = blake3::Hasher::new_derive_key("windrow 2026 page cursor");
        hasher.update(self.0.as_bytes()).update(&[0]).update(payload);
        let mut check = [0; CHECK_BYTES];
        check.copy_from_slice(&hasher.finalize().as_bytes()[..CHECK_BYTES]);
        check
    }
}

/// Turns the key of a page's last row into text and back.
pub struct Cursor;

impl Cursor {
    /// The text for a key.
    pub fn seal(binding: &Binding, key: &impl Serialize) -> String {
        let payload = serde_json::to_vec(key).expect("keys are plain values");
        let mut bytes = binding.check(&payload).to_vec();
        bytes.extend(payload);
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// The key in a text; `Invalid` when it was changed or made for another query.
    pub fn open<K: DeserializeOwned>(binding: &Binding, text: Option<&str>) -> Result<Option<K>> {
        let Some(text) = text else { return Ok(None) };
        let bad = |because: &'static str| Error::invalid("after", because);
        if text.len() > TEXT_BYTES_MAX {
            return Err(bad("it is too long"));
        }
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| bad("it is not base64"))?;
        let payload = bytes.get(CHECK_BYTES..).ok_or_else(|| bad("it is too short"))?;
        if bytes[..CHECK_BYTES] != binding.check(payload) {
            return Err(bad("it was changed, or belongs to another query"));
        }
        serde_json::from_slice(payload).map(Some).map_err(|_| bad("it holds no key"))
    }
}
