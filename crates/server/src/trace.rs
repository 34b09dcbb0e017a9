//! Every request has an id and a line in the log: its route, its status and its time.
//!
//! Holds throughout: bodies, keys and queries are not logged, apart from the cursor of a page.

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderName, HeaderValue, Method};
use axum::middleware::Next;
use axum::response::Response;
use tracing::Instrument as _;
use uuid::Uuid;

use crate::app::App;

/// The header with the id of a request: the client's or a generated one; sent back.
static REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// How much of a path that no route matches is logged.
const PATH_CHARS_MAX: usize = 200;
/// How much of a cursor is logged.
const CURSOR_CHARS_MAX: usize = 200;
/// Longest id that is accepted from a client.
const ID_BYTES_MAX: usize = 128;

pub(crate) async fn trace(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let id = request_id(&request);
    request.headers_mut().insert(REQUEST_ID.clone(), id.clone());
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned());
    // A path that no route matches is shown, so that whoever asks for it can be helped.
    let path = route.is_none().then(|| request.uri().path().chars().take(PATH_CHARS_MAX).collect());
    let path: Option<String> = path;
    let route = route.unwrap_or_else(|| "none".to_owned());
    let began = app.clock.elapsed();
    let shown = id.to_str().unwrap_or_default().to_owned();
    let after = cursor(request.uri().query().unwrap_or_default());
    let span =
        tracing::info_span!("request", id = %shown, %method, route, path, page.after = after);
    let mut response = next.run(request).instrument(span.clone()).await;
    let took = app.clock.elapsed().saturating_sub(began);
    let status = response.status().as_u16();
    app.metrics.observe_request(known(&method), &route, status, took);
    span.in_scope(|| tracing::info!(status, elapsed_ms = took.as_millis(), "answered"));
    response.headers_mut().insert(REQUEST_ID.clone(), id);
    response
}

/// The client's own id when it is plain, else a new one.
fn request_id(request: &Request) -> HeaderValue {
    let plain = |value: &&HeaderValue| {
        let bytes = value.as_bytes();
        let fits = (1..=ID_BYTES_MAX).contains(&bytes.len());
        fits && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:".contains(byte))
    };
    let given = request.headers().get(&REQUEST_ID).filter(plain).cloned();
    given.unwrap_or_else(|| {
        let made = format!("req_{}", Uuid::now_v7().simple());
        HeaderValue::try_from(made).expect("digits are plain")
    })
}

/// The cursor of a page; it reveals nothing.
fn cursor(query: &str) -> Option<String> {
    let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let (_, after) = pairs.find(|(name, _)| *name == "after")?;
    let plain = |letter: &char| letter.is_ascii_graphic();
    Some(after.chars().filter(plain).take(CURSOR_CHARS_MAX).collect())
}

/// The label of a method: those that routes have, and one for all others.
fn known(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::POST => "POST",
        Method::DELETE => "DELETE",
        Method::HEAD => "HEAD",
        _ => "other",
    }
}
