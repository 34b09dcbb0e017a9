//! Signatures as Standard Webhooks has them, for everything that is sent over HTTP.
//!
//! Holds throughout: what is signed is `id.timestamp.body`, so an id has no full stop of its own;
//! keys show themselves nowhere.

use std::fmt::{self, Write};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::secret::BadOption;

/// The header that carries the message's id.
pub const ID: &str = "webhook-id";
/// The header that carries the seconds since 1970 at which this attempt was signed.
pub const TIMESTAMP: &str = "webhook-timestamp";
/// The header that carries one signature per key, separated by spaces.
pub const SIGNATURE: &str = "webhook-signature";

/// What every secret of this kind begins with.
const PREFIX: &str = "whsec_";
/// Fewer bytes than that are no secret.
const KEY_BYTES_MIN: usize = 24;
const KEY_BYTES_MAX: usize = 64;

/// A key to sign with.
#[derive(Clone, PartialEq, Eq)]
pub struct SigningKey(Vec<u8>);

impl SigningKey {
    /// Reads `whsec_` and 24 to 64 bytes as base64.
    pub fn read(secret: &str) -> Result<Self, BadOption> {
        let bad = |because| BadOption::new("secrets", because);
        let text = secret.strip_prefix(PREFIX).ok_or_else(|| bad("must begin with whsec_"))?;
        let bytes = STANDARD.decode(text).map_err(|_| bad("must be base64 behind whsec_"))?;
        if (KEY_BYTES_MIN..=KEY_BYTES_MAX).contains(&bytes.len()) {
            Ok(Self(bytes))
        } else {
            Err(bad("must hold 24 to 64 bytes"))
        }
    }

    fn sign(&self, id: &str, timestamp: i64, body: &[u8]) -> String {
        let mut mac =
            Hmac::<Sha256>::new_from_slice(&self.0).expect("a key of any length can sign");
        mac.update(format!("{id}.{timestamp}.").as_bytes());
        mac.update(body);
        STANDARD.encode(mac.finalize().into_bytes())
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningKey(…)")
    }
}

/// The text of the signature's header: one signature per key, so that receivers can change theirs
/// while both are in use.
pub fn sign(keys: &[SigningKey], id: &str, timestamp: i64, body: &[u8]) -> String {
    let signatures = keys.iter().map(|key| format!("v1,{}", key.sign(id, timestamp, body)));
    signatures.collect::<Vec<_>>().join(" ")
}

/// A text that can be in a header and in what is signed. Full stops, `%` and all that is not
/// visible ASCII are escaped as in a URL: equal texts stay equal, others stay different.
pub fn header_id(text: &str) -> String {
    escaped(text, |byte| byte.is_ascii_graphic() && !matches!(byte, b'.' | b'%'))
}

/// A text that can be in a header.
pub(crate) fn header_text(text: &str) -> String {
    escaped(text, |byte| (byte.is_ascii_graphic() || byte == b' ') && byte != b'%')
}

fn escaped(text: &str, stays: impl Fn(u8) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if stays(byte) {
            out.push(char::from(byte));
        } else {
            write!(out, "%{byte:02X}").expect("a string takes everything");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

    /// The example of the specification's own libraries.
    #[test]
    fn the_known_example_has_its_known_signature() {
        let key = SigningKey::read(SECRET).unwrap();
        let signature =
            sign(&[key], "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, br#"{"test": 2432232314}"#);
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn secrets_that_are_none_are_refused_and_keys_are_not_shown() {
        for (secret, because) in [
            ("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "must begin with whsec_"),
            ("whsec_!", "must be base64 behind whsec_"),
            ("whsec_c2hvcnQ=", "must hold 24 to 64 bytes"),
        ] {
            assert_eq!(SigningKey::read(secret).unwrap_err().because, because);
        }
        assert_eq!(format!("{:?}", SigningKey::read(SECRET).unwrap()), "SigningKey(…)");
    }

    #[test]
    fn ids_are_made_fit_for_a_header() {
        assert_eq!(header_id("0199-a_b:c"), "0199-a_b:c");
        assert_eq!(header_id("a.b%c d\né"), "a%2Eb%25c%20d%0A%C3%A9");
        assert_eq!(header_text("batch.completed 1"), "batch.completed 1");
    }
}
