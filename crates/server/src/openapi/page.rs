//! `/openapi.json` and `/docs`: the description for programs, and a page of it for people.
//!
//! Holds throughout: the page fetches nothing from elsewhere, and the browser is told to refuse it.

use axum::Router;
use axum::http::{HeaderMap, HeaderName, Uri, header};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{MethodRouter, get};
use bytes::Bytes;
use utoipa::openapi::OpenApi;

use crate::app::{App, nothing_here};

/// Only what comes from here; no frame around it, no form out of it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const HTML: &str = include_str!("page.html");
const SCRIPT: &str = include_str!("page.js");
const STYLE: &str = include_str!("page.css");

/// What shows the description. Not described itself.
pub(crate) fn routes(api: &OpenApi) -> Router<App> {
    Router::new()
        .route("/openapi.json", fixed("application/json", super::text(api)))
        .route("/", get(front))
        .route("/docs", fixed("text/html; charset=utf-8", HTML))
        .route("/docs/", get(async || Redirect::permanent("../docs")))
        .route("/docs/page.js", fixed("text/javascript; charset=utf-8", SCRIPT))
        .route("/docs/page.css", fixed("text/css; charset=utf-8", STYLE))
}

/// A browser is led to the description; a program has nothing to find here.
async fn front(uri: Uri, headers: HeaderMap) -> Response {
    let accepted = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    match accepted.is_some_and(|accepted| accepted.contains("text/html")) {
        true => Redirect::temporary("docs").into_response(),
        false => nothing_here(uri).await.into_response(),
    }
}

/// The same answer every time.
fn fixed(kind: &'static str, text: impl Into<Bytes>) -> MethodRouter<App> {
    let text = text.into();
    get(move || async move { (headers(kind), text).into_response() })
}

fn headers(kind: &'static str) -> [(HeaderName, &'static str); 4] {
    [
        (header::CONTENT_TYPE, kind),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_on_the_page_comes_from_elsewhere() {
        for text in [HTML, SCRIPT, STYLE] {
            for elsewhere in ["http://", "https://", "@import", "src=\"//", " url("] {
                assert!(!text.contains(elsewhere), "{elsewhere}");
            }
        }
        assert!(!SCRIPT.contains("innerHTML") && !HTML.contains("onclick"));
    }
}
