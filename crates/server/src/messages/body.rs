//! Bodies and payloads: bytes that come in whole within a bound, and how they are shown.
//!
//! Holds throughout: a payload is kept byte for byte; one that is JSON is shown as JSON, anything else
//! as Base64; nothing that is nested deeper than [`NESTED_MAX`] comes in or goes out as JSON.

use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, header};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::time::timeout;
use windrow_domain::message::PAYLOAD_BYTES_MAX;
use windrow_engine::json::is_deeper_than;

use crate::app::App;
use crate::error::{Code, Error, Result};
use crate::params::NUMBER_MAX;

/// Deepest nesting of JSON: less than the limit of common parsers.
pub(super) const NESTED_MAX: usize = 100;
/// Levels that a request body has around a payload.
const AROUND: usize = 4;

/// The bytes of a request body.
pub(crate) struct Raw(pub(super) Bytes);

impl FromRequest<App> for Raw {
    type Rejection = Error;

    async fn from_request(request: Request, app: &App) -> Result<Self> {
        // A small body is there as a whole within the time in which a large one may be silent.
        let longest = app.options.body_idle_timeout;
        let read = timeout(longest, Bytes::from_request(request, app)).await;
        Ok(Self(read.map_err(|_| Error::too_slow())??))
    }
}

/// Whether a body says that it is JSON.
pub(super) fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.unwrap_or_default().split(';').next().unwrap_or_default().trim();
    kind.eq_ignore_ascii_case("application/json") || kind.to_ascii_lowercase().ends_with("+json")
}

/// Reads a JSON body.
pub(super) fn read<T: DeserializeOwned>(headers: &HeaderMap, body: &[u8]) -> Result<T> {
    if !is_json(headers) {
        return Err(Error::new(
            Code::UnsupportedMediaType,
            "The body must be JSON, with `Content-Type: application/json`.",
        ));
    }
    check_nesting(body, NESTED_MAX + AROUND)?;
    let axum::Json(value) = axum::Json::<T>::from_bytes(body)?;
    Ok(value)
}

/// Fails unless the bytes are JSON that is not nested too deeply.
pub(super) fn check_json(bytes: &[u8]) -> Result<()> {
    check_nesting(bytes, NESTED_MAX)?;
    let read = serde_json::from_slice::<&RawValue>(bytes).map(drop);
    read.map_err(|error| {
        let message = format!("The body is not valid JSON: {error}.");
        Error::new(Code::InvalidJson, message)
    })
}

fn check_nesting(bytes: &[u8], most: usize) -> Result<()> {
    if !is_deeper_than(bytes, most) {
        return Ok(());
    }
    let message = format!("The JSON is nested deeper than {most} levels.");
    Err(Error::new(Code::InvalidJson, message))
}

/// Up to here JSON readers keep every whole number exactly.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

/// The whole number that a value is. JSON knows one kind of number: 4.0 is 4, as far as such numbers are
/// exact.
pub(super) fn whole_number(value: &Value) -> Option<u64> {
    let is_whole = |number: &f64| number.fract() == 0.0 && (0.0..=EXACT_MAX).contains(number);
    let exact = value.as_u64().filter(|number| *number <= NUMBER_MAX);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is whole")]
    let rounded = value.as_f64().filter(is_whole).map(|number| number as u64);
    exact.or(rounded)
}

/// Reads a field that may be omitted, and whose null is a value.
pub(super) fn given<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(from).map(Some)
}

/// The payload of a message or event: JSON, or bytes as Base64, or none.
pub(super) fn payload(json: Option<Box<RawValue>>, base64: Option<String>) -> Result<Bytes> {
    let bytes: Bytes = match (json, base64) {
        (Some(_), Some(_)) => {
            let message = "There is a `payload` and a `payload_base64`; give one of them.";
            return Err(Error::invalid("payload", message));
        }
        (Some(json), None) => String::from(Box::<str>::from(json)).into(),
        (None, Some(text)) => {
            let bad = |_| Error::invalid("payload_base64", "`payload_base64` is not Base64.");
            STANDARD.decode(text.as_bytes()).map_err(bad)?.into()
        }
        (None, None) => Bytes::new(),
    };
    if bytes.len() <= PAYLOAD_BYTES_MAX {
        return Ok(bytes);
    }
    let message = format!("A payload has at most {PAYLOAD_BYTES_MAX} bytes, not {}.", bytes.len());
    Err(Error::new(Code::PayloadTooLarge, message).at("payload"))
}

/// A payload for a response: JSON when it is, else Base64; neither when it is empty.
pub(super) fn shown(bytes: &[u8]) -> (Option<Box<RawValue>>, Option<String>) {
    if bytes.is_empty() {
        return (None, None);
    }
    match as_json(bytes) {
        Some(json) => (Some(json), None),
        None => (None, Some(STANDARD.encode(bytes))),
    }
}

/// The bytes as JSON, if they are.
pub(super) fn as_json(bytes: &[u8]) -> Option<Box<RawValue>> {
    let text = std::str::from_utf8(bytes).ok()?;
    if is_deeper_than(bytes, NESTED_MAX) {
        return None;
    }
    RawValue::from_string(text.to_owned()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_shown_as_json_when_they_are() {
        let (json, base64) = shown(b"{ \"b\": 1, \"a\": 1.00000000000000000001 }");
        assert_eq!(json.unwrap().get(), "{ \"b\": 1, \"a\": 1.00000000000000000001 }");
        assert_eq!(base64, None);
        for bytes in [&b"{"[..], b"\xff", b"1 2", "[".repeat(101).as_bytes()] {
            let (json, base64) = shown(bytes);
            assert!(json.is_none(), "{bytes:?}");
            assert_eq!(STANDARD.decode(base64.unwrap()).unwrap(), bytes);
        }
        let deep = "[".repeat(101) + &"]".repeat(101);
        assert!(shown(deep.as_bytes()).0.is_none());
        assert!(check_json(deep.as_bytes()).is_err());
    }

    #[test]
    fn a_payload_is_one_of_two_and_null_is_one() {
        #[derive(Deserialize)]
        struct One {
            #[serde(default, deserialize_with = "given")]
            payload: Option<Box<RawValue>>,
        }
        let read = |text: &str| serde_json::from_str::<One>(text).unwrap().payload;
        assert_eq!(payload(read("{\"payload\": null}"), None).unwrap(), "null");
        assert_eq!(payload(read("{}"), None).unwrap(), "");
        assert_eq!(payload(None, Some("AAE=".to_owned())).unwrap(), &[0, 1][..]);
        assert!(payload(read("{\"payload\": 1}"), Some(String::new())).is_err());
        assert!(payload(None, Some("%".to_owned())).is_err());
        let large = Some(STANDARD.encode(vec![0; PAYLOAD_BYTES_MAX + 1]));
        assert_eq!(payload(None, large).unwrap_err().code, Code::PayloadTooLarge);
    }
}
