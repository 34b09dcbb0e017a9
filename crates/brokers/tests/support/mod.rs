//! What the tests of all brokers share: messages, and an inbox that can be told to fail.

#![allow(dead_code, reason = "each test program uses its part")]

use std::collections::{BTreeMap, HashSet};
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use jiff::Timestamp;
use tokio::sync::watch;
use tokio::task::{JoinSet, spawn_blocking};
use windrow_domain::Owner;
use windrow_domain::attempt::Failure;
use windrow_engine::clock::Clock;
use windrow_engine::deliver::{Inbox, IncomingMessage, OutgoingMessage, Publisher};
use windrow_store::{Error, Kind};

/// Longest wait for anything; a test that needs it has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);
/// Tries of one message, with a short wait between them: longer than any restart takes.
const TRIES_MAX: u32 = 900;
const TRY_MS: u64 = 100;

/// Message number `n` of a stream.
pub(crate) fn outgoing(stream: &str, n: usize) -> OutgoingMessage {
    OutgoingMessage {
        id: format!("{stream}-{n}"),
        owner: Owner::new("acme").unwrap(),
        stream: stream.to_owned(),
        kind: "order.placed".to_owned(),
        payload: Bytes::from(n.to_string()),
        headers: BTreeMap::from([("traceparent".to_owned(), "00-1".to_owned())]),
        sent_at: Timestamp::from_second(1_794_792_285).unwrap(),
        attempt: 1,
    }
}

/// Publishes as a runner does: again until it is taken.
pub(crate) async fn insist(publisher: &impl Publisher, outgoing: &OutgoingMessage) -> u32 {
    let clock = Clock::machine();
    let mut last: Option<Failure> = None;
    for attempts in 0..TRIES_MAX {
        match publisher.publish(outgoing).await {
            Ok(()) => return attempts,
            Err(failure) => last = Some(failure),
        }
        clock.sleep(Duration::from_millis(TRY_MS)).await;
    }
    panic!("it was never taken: {last:?}");
}

/// Publishes the messages of stream `s` one after the other for as long as the work takes and some
/// more; how many there are, and what the work gave. Some tries must fail meanwhile, or the work was
/// not in their way.
pub(crate) async fn publish_during<T: Send + 'static>(
    publisher: Arc<impl Publisher>,
    work: impl FnOnce() -> T + Send + 'static,
) -> (usize, T) {
    insist(&*publisher, &outgoing("s", 0)).await;
    let over = Arc::new(AtomicBool::new(false));
    let seen = over.clone();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let (mut count, mut failed, mut more) = (1, 0, 50);
        while more > 0 {
            failed += insist(&*publisher, &outgoing("s", count)).await;
            count += 1;
            more -= usize::from(seen.load(Ordering::SeqCst));
        }
        (count, failed)
    });
    let done = in_time(spawn_blocking(work)).await.unwrap();
    over.store(true, Ordering::SeqCst);
    let (count, failed) = in_time(tasks.join_next()).await.unwrap().unwrap();
    assert!(failed > 0, "{count} were published, and nothing was in their way");
    (count, done)
}

/// Waits no longer than a test may.
pub(crate) async fn in_time<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, work).await.expect("it should have happened by now")
}

/// Messages by stream, in the order in which each was first seen.
pub(crate) fn by_stream(seen: &[(String, String)]) -> BTreeMap<String, Vec<usize>> {
    let mut known = HashSet::new();
    let mut streams: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for pair in seen {
        if known.insert(pair.clone()) {
            let numbers = streams.entry(pair.0.clone()).or_default();
            numbers.push(pair.1.parse().expect("payloads are numbers"));
        }
    }
    streams
}

/// An inbox in memory. It knows repeats, fails as often as it is told, and refuses what says so.
#[derive(Debug)]
pub(crate) struct Memory {
    inner: Mutex<Inner>,
    count: watch::Sender<usize>,
}

#[derive(Debug, Default)]
struct Inner {
    taken: Vec<IncomingMessage>,
    ids: HashSet<String>,
    repeats: usize,
    failures_left: usize,
    failed: usize,
}

impl Default for Memory {
    fn default() -> Self {
        Self { inner: Mutex::default(), count: watch::Sender::new(0) }
    }
}

impl Memory {
    /// Fails the next calls.
    pub(crate) fn fail(&self, times: usize) {
        self.inner.lock().unwrap().failures_left = times;
    }

    /// How many calls failed.
    pub(crate) fn failed(&self) -> usize {
        self.inner.lock().unwrap().failed
    }

    /// What it has, in order.
    pub(crate) fn taken(&self) -> Vec<IncomingMessage> {
        self.inner.lock().unwrap().taken.clone()
    }

    /// The same as stream and payload.
    pub(crate) fn pairs(&self) -> Vec<(String, String)> {
        let text = |a: IncomingMessage| (a.stream, String::from_utf8(a.payload.to_vec()).unwrap());
        self.taken().into_iter().map(text).collect()
    }

    /// Waits until it has that many.
    pub(crate) async fn has(&self, count: usize) {
        let mut watch = self.count.subscribe();
        in_time(watch.wait_for(|have| *have >= count)).await.unwrap();
    }

    /// Waits until that many calls failed.
    pub(crate) async fn has_failed(&self, times: usize) {
        let clock = Clock::machine();
        in_time(async {
            while self.failed() < times {
                clock.sleep(Duration::from_millis(10)).await;
            }
        })
        .await;
    }
}

#[async_trait]
impl Inbox for Memory {
    async fn accept(&self, arrived: Vec<IncomingMessage>) -> Result<(), Error> {
        let mut inner = self.inner.lock().unwrap();
        if inner.failures_left > 0 {
            inner.failures_left -= 1;
            inner.failed += 1;
            return Err(Error::new(Kind::Unavailable, "accept", "messages"));
        }
        if arrived.iter().any(|message| message.headers.contains_key("refused")) {
            return Err(Error::new(Kind::Invalid, "accept", "messages"));
        }
        for message in arrived {
            if inner.ids.insert(message.id.clone()) {
                inner.taken.push(message);
            } else {
                inner.repeats += 1;
            }
        }
        self.count.send_replace(inner.taken.len());
        Ok(())
    }
}
