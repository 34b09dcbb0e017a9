//! Refusals as the description has them: one shape, whatever the status.

use std::collections::BTreeMap;

use utoipa::IntoResponses;
use utoipa::openapi::response::{Response, ResponseBuilder};
use utoipa::openapi::{ContentBuilder, Ref, RefOr};

/// What may come back from every call that takes a key.
pub(super) const OF_EVERY_CALL: [(u16, &str); 6] = [
    (400, BadRequest::WHAT),
    (401, "There is no key, or not one that is known."),
    (403, "The key may not do this."),
    (429, "More than this owner may have, or more often; `code` says which."),
    (500, "Something went wrong here; the log has it under the request's id."),
    (503, "The database cannot be reached right now."),
];

/// An answer in the shape of all errors.
pub(super) fn refusal(what: &str) -> Response {
    let shape = ContentBuilder::new().schema(Some(Ref::from_schema_name("Error"))).build();
    ResponseBuilder::new().description(what).content("application/json", shape).build()
}

/// Makes of each a name that a route's description can list.
macro_rules! error_responses {
    ($($name:ident = $status:literal, $what:literal;)*) => {
        $(pub(crate) struct $name;

        impl $name {
            #[allow(dead_code, reason = "not each is said of every call as well")]
            pub(crate) const WHAT: &str = $what;
        }

        impl IntoResponses for $name {
            fn responses() -> BTreeMap<String, RefOr<Response>> {
                BTreeMap::from([($status.to_owned(), RefOr::T(refusal($what)))])
            }
        })*
    };
}

error_responses! {
    BadRequest = "400", "What was sent is not right; `param` says which part of it, and `message` why.";
    NotFound = "404", "There is no such thing, or it is somebody else's.";
    RequestTimeout = "408", "The body did not come in time.";
    PayloadTooLarge = "413", "The body is larger than this call takes.";
    UnsupportedMediaType = "415", "The body is not of the content type that this call takes.";
    RangeNotSatisfiable = "416", "There are no bytes in that range.";
    InternalError = "500", "Something went wrong here; the log has it under the request's id.";
    Unavailable = "503", "The database cannot be reached right now.";
}
