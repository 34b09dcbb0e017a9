//! The segments of a path behind the collection's name, and how to encode one.
//!
//! Holds throughout: a slash that is encoded as `%2F` belongs to a name and separates nothing; empty
//! segments are kept, so that a handler can refuse them by name.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

use crate::app::App;
use crate::error::{Code, Error, Result};

/// The pieces behind the collection's name, decoded: of `/objects/a/b%2Fc` they are `a` and `b/c`.
pub(crate) struct PathSegments(pub(super) Vec<String>);

impl FromRequestParts<App> for PathSegments {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self> {
        let path = parts.uri.path().trim_start_matches('/');
        let pieces = path.split('/').skip(1).map(decode).collect::<Option<Vec<String>>>();
        let bad = || Error::new(Code::InvalidPath, "The path is not valid UTF-8.");
        pieces.map(Self).ok_or_else(bad)
    }
}

fn decode(piece: &str) -> Option<String> {
    let bytes = piece.as_bytes();
    let (mut text, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while at < bytes.len() {
        let code = bytes.get(at + 1..at + 3).and_then(|code| std::str::from_utf8(code).ok());
        let code = code.filter(|code| code.bytes().all(|byte| byte.is_ascii_hexdigit()));
        match (bytes[at], code.and_then(|code| u8::from_str_radix(code, 16).ok())) {
            (b'%', Some(byte)) => {
                text.push(byte);
                at += 3;
            }
            (byte, _) => {
                text.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8(text).ok()
}

/// A name as a piece of a path.
pub(super) fn encode(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~:@".contains(&byte);
    let piece =
        |byte: u8| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    name.bytes().map(piece).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_encoded_is_decoded() {
        for name in ["a", "wallet/1", "50%", "%2F", "straße ☂", "a b+c?d#e", "%", "%4", "%zz"] {
            assert_eq!(decode(&encode(name)).unwrap(), name);
        }
        assert_eq!(decode("a%2Fb+%e2%98%82").unwrap(), "a/b+☂");
        assert_eq!(decode("%zz%"), Some("%zz%".to_owned()));
        assert_eq!(decode("%ff"), None);
    }
}
