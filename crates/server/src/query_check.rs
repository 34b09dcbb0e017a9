//! Query parameters that a call of the jobs API does not know are refused, with the one that was meant.
//!
//! Holds throughout: what a call knows is read from its own description, so nothing is listed twice; a caller
//! without a valid key learns only that. Absent on purpose: the API of OpenAI's clients, which may send more
//! than the contract has; and the messages API.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::{FromRequestParts as _, MatchedPath, Request, State};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use utoipa::openapi::path::{Operation, ParameterIn};
use utoipa::openapi::{OpenApi, RefOr};
use windrow_domain::suggest::suggest;

use crate::app::App;
use crate::auth::Caller;
use crate::error::{Code, Error, Result};

/// Where the jobs API is.
const PREFIX: &str = "/api/";
/// How much of an unknown name is shown.
const NAME_CHARS_MAX: usize = 80;

/// The query parameters of each call, by its method and path.
#[derive(Debug)]
pub(crate) struct KnownParams(HashMap<(Method, String), Vec<String>>);

impl KnownParams {
    /// Reads them from the description.
    pub(crate) fn of(api: &OpenApi) -> Self {
        let mut known = HashMap::new();
        for (path, item) in api.paths.paths.iter().filter(|(path, _)| path.starts_with(PREFIX)) {
            let calls = [
                (Method::GET, &item.get),
                (Method::POST, &item.post),
                (Method::PUT, &item.put),
                (Method::DELETE, &item.delete),
            ];
            for (method, call) in calls {
                if let Some(call) = call {
                    known.insert((method, path.clone()), names(call));
                }
            }
        }
        Self(known)
    }

    /// Refuses a query with a parameter that the call does not know.
    fn check(&self, method: &Method, path: &str, query: &[(String, String)]) -> Result<()> {
        let method = if method == Method::HEAD { &Method::GET } else { method };
        let Some(known) = self.0.get(&(method.clone(), path.to_owned())) else { return Ok(()) };
        match query.iter().find(|(name, _)| !known.contains(name)) {
            Some((name, _)) => Err(unknown(name, known)),
            None => Ok(()),
        }
    }
}

fn names(call: &Operation) -> Vec<String> {
    let all = call.parameters.iter().flatten();
    let query = all.filter_map(|parameter| match parameter {
        RefOr::T(found) => (found.parameter_in == ParameterIn::Query).then(|| found.name.clone()),
        RefOr::Ref(_) => None,
    });
    query.collect()
}

fn unknown(name: &str, known: &[String]) -> Error {
    let name: String = name.chars().take(NAME_CHARS_MAX).collect();
    let remedy = match (suggest(&name, known.iter().map(String::as_str)), known) {
        (Some(meant), _) => format!("did you mean `{meant}`?"),
        (None, []) => "this call has none.".to_owned(),
        (None, known) => format!("this call has `{}`.", known.join("`, `")),
    };
    let message = format!("Unknown query parameter `{name}`; {remedy}");
    Error::new(Code::InvalidQuery, message).at(name)
}

/// The layer around all routes.
pub(crate) async fn check_query(
    State((app, known)): State<(App, Arc<KnownParams>)>,
    request: Request,
    next: Next,
) -> Response {
    let path = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned());
    let Some(path) = path.filter(|path| path.starts_with(PREFIX)) else {
        return next.run(request).await;
    };
    let query = axum::extract::Query::<Vec<(String, String)>>::try_from_uri(request.uri());
    // One that cannot be read is refused by the call itself.
    let query = query.map(|query| query.0).unwrap_or_default();
    match known.check(request.method(), &path, &query) {
        Ok(()) => next.run(request).await,
        Err(unknown) => {
            let (mut parts, _) = request.into_parts();
            match Caller::from_request_parts(&mut parts, &app).await {
                Ok(_) => unknown.into_response(),
                Err(refused) => refused.into_response(),
            }
        }
    }
}
