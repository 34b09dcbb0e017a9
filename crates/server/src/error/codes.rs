//! Every error code that the API sends, with its HTTP status, its cause and its remedy.
//!
//! Holds throughout: a response can only have a code that is listed here, and a code always has the
//! same status. `docs/errors/codes.md` is written from this list. Codes are a public contract: a new
//! one may be added, one that is here keeps its text and its status.

use axum::http::StatusCode;
use serde::{Serialize, Serializer};

/// Makes the enum, its list and its texts of one table.
macro_rules! codes {
    ($($name:ident $code:literal $status:ident: $cause:literal, $remedy:literal;)*) => {
        /// The stable word that programs match on.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Code {
            $(
                #[doc = concat!("`", $code, "`: ", $cause)]
                #[doc = ""]
                #[doc = $remedy]
                $name,
            )*
        }

        impl Code {
            /// Every code, sorted by status and text.
            pub const ALL: &[Code] = &[$(Code::$name),*];

            /// The code as responses have it.
            pub const fn as_str(self) -> &'static str {
                match self { $(Code::$name => $code),* }
            }

            /// The HTTP status of a response with this code.
            pub const fn status(self) -> StatusCode {
                match self { $(Code::$name => StatusCode::$status),* }
            }

            /// When it happens.
            pub const fn cause(self) -> &'static str {
                match self { $(Code::$name => $cause),* }
            }

            /// What the caller should do.
            pub const fn remedy(self) -> &'static str {
                match self { $(Code::$name => $remedy),* }
            }
        }
    };
}

codes! {
    BodyBroken "body_broken" BAD_REQUEST:
        "The request body ended before its announced length.",
        "Send the request again.";
    CallAnswered "call_answered" BAD_REQUEST:
        "A call was to be cancelled that has its answer.",
        "Read the call; an answer is never replaced.";
    Conflict "conflict" BAD_REQUEST:
        "The object exists already with other content, or another object still needs it.",
        "Read the object and decide; the same request fails again.";
    FileInUse "file_in_use" BAD_REQUEST:
        "A file was to be deleted that a batch still needs.",
        "Wait until the batch has ended, or cancel it.";
    IdempotencyKeyReused "idempotency_key_reused" BAD_REQUEST:
        "The `Idempotency-Key` was used before for a different request.",
        "Use a new key for a new request.";
    InvalidForm "invalid_form" BAD_REQUEST:
        "The multipart form is malformed, truncated or too large outside its file.",
        "Correct the form; nothing of it was stored.";
    InvalidJson "invalid_json" BAD_REQUEST:
        "The body is not the JSON that this call takes: malformed, nested too deeply, or with a missing, unknown or mistyped field.",
        "Correct the body; `message` says where it fails.";
    InvalidPath "invalid_path" BAD_REQUEST:
        "A name in the path is not percent-encoded UTF-8.",
        "Encode the name.";
    InvalidQuery "invalid_query" BAD_REQUEST:
        "The query string cannot be read.",
        "Correct the parameter that `message` names.";
    InvalidValue "invalid_value" BAD_REQUEST:
        "A field, parameter or header has a value that is not allowed.",
        "Correct what `param` names; `message` says what is allowed.";
    JobNotClosed "job_not_closed" BAD_REQUEST:
        "A job was to be deleted that still runs.",
        "Cancel it first, or wait until it has ended.";
    MessageIdReused "message_id_reused" BAD_REQUEST:
        "A message with this id and other content was sent before; nothing was sent.",
        "Use a new id for a new message.";
    NoWorker "no_worker" BAD_REQUEST:
        "A job was to be driven on a server that runs no worker.",
        "Ask a server with a worker, or wait: workers elsewhere drive the job.";
    Refused "refused" BAD_REQUEST:
        "The state of the job or batch does not allow this operation.",
        "Read its state; the same request fails until the state changes.";
    UploadBroken "upload_broken" BAD_REQUEST:
        "An upload ended before its end; nothing of it is kept.",
        "Send the file again.";
    VersionConflict "version_conflict" BAD_REQUEST:
        "The stream is at another version than `expected`; nothing was appended.",
        "Read the stream from `Windrow-Actual-Version` and append again.";
    InvalidApiKey "invalid_api_key" UNAUTHORIZED:
        "The API key is unknown, revoked or expired.",
        "Send a valid key; `windrow keys create` makes one.";
    MissingApiKey "missing_api_key" UNAUTHORIZED:
        "The request has no API key.",
        "Send `Authorization: Bearer KEY`.";
    AdminOnly "admin_only" FORBIDDEN:
        "The call needs the key of an admin, or names another owner without one.",
        "Use an admin's key.";
    FeatureOff "feature_off" NOT_FOUND:
        "This server was started without the feature.",
        "Enable it in the configuration, or ask another server.";
    NotFound "not_found" NOT_FOUND:
        "The object or path does not exist, or the object belongs to another owner.",
        "Check the id and the key's owner.";
    UnknownObjectType "unknown_object_type" NOT_FOUND:
        "No service that runs messages here has objects of this type.",
        "Check the type; `message` lists those that are known.";
    MethodNotAllowed "method_not_allowed" METHOD_NOT_ALLOWED:
        "The path does not support this HTTP method.",
        "See `/docs` for the methods of the path.";
    BodyTooSlow "body_too_slow" REQUEST_TIMEOUT:
        "The request body did not arrive within `body_idle_ms_max`.",
        "Send the request again.";
    UploadTooSlow "upload_too_slow" REQUEST_TIMEOUT:
        "An upload stalled or was slower than `body_bytes_per_sec_min`; nothing of it is kept.",
        "Send the file again over a faster connection.";
    CallExpired "call_expired" GONE:
        "The call was answered, and its answer is no longer kept.",
        "Use a new `Idempotency-Key` to call again.";
    EventsPruned "events_pruned" GONE:
        "The requested events were pruned.",
        "Start from the snapshot at `Windrow-Snapshot-Version`, or read from `Windrow-First-Version`.";
    BodyTooLarge "body_too_large" PAYLOAD_TOO_LARGE:
        "The request body is larger than this call accepts.",
        "Send less at once.";
    FileTooLarge "file_too_large" PAYLOAD_TOO_LARGE:
        "The uploaded file is larger than `upload_bytes_max`.",
        "Split it into several files.";
    PayloadTooLarge "payload_too_large" PAYLOAD_TOO_LARGE:
        "The payload of a message or event is larger than 1 MiB.",
        "Store the data elsewhere and send a reference.";
    UnsupportedMediaType "unsupported_media_type" UNSUPPORTED_MEDIA_TYPE:
        "The `Content-Type` of the body is not one that this call accepts.",
        "Set one of those that `message` lists.";
    RangeNotSatisfiable "range_not_satisfiable" RANGE_NOT_SATISFIABLE:
        "The file has no bytes in the requested `Range`.",
        "Ask for a range within the size that `Content-Range` gives.";
    CallFailed "call_failed" UNPROCESSABLE_ENTITY:
        "The object answered the call with an error.",
        "See `message`; the answer to the same `Idempotency-Key` stays the same.";
    ChecksExceeded "checks_exceeded" TOO_MANY_REQUESTS:
        "Too many files are being validated at the same time.",
        "Retry after the seconds in `Retry-After`.";
    DownloadsExceeded "downloads_exceeded" TOO_MANY_REQUESTS:
        "Too many outputs are being built for readers at the same time.",
        "Retry after the seconds in `Retry-After`.";
    ExportsExceeded "exports_exceeded" TOO_MANY_REQUESTS:
        "Too many exports run at the same time.",
        "Retry after the seconds in `Retry-After`.";
    KickoffsExceeded "kickoffs_exceeded" TOO_MANY_REQUESTS:
        "Too many kickoffs run at the same time.",
        "Retry after the seconds in `Retry-After`.";
    ListenersExceeded "listeners_exceeded" TOO_MANY_REQUESTS:
        "Too many event streams are open at the same time.",
        "Close one, or retry after the seconds in `Retry-After`.";
    OpenBatchesExceeded "open_batches_exceeded" TOO_MANY_REQUESTS:
        "The owner has as many open batches as `open_batches_max` allows.",
        "Wait until one has ended, or cancel one.";
    RateLimitExceeded "rate_limit_exceeded" TOO_MANY_REQUESTS:
        "The owner sent more requests a second than `requests_per_sec_max` allows.",
        "Retry after the seconds in `Retry-After`.";
    UploadsExceeded "uploads_exceeded" TOO_MANY_REQUESTS:
        "Too many uploads run at the same time.",
        "Retry after the seconds in `Retry-After`.";
    InternalError "internal_error" INTERNAL_SERVER_ERROR:
        "The server failed; its log has the cause under the request's `X-Request-Id`.",
        "Report the request id to the operator.";
    MessagesNotSetUp "messages_not_set_up" SERVICE_UNAVAILABLE:
        "No message runner has set this database up yet.",
        "Start `windrow serve` with a runner, then retry.";
    Unavailable "unavailable" SERVICE_UNAVAILABLE:
        "The database is busy or cannot be reached.",
        "Retry after the seconds in `Retry-After`.";
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_sorted_and_no_two_are_alike() {
        let keys: Vec<_> = Code::ALL.iter().map(|code| (code.status(), code.as_str())).collect();
        assert!(keys.windows(2).all(|two| two[0] < two[1]), "{keys:?}");
    }
}
