//! Webhooks: a message becomes one signed POST.
//!
//! Holds throughout: a 2xx is the receiver's word that it has the message, whatever its body does;
//! every try is bounded in time and in bytes; redirects are not followed and no proxy is taken from
//! the environment; messages of failures hold the host, never the path.

use std::path::PathBuf;

use async_trait::async_trait;
use jiff::Timestamp;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Method, Request, StatusCode, Url};
use serde::Deserialize;
use windrow_domain::attempt::{Class, Failure};

use super::secret::{BadOption, Secret, shown};
use super::signature::{self, Key, header_id, header_text};
use super::{CONNECTION_CUT, OutgoingMessage, Publisher};
use crate::clock::Clock;
use crate::execute::http::timeout::{Answer, Bounds, Trouble, exchange};
use crate::execute::http::{Headers, Upstream, classify, client, retry_after};

/// Longest wait that an option can ask for.
const WAIT_MS_MAX: u64 = 10 * 60 * 1000;
/// Most keys that sign one message.
const SECRETS_MAX: usize = 8;
/// Headers of a message that keep their name; the others get [`HEADER_PREFIX`].
const HEADERS_KEPT: [&str; 5] =
    ["content-type", "content-language", "traceparent", "tracestate", "baggage"];
/// What stands before the other headers of a message: a sender does not choose headers that mean
/// something to the receiver's gateway.
const HEADER_PREFIX: &str = "windrow-header-";

/// Where a webhook is, and how to treat it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// Where messages are posted. Its path may be a secret.
    pub url: Secret,
    /// The keys that sign, `whsec_…`: the new one and, while receivers change, the old one.
    pub secrets: Vec<Secret>,
    /// Headers of every request.
    pub headers: Headers,
    /// The content type of messages that name none.
    pub content_type: String,
    /// Certificates to trust besides the system's, as PEM.
    pub ca_file: Option<PathBuf>,
    /// Longest wait for a connection, TLS included.
    pub connect_ms_max: u64,
    /// Longest time of one try.
    pub total_ms_max: u64,
    /// Longest silence within the body of an answer.
    pub idle_ms_max: u64,
    /// Most that is read of an answer.
    pub answer_bytes_max: u64,
    /// Longest message that is sent.
    pub payload_bytes_max: u64,
    /// Most connections that are kept open while nothing is sent.
    pub connections_idle_max: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            url: Secret::from(""),
            secrets: Vec::new(),
            headers: Headers::default(),
            content_type: "application/json".to_owned(),
            ca_file: None,
            connect_ms_max: 5_000,
            total_ms_max: 15_000,
            idle_ms_max: 2_000,
            answer_bytes_max: 64 << 10,
            payload_bytes_max: 4 << 20,
            connections_idle_max: 16,
        }
    }
}

impl Options {
    fn judge(&self) -> Result<(), BadOption> {
        BadOption::unless_within("connect_ms_max", self.connect_ms_max, WAIT_MS_MAX)?;
        BadOption::unless_within("total_ms_max", self.total_ms_max, WAIT_MS_MAX)?;
        BadOption::unless_within("idle_ms_max", self.idle_ms_max, WAIT_MS_MAX)?;
        BadOption::unless_within("answer_bytes_max", self.answer_bytes_max, 1 << 30)?;
        BadOption::unless_within("payload_bytes_max", self.payload_bytes_max, 1 << 30)?;
        match self.secrets.len() > SECRETS_MAX {
            true => Err(BadOption::new("secrets", format!("are at most {SECRETS_MAX}"))),
            false => Ok(()),
        }
    }
}

/// Posts messages.
#[derive(Debug)]
pub struct Webhook {
    name: String,
    url: Url,
    keys: Vec<Key>,
    headers: HeaderMap,
    bounds: Bounds,
    payload_bytes_max: u64,
    client: Client,
    clock: Clock,
}

impl Webhook {
    /// Reads keys and makes a client. Nothing is sent yet.
    pub fn new(name: impl Into<String>, options: &Options) -> Result<Self, BadOption> {
        options.judge()?;
        let url = url(&options.url.read("url")?)?;
        let keys = options.secrets.iter().map(|secret| Key::read(&secret.read("secrets")?));
        let upstream = Upstream {
            ca_file: options.ca_file.clone(),
            connect_ms_max: options.connect_ms_max,
            first_byte_ms_max: options.total_ms_max,
            idle_ms_max: options.idle_ms_max,
            total_ms_max: options.total_ms_max,
            body_bytes_max: options.answer_bytes_max,
            concurrency_max: options.connections_idle_max,
            ..Upstream::new(shown(url.as_str()))
        };
        let clients = client::build(&upstream, url.scheme() == "https")
            .map_err(|error| BadOption::new("ca_file", error.to_string()))?;
        Ok(Self {
            name: name.into(),
            keys: keys.collect::<Result<_, _>>()?,
            headers: fixed_headers(options)?,
            bounds: Bounds::new(&upstream),
            payload_bytes_max: options.payload_bytes_max,
            client: clients.into_iter().next().expect("there is at least one client"),
            clock: Clock::machine(),
            url,
        })
    }

    /// Signs with that clock's time.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    fn request(&self, parcel: &OutgoingMessage, now: Timestamp) -> Result<Request, Failure> {
        if parcel.payload.len() as u64 > self.payload_bytes_max {
            let message = format!(
                "The message has {} bytes, and at most {} are sent.",
                parcel.payload.len(),
                self.payload_bytes_max
            );
            return Err(failure(Class::Permanent, "payload_too_large", message));
        }
        let mut request = Request::new(Method::POST, self.url.clone());
        *request.headers_mut() = self.headers.clone();
        for (name, value) in headers(parcel, now, &self.keys) {
            request.headers_mut().insert(name, value);
        }
        *request.body_mut() = Some(parcel.payload.clone().into());
        Ok(request)
    }

    fn judge(&self, now: Timestamp, result: Result<Answer, Trouble>) -> Result<(), Failure> {
        let origin = self.url.origin().ascii_serialization();
        let answer = match result {
            Ok(answer) => answer,
            Err(trouble) => return Err(lost(&origin, &self.bounds, &trouble)),
        };
        if answer.status.is_success() {
            return Ok(());
        }
        let class = class(answer.status);
        let said = answer.body.ok().as_ref().and_then(classify::explain);
        let message = match (answer.status, said) {
            (StatusCode::GONE, _) => {
                format!("{origin} answered 410: gone, the endpoint wants no more.")
            }
            (status, Some(said)) => format!("{origin} answered {}: {said}", status.as_u16()),
            (status, None) => format!("{origin} answered {}.", status.as_u16()),
        };
        let waits = matches!(class, Class::Throttled | Class::Server);
        let retry_after = if waits { retry_after::read(&answer.headers, now) } else { None };
        let code = format!("http_{}", answer.status.as_u16());
        Err(Failure { class, code, message, retry_after })
    }
}

#[async_trait]
impl Publisher for Webhook {
    fn name(&self) -> &str {
        &self.name
    }

    async fn publish(&self, parcel: &OutgoingMessage) -> Result<(), Failure> {
        let request = self.request(parcel, self.clock.now())?;
        let result = exchange(&self.client, request, &self.bounds).await;
        self.judge(self.clock.now(), result)
    }
}

fn url(text: &str) -> Result<Url, BadOption> {
    let url = Url::parse(text).map_err(|error| BadOption::new("url", format!("{error}")))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(BadOption::new("url", "must begin with http:// or https://"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(BadOption::new("url", "holds an account: send it as a header"));
    }
    Ok(url)
}

fn fixed_headers(options: &Options) -> Result<HeaderMap, BadOption> {
    let bad = |name: &str| BadOption::new("headers", format!("cannot hold {name:?}"));
    let mut headers = HeaderMap::new();
    let content_type = HeaderValue::from_str(&options.content_type)
        .map_err(|_| BadOption::new("content_type", "cannot be in a header"))?;
    headers.insert(CONTENT_TYPE, content_type);
    for (name, value) in &options.headers.0 {
        let key = HeaderName::try_from(name).map_err(|_| bad(name))?;
        let mut value = HeaderValue::try_from(value).map_err(|_| bad(name))?;
        value.set_sensitive(true);
        headers.insert(key, value);
    }
    Ok(headers)
}

/// The headers of one message: those of the standard, what the message is, what its sender said.
fn headers(
    parcel: &OutgoingMessage,
    now: Timestamp,
    keys: &[Key],
) -> Vec<(HeaderName, HeaderValue)> {
    let id = header_id(&parcel.id);
    let mut texts: Vec<(String, String)> = Vec::new();
    for (name, value) in &parcel.headers {
        let name = name.to_ascii_lowercase();
        match HEADERS_KEPT.contains(&&*name) {
            true => texts.push((name, header_text(value))),
            false => texts.push((format!("{HEADER_PREFIX}{name}"), header_text(value))),
        }
    }
    let mut own = |name: &str, value: String| texts.push((name.to_owned(), value));
    own("windrow-owner", header_text(parcel.owner.as_str()));
    own("windrow-stream", header_text(&parcel.stream));
    own("windrow-kind", header_text(&parcel.kind));
    own("windrow-sent-at", parcel.sent_at.to_string());
    own("windrow-attempt", parcel.attempt.to_string());
    let timestamp = now.as_second();
    if !keys.is_empty() {
        own(signature::SIGNATURE, signature::sign(keys, &id, timestamp, &parcel.payload));
    }
    own(signature::TIMESTAMP, timestamp.to_string());
    own("idempotency-key", id.clone());
    own(signature::ID, id);
    let made = texts.into_iter().filter_map(|(name, value)| {
        // A sender's name that no header can have is left out; the message is worth more.
        Some((HeaderName::try_from(name).ok()?, HeaderValue::try_from(value).ok()?))
    });
    made.collect()
}

/// What a status that is not 2xx says about trying again. Receivers change: a wrong address or key
/// is mended while the message waits, so only what the message itself is guilty of is final.
fn class(status: StatusCode) -> Class {
    match status.as_u16() {
        429 => Class::Throttled,
        408 | 409 | 423 | 425 | 500.. => Class::Server,
        400 | 405 | 406 | 410 | 411 | 413 | 414 | 415 | 422 | 431 => Class::Permanent,
        _ => Class::Unacceptable,
    }
}

/// There is no head of an answer.
fn lost(origin: &str, bounds: &Bounds, trouble: &Trouble) -> Failure {
    match trouble {
        Trouble::Send(error) if error.is_connect() => {
            let https = origin.starts_with("https");
            let (code, message) = classify::unconnected(origin, https, error);
            failure(Class::Network, code, message)
        }
        Trouble::Send(error) | Trouble::Cut(error) => {
            let cause = classify::cause(error);
            let message = format!("The connection to {origin} was lost: {cause}.");
            failure(Class::Network, CONNECTION_CUT, message)
        }
        // Only the head is waited for here: what happens to the body does not decide.
        Trouble::FirstByte | Trouble::Idle | Trouble::Total | Trouble::TooLarge => {
            let ms = bounds.total.as_millis();
            let message = format!("{origin} did not answer within {ms} ms.");
            failure(Class::Timeout, "first_byte_timeout", message)
        }
    }
}

fn failure(class: Class, code: &str, message: String) -> Failure {
    Failure { class, code: code.to_owned(), message, retry_after: None }
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
