//! A request's body that knows whether its connection has asked for it: then the request is being written. It
//! asks the gate of its line first, and is not given once that has closed.
//!
//! Holds throughout: until then the request can be withdrawn, wherever it waits: for a connection, for one that
//! another request has, or for a stream of an HTTP/2 connection whose server allows few of them. What a
//! connection has taken on already and cannot forget (a stream that waits to be opened) arrives without its body
//! and is reset: it is no request.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use crate::execute::Gate;

/// Whether a request is being written, or was.
#[derive(Clone, Debug)]
pub(crate) struct SentMark(Arc<AtomicBool>);

impl SentMark {
    /// Whether it may have reached its target.
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// A body of these bytes behind that gate, and its mark.
pub(crate) fn marked(bytes: Bytes, gate: &Gate) -> (reqwest::Body, SentMark) {
    let mark = SentMark(Arc::default());
    let body = MarkedBody { bytes: Some(bytes), mark: mark.clone(), gate: gate.clone() };
    (reqwest::Body::wrap(body), mark)
}

/// The gate had closed when the body was asked for.
#[derive(Debug, thiserror::Error)]
#[error("the request was withdrawn before it was written")]
pub(crate) struct Withdrawn;

/// The mark of a request without a body: nothing tells when it is written, so it counts as sent once it was
/// begun.
pub(crate) fn unmarked() -> SentMark {
    SentMark(Arc::new(AtomicBool::new(true)))
}

struct MarkedBody {
    bytes: Option<Bytes>,
    mark: SentMark,
    gate: Gate,
}

impl Body for MarkedBody {
    type Data = Bytes;
    type Error = Withdrawn;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Withdrawn>>> {
        if !self.mark.is_set() && !self.gate.is_open() {
            return Poll::Ready(Some(Err(Withdrawn)));
        }
        self.mark.0.store(true, Ordering::Release);
        Poll::Ready(self.bytes.take().map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
    }
}
