//! A world whose time is in the test's hands: the store's clock and the engine's move together.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use windrow_domain::BatchId;
use windrow_engine::clock::Clock;
use windrow_engine::signal::Stop;
use windrow_engine::{Builder, Engine, Options};
use windrow_store::batch::Batch;
use windrow_store::{Inspect as _, Scope, Store, Sweep as _, Time};
use windrow_store_sqlite::SqliteStore;

use super::store_at;

/// Looks at the world this often, in its own time.
pub(crate) const TICK_MS: u64 = 50;
/// A test that needs more of its own time than this has failed.
const TICKS_MAX: u32 = 10_000;

pub(crate) struct World {
    pub(crate) store: Arc<SqliteStore>,
    pub(crate) clock: Clock,
    pub(crate) stop: Stop,
    time: Time,
}

impl World {
    pub(crate) async fn new() -> Self {
        let start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let time = Time::given(start);
        let store = store_at(time.clone()).await;
        Self { store, time, clock: Clock::manual(start), stop: Stop::new() }
    }

    pub(crate) fn engine(&self) -> Builder {
        self.engine_on(self.store.clone())
    }

    /// One that reaches this world's store through another.
    pub(crate) fn engine_on(&self, store: Arc<dyn Store>) -> Builder {
        let (clock, stop) = (self.clock.clone(), self.stop.clone());
        let builder = Engine::builder(store).clock(clock).stop(stop);
        builder.options(Options::default()).seed(7)
    }

    pub(crate) async fn see(&self, batch: BatchId) -> Batch {
        self.store.batch(&Scope::All, batch).await.unwrap()
    }

    /// Moves time on, tick by tick, until the batch is so; gives how long it took.
    pub(crate) async fn until(&self, batch: BatchId, is: impl Fn(&Batch) -> bool) -> Duration {
        for tick in 0..TICKS_MAX {
            if is(&self.see(batch).await) {
                return Duration::from_millis(TICK_MS * u64::from(tick));
            }
            self.tick().await;
        }
        panic!("{:?}", self.see(batch).await);
    }

    /// The same, until something else is so.
    pub(crate) async fn until_so(&self, what: &str, mut is: impl FnMut() -> bool) {
        for _ in 0..TICKS_MAX {
            if is() {
                return;
            }
            self.tick().await;
        }
        panic!("{what} did not happen");
    }

    /// Lets that much time pass.
    pub(crate) async fn pass(&self, time: Duration) {
        for _ in 0..time.as_millis().div_ceil(TICK_MS.into()) {
            self.tick().await;
        }
    }

    pub(crate) async fn tick(&self) {
        self.move_on(Duration::from_millis(TICK_MS)).await;
    }

    /// Moves time by one step of that length.
    pub(crate) async fn move_on(&self, step: Duration) {
        self.time.advance(step);
        self.clock.advance(step);
        // The engine's tasks see the new time before the next look, and what they asked the store,
        // which is a thread of its own, is answered: its writes go in order.
        for _ in 0..3 {
            for _ in 0..20 {
                tokio::task::yield_now().await;
            }
            // A write that changes nothing.
            self.store.return_lost(0, 1).await.unwrap();
        }
    }

    pub(crate) async fn closes(&self, batch: BatchId) -> Duration {
        let took = self.until(batch, |batch| batch.state.is_closed()).await;
        self.store.verify(batch).await.unwrap().check().unwrap();
        self.stop.give();
        took
    }
}
