//! What the messages API reads from requests in its own way, and how it reports the store's errors.

use windrow_domain::Stream;
use windrow_store::Kind;

use crate::error::{Code, Error, Result};
use crate::params::none_if_empty;

/// The name of a stream.
pub(super) fn stream(name: impl Into<String>) -> Result<Stream> {
    Stream::new(name).map_err(|bad| Error::invalid("stream", format!("The {bad}.")))
}

/// The stream that a path names before its last segment; 404 with `message` when that is another one.
pub(super) fn stream_before(last: &str, mut names: Vec<String>, message: &str) -> Result<Stream> {
    match names.pop() {
        Some(name) if name == last => stream(names.join("/")),
        _ => Err(Error::new(Code::NotFound, message)),
    }
}

/// A filter by stream; an empty text is none.
pub(super) fn optional_stream(name: Option<String>) -> Result<Option<Stream>> {
    none_if_empty(name).map(stream).transpose()
}

/// The API's error for an error of the message store.
pub(super) fn into_api_error(error: windrow_store::Error) -> Error {
    match error.kind {
        Kind::Refused => messages_not_set_up(),
        Kind::Invalid => {
            let field = error.subject.clone();
            Error::from(error).at(field)
        }
        _ => error.into(),
    }
}

/// The error of a database that no message runner has set up.
fn messages_not_set_up() -> Error {
    let message = "Messages are not set up on this database; `windrow serve` sets them up when it \
                   starts with a runner. Retry once it has.";
    Error::new(Code::MessagesNotSetUp, message).retry_after(5)
}
