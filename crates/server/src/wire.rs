//! The wire: a connection whose other end is not waited for without end.
//!
//! Holds throughout: the first bytes come in time, so that somebody who only connects, or sends no more
//! than the beginning of HTTP/2's greeting, holds no place (from the first byte of a head on, the HTTP
//! server itself counts the time); an answer of which nothing is taken for a while is given up, and
//! with it what it holds: an export's place, a page of results.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use windrow_engine::clock::Clock;

/// What HTTP/2 begins with. The server waits until it knows whether it is that.
const GREETING: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Longest time in which nothing of an answer is taken.
const ANSWER_IDLE: Duration = Duration::from_secs(120);

type Alarm = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A connection.
pub(crate) struct Wire<S> {
    stream: S,
    clock: Clock,
    /// Runs until it is known what is spoken.
    first: Option<Alarm>,
    /// How much of the greeting came.
    greeted: usize,
    /// Runs while nothing can be written.
    stalled: Option<Alarm>,
}

fn alarm(clock: &Clock, time: Duration) -> Alarm {
    let clock = clock.clone();
    Box::pin(async move { clock.sleep(time).await })
}

fn too_slow<T>() -> Poll<io::Result<T>> {
    Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
}

impl<S> Wire<S> {
    /// The first bytes are waited for so long.
    pub(crate) fn new(stream: S, clock: Clock, first: Duration) -> Self {
        let first = Some(alarm(&clock, first));
        Self { stream, clock, first, greeted: 0, stalled: None }
    }

    /// Looks at bytes that came, as long as they may be the greeting.
    fn look(&mut self, came: &[u8]) {
        let rest = &GREETING[self.greeted..];
        let same = came.iter().zip(rest).take_while(|(one, other)| one == other).count();
        self.greeted += same;
        if same < came.len() || self.greeted == GREETING.len() || came.is_empty() {
            self.first = None;
        }
    }

    /// Lets a write wait, but not without end.
    fn wait<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let clock = &self.clock;
        let stalled = self.stalled.get_or_insert_with(|| alarm(clock, ANSWER_IDLE));
        match stalled.as_mut().poll(context) {
            Poll::Ready(()) => too_slow(),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Wire<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let before = buffer.filled().len();
        let polled = Pin::new(&mut this.stream).poll_read(context, buffer);
        let Some(first) = &mut this.first else { return polled };
        match &polled {
            Poll::Ready(_) => this.look(&buffer.filled()[before..]),
            Poll::Pending if first.as_mut().poll(context).is_ready() => return too_slow(),
            Poll::Pending => {}
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Wire<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.wait(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, bytes);
        self.wait(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let ended = Pin::new(&mut self.stream).poll_shutdown(context);
        self.wait(context, ended)
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
        let mut wire = Wire::new(server, clock.clone(), HEAD);
        client.write_all(came).await.unwrap();
        let mut read = vec![0; came.len()];
        wire.read_exact(&mut read).await?;
        let mut more = [0; 1];
        tokio::select! {
            biased;
            more = wire.read(&mut more) => more.map(|_| read),
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
    async fn who_says_nothing_is_not_waited_for() {
        for came in [&b""[..], b"P", b"PRI * HTTP/2.0\r\n"] {
            let ended = read_after(came).await.unwrap_err();
            assert_eq!(ended.kind(), io::ErrorKind::TimedOut, "{came:?}");
        }
        // What comes then is for the HTTP server to wait for.
        for came in [&b"POST"[..], b"G", GREETING] {
            assert_eq!(read_after(came).await.unwrap(), came);
        }
    }

    #[tokio::test]
    async fn an_answer_that_nobody_takes_is_given_up() {
        let (_client, server) = duplex(64);
        let clock = Clock::manual(Timestamp::UNIX_EPOCH);
        let mut wire = Wire::new(server, clock.clone(), HEAD);
        let written = tokio::select! {
            biased;
            written = wire.write_all(&[0; 65]) => written,
            () = async {
                tokio::task::yield_now().await;
                clock.advance(ANSWER_IDLE);
                std::future::pending::<()>().await;
            } => unreachable!("it waits for ever"),
        };
        assert_eq!(written.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
}
