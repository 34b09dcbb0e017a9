//! The timeout of a request body: how long it may stall, and how slow it may be on average.
//!
//! Holds throughout: a client that stalls or drips is cut off with `TimedOut`, however large its body; so
//! an upload takes bounded time for its bytes.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{self, Stream, StreamExt as _};
use windrow_engine::clock::Clock;

use crate::options::Options;

/// The rate is not checked before this: a connection may start slowly.
const START_MS: u64 = 60_000;

/// The timeout of one body.
#[derive(Clone, Debug)]
pub(crate) struct BodyTimeout {
    clock: Clock,
    idle: Duration,
    bytes_per_sec_min: u64,
}

impl BodyTimeout {
    pub(crate) fn new(clock: Clock, options: &Options) -> Self {
        Self {
            clock,
            idle: options.body_idle_timeout,
            bytes_per_sec_min: options.body_bytes_per_sec_min,
        }
    }

    /// The same bytes, as long as they arrive fast enough.
    pub(crate) fn watch<'a>(
        self,
        bytes: impl Stream<Item = io::Result<Bytes>> + Send + 'a,
    ) -> impl Stream<Item = io::Result<Bytes>> + Send + Unpin + 'a {
        let began_ms = self.clock.millis();
        let watched = (self, Box::pin(bytes), 0_u64, false);
        Box::pin(stream::unfold(
            watched,
            move |(body_timeout, mut bytes, mut sum, over)| async move {
                if over {
                    return None;
                }
                let next = tokio::select! {
                    // Bytes that are there already are in time, however late they are read.
                    biased;
                    next = bytes.next() => next?,
                    () = body_timeout.clock.sleep(body_timeout.idle) => Err(too_slow()),
                };
                let next = next.and_then(|piece| {
                    sum = sum.saturating_add(piece.len() as u64);
                    if body_timeout.is_slow(began_ms, sum) { Err(too_slow()) } else { Ok(piece) }
                });
                let over = next.is_err();
                Some((next, (body_timeout, bytes, sum, over)))
            },
        ))
    }

    fn is_slow(&self, began_ms: u64, sum: u64) -> bool {
        let took_ms = self.clock.millis().saturating_sub(began_ms);
        took_ms > START_MS && sum < (took_ms / 1000).saturating_mul(self.bytes_per_sec_min)
    }
}

fn too_slow() -> io::Error {
    io::Error::from(io::ErrorKind::TimedOut)
}
