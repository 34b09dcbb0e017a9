//! The body of an answer, whole or in whatever bad shape the script wants it.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::time::{Sleep, sleep};

use super::InFlight;

/// How much of a big body is made at once.
const PIECE_BYTES: usize = 64 * 1024;

static PIECE: [u8; PIECE_BYTES] = [b'x'; PIECE_BYTES];

/// A body that is sent as the script says.
#[derive(Debug)]
pub(super) struct Content {
    shape: Shape,
    /// Held until the body is gone.
    _in_flight: Option<InFlight>,
}

#[derive(Debug)]
pub(super) enum Shape {
    /// All of it, at once.
    Whole(Option<Bytes>),
    /// A piece, then an error where more was promised.
    Cut { piece: Option<Bytes>, flushed: bool },
    /// A piece, then nothing for ever.
    Stuck(Option<Bytes>),
    /// A JSON string of `len` bytes.
    Big { len: u64, sent: u64, told: bool },
    /// A JSON string of equal pieces, each after a pause.
    Drip { bytes: usize, pieces: usize, sent: usize, every: Duration, pause: Pin<Box<Sleep>> },
}

impl From<Shape> for Content {
    fn from(shape: Shape) -> Self {
        Self { shape, _in_flight: None }
    }
}

impl Content {
    /// The request is in flight as long as its body is. A whole one counts as sent: its client may
    /// come back with the next request before this side has let go of it.
    pub(super) fn keep(&mut self, in_flight: InFlight) {
        if !matches!(self.shape, Shape::Whole(_)) {
            self._in_flight = Some(in_flight);
        }
    }
}

impl Shape {
    pub(super) fn drip(bytes: usize, pieces: usize, every: Duration) -> Self {
        Shape::Drip { bytes, pieces, sent: 0, every, pause: Box::pin(sleep(every)) }
    }
}

/// A part of a JSON string of `len` bytes, from `sent` on.
fn part(len: u64, sent: u64) -> Bytes {
    let left = usize::try_from(len - sent).unwrap_or(usize::MAX);
    let size = left.min(PIECE_BYTES);
    if sent > 0 && left > size {
        return Bytes::from_static(&PIECE[..size]);
    }
    let mut piece = PIECE[..size].to_vec();
    if let (0, Some(first)) = (sent, piece.first_mut()) {
        *first = b'"';
    }
    if let (true, Some(last)) = (left == size, piece.last_mut()) {
        *last = b'"';
    }
    piece.into()
}

impl Body for Content {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let data = |bytes| Poll::Ready(Some(Ok(Frame::data(bytes))));
        match &mut self.get_mut().shape {
            Shape::Whole(body) => body.take().map_or(Poll::Ready(None), data),
            Shape::Cut { piece, flushed } => match piece.take() {
                Some(piece) => data(piece),
                // An error at once would drop what was not sent yet, the head too.
                None if !std::mem::replace(flushed, true) => {
                    cx.waker().wake_by_ref();
                    Poll::Pending
                }
                None => Poll::Ready(Some(Err(io::Error::other("the script closes here")))),
            },
            Shape::Stuck(piece) => piece.take().map_or(Poll::Pending, data),
            Shape::Big { len, sent, .. } if *sent >= *len => Poll::Ready(None),
            Shape::Big { len, sent, .. } => {
                let piece = part(*len, *sent);
                *sent += piece.len() as u64;
                data(piece)
            }
            Shape::Drip { pieces, sent, .. } if *sent >= *pieces => Poll::Ready(None),
            Shape::Drip { bytes, pieces, sent, every, pause } => {
                if pause.as_mut().poll(cx).is_pending() {
                    return Poll::Pending;
                }
                *pause = Box::pin(sleep(*every));
                let mut piece = vec![b'x'; (*bytes).max(1)];
                *sent += 1;
                if *sent == 1 {
                    piece.insert(0, b'"');
                }
                if sent == pieces {
                    piece.push(b'"');
                }
                data(piece.into())
            }
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.shape {
            Shape::Whole(body) => {
                SizeHint::with_exact(body.as_ref().map_or(0, |body| body.len() as u64))
            }
            Shape::Big { len, sent, told: true } => SizeHint::with_exact(len - sent),
            _ => SizeHint::default(),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.shape, Shape::Whole(None))
    }
}
