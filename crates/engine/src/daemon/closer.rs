//! The closer: finalises the batches that ended, a few at a time, and tells subscribers.
//!
//! Holds throughout: no batch is finalised twice at the same time by this process (one holder has one
//! token, and the token names the outputs); subscribers and the cache hear of a closing only after
//! its commit; a batch whose outputs cannot be written is tried again, less and less often.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{broadcast, mpsc};
use tokio::task::JoinSet;
use tracing::Instrument as _;
use windrow_domain::BatchId;
use windrow_domain::backoff::Backoff;
use windrow_domain::millis;

use super::{EngineEvent, StatusCache};
use crate::clock::Clock;
use crate::finalise::{Closing, Error, Finaliser};
use crate::progress::Meter;
use crate::signal::Stop;
use windrow_store::error::chain;

/// Batches that wait to be closed; what does not fit is found by the sweep.
pub(super) const QUEUE_MAX: usize = 1024;
/// Batches that are closed at the same time.
const CLOSING_MAX: usize = 4;
/// Batches that failed to close and are tried again; others are found by the sweep.
const FAILED_MAX: usize = 64;
/// The waits after a closing that failed.
const BACKOFF: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60));

/// Takes batches that ended, has them finalised and reports their end.
pub(super) struct Closer {
    pub(super) finaliser: Arc<Finaliser>,
    pub(super) queue: mpsc::Receiver<BatchId>,
    pub(super) events: broadcast::Sender<EngineEvent>,
    pub(super) cache: StatusCache,
    pub(super) clock: Clock,
    pub(super) meter: Meter,
    closing: JoinSet<(BatchId, Result<Closing, Error>)>,
    under_way: HashSet<BatchId>,
    /// When to try again, and the waits if that fails too.
    failed: BTreeMap<BatchId, (u64, Backoff)>,
    closed: u64,
}

impl Closer {
    pub(super) fn new(
        finaliser: Arc<Finaliser>,
        queue: mpsc::Receiver<BatchId>,
        events: broadcast::Sender<EngineEvent>,
        cache: StatusCache,
        clock: Clock,
        meter: Meter,
    ) -> Self {
        Self {
            finaliser,
            queue,
            events,
            cache,
            clock,
            meter,
            closing: JoinSet::new(),
            under_way: HashSet::new(),
            failed: BTreeMap::new(),
            closed: 0,
        }
    }

    /// Closes batches until it is stopped and what was begun has ended. Gives how many it closed.
    pub(super) async fn run(mut self, stop: &Stop) -> u64 {
        while !(stop.is_given() && self.closing.is_empty() && self.queue.is_empty()) {
            self.step(stop).await;
        }
        self.closed
    }

    /// Begins what is due, then handles the next thing that happens.
    async fn step(&mut self, stop: &Stop) {
        let now = self.clock.millis();
        let waits = |batch: &BatchId| !self.under_way.contains(batch);
        let due = self.failed.iter().filter(|(batch, (at, _))| *at <= now && waits(batch));
        let room = CLOSING_MAX.saturating_sub(self.closing.len());
        let due: Vec<_> = due.map(|(batch, _)| *batch).take(room).collect();
        for batch in due {
            self.begin(batch);
        }
        let waiting = self.failed.iter().filter(|(batch, _)| !self.under_way.contains(batch));
        let next = waiting.map(|(_, (at, _))| *at).min().unwrap_or(u64::MAX);
        let has_room = self.closing.len() < CLOSING_MAX;
        tokio::select! {
            biased;
            Some(done) = self.closing.join_next() => {
                let (batch, closing) = done.expect("closing a batch does not panic");
                self.ended(batch, closing);
            }
            Some(batch) = self.queue.recv(), if has_room => self.begin(batch),
            () = self.clock.sleep_until(next), if has_room && !stop.is_given() => {}
            () = stop.given(), if self.closing.is_empty() => {}
        }
    }

    fn begin(&mut self, batch: BatchId) {
        if self.under_way.insert(batch) {
            let finaliser = self.finaliser.clone();
            let span = tracing::info_span!("finalise", batch.id = %batch);
            let closing = async move { (batch, finaliser.close(batch).await) };
            self.closing.spawn(closing.instrument(span));
        }
    }

    fn ended(&mut self, batch: BatchId, closing: Result<Closing, Error>) {
        self.under_way.remove(&batch);
        match closing {
            Ok(Closing::Closed(closed)) => {
                self.failed.remove(&batch);
                self.closed += 1;
                tracing::info!(%batch, state = %closed.state, "closed");
                self.cache.put(&closed, self.clock.millis());
                // There may be no subscriber.
                let _ = self.events.send(EngineEvent::Closed { batch: closed });
            }
            Ok(Closing::Left) => {
                self.failed.remove(&batch);
            }
            Err(error) => self.put_off(batch, &error),
        }
    }

    fn put_off(&mut self, batch: BatchId, error: &Error) {
        let sentence = chain(error);
        tracing::error!(%batch, error = %sentence, "could not close the batch; it is tried again");
        self.meter.set_store_trouble(Some(sentence.clone()));
        let mut backoff = self.failed.get(&batch).map_or(BACKOFF, |(_, backoff)| *backoff);
        if self.failed.len() < FAILED_MAX || self.failed.contains_key(&batch) {
            let wait = millis(backoff.next(1.0));
            let at = self.clock.millis().saturating_add(wait);
            self.failed.insert(batch, (at, backoff));
        }
        let _ = self.events.send(EngineEvent::OutputFailed { batch, error: sentence });
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::poll;
    use jiff::Timestamp;
    use windrow_domain::InstanceId;
    use windrow_store_sqlite::SqliteStore;

    use super::*;
    use crate::Options;

    /// A closer on a clock that stands still, and so many batches whose closing failed.
    async fn closer(failed: usize) -> (Closer, mpsc::Sender<BatchId>) {
        let store = SqliteStore::open(windrow_store_sqlite::Options::default()).await.unwrap();
        let clock = Clock::manual(Timestamp::UNIX_EPOCH);
        let options = Options::default();
        let finaliser =
            Finaliser::new(Arc::new(store), None, InstanceId::new(), clock.clone(), &options);
        let ((sender, queue), (events, _)) = (mpsc::channel(QUEUE_MAX), broadcast::channel(1));
        let (cache, meter) = (StatusCache::default(), Meter::default());
        let mut closer = Closer::new(Arc::new(finaliser), queue, events, cache, clock, meter);
        for _ in 0..failed {
            closer.failed.insert(BatchId::new(), (0, BACKOFF));
        }
        (closer, sender)
    }

    /// The closings themselves do not run before the test waits, so here they are under way for
    /// ever, like outputs on a disk that hangs.
    #[tokio::test]
    async fn it_rests_while_a_batch_that_failed_before_is_closed_again() {
        let (mut closer, _sender) = closer(1).await;
        let stop = Stop::new();
        assert!(poll!(pin!(closer.step(&stop))).is_pending(), "nothing happened, so it rests");
        assert_eq!(closer.closing.len(), 1);
        assert!(poll!(pin!(closer.step(&stop))).is_pending());
        assert_eq!(closer.closing.len(), 1, "one closing of a batch at a time");
    }

    #[tokio::test]
    async fn batches_that_failed_before_are_closed_a_few_at_a_time() {
        let (mut closer, sender) = closer(3 * CLOSING_MAX).await;
        let stop = Stop::new();
        sender.try_send(BatchId::new()).unwrap();
        for _ in 0..3 {
            assert!(poll!(pin!(closer.step(&stop))).is_pending());
            assert_eq!(closer.closing.len(), CLOSING_MAX);
        }
        // These batches are not there, so each closing ends with nothing to do.
        while !closer.failed.is_empty() {
            closer.step(&stop).await;
            assert!(closer.closing.len() <= CLOSING_MAX);
        }
        assert_eq!(closer.closed, 0);
    }

    #[tokio::test]
    async fn a_closing_that_fails_is_tried_again_less_and_less_often() {
        let (mut closer, _sender) = closer(0).await;
        let (batch, stop, mut waits) = (BatchId::new(), Stop::new(), Vec::new());
        for _ in 0..8 {
            let source =
                windrow_store::Error::new(windrow_store::Kind::Unavailable, "close", batch);
            let doing = "close it".to_owned();
            closer.ended(batch, Err(Error::Store { doing, source }));
            let (at, _) = closer.failed[&batch];
            let wait = at - closer.clock.millis();
            closer.clock.advance(std::time::Duration::from_millis(wait - 1));
            assert!(poll!(pin!(closer.step(&stop))).is_pending());
            assert!(closer.closing.is_empty(), "not before its time");
            closer.clock.advance(std::time::Duration::from_millis(1));
            waits.push(wait);
        }
        assert_eq!(waits, [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]);
    }
}
