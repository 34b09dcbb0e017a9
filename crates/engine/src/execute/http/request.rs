//! A line becomes a request.
//!
//! Holds throughout: the body's bytes are the line's own, not copied and not written again, unless a
//! variant changes them; no header comes from a line.

use std::borrow::Cow;

use bytes::Bytes;
use reqwest::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use reqwest::{Method, Request};
use serde::Deserialize;
use serde_json::value::RawValue;
use windrow_domain::attempt::Failure;

use super::path;
use super::route::{Form, UpstreamRoute};
use super::variant;
use crate::execute::Attempt;

static IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// What a line says.
#[derive(Debug, Deserialize)]
pub(super) struct RequestLine<'a> {
    #[serde(default)]
    pub(super) custom_id: Option<String>,
    #[serde(borrow, default)]
    method: Cow<'a, str>,
    #[serde(borrow)]
    url: Cow<'a, str>,
    #[serde(borrow, default)]
    body: Option<&'a RawValue>,
}

impl<'a> RequestLine<'a> {
    /// Reads a line. Ingest has judged it; a store that was filled otherwise may hold anything.
    pub(super) fn read(raw: &'a [u8]) -> Result<Self, Failure> {
        serde_json::from_slice(raw).map_err(|_| {
            let message = "The line is not a request with a `url` that could be read.";
            refusal("invalid_line", message)
        })
    }
}

/// The request of an attempt: its head, and its body.
pub(super) fn build(
    route: &UpstreamRoute,
    attempt: &Attempt,
    line: &RequestLine<'_>,
) -> Result<(Request, Option<Bytes>), Failure> {
    let form = route.form(attempt.number);
    if !route.allows_path(path::path(&line.url)) {
        return Err(not_allowed("is not one of the endpoints that are allowed"));
    }
    let key = if route.has_variants() { attempt.key_of_variant() } else { attempt.key() };
    let body = body(form, attempt, line);
    let request = head(route, form, (method(route, line)?, &line.url), key, body.is_some())?;
    Ok((request, body))
}

/// A request without its body.
pub(super) fn head(
    route: &UpstreamRoute,
    form: &Form,
    (method, url): (Method, &str),
    key: String,
    has_body: bool,
) -> Result<Request, Failure> {
    let url = route.base.join(url, form.query.as_deref()).map_err(not_allowed)?;
    let mut request = Request::new(method, url);
    let headers = request.headers_mut();
    *headers = form.headers.clone();
    if !has_body {
        headers.remove(CONTENT_TYPE);
    }
    let key = HeaderValue::try_from(key).expect("a key is plain ASCII");
    headers.insert(IDEMPOTENCY_KEY.clone(), key);
    Ok(request)
}

fn not_allowed(because: &str) -> Failure {
    refusal("url_not_allowed", format!("Nothing was sent: `url` {because}."))
}

fn method(route: &UpstreamRoute, line: &RequestLine<'_>) -> Result<Method, Failure> {
    if let Some(method) = &route.method {
        return Ok(method.clone());
    }
    let refused = || refusal("method_not_allowed", "Nothing was sent: `method` is not allowed.");
    if !route.allows_method(&line.method) {
        return Err(refused());
    }
    match &*line.method {
        "POST" => Ok(Method::POST),
        "GET" => Ok(Method::GET),
        "PUT" => Ok(Method::PUT),
        "PATCH" => Ok(Method::PATCH),
        "DELETE" => Ok(Method::DELETE),
        _ => Err(refused()),
    }
}

fn body(form: &Form, attempt: &Attempt, line: &RequestLine<'_>) -> Option<Bytes> {
    match (&form.body, line.body) {
        (None, None) => None,
        (None, Some(body)) => Some(attempt.raw.slice_ref(body.get().as_bytes())),
        (Some(patch), body) => Some(variant::patch(body, patch).into()),
    }
}

/// A line that nothing is sent for, and never will be.
pub(super) fn refusal(code: &str, message: impl Into<String>) -> Failure {
    Failure::permanent(code, message)
}
