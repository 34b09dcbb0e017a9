//! What an error of the connection, or the body of a refusal, says: short, clean and without the URL.
//!
//! Holds throughout: texts hold no header, no key and no path, and are bounded.

use std::error::Error as StdError;
use std::io;

use bytes::Bytes;
use serde_json::Value;

/// Longest part of a message that an upstream wrote.
const EXPLANATION_CHARS_MAX: usize = 300;
/// Longest body that is searched for an explanation.
const EXPLANATION_BYTES_MAX: usize = 1 << 20;

/// The code and the message of a connection that could not be made.
pub(crate) fn unconnected(
    origin: &str,
    https: bool,
    error: &reqwest::Error,
) -> (&'static str, String) {
    let is = |kinds: &[io::ErrorKind]| causes(error).any(|kind| kinds.contains(&kind));
    let code = if error.is_timeout() {
        "connect_timeout"
    } else if error.is_dns() {
        "dns_failed"
    } else if is(&[io::ErrorKind::ConnectionRefused]) {
        "connect_refused"
    } else if https && is(&[io::ErrorKind::InvalidData, io::ErrorKind::UnexpectedEof]) {
        "tls_failed"
    } else {
        "connect_failed"
    };
    let hint = match code {
        "tls_failed" => "; `ca_file` of the upstream names a certificate to trust",
        _ => "",
    };
    (code, format!("There was no connection to {origin}: {}{hint}.", cause(error)))
}

/// The kinds of the i/o errors that an error comes from.
fn causes(error: &reqwest::Error) -> impl Iterator<Item = io::ErrorKind> {
    chain(error).filter_map(|error| error.downcast_ref::<io::Error>()).map(io::Error::kind)
}

/// What the first of all causes says. Those above it would repeat the URL, which may hold a secret.
pub(crate) fn cause(error: &reqwest::Error) -> String {
    let first = chain(error).last().map_or_else(String::new, ToString::to_string);
    in_words(clean(&first).trim_end_matches('.'))
}

/// The text of an error, in words where a library gives only the name of its own.
pub(crate) fn in_words(text: &str) -> String {
    text.replace(
        "Other(OtherError(CaUsedAsEndEntity))",
        "it is self-signed, or that of an authority, and no authority that is trusted vouches for it",
    )
}

/// An error's causes. An i/o error hides its own, so it is asked for it.
fn chain<'a>(error: &'a reqwest::Error) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(error.source(), |error| {
        let error: &'a (dyn StdError + 'static) = *error;
        match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(inner) => Some(inner as &(dyn StdError + 'static)),
            None => error.source(),
        }
    })
}

/// What the server says about its refusal, short and clean; none when it says nothing.
pub(crate) fn explain(body: &Bytes) -> Option<String> {
    let text = explanation(body).map(|text| shorten(&clean(&text)));
    text.filter(|text| !text.is_empty())
}

/// What the server says about its refusal, in one of the usual shapes.
pub(crate) fn explanation(body: &Bytes) -> Option<String> {
    if body.len() > EXPLANATION_BYTES_MAX {
        return None;
    }
    let body: Value = serde_json::from_slice(body).ok()?;
    let places = ["/error/message", "/error", "/message", "/detail"];
    let found = places.into_iter().find_map(|place| body.pointer(place)?.as_str())?;
    Some(found.to_owned())
}

/// Without control characters, which a terminal or a log would obey.
pub(crate) fn clean(text: &str) -> String {
    let text = text.trim().chars();
    text.filter(|char| !char.is_control()).collect()
}

/// At most the first so many characters.
pub(crate) fn shorten(text: &str) -> String {
    match text.char_indices().nth(EXPLANATION_CHARS_MAX) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}
