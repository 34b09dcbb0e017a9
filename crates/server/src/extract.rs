//! Extractors whose rejections have the API's own error shape.

use std::time::Duration;

use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use crate::app::App;
use crate::error::{Code, Error};

/// A small body must arrive as a whole within the time in which a large one may stall.
fn body_time(app: &App) -> Duration {
    app.options.body_idle_timeout
}

/// A JSON body.
pub(crate) struct Json<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<App> for Json<T> {
    type Rejection = Error;

    async fn from_request(request: Request, app: &App) -> Result<Self, Error> {
        let read = timeout(body_time(app), axum::Json::from_request(request, app)).await;
        let axum::Json(value) = read.map_err(|_| Error::too_slow())??;
        Ok(Self(value))
    }
}

/// A JSON body that may be omitted or null.
pub(crate) struct JsonOr<T>(pub(crate) T);

impl<T: DeserializeOwned + Default> FromRequest<App> for JsonOr<T> {
    type Rejection = Error;

    async fn from_request(request: Request, app: &App) -> Result<Self, Error> {
        let read = timeout(body_time(app), bytes::Bytes::from_request(request, app)).await;
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
        // No parameter may contain a NUL, and not every database can compare one.
        if parts.uri.query().is_some_and(|query| query.contains("%00")) {
            let message = "The query string contains a NUL character.";
            return Err(Error::new(Code::InvalidQuery, message));
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
