//! Errors as callers see them: one shape, `{"error": {"message", "type", "param", "code"}}`, and one
//! `match` from a store's [`Kind`] to a [`Code`].
//!
//! Holds throughout: a caller's mistake is a 4xx that says what to do; a failure of the server is logged
//! with its causes and answered without them. A permanent conflict is a 400, never a 409: official
//! clients retry a 409.

mod codes;

use axum::Json;
use axum::extract::rejection::{BytesRejection, JsonRejection, PathRejection, QueryRejection};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;
use windrow_store::Kind;

pub use codes::Code;

/// The result of a handler.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of the API.
#[derive(Debug)]
pub struct Error {
    /// The stable word that programs match on; it decides the HTTP status.
    pub code: Code,
    /// A sentence for people.
    pub message: String,
    /// The field or parameter that is wrong.
    pub param: Option<String>,
    /// Seconds after which a retry may succeed.
    pub retry_after_secs: Option<u64>,
    /// The cause, for the log only.
    cause: Option<String>,
}

/// The body of every error response.
#[derive(Serialize, ToSchema)]
#[schema(as = Error)]
pub(crate) struct ErrorResponse<'a> {
    #[schema(inline)]
    error: ErrorBody<'a>,
}

#[derive(Serialize, ToSchema)]
struct ErrorBody<'a> {
    /// A sentence for people.
    message: &'a str,
    r#type: ErrorType,
    /// The field or parameter that is wrong.
    #[schema(required)]
    param: Option<&'a str>,
    /// The stable word that programs match on.
    #[schema(value_type = String, example = "invalid_value")]
    code: Code,
}

/// The error types of OpenAI's API.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[expect(clippy::enum_variant_names, reason = "the contract's words")]
enum ErrorType {
    AuthenticationError,
    PermissionError,
    RateLimitError,
    ServerError,
    InvalidRequestError,
}

impl Error {
    /// An error with this code.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { code, message, param: None, retry_after_secs: None, cause: None }
    }

    /// A parameter or field with a value that is not allowed.
    pub fn invalid(param: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(Code::InvalidValue, message).at(param)
    }

    /// An object that does not exist, or belongs to another owner.
    pub fn missing(what: &str, id: &str) -> Self {
        // The id may be anything that a caller sends; it is shown as far as an id is long.
        let id: String = id.chars().take(80).collect();
        Self::new(Code::NotFound, format!("No {what} found with id {id:?}."))
    }

    /// A failure of the server.
    pub fn internal(cause: impl std::fmt::Display) -> Self {
        let message =
            "Internal server error; the server's log has the cause under this request's id.";
        let error = Self::new(Code::InternalError, message);
        Self { cause: Some(cause.to_string()), ..error }
    }

    /// A request body that did not arrive in time.
    pub fn too_slow() -> Self {
        let message = "The request body did not arrive in time.";
        Self::new(Code::BodyTooSlow, message)
    }

    /// An upload that fell silent, or came in too slowly on average.
    pub(crate) fn upload_too_slow() -> Self {
        let message = "The upload stalled or was too slow; nothing of it was stored.";
        Self::new(Code::UploadTooSlow, message)
    }

    /// Names the field or parameter that is wrong.
    #[must_use]
    pub fn at(mut self, param: impl Into<String>) -> Self {
        self.param = Some(param.into());
        self
    }

    /// Sets `Retry-After`, in seconds.
    #[must_use]
    pub fn retry_after(mut self, secs: u64) -> Self {
        self.retry_after_secs = Some(secs);
        self
    }

    /// The HTTP status.
    pub fn status(&self) -> StatusCode {
        self.code.status()
    }

    /// The error type of OpenAI's API.
    fn kind(&self) -> ErrorType {
        match self.status() {
            StatusCode::UNAUTHORIZED => ErrorType::AuthenticationError,
            StatusCode::FORBIDDEN => ErrorType::PermissionError,
            StatusCode::TOO_MANY_REQUESTS => ErrorType::RateLimitError,
            status if status.is_server_error() => ErrorType::ServerError,
            _ => ErrorType::InvalidRequestError,
        }
    }
}

impl From<windrow_store::Error> for Error {
    fn from(error: windrow_store::Error) -> Self {
        let causes = windrow_store::error::chain(&error);
        match error.kind {
            Kind::Missing => {
                let what = format!("Not found: {}.", error.subject);
                Self::new(Code::NotFound, what)
            }
            Kind::Conflict => Self::new(Code::Conflict, sentence(&causes)),
            Kind::Refused => Self::new(Code::Refused, sentence(&causes)),
            Kind::Invalid => Self::new(Code::InvalidValue, sentence(&causes)),
            Kind::Limited => {
                let what =
                    "Too many open batches for this owner; wait for one to end, or cancel one.";
                Self::new(Code::OpenBatchesExceeded, what)
            }
            Kind::Busy | Kind::Contended | Kind::Unavailable => {
                let what = "The database is unavailable; retry in a moment.";
                let busy = Self::new(Code::Unavailable, what);
                Self { cause: Some(causes), ..busy.retry_after(1) }
            }
            Kind::LeaseLost | Kind::Corrupt => Self::internal(causes),
        }
    }
}

/// An error text as a sentence.
fn sentence(causes: &str) -> String {
    let mut letters = causes.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}.", letters.as_str().trim_end_matches('.'))
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        if let Some(cause) = &self.cause {
            tracing::error!(error = %cause, status = self.status().as_u16(), "request failed");
        }
        let body = ErrorBody {
            message: &self.message,
            r#type: self.kind(),
            param: self.param.as_deref(),
            code: self.code,
        };
        let mut response = (self.status(), Json(ErrorResponse { error: body })).into_response();
        if let Some(secs) = self.retry_after_secs {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(secs));
        }
        if self.status() == StatusCode::UNAUTHORIZED {
            let scheme = HeaderValue::from_static("Bearer");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
        }
        response
    }
}

impl From<JsonRejection> for Error {
    fn from(rejection: JsonRejection) -> Self {
        match rejection {
            JsonRejection::MissingJsonContentType(_) => Self::new(
                Code::UnsupportedMediaType,
                "The body must be JSON, with `Content-Type: application/json`.",
            ),
            JsonRejection::BytesRejection(rejection) => rejection.into(),
            other => {
                let text = other.body_text();
                let what = text.rsplit_once(": ").map_or(text.as_str(), |(_, what)| what);
                Self::new(Code::InvalidJson, format!("Invalid body: {what}."))
            }
        }
    }
}

impl From<BytesRejection> for Error {
    fn from(rejection: BytesRejection) -> Self {
        match rejection.status() {
            StatusCode::PAYLOAD_TOO_LARGE => {
                Self::new(Code::BodyTooLarge, "The request body is larger than this call accepts.")
            }
            _ => Self::new(Code::BodyBroken, "The request body ended early."),
        }
    }
}

impl From<QueryRejection> for Error {
    fn from(rejection: QueryRejection) -> Self {
        let text = rejection.body_text();
        let what = text.split_once(": ").map_or(text.as_str(), |(_, what)| what);
        Self::new(Code::InvalidQuery, format!("Invalid query string: {what}."))
    }
}

impl From<PathRejection> for Error {
    fn from(_: PathRejection) -> Self {
        Self::new(Code::NotFound, "No route matches this path.")
    }
}
