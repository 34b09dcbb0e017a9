//! Errors as callers see them: one shape, `{"error": {"message", "type", "param", "code"}}`, and one
//! `match` from a store's [`Kind`] to a status.
//!
//! Holds throughout: what a caller did wrong is a 4xx that says what to do; what went wrong here is
//! logged with its causes, and told without them. A permanent conflict is a 400, never a 409: official
//! clients repeat a 409.

mod codes;

use axum::Json;
use axum::extract::rejection::{BytesRejection, JsonRejection, PathRejection, QueryRejection};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;
use windrow_store::Kind;

pub use codes::Code;

/// What a handler gives.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A request that was not fulfilled.
#[derive(Debug)]
pub struct Error {
    /// The stable word that programs match on; it decides the HTTP status.
    pub code: Code,
    /// A sentence for people.
    pub message: String,
    /// The field or parameter that is wrong.
    pub param: Option<String>,
    /// When the same request may succeed.
    pub retry_after_secs: Option<u64>,
    /// What went wrong, for the log only.
    cause: Option<String>,
}

/// A refusal, whatever the status.
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

/// The words of OpenAI's API for kinds of errors.
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

    /// A parameter that is wrong.
    pub fn invalid(param: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(Code::InvalidValue, message).at(param)
    }

    /// There is no such thing, or it is somebody else's.
    pub fn missing(what: &str, id: &str) -> Self {
        // What was asked for may be anything; it is shown as far as an id is long.
        let id: String = id.chars().take(80).collect();
        Self::new(Code::NotFound, format!("There is no {what} {id:?}."))
    }

    /// Something here went wrong.
    pub fn internal(cause: impl std::fmt::Display) -> Self {
        let message = "Something went wrong here; the log has it under this request's id.";
        let error = Self::new(Code::InternalError, message);
        Self { cause: Some(cause.to_string()), ..error }
    }

    /// A body that did not come in time.
    pub fn too_slow() -> Self {
        let message = "The body did not come in time.";
        Self::new(Code::BodyTooSlow, message)
    }

    /// An upload that fell silent, or came in too slowly on average.
    pub(crate) fn upload_too_slow() -> Self {
        let message = "The upload fell silent or was too slow; nothing of it is kept.";
        Self::new(Code::UploadTooSlow, message)
    }

    /// Which field or parameter it is about.
    #[must_use]
    pub fn at(mut self, param: impl Into<String>) -> Self {
        self.param = Some(param.into());
        self
    }

    /// When to come again.
    #[must_use]
    pub fn retry_after(mut self, secs: u64) -> Self {
        self.retry_after_secs = Some(secs);
        self
    }

    /// The HTTP status.
    pub fn status(&self) -> StatusCode {
        self.code.status()
    }

    /// The word of OpenAI's API for this kind of error.
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
                let what = format!("There is no such thing: {}.", error.subject);
                Self::new(Code::NotFound, what)
            }
            Kind::Conflict => Self::new(Code::Conflict, sentence(&causes)),
            Kind::Refused => Self::new(Code::Refused, sentence(&causes)),
            Kind::Invalid => Self::new(Code::InvalidValue, sentence(&causes)),
            Kind::Limited => {
                let what = "This owner has as many open batches as it may have; wait for one to end, \
                            or cancel one.";
                Self::new(Code::OpenBatchesExceeded, what)
            }
            Kind::Busy | Kind::Contended | Kind::Unavailable => {
                let what = "The database cannot be reached right now; try again in a moment.";
                let busy = Self::new(Code::Unavailable, what);
                Self { cause: Some(causes), ..busy.retry_after(1) }
            }
            Kind::LeaseLost | Kind::Corrupt => Self::internal(causes),
        }
    }
}

/// A cause as a sentence.
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
                Self::new(Code::InvalidJson, format!("The body is not right: {what}."))
            }
        }
    }
}

impl From<BytesRejection> for Error {
    fn from(rejection: BytesRejection) -> Self {
        match rejection.status() {
            StatusCode::PAYLOAD_TOO_LARGE => {
                Self::new(Code::BodyTooLarge, "The body is larger than this call takes.")
            }
            _ => Self::new(Code::BodyBroken, "The body broke off."),
        }
    }
}

impl From<QueryRejection> for Error {
    fn from(rejection: QueryRejection) -> Self {
        let text = rejection.body_text();
        let what = text.split_once(": ").map_or(text.as_str(), |(_, what)| what);
        Self::new(Code::InvalidQuery, format!("The query is not right: {what}."))
    }
}

impl From<PathRejection> for Error {
    fn from(_: PathRejection) -> Self {
        Self::new(Code::NotFound, "There is nothing at this path.")
    }
}
