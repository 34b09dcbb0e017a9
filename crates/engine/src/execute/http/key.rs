//! The API key of an upstream: read once at the start, sent with every request, shown nowhere.

use std::env::{self, VarError};
use std::fmt;
use std::fs;

use reqwest::header::{HeaderName, HeaderValue};

use super::config::{KeySource, Upstream};
use super::error::Error;

/// A key this short is no secret, and hiding it would make holes in sentences.
const REDACTED_CHARS_MIN: usize = 8;

/// A key that does not show itself.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct ApiKey(String);

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey(…)")
    }
}

impl ApiKey {
    /// Reads the key from where the configuration says.
    pub(super) fn read(source: &KeySource, upstream: &str) -> Result<Self, Error> {
        let upstream = upstream.to_owned();
        let text = match source {
            KeySource::Env(var) => env::var(var).map_err(|error| {
                let because = match error {
                    VarError::NotPresent => "is not set",
                    VarError::NotUnicode(_) => "is not text",
                };
                Error::KeyVariable { upstream: upstream.clone(), var: var.clone(), because }
            })?,
            KeySource::File(path) => fs::read_to_string(path).map_err(|error| {
                let because = "could not be read";
                let (upstream, path) = (upstream.clone(), path.clone());
                Error::KeyFile { upstream, path, because, source: Some(error) }
            })?,
        };
        let key = text.trim();
        let because = if key.is_empty() {
            "is empty"
        } else if key.bytes().any(|byte| !byte.is_ascii_graphic()) {
            "holds more than one word of plain ASCII"
        } else {
            return Ok(Self(key.to_owned()));
        };
        Err(match source {
            KeySource::Env(var) => Error::KeyVariable { upstream, var: var.clone(), because },
            KeySource::File(path) => {
                Error::KeyFile { upstream, path: path.clone(), because, source: None }
            }
        })
    }

    /// The header that carries it.
    pub(super) fn header(&self, upstream: &Upstream) -> Result<(HeaderName, HeaderValue), Error> {
        let name = HeaderName::try_from(&upstream.api_key_header).map_err(|_| {
            Error::value(upstream.label(), "api_key_header", "is not the name of a header")
        })?;
        let scheme = upstream.api_key_scheme.trim();
        let text = if scheme.is_empty() { self.0.clone() } else { format!("{scheme} {}", self.0) };
        let mut value = HeaderValue::try_from(text).map_err(|_| {
            Error::value(upstream.label(), "api_key_scheme", "cannot be in a header")
        })?;
        value.set_sensitive(true);
        Ok((name, value))
    }

    /// The bytes without the key; none when it is not in them.
    pub(super) fn redacted(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let key = self.0.as_bytes();
        if key.len() < REDACTED_CHARS_MIN || memchr::memmem::find(bytes, key).is_none() {
            return None;
        }
        // The key is plain ASCII: no character is cut.
        let text = String::from_utf8_lossy(bytes);
        Some(text.replace(&self.0, "…").into_bytes())
    }

    /// The text without the key, should an upstream have repeated it.
    pub(super) fn redact(&self, text: String) -> String {
        if self.0.len() >= REDACTED_CHARS_MIN && text.contains(&self.0) {
            text.replace(&self.0, "…")
        } else {
            text
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn file(content: &str) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(content.as_bytes()).unwrap();
        file
    }

    fn read(content: &str) -> Result<ApiKey, String> {
        let file = file(content);
        let source = KeySource::File(file.path().to_owned());
        ApiKey::read(&source, "it").map_err(|error| error.to_string().replace('/', ""))
    }

    #[test]
    fn a_key_is_one_word_of_a_file_or_a_variable() {
        assert_eq!(read("sk-secret\n").unwrap(), ApiKey("sk-secret".to_owned()));
        assert!(read(" \n").unwrap_err().ends_with("is empty"));
        assert!(read("two words").unwrap_err().ends_with("one word of plain ASCII"));
        assert!(read("zwölf").is_err());
        // A test cannot set a variable safely, so it takes one that is there.
        let word =
            |(_, value): &(String, String)| value.bytes().all(|byte| byte.is_ascii_graphic());
        let (var, value) = env::vars().filter(|(_, value)| !value.is_empty()).find(word).unwrap();
        assert_eq!(ApiKey::read(&KeySource::Env(var), "it").unwrap(), ApiKey(value));
        let missing = KeySource::Env("WINDROW_NO_SUCH_VARIABLE".to_owned());
        let error = ApiKey::read(&missing, "it").unwrap_err().to_string();
        assert!(error.contains("WINDROW_NO_SUCH_VARIABLE") && error.ends_with("is not set"));
        let nowhere = KeySource::File("no/such/file".into());
        let error = ApiKey::read(&nowhere, "it").unwrap_err().to_string();
        assert!(error.contains("no/such/file") && error.ends_with("could not be read"));
    }

    #[test]
    fn a_key_never_shows_itself() {
        let key = ApiKey("sk-secret-1".to_owned());
        let (_, value) = key.header(&Upstream::default()).unwrap();
        assert_eq!(value.as_bytes(), b"Bearer sk-secret-1");
        assert!(!format!("{key:?} {value:?}").contains("secret"));
        assert_eq!(key.redact("no sk-secret-1 here".to_owned()), "no … here");
    }
}
