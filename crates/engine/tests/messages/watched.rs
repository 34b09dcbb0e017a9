//! A store that counts what it is asked, and can lose calls and replies.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use windrow_store::layer::{LayeredStore, StoreLayer};
use windrow_store::{Error, Kind, Result, Store};

/// What happens to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Passes,
    /// It never comes to the database.
    Lost,
    /// It happens, and nobody hears of it.
    ReplyLost,
    /// The database answers that something is locked.
    Refused,
}

type Plan = Box<dyn Fn(&'static str, u64) -> Fate + Send + Sync>;

/// What is around it.
pub(crate) struct Watched {
    plan: Plan,
    counts: Mutex<BTreeMap<&'static str, u64>>,
    total: AtomicU64,
}

impl Watched {
    /// `plan` decides by the verb and how often it was asked before.
    pub(crate) fn new(
        inner: Arc<dyn Store>,
        plan: impl Fn(&'static str, u64) -> Fate + Send + Sync + 'static,
    ) -> Arc<LayeredStore<Self>> {
        let (counts, total) = (Mutex::default(), AtomicU64::new(0));
        Arc::new(LayeredStore::new(inner, Self { plan: Box::new(plan), counts, total }))
    }

    pub(crate) fn total(&self) -> u64 {
        self.total.load(Ordering::SeqCst)
    }

    pub(crate) fn counts(&self) -> BTreeMap<&'static str, u64> {
        self.counts.lock().unwrap().clone()
    }

    fn fate(&self, verb: &'static str) -> Fate {
        self.total.fetch_add(1, Ordering::SeqCst);
        let mut counts = self.counts.lock().unwrap();
        let count = counts.entry(verb).or_default();
        *count += 1;
        (self.plan)(verb, *count - 1)
    }
}

#[async_trait]
impl StoreLayer for Watched {
    type Span = ();

    async fn begin(&self, _: &'static str) {}

    fn end(&self, (): (), _: &'static str, _: Option<Kind>) {}

    async fn pass<T: Send>(
        &self,
        verb: &'static str,
        call: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        let lost = || Error::new(Kind::Unavailable, verb, "a lost call");
        match self.fate(verb) {
            Fate::Passes => call.await,
            Fate::Lost => Err(lost()),
            Fate::Refused => Err(Error::new(Kind::Busy, verb, "a call that collided")),
            Fate::ReplyLost => {
                call.await?;
                Err(lost())
            }
        }
    }
}
