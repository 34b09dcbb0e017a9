//! A multipart form as it arrives.
//!
//! Holds throughout: only so many bytes of a form are in memory, also before its first part and in the
//! headers of one, where the parser would buffer without end; a body that stalls or drips is cut off,
//! wherever in the form it does.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use axum::body::Body;
use axum::extract::multipart::{Field, MultipartError};
use axum::extract::{FromRequest as _, Multipart, Request};
use axum::http::StatusCode;
use bytes::Bytes;
use futures_util::stream::{self, Stream, StreamExt as _, TryStreamExt as _};

use crate::app::App;
use crate::body_timeout::BodyTimeout;
use crate::error::{Code, Error, Result};

/// Most bytes that the parser is given without a part, or a piece of one, coming out of it.
const UNREAD_BYTES_MAX: usize = 1 << 20;
/// After so many bytes the parser is made to parse what it has: by itself it buffers all there is
/// first.
const PASSED_BYTES_MAX: usize = 256 << 10;

/// A multipart form that is being read.
pub(crate) struct MultipartForm {
    multipart: Multipart,
    unread: Arc<AtomicUsize>,
}

/// A part of a form.
pub(crate) struct FormPart<'a> {
    field: Field<'a>,
    unread: &'a AtomicUsize,
}

impl MultipartForm {
    /// The form of a request; none when its body is something else.
    pub(crate) async fn from_request(app: &App, request: Request) -> Option<Self> {
        Self::read(BodyTimeout::new(app.clock.clone(), &app.options), request).await
    }

    async fn read(body_timeout: BodyTimeout, request: Request) -> Option<Self> {
        let unread = Arc::new(AtomicUsize::new(0));
        let request = request.map(|body| {
            let bytes = body_timeout.watch(body.into_data_stream().map_err(io::Error::other));
            Body::from_stream(bounded(bytes, unread.clone()))
        });
        let multipart = Multipart::from_request(request, &()).await.ok()?;
        Some(Self { multipart, unread })
    }

    /// The next part; none at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<FormPart<'_>>> {
        let field = self.multipart.next_field().await.map_err(|error| broken(&error))?;
        self.unread.store(0, Ordering::Relaxed);
        Ok(field.map(|field| FormPart { field, unread: &self.unread }))
    }
}

impl FormPart<'_> {
    pub(crate) fn name(&self) -> Option<&str> {
        self.field.name()
    }

    pub(crate) fn file_name(&self) -> Option<&str> {
        self.field.file_name()
    }

    /// The next piece of it; none at its end.
    pub(crate) async fn chunk(&mut self) -> Result<Option<Bytes>> {
        let piece = self.field.chunk().await.map_err(|error| broken(&error))?;
        self.unread.store(0, Ordering::Relaxed);
        Ok(piece)
    }
}

/// The same bytes, as long as the parser makes parts of them. The end comes in a poll of its own: the
/// parser asks twice for the first boundary, and takes a body that arrives whole in between for one
/// without any.
fn bounded(
    bytes: impl Stream<Item = io::Result<Bytes>> + Send + Unpin + 'static,
    unread: Arc<AtomicUsize>,
) -> impl Stream<Item = io::Result<Bytes>> + Send + 'static {
    let mut bytes = bytes.fuse();
    let mut passed = 0;
    stream::poll_fn(move |context| {
        if passed >= PASSED_BYTES_MAX {
            return parse_first(&mut passed, context);
        }
        let polled = bytes.poll_next_unpin(context);
        match &polled {
            Poll::Ready(Some(Ok(piece))) => {
                passed += piece.len();
                let before = unread.fetch_add(piece.len(), Ordering::Relaxed);
                if before > UNREAD_BYTES_MAX {
                    return Poll::Ready(Some(Err(io::ErrorKind::FileTooLarge.into())));
                }
            }
            Poll::Ready(None) if passed > 0 => return parse_first(&mut passed, context),
            Poll::Ready(_) => {}
            Poll::Pending => passed = 0,
        }
        polled
    })
}

/// Lets the parser parse what it was given before it is given more.
fn parse_first<T>(passed: &mut usize, context: &Context<'_>) -> Poll<T> {
    *passed = 0;
    context.waker().wake_by_ref();
    Poll::Pending
}

fn broken(error: &MultipartError) -> Error {
    match cause(error) {
        Some(io::ErrorKind::TimedOut) => return Error::upload_too_slow(),
        Some(io::ErrorKind::FileTooLarge) => {
            let message = "The form's preamble, or the headers of a part, are too long.";
            return Error::new(Code::InvalidForm, message);
        }
        _ => {}
    }
    let message = match error.status() {
        StatusCode::PAYLOAD_TOO_LARGE => "The form is too large.",
        _ => "The form is malformed or truncated; nothing of it was stored.",
    };
    Error::new(Code::InvalidForm, message)
}

/// The error of the body, below the parser's.
fn cause(error: &MultipartError) -> Option<io::ErrorKind> {
    let first = Some(error as &(dyn std::error::Error + 'static));
    let mut causes = std::iter::successors(first, |error| error.source());
    causes.find_map(|error| error.downcast_ref::<io::Error>()).map(io::Error::kind)
}

#[cfg(test)]
mod tests {
    use axum::extract::DefaultBodyLimit;
    use axum::http::header;
    use tower::{Layer as _, ServiceExt as _, service_fn};
    use windrow_engine::clock::Clock;

    use super::*;
    use crate::options::Options;

    /// A form that begins like this, and goes on and on.
    async fn endless(begin: &'static str) -> MultipartForm {
        let more = stream::repeat(Bytes::from_static(&[b'x'; 64 << 10]));
        let body = stream::once(async { Bytes::from_static(begin.as_bytes()) }).chain(more);
        form_of(Body::from_stream(body.map(Ok::<_, io::Error>))).await
    }

    async fn form_of(body: Body) -> MultipartForm {
        let request = Request::builder()
            .header(header::CONTENT_TYPE, "multipart/form-data; boundary=B")
            .body(body)
            .unwrap();
        // As the routes of uploads have it.
        let read = service_fn(|request| async {
            let body_timeout = BodyTimeout::new(Clock::machine(), &Options::default());
            Ok::<_, std::convert::Infallible>(MultipartForm::read(body_timeout, request).await)
        });
        DefaultBodyLimit::disable().layer(read).oneshot(request).await.unwrap().unwrap()
    }

    /// A form whose only piece and whose end arrive together, right after the parser found nothing.
    #[tokio::test]
    async fn a_body_that_arrives_while_it_is_asked_for_is_whole() {
        let text = "--B\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\nx\r\n--B--\r\n";
        let (mut asked, mut piece) = (false, Some(Bytes::from_static(text.as_bytes())));
        let body = stream::poll_fn(move |context| {
            if !std::mem::replace(&mut asked, true) {
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            Poll::Ready(piece.take().map(Ok::<_, io::Error>))
        });
        let mut form = form_of(Body::from_stream(body)).await;
        let mut part = form.next().await.unwrap().unwrap();
        assert_eq!(part.chunk().await.unwrap().unwrap(), "x");
    }

    #[tokio::test]
    async fn what_is_no_part_is_not_gathered_without_end() {
        for begin in ["", "--B\r\nX: ", "--B\r\nContent-Disposition: form-data; name=\""] {
            let mut form = endless(begin).await;
            let error = form.next().await.err().unwrap();
            assert_eq!(error.code, Code::InvalidForm, "{begin}");
        }
    }

    #[tokio::test]
    async fn a_part_may_be_as_long_as_it_likes() {
        let begin = "--B\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\n";
        let mut form = endless(begin).await;
        let mut part = form.next().await.unwrap().unwrap();
        let mut sum = 0;
        while sum < 16 * UNREAD_BYTES_MAX {
            let piece = part.chunk().await.unwrap().unwrap();
            assert!(piece.len() <= UNREAD_BYTES_MAX);
            sum += piece.len();
        }
    }
}
