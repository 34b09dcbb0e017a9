//! Webhooks: a message becomes one signed POST.
//!
//! Holds throughout: a 2xx is the receiver's word that it has the message, whatever its body does;
//! redirects are not followed and no proxy is taken from the environment.

use async_trait::async_trait;
use reqwest::header::{HeaderName, HeaderValue};
use windrow_domain::attempt::Failure;

use super::signature::header_text;
use super::{OutgoingMessage, Publisher};
use crate::clock::Clock;
use crate::http::endpoint::SignedEndpoint;
use crate::http::secret::BadOption;

pub use crate::http::endpoint::EndpointOptions as Options;

/// Headers of a message that keep their name; the others get [`HEADER_PREFIX`].
const HEADERS_KEPT: [&str; 5] =
    ["content-type", "content-language", "traceparent", "tracestate", "baggage"];
/// What stands before the other headers of a message: a sender does not choose headers that mean
/// something to the receiver's gateway.
const HEADER_PREFIX: &str = "windrow-header-";

/// Posts messages to one URL.
#[derive(Debug)]
pub struct Webhook {
    name: String,
    endpoint: SignedEndpoint,
    payload_bytes_max: u64,
}

impl Webhook {
    /// Checks the options, reads keys and makes a client. Nothing is sent yet.
    pub fn new(name: impl Into<String>, options: &Options) -> Result<Self, BadOption> {
        let endpoint = SignedEndpoint::new(options)?;
        Ok(Self { name: name.into(), endpoint, payload_bytes_max: options.payload_bytes_max })
    }

    /// Signs with that clock's time.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.endpoint = self.endpoint.clock(clock);
        self
    }
}

#[async_trait]
impl Publisher for Webhook {
    fn name(&self) -> &str {
        &self.name
    }

    async fn publish(&self, message: &OutgoingMessage) -> Result<(), Failure> {
        let (bytes, bytes_max) = (message.payload.len(), self.payload_bytes_max);
        if bytes as u64 > bytes_max {
            let text = format!("The message has {bytes} bytes, and at most {bytes_max} are sent.");
            return Err(Failure::permanent("payload_too_large", text));
        }
        let posted = self.endpoint.post(&message.id, headers(message), message.payload.clone());
        posted.await.map(drop).map_err(|mut failure| {
            if failure.code == "http_410" {
                let origin = self.endpoint.origin();
                failure.message =
                    format!("{origin} answered 410: gone, the endpoint wants no more.");
            }
            failure
        })
    }
}

/// The headers of one message: what its sender said, and what the message is.
fn headers(message: &OutgoingMessage) -> Vec<(HeaderName, HeaderValue)> {
    let mut texts: Vec<(String, String)> = Vec::new();
    for (name, value) in &message.headers {
        let name = name.to_ascii_lowercase();
        let kept = HEADERS_KEPT.contains(&&*name);
        let name = if kept { name } else { format!("{HEADER_PREFIX}{name}") };
        texts.push((name, header_text(value)));
    }
    let mut own = |name: &str, value: String| texts.push((name.to_owned(), value));
    own("windrow-owner", header_text(message.owner.as_str()));
    own("windrow-stream", header_text(&message.stream));
    own("windrow-kind", header_text(&message.kind));
    own("windrow-sent-at", message.sent_at.to_string());
    own("windrow-attempt", message.attempt.to_string());
    let made = texts.into_iter().filter_map(|(name, value)| {
        // A sender's name that no header can have is left out; the message is worth more.
        Some((HeaderName::try_from(name).ok()?, HeaderValue::try_from(value).ok()?))
    });
    made.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(options: &Options) -> String {
        Webhook::new("it", options).unwrap_err().to_string()
    }

    #[test]
    fn options_that_cannot_be_used_are_refused_and_secrets_stay_hidden() {
        let with = |url: &str| Options { url: url.into(), ..Options::default() };
        assert_eq!(refused(&with("")), "url is empty");
        assert_eq!(refused(&with("ftp://host/x")), "url must begin with http:// or https://");
        assert_eq!(
            refused(&with("http://me:pw@host/")),
            "url holds an account: send it as a header"
        );
        let zero = Options { total_ms_max: 0, ..with("http://host/") };
        assert_eq!(refused(&zero), "total_ms_max must be 1 to 600000, not 0");
        let bad = Options { secrets: vec!["hush-hush".into()], ..with("http://host/") };
        assert_eq!(refused(&bad), "secrets must begin with whsec_");
        let options = Options { secrets: vec!["hush-hush".into()], ..with("http://host/hidden") };
        let shown = format!("{options:?}");
        assert!(!shown.contains("hush") && !shown.contains("hidden"), "{shown}");
    }

    #[test]
    fn options_are_read_by_name_and_unknown_names_are_refused() {
        let read = |json| serde_json::from_str::<Options>(json);
        let options = read(r#"{"url": {"env": "HOOK"}, "total_ms_max": 9}"#).unwrap();
        assert_eq!((options.total_ms_max, options.connect_ms_max), (9, 5_000));
        assert!(read(r#"{"url": "http://x", "timeout": 9}"#).is_err());
    }
}
