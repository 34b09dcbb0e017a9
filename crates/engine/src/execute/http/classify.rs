//! What an answer means for its line.
//!
//! Holds throughout: a status that is not 2xx decides by itself, its body only explains; messages
//! hold no header and no key, and are bounded.

use bytes::Bytes;
use jiff::Timestamp;
use reqwest::header::{CONTENT_TYPE, HeaderMap, LOCATION};
use reqwest::{Method, StatusCode, Url};
use serde::de::IgnoredAny;
use serde_json::Value;
use windrow_domain::attempt::{Class, Failure};

use super::config::Predicate;
use super::route::UpstreamRoute;
use crate::execute::{Outcome, Verdict};
use crate::http::exchange::{ExchangeError, HttpAnswer};
use crate::http::explain::{cause, clean, explanation, shorten, unconnected};
use crate::http::retry_after;

/// What an exchange, or its failure, means for the line.
pub(super) fn judge(
    route: &UpstreamRoute,
    now: Timestamp,
    result: Result<HttpAnswer, ExchangeError>,
) -> Outcome {
    let HttpAnswer { method, status, headers, body } = match result {
        Ok(answer) => answer,
        Err(trouble) => return lost(route, trouble),
    };
    let http_status = Some(status.as_u16());
    if !status.is_success() {
        let body = body.ok();
        let class = class_of(route, &method, status);
        let failure = refused(route, class, status, &headers, body.as_ref(), now);
        return Outcome { http_status, body, ..Outcome::failed(failure) };
    }
    let body = match body {
        Ok(body) => body,
        Err(trouble) => return Outcome { http_status, ..lost(route, trouble) },
    };
    let verdict = match unacceptable(route, status, &headers, &body) {
        Some(failure) => Verdict::Failed(failure),
        None => Verdict::Completed,
    };
    Outcome { http_status, verdict, ..Outcome::completed(body) }
}

/// There is no whole answer.
fn lost(route: &UpstreamRoute, trouble: ExchangeError) -> Outcome {
    let origin = route.base.origin();
    let (class, code, message) = match trouble {
        ExchangeError::Send(error) if error.is_connect() => {
            let (code, message) = unconnected(origin, route.base.is_https(), &error);
            let failure = Failure::new(Class::Network, code, message);
            return Outcome { reached: false, ..Outcome::failed(failure) };
        }
        ExchangeError::Send(error) => {
            let message = format!("The connection to {origin} was lost: {}.", cause(&error));
            (Class::Network, "connection_lost", message)
        }
        ExchangeError::Cut(error) => {
            let message = format!("The answer of {origin} was cut short: {}.", cause(&error));
            (Class::Network, "body_cut", message)
        }
        ExchangeError::FirstByte => {
            let ms = route.bounds.first_byte.as_millis();
            let message = format!("{origin} did not begin to answer within {ms} ms.");
            (Class::Timeout, "first_byte_timeout", message)
        }
        ExchangeError::Idle => {
            let ms = route.bounds.idle.as_millis();
            let message = format!("The answer of {origin} stopped for {ms} ms.");
            (Class::Timeout, "idle_timeout", message)
        }
        ExchangeError::Total => {
            let ms = route.bounds.total.as_millis();
            let message = format!("{origin} did not finish its answer within {ms} ms.");
            (Class::Timeout, "total_timeout", message)
        }
        ExchangeError::TooLarge => {
            let bytes = route.bounds.body_bytes;
            let message = format!("The answer of {origin} is longer than {bytes} bytes.");
            (Class::Permanent, "body_too_large", message)
        }
    };
    Outcome::failed(Failure::new(class, code, message))
}

/// What a status that is not 2xx means.
fn class_of(route: &UpstreamRoute, method: &Method, status: StatusCode) -> Class {
    let means_not_found = |status: u16| match &route.not_found_statuses {
        Some(named) => named.contains(&status),
        // Only who asks for a thing is told that it is not there.
        None => status == 404 && (*method == Method::GET || *method == Method::HEAD),
    };
    match status.as_u16() {
        429 => Class::Throttled,
        408 | 500.. => Class::Server,
        known if means_not_found(known) => Class::NotFound,
        _ => Class::Permanent,
    }
}

/// A status that is not 2xx.
fn refused(
    route: &UpstreamRoute,
    class: Class,
    status: StatusCode,
    headers: &HeaderMap,
    body: Option<&Bytes>,
    now: Timestamp,
) -> Failure {
    let code = format!("http_{}", status.as_u16());
    let explained = if status.is_redirection() {
        Some(redirection(headers))
    } else {
        body.and_then(explanation).map(|text| shorten(&clean(&route.redact(text))))
    };
    let status = status.as_u16();
    let message = match explained {
        Some(text) if !text.is_empty() => format!("The target answered {status}: {text}"),
        _ => format!("The target answered {status}."),
    };
    let waits = matches!(class, Class::Throttled | Class::Server);
    let retry_after = if waits { retry_after::read(headers, now) } else { None };
    let mut failure = Failure::new(class, code, message);
    failure.retry_after = retry_after;
    failure
}

/// Only the host of where it points: the rest may hold a secret.
fn redirection(headers: &HeaderMap) -> String {
    let location = headers.get(LOCATION).and_then(|value| value.to_str().ok());
    let place = location.and_then(|text| Url::parse(text).ok());
    match place.as_ref().and_then(Url::host_str) {
        Some(host) => format!("it points to {host}, and redirects are not followed."),
        None => "redirects are not followed.".to_owned(),
    }
}

/// What is wrong with a 2xx, if anything.
fn unacceptable(
    route: &UpstreamRoute,
    status: StatusCode,
    headers: &HeaderMap,
    body: &Bytes,
) -> Option<Failure> {
    if status == StatusCode::NO_CONTENT || status == StatusCode::RESET_CONTENT {
        return None;
    }
    if is_json(headers) && !is_valid_json(body) {
        let message = "The target says that its answer is JSON, and it is not.".to_owned();
        return Some(Failure::new(Class::Unacceptable, "invalid_json", message));
    }
    if route.not_found_when.is_empty() {
        return None;
    }
    let body: Value = serde_json::from_slice(body).ok()?;
    let holds = |when: &&Predicate| body.pointer(&when.pointer) == Some(&when.equals);
    let when = route.not_found_when.iter().find(holds)?;
    let (at, what) = (&when.pointer, &when.equals);
    let message = format!("The target says that there is no such thing: `{at}` is {what}.");
    Some(Failure::new(Class::NotFound, "not_found_in_body", message))
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    kind.eq_ignore_ascii_case("application/json")
        || kind
            .get(kind.len().saturating_sub(5)..)
            .is_some_and(|end| end.eq_ignore_ascii_case("+json"))
}

fn is_valid_json(body: &[u8]) -> bool {
    // The parser does not look into strings that are not read.
    std::str::from_utf8(body).is_ok_and(|text| serde_json::from_str::<IgnoredAny>(text).is_ok())
}

impl UpstreamRoute {
    /// The body without the key, should the upstream have repeated it.
    pub(super) fn redacted(&self, body: &Bytes) -> Bytes {
        match self.key.as_ref().and_then(|key| key.redacted(body)) {
            Some(redacted) => redacted.into(),
            None => body.clone(),
        }
    }

    /// The text without the key.
    fn redact(&self, text: String) -> String {
        match &self.key {
            Some(key) => key.redact(text),
            None => text,
        }
    }
}
