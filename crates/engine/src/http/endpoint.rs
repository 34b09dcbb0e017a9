//! A signed endpoint: one URL that takes POSTs signed as Standard Webhooks has it. Webhooks and handlers over
//! HTTP are both one.
//!
//! Holds throughout: every attempt is bounded in time and in bytes; messages of failures hold the host,
//! never the path.

use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Method, Request, StatusCode, Url};
use serde::Deserialize;
use windrow_domain::attempt::{Class, Failure};

use super::client::{self, ClientOptions, HttpClientError};
use super::exchange::{ExchangeBounds, ExchangeError, HttpAnswer, exchange};
use super::options::{Headers, Http};
use super::secret::{BadOption, Secret};
use super::signature::{self, SigningKey, header_id};
use super::{explain, retry_after};
use crate::clock::Clock;

/// Longest wait that an option can ask for.
const WAIT_MS_MAX: u64 = 10 * 60 * 1000;
/// Most keys that sign one request.
const SECRETS_MAX: usize = 8;
/// The code of a connection that was lost after a request had left: the receiver may have taken the
/// message, and the message may be why it went away.
const CONNECTION_CUT: &str = "connection_cut";

windrow_domain::options! {
    /// Where a webhook or a handler is, and how to treat it.
    #[derive(Clone, Debug, PartialEq, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    pub struct EndpointOptions {
        /// Where messages are posted. Its path may be a secret.
        url: Secret = Secret::from(""),
        /// The keys that sign, `whsec_…`: the new one and, while receivers change, the old one.
        secrets: Vec<Secret> = Vec::new(),
        /// Headers of every request.
        headers: Headers = Headers::default(),
        /// The content type of messages that name none.
        content_type: String = "application/json".to_owned(),
        /// Certificates to trust besides the system's, as PEM.
        ca_file: Option<PathBuf> = None,
        /// Longest wait for a connection, TLS included.
        connect_ms_max: u64 = 5_000,
        /// Longest time of one attempt.
        total_ms_max: u64 = 15_000,
        /// Longest silence within the body of an answer.
        idle_ms_max: u64 = 2_000,
        /// Most that is read of an answer.
        answer_bytes_max: u64 = 64 << 10,
        /// Longest message that is sent.
        payload_bytes_max: u64 = 4 << 20,
        /// Most connections that are kept open while nothing is sent.
        connections_idle_max: u32 = 16,
    }
}

impl EndpointOptions {
    fn check(&self) -> Result<(), BadOption> {
        BadOption::unless_within("connect_ms_max", self.connect_ms_max, WAIT_MS_MAX)?;
        BadOption::unless_within("total_ms_max", self.total_ms_max, WAIT_MS_MAX)?;
        BadOption::unless_within("idle_ms_max", self.idle_ms_max, WAIT_MS_MAX)?;
        BadOption::unless_within("answer_bytes_max", self.answer_bytes_max, 1 << 30)?;
        BadOption::unless_within("payload_bytes_max", self.payload_bytes_max, 1 << 30)?;
        if self.secrets.len() > SECRETS_MAX {
            return Err(BadOption::new("secrets", format!("are at most {SECRETS_MAX}")));
        }
        Ok(())
    }
}

/// One URL that takes signed POSTs.
#[derive(Debug)]
pub(crate) struct SignedEndpoint {
    url: Url,
    /// Scheme, host and port: what failures name.
    origin: String,
    keys: Vec<SigningKey>,
    headers: HeaderMap,
    bounds: ExchangeBounds,
    client: Client,
    clock: Clock,
}

impl SignedEndpoint {
    /// Checks the options, reads keys and makes a client. Nothing is sent yet.
    pub(crate) fn new(options: &EndpointOptions) -> Result<Self, BadOption> {
        options.check()?;
        let url = url(&options.url.read("url")?)?;
        let keys = options.secrets.iter().map(|secret| SigningKey::read(&secret.read("secrets")?));
        Ok(Self {
            origin: url.origin().ascii_serialization(),
            keys: keys.collect::<Result<_, _>>()?,
            headers: fixed_headers(options)?,
            bounds: ExchangeBounds {
                first_byte: Duration::from_millis(options.total_ms_max),
                idle: Duration::from_millis(options.idle_ms_max),
                total: Duration::from_millis(options.total_ms_max),
                body_bytes: options.answer_bytes_max,
            },
            client: make_client(options, url.scheme() == "https")?,
            clock: Clock::machine(),
            url,
        })
    }

    /// Signs with that clock's time.
    #[must_use]
    pub(crate) fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Scheme, host and port, for messages.
    pub(crate) fn origin(&self) -> &str {
        &self.origin
    }

    /// Posts once. `id` is the same at every attempt, and becomes the key that receivers know repeats by.
    /// Gives a 2xx with its body as far as it came; everything else is a failure.
    pub(crate) async fn post(
        &self,
        id: &str,
        headers: impl IntoIterator<Item = (HeaderName, HeaderValue)>,
        body: Bytes,
    ) -> Result<HttpAnswer, Failure> {
        let request = self.request(id, headers, body);
        match exchange(&self.client, request, &self.bounds).await {
            Ok(answer) if answer.status.is_success() => Ok(answer),
            Ok(answer) => Err(self.refused(answer)),
            Err(error) => Err(self.lost(&error)),
        }
    }

    fn request(
        &self,
        id: &str,
        headers: impl IntoIterator<Item = (HeaderName, HeaderValue)>,
        body: Bytes,
    ) -> Request {
        let (id, timestamp) = (header_id(id), self.clock.now().as_second());
        let mut request = Request::new(Method::POST, self.url.clone());
        *request.headers_mut() = self.headers.clone();
        // Each takes the place of a fixed one: `extend` would send both.
        for (name, value) in headers {
            request.headers_mut().insert(name, value);
        }
        let mut put = |name: &'static str, text: String| {
            let value = HeaderValue::try_from(text).expect("what is escaped fits in a header");
            request.headers_mut().insert(HeaderName::from_static(name), value);
        };
        if !self.keys.is_empty() {
            put(signature::SIGNATURE, signature::sign(&self.keys, &id, timestamp, &body));
        }
        put(signature::TIMESTAMP, timestamp.to_string());
        put("idempotency-key", id.clone());
        put(signature::ID, id);
        *request.body_mut() = Some(body.into());
        request
    }

    /// A status that is not 2xx.
    fn refused(&self, answer: HttpAnswer) -> Failure {
        let (origin, status) = (&self.origin, answer.status.as_u16());
        let class = class(answer.status);
        let said = answer.body.ok().as_ref().and_then(explain::explain);
        let message = match said {
            Some(said) => format!("{origin} answered {status}: {said}"),
            None => format!("{origin} answered {status}."),
        };
        // A gateway without a server behind it, or a server that is not ready.
        let unavailable = class == Class::Throttled || matches!(status, 502..=504);
        let failure = Failure::new(class, format!("http_{status}"), message);
        let mut failure = failure.with_unavailable(unavailable);
        if matches!(class, Class::Throttled | Class::Server) {
            failure.retry_after = retry_after::read(&answer.headers, self.clock.now());
        }
        failure
    }

    /// There is no answer, or not all of it.
    pub(crate) fn lost(&self, error: &ExchangeError) -> Failure {
        let origin = &self.origin;
        match error {
            ExchangeError::Send(error) if error.is_connect() => {
                let https = self.url.scheme() == "https";
                let (code, message) = explain::unconnected(origin, https, error);
                Failure::unavailable(code, message)
            }
            ExchangeError::Send(error) | ExchangeError::Cut(error) => {
                let cause = explain::cause(error);
                let message = format!("The connection to {origin} was lost: {cause}.");
                Failure::new(Class::Network, CONNECTION_CUT, message).with_unavailable(false)
            }
            ExchangeError::FirstByte | ExchangeError::Idle | ExchangeError::Total => {
                let ms = self.bounds.total.as_millis();
                let message = format!("{origin} did not answer within {ms} ms.");
                Failure::new(Class::Timeout, "first_byte_timeout", message)
            }
            ExchangeError::TooLarge => {
                let bytes = self.bounds.body_bytes;
                let message = format!("The answer of {origin} is longer than {bytes} bytes.");
                Failure::permanent("answer_too_large", message)
            }
        }
    }
}

fn make_client(options: &EndpointOptions, https: bool) -> Result<Client, BadOption> {
    let options = ClientOptions {
        https,
        version: Http::Auto,
        ca_file: options.ca_file.as_deref(),
        connect_ms_max: options.connect_ms_max,
        requests_max: options.connections_idle_max,
    };
    let clients = client::build(&options).map_err(|error| {
        BadOption::new(
            "ca_file",
            match error {
                HttpClientError::CaFile { path, source } => {
                    format!("{} could not be read: {source}", path.display())
                }
                HttpClientError::Build(error) => format!("could not be used: {error}"),
            },
        )
    })?;
    Ok(clients.into_iter().next().expect("there is at least one client"))
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

fn fixed_headers(options: &EndpointOptions) -> Result<HeaderMap, BadOption> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_not_ready_is_unavailable_and_one_that_refuses_is_not() {
        let options = EndpointOptions { url: "http://host/x".into(), ..EndpointOptions::default() };
        let endpoint = SignedEndpoint::new(&options).unwrap();
        for (status, class, unavailable) in [
            (400, Class::Permanent, false),
            (404, Class::Unacceptable, false),
            (410, Class::Permanent, false),
            (429, Class::Throttled, true),
            (500, Class::Server, false),
            (502, Class::Server, true),
            (503, Class::Server, true),
            (504, Class::Server, true),
        ] {
            let headers = HeaderMap::from_iter([(
                reqwest::header::RETRY_AFTER,
                HeaderValue::from_static("7"),
            )]);
            let (status, body) = (StatusCode::from_u16(status).unwrap(), Ok(Bytes::new()));
            let failure =
                endpoint.refused(HttpAnswer { method: Method::POST, status, headers, body });
            assert_eq!((failure.class, failure.is_unavailable()), (class, unavailable), "{status}");
            let waits = matches!(class, Class::Throttled | Class::Server);
            assert_eq!(failure.retry_after.is_some(), waits, "{status}");
        }
        let late = endpoint.lost(&ExchangeError::FirstByte);
        assert_eq!((&*late.code, late.is_unavailable()), ("first_byte_timeout", false));
    }
}
