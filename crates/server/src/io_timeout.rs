//! A connection with timeouts on its first bytes and on its writes.
//!
//! Holds throughout: the first bytes arrive in time, so that a client that only connects, or sends no
//! more than a part of HTTP/2's preface, does not occupy a connection (from the first byte of a request
//! head on, the HTTP server counts the time itself); a response of which the client takes nothing for a
//! while is given up, and with it what it occupies: the permit of an export, a page of results.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use windrow_engine::clock::Clock;

/// What an HTTP/2 connection starts with. The HTTP server waits until it knows whether it is one.
const HTTP2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Longest time in which the client reads nothing of a response.
const RESPONSE_IDLE: Duration = Duration::from_secs(120);

type Timer = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A connection with timeouts.
pub(crate) struct TimeoutStream<S> {
    stream: S,
    clock: Clock,
    /// Runs until the protocol is known.
    first_bytes: Option<Timer>,
    /// How many bytes of the preface arrived.
    preface_seen: usize,
    /// Runs while nothing can be written.
    write_stall: Option<Timer>,
}

fn timer(clock: &Clock, time: Duration) -> Timer {
    let clock = clock.clone();
    Box::pin(async move { clock.sleep(time).await })
}

fn too_slow<T>() -> Poll<io::Result<T>> {
    Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
}

impl<S> TimeoutStream<S> {
    /// A connection whose first bytes must arrive within that time.
    pub(crate) fn new(stream: S, clock: Clock, first_bytes: Duration) -> Self {
        let first_bytes = Some(timer(&clock, first_bytes));
        Self { stream, clock, first_bytes, preface_seen: 0, write_stall: None }
    }

    /// Checks bytes that arrived, as long as they may be the preface.
    fn check_preface(&mut self, came: &[u8]) {
        let rest = &HTTP2_PREFACE[self.preface_seen..];
        let same = came.iter().zip(rest).take_while(|(one, other)| one == other).count();
        self.preface_seen += same;
        if same < came.len() || self.preface_seen == HTTP2_PREFACE.len() || came.is_empty() {
            self.first_bytes = None;
        }
    }

    /// Bounds the time that a write may be pending.
    fn bound_write<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.write_stall = None;
            return written;
        }
        let clock = &self.clock;
        let write_stall = self.write_stall.get_or_insert_with(|| timer(clock, RESPONSE_IDLE));
        match write_stall.as_mut().poll(context) {
            Poll::Ready(()) => too_slow(),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for TimeoutStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let before = buffer.filled().len();
        let polled = Pin::new(&mut this.stream).poll_read(context, buffer);
        let Some(first_bytes) = &mut this.first_bytes else { return polled };
        match &polled {
            Poll::Ready(_) => this.check_preface(&buffer.filled()[before..]),
            Poll::Pending if first_bytes.as_mut().poll(context).is_ready() => return too_slow(),
            Poll::Pending => {}
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for TimeoutStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.bound_write(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, bytes);
        self.bound_write(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let ended = Pin::new(&mut self.stream).poll_shutdown(context);
        self.bound_write(context, ended)
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;

    const HEAD: Duration = Duration::from_secs(15);

    /// What a connection gives on which this came, and then nothing for long.
    async fn read_after(came: &[u8]) -> io::Result<Vec<u8>> {
        let (mut client, server) = duplex(64);
        let clock = Clock::manual(Timestamp::UNIX_EPOCH);
        let mut stream = TimeoutStream::new(server, clock.clone(), HEAD);
        client.write_all(came).await.unwrap();
        let mut read = vec![0; came.len()];
        stream.read_exact(&mut read).await?;
        let mut more = [0; 1];
        tokio::select! {
            biased;
            more = stream.read(&mut more) => more.map(|_| read),
            () = async {
                tokio::task::yield_now().await;
                clock.advance(HEAD);
                std::future::pending::<()>().await;
            } => unreachable!("it waits for ever"),
            () = async {
                for _ in 0..10 {
                    tokio::task::yield_now().await;
                }
            } => Ok(read),
        }
    }

    #[tokio::test]
    async fn a_client_that_sends_nothing_is_cut_off() {
        for came in [&b""[..], b"P", b"PRI * HTTP/2.0\r\n"] {
            let ended = read_after(came).await.unwrap_err();
            assert_eq!(ended.kind(), io::ErrorKind::TimedOut, "{came:?}");
        }
        // What comes then is for the HTTP server to wait for.
        for came in [&b"POST"[..], b"G", HTTP2_PREFACE] {
            assert_eq!(read_after(came).await.unwrap(), came);
        }
    }

    #[tokio::test]
    async fn a_response_that_is_not_read_is_given_up() {
        let (_client, server) = duplex(64);
        let clock = Clock::manual(Timestamp::UNIX_EPOCH);
        let mut stream = TimeoutStream::new(server, clock.clone(), HEAD);
        let written = tokio::select! {
            biased;
            written = stream.write_all(&[0; 65]) => written,
            () = async {
                tokio::task::yield_now().await;
                clock.advance(RESPONSE_IDLE);
                std::future::pending::<()>().await;
            } => unreachable!("it waits for ever"),
        };
        assert_eq!(written.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
}
