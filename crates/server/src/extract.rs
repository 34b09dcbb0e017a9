//! Extractors whose refusals have the API's own shape.

use std::time::Duration;

use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::StatusCode;
use axum::http::request::Parts;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use crate::error::Error;

/// Longest wait for a body that is small.
const BODY_TIME_MAX: Duration = Duration::from_secs(30);

/// A JSON body.
pub(crate) struct Json<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Json<T> {
    type Rejection = Error;

    async fn from_request(request: Request, state: &S) -> Result<Self, Error> {
        let read = timeout(BODY_TIME_MAX, axum::Json::from_request(request, state)).await;
        let axum::Json(value) = read.map_err(|_| Error::too_slow())??;
        Ok(Self(value))
    }
}

/// A JSON body that may be left out, or null.
pub(crate) struct JsonOr<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned + Default> FromRequest<S> for JsonOr<T> {
    type Rejection = Error;

    async fn from_request(request: Request, state: &S) -> Result<Self, Error> {
        let read = timeout(BODY_TIME_MAX, bytes::Bytes::from_request(request, state)).await;
        let bytes = read.map_err(|_| Error::too_slow())??;
        if bytes.is_empty() {
            return Ok(Self(T::default()));
        }
        let axum::Json(value) = axum::Json::<Option<T>>::from_bytes(&bytes)?;
        Ok(Self(value.unwrap_or_default()))
    }
}

/// The query string.
pub(crate) struct Query<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Query<T> {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Error> {
        // No name and no word holds a NUL, and not every store can ask for one.
        if parts.uri.query().is_some_and(|query| query.contains("%00")) {
            let message = "The query holds a NUL, which is part of no text.";
            return Err(Error::new(StatusCode::BAD_REQUEST, "invalid_query", message));
        }
        let axum::extract::Query(value) =
            axum::extract::Query::from_request_parts(parts, state).await?;
        Ok(Self(value))
    }
}

/// The parameters in the path.
pub(crate) struct Path<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Path<T> {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Error> {
        let axum::extract::Path(value) =
            axum::extract::Path::from_request_parts(parts, state).await?;
        Ok(Self(value))
    }
}
