//! Handlers over HTTP: a call or a message becomes one signed POST, and the answer is its effects.
//!
//! The request's body and the answer's are JSON; [`wire`] says which. It is signed as Standard Webhooks
//! has it, with `webhook-id` and `idempotency-key` = `owner/id`, the same at every try.
//!
//! Holds throughout: the beginning of a try is stored before it is sent, unless the receiver is known to
//! be away, so a receiver that kills its callers is found; the receiver may get a request more than once and knows it by its key; what it
//! answers is committed exactly once; every try is bounded in time and in bytes, redirects are not
//! followed, and errors name the host, never the path.

pub mod wire;

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Method, Request, Url};
use windrow_domain::attempt::Class;

use crate::clock::Clock;
use crate::deliver::signature::{self, Key, header_id};
use crate::deliver::{BadOption, CONNECTION_CUT, shown, webhook};
use crate::execute::http::timeout::{Answer, Bounds, Trouble, exchange};
use crate::execute::http::{Upstream, classify, client, retry_after};

use super::context::Context;
use super::handler::{Consumer, Effects, HandlerError, Object};

/// Where a handler is, and how to treat it: the same options as a webhook's.
pub type Options = webhook::Options;

/// A handler that is somewhere else.
#[derive(Clone)]
pub struct Remote(Arc<Inner>);

struct Inner {
    url: Url,
    keys: Vec<Key>,
    headers: HeaderMap,
    bounds: Bounds,
    client: Client,
    clock: Clock,
}

impl Remote {
    /// Reads keys and makes a client. Nothing is sent yet.
    pub fn new(options: &Options) -> Result<Self, BadOption> {
        // The same options, so the same bounds and the same words for what is wrong with them.
        webhook::Webhook::new("handler", options)?;
        let url = Url::parse(&options.url.read("url")?)
            .map_err(|error| BadOption::new("url", error.to_string()))?;
        let keys = options.secrets.iter().map(|secret| Key::read(&secret.read("secrets")?));
        let keys = keys.collect::<Result<_, _>>()?;
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
        Ok(Self(Arc::new(Inner {
            keys,
            headers: fixed_headers(options)?,
            bounds: Bounds::new(&upstream),
            client: clients.into_iter().next().expect("there is at least one client"),
            clock: Clock::machine(),
            url,
        })))
    }

    /// Objects of that type are there.
    pub fn object(&self, object_type: impl Into<String>) -> RemoteObject {
        RemoteObject { object_type: object_type.into(), remote: self.clone() }
    }

    async fn ask(&self, context: &Context, payload: Bytes) -> Result<Effects, HandlerError> {
        let request = self.request(context, &payload)?;
        let result = exchange(&self.0.client, request, &self.0.bounds).await;
        let body = self.judge(result)?;
        wire::read(context, &body)
    }

    fn request(&self, context: &Context, payload: &Bytes) -> Result<Request, HandlerError> {
        let body = Bytes::from(wire::write(context, payload)?);
        let id = header_id(&format!("{}/{}", context.owner, context.id));
        let timestamp = self.0.clock.now().as_second();
        let mut texts = vec![
            (signature::ID, id.clone()),
            ("idempotency-key", id.clone()),
            (signature::TIMESTAMP, timestamp.to_string()),
        ];
        if !self.0.keys.is_empty() {
            let signature = signature::sign(&self.0.keys, &id, timestamp, &body);
            texts.push((signature::SIGNATURE, signature));
        }
        let mut request = Request::new(Method::POST, self.0.url.clone());
        *request.headers_mut() = self.0.headers.clone();
        for (name, text) in texts {
            let value = HeaderValue::try_from(text).expect("what is escaped fits in a header");
            request.headers_mut().insert(HeaderName::from_static(name), value);
        }
        *request.body_mut() = Some(body.into());
        Ok(request)
    }

    /// The body of a good answer.
    fn judge(&self, result: Result<Answer, Trouble>) -> Result<Bytes, HandlerError> {
        let origin = self.0.url.origin().ascii_serialization();
        let lost = |trouble: &Trouble| lost(&origin, trouble);
        let answer = result.map_err(|trouble| lost(&trouble))?;
        if answer.status.is_success() {
            // Unlike a webhook's, its body is what was asked for.
            return answer.body.map_err(|trouble| lost(&trouble));
        }
        let status = answer.status.as_u16();
        let class = match status {
            429 => Class::Throttled,
            408 | 409 | 423 | 425 | 500.. => Class::Server,
            400 | 405 | 406 | 410 | 411 | 413 | 414 | 415 | 422 | 431 => Class::Permanent,
            _ => Class::Unacceptable,
        };
        let said = answer.body.ok().as_ref().and_then(classify::explain);
        let message = match said {
            Some(said) => format!("{origin} answered {status}: {said}"),
            None => format!("{origin} answered {status}."),
        };
        let delay = retry_after::read(&answer.headers, self.0.clock.now());
        let waits = matches!(class, Class::Throttled | Class::Server);
        let code = format!("http_{status}");
        Err(HandlerError::of(class, &code, message, delay.filter(|_| waits)))
    }
}

fn lost(origin: &str, trouble: &Trouble) -> HandlerError {
    let (class, code, message) = match trouble {
        Trouble::Send(error) if error.is_connect() => {
            let https = origin.starts_with("https");
            let (code, message) = classify::unconnected(origin, https, error);
            (Class::Network, code, message)
        }
        Trouble::Send(error) | Trouble::Cut(error) => {
            let cause = classify::cause(error);
            let message = format!("The connection to {origin} was lost: {cause}.");
            (Class::Network, CONNECTION_CUT, message)
        }
        Trouble::FirstByte | Trouble::Idle | Trouble::Total => {
            (Class::Timeout, "first_byte_timeout", format!("{origin} did not answer in time."))
        }
        Trouble::TooLarge => {
            (Class::Permanent, "answer_too_large", format!("{origin} answered too much."))
        }
    };
    HandlerError::of(class, code, message, None)
}

fn fixed_headers(options: &Options) -> Result<HeaderMap, BadOption> {
    let bad = |name: &str| BadOption::new("headers", format!("cannot hold {name:?}"));
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    for (name, value) in &options.headers.0 {
        let key = HeaderName::try_from(name).map_err(|_| bad(name))?;
        let mut value = HeaderValue::try_from(value).map_err(|_| bad(name))?;
        value.set_sensitive(true);
        headers.insert(key, value);
    }
    Ok(headers)
}

/// Objects of one type that are somewhere else.
#[derive(Clone)]
pub struct RemoteObject {
    object_type: String,
    remote: Remote,
}

#[async_trait]
impl Object for RemoteObject {
    fn object_type(&self) -> &str {
        &self.object_type
    }

    async fn call(&self, context: Context, _: &str, args: Bytes) -> Result<Effects, HandlerError> {
        self.remote.ask(&context, args).await
    }

    fn is_outside(&self) -> bool {
        true
    }
}

#[async_trait]
impl Consumer for Remote {
    async fn consume(&self, context: Context, payload: Bytes) -> Result<Effects, HandlerError> {
        self.ask(&context, payload).await
    }

    fn is_outside(&self) -> bool {
        true
    }
}
