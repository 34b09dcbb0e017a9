//! Those who write while things go wrong, and one who reads along.
//!
//! Holds throughout: a writer sends the next message of a stream when it knows that the last is there;
//! what it does not know it sends again under the same id.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::timeout;
use windrow::domain::Queue;
use windrow::engine::clock::Clock;
use windrow::store::message::NewMessage;
use windrow::store::{Retry, Scope, Store};
use windrow_fault::{fixture, wait};

use crate::{WITHIN, numbered};

const WRITERS: usize = 4;
const STREAMS: usize = 200;
/// One send in so many is cut off half way.
const CUT_ONE_IN: u8 = 4;
const SEND_WITHIN: Duration = Duration::from_secs(10);

/// What they wrote.
pub(crate) struct Written {
    /// How many messages each stream got.
    pub(crate) streams: BTreeMap<String, u64>,
    /// How many sends were repeated.
    pub(crate) repeats: u64,
}

/// The writers, and the reader of everything that comes of it.
pub(crate) struct Writers {
    writers: JoinSet<Written>,
    reader: JoinSet<BTreeMap<String, u64>>,
    stop: Arc<AtomicBool>,
    /// How many events there are in the end.
    wanted: Arc<AtomicU64>,
}

impl Writers {
    /// Starts them, each with a way of its own to a database.
    pub(crate) async fn start(database: &str, look: &str, seed: u64) -> Self {
        let (stop, wanted) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(u64::MAX)));
        let mut writers = JoinSet::new();
        for no in 0..WRITERS {
            let store = fixture::open(database).await.unwrap();
            let (dice, stop) = (fastrand::Rng::with_seed(seed ^ (no as u64 + 1)), stop.clone());
            writers.spawn(async move { write(&*store, no, dice, &stop).await });
        }
        let (store, until) = (fixture::open(look).await.unwrap(), wanted.clone());
        let mut reader = JoinSet::new();
        reader.spawn(async move { follow(&*store, &until).await });
        Self { writers, reader, stop, wanted }
    }

    /// Lets them finish what they are at.
    pub(crate) async fn finish(&mut self) -> Written {
        self.stop.store(true, Ordering::SeqCst);
        let mut all = Written { streams: BTreeMap::new(), repeats: 0 };
        while let Some(written) = self.writers.join_next().await {
            let written = written.unwrap();
            all.streams.extend(written.streams);
            all.repeats += written.repeats;
        }
        assert!(all.streams.len() > STREAMS / 2, "{} streams were written", all.streams.len());
        all
    }

    /// When everything has settled: what was read along is all that was written, in order.
    pub(crate) async fn check_read(mut self, written: &Written) {
        self.wanted.store(written.streams.values().sum(), Ordering::SeqCst);
        let read = timeout(WITHIN, self.reader.join_next()).await.expect("the feed has an end");
        assert_eq!(read.unwrap().unwrap(), written.streams, "what the feed gave");
    }
}

async fn write(
    store: &dyn Store,
    writer: usize,
    mut dice: fastrand::Rng,
    stop: &AtomicBool,
) -> Written {
    let mut written = Written { streams: BTreeMap::new(), repeats: 0 };
    while !stop.load(Ordering::SeqCst) {
        let many = dice.usize(1..8);
        let messages = (0..many).map(|_| {
            let name = format!("s{}", dice.usize(0..STREAMS / WRITERS) * WRITERS + writer);
            let no = written.streams.entry(name.clone()).or_default();
            *no += 1;
            numbered(Queue::Inbox, &name, *no)
        });
        let messages: Vec<NewMessage> = messages.collect();
        written.repeats += insist(store, &messages, &mut dice).await;
        wait::pause(Duration::from_millis(dice.u64(5..40))).await;
    }
    written
}

/// Sends until it is known that they are there; gives how often that was repeated.
async fn insist(store: &dyn Store, messages: &[NewMessage], dice: &mut fastrand::Rng) -> u64 {
    let clock = Clock::machine();
    let mut repeats = 0;
    loop {
        let is_cut = dice.u8(0..CUT_ONE_IN) == 0;
        let within =
            if is_cut { Duration::from_micros(dice.u64(100..20_000)) } else { SEND_WITHIN };
        match timeout(within, store.send(messages.to_vec())).await {
            Ok(Ok(sent)) => {
                let duplicates = sent.iter().filter(|sent| sent.is_duplicate).count();
                assert!(duplicates == 0 || duplicates == sent.len(), "half of it: {sent:?}");
                return repeats;
            }
            Ok(Err(error)) => {
                assert_ne!(error.kind.retry(), Retry::Never, "{error:?}");
                wait::pause(Duration::from_millis(20)).await;
            }
            Err(_) => {}
        }
        repeats += 1;
        assert!(clock.elapsed() < WITHIN, "a send did not come through in {repeats} tries");
    }
}

/// Reads everything that happens, in the order of the feed, until that many events have come: gives how
/// many each stream had, which came one after the other.
async fn follow(store: &dyn Store, wanted: &AtomicU64) -> BTreeMap<String, u64> {
    let mut versions: BTreeMap<String, u64> = BTreeMap::new();
    let mut after = None;
    loop {
        let wanted = wanted.load(Ordering::SeqCst);
        let Ok(page) = store.read_all(&Scope::All, after.as_deref(), 500).await else {
            wait::pause(Duration::from_millis(100)).await;
            continue;
        };
        for event in &page.rows {
            let version = versions.entry(event.stream.as_str().to_owned()).or_default();
            *version += 1;
            assert_eq!(event.version, *version, "the feed skipped or repeated: {event:?}");
        }
        after = page.next;
        if page.rows.is_empty() {
            if versions.values().sum::<u64>() >= wanted {
                return versions;
            }
            wait::pause(Duration::from_millis(50)).await;
        }
    }
}
