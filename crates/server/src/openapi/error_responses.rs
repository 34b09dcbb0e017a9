//! Error responses, as the API description lists them: one shape, whatever the status.

use std::collections::BTreeMap;

use utoipa::IntoResponses;
use utoipa::openapi::response::{Response, ResponseBuilder};
use utoipa::openapi::{ContentBuilder, Ref, RefOr};

/// What every call with an API key may answer.
pub(super) const OF_EVERY_CALL: [(u16, &str); 6] = [
    (400, BadRequest::WHAT),
    (401, "The API key is missing, unknown, revoked or expired."),
    (403, "The API key does not allow this."),
    (429, "Too many requests, or too many at the same time; `code` says which."),
    (500, "Internal server error; the server's log has the cause under the request's id."),
    (503, "The database is unavailable."),
];

/// An answer in the shape of all errors.
pub(super) fn error_response(what: &str) -> Response {
    let shape = ContentBuilder::new().schema(Some(Ref::from_schema_name("Error"))).build();
    ResponseBuilder::new().description(what).content("application/json", shape).build()
}

/// Makes a type of each response, which the description of a route can list.
macro_rules! error_responses {
    ($($name:ident = $status:literal, $what:literal;)*) => {
        $(pub(crate) struct $name;

        impl $name {
            #[allow(dead_code, reason = "not each is said of every call as well")]
            pub(crate) const WHAT: &str = $what;
        }

        impl IntoResponses for $name {
            fn responses() -> BTreeMap<String, RefOr<Response>> {
                BTreeMap::from([($status.to_owned(), RefOr::T(error_response($what)))])
            }
        })*
    };
}

error_responses! {
    BadRequest = "400", "The request is invalid; `param` says which part of it, and `message` why.";
    NotFound = "404", "Not found, or it belongs to another owner.";
    RequestTimeout = "408", "The request body did not arrive in time.";
    PayloadTooLarge = "413", "The request body is larger than this call accepts.";
    UnsupportedMediaType = "415", "The `Content-Type` of the body is not one that this call accepts.";
    RangeNotSatisfiable = "416", "The file has no bytes in the requested range.";
    InternalError = "500", "Internal server error; the server's log has the cause under the request's id.";
    Unavailable = "503", "The database is unavailable.";
}
