//! Callers that stop half way: a call that is polled a few times, or for a moment, and dropped.
//!
//! Holds throughout: where a call is cut off is luck, and no case depends on it: each of them holds
//! wherever the cut falls. Real time passes here, and in cases of `message/` that wait with
//! `a_moment`.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

/// How long a caller waits for its call before it drops it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CancelAfter {
    /// So many polls.
    Polls(u32),
    /// So many milliseconds.
    Millis(u64),
}

impl CancelAfter {
    /// From not at all to longer than most calls take.
    pub(crate) fn growing() -> impl Iterator<Item = Self> {
        let polls = (0..10).chain([12, 16, 24, 40]).map(CancelAfter::Polls);
        polls.chain([0, 1, 2, 3, 5, 8, 13, 25, 50].map(CancelAfter::Millis))
    }

    /// Runs the call as long as that, and then drops it, as a process that stops would.
    pub(crate) async fn run<T>(self, call: impl Future<Output = T>) {
        match self {
            CancelAfter::Polls(polls) => poll_at_most(call, polls).await,
            CancelAfter::Millis(ms) => {
                drop(tokio::time::timeout(Duration::from_millis(ms), call).await);
            }
        }
    }
}

async fn poll_at_most<T>(call: impl Future<Output = T>, polls: u32) {
    let mut call = pin!(call);
    let mut left = polls;
    poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(());
        }
        left -= 1;
        call.as_mut().poll(context).map(drop)
    })
    .await;
}
