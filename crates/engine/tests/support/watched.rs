//! A store that passes every verb on, remembers which were asked, and holds one back on demand.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use tokio::sync::watch;
use windrow_store::layer::{LayeredStore, StoreLayer};
use windrow_store::record::{Reply, Turn};
use windrow_store::{Kind, Result, Store};

/// How a turn that claims is remembered.
pub(crate) const CLAIM: &str = "turn with a claim";

/// Held back, it is every verb: the store does not answer.
#[allow(dead_code, reason = "not every test program needs it")]
pub(crate) const EVERY: &str = "every verb";

/// Remembers and holds back.
pub(crate) struct Watched {
    asked: Mutex<Vec<&'static str>>,
    /// The verb that is held back.
    held: watch::Sender<Option<&'static str>>,
}

impl Watched {
    pub(crate) fn layer(inner: Arc<dyn Store>) -> Arc<LayeredStore<Self>> {
        let (asked, held) = (Mutex::new(Vec::new()), watch::Sender::new(None));
        Arc::new(LayeredStore::new(inner, Self { asked, held }))
    }

    /// Calls of this verb are not passed on until another one is held, or none.
    pub(crate) fn hold(&self, verb: Option<&'static str>) {
        self.held.send_replace(verb);
    }

    /// How often the verb was asked, passed on or not.
    pub(crate) fn asked(&self, verb: &str) -> usize {
        self.asked.lock().unwrap().iter().filter(|asked| **asked == verb).count()
    }

    /// How often anything was asked.
    pub(crate) fn asked_any(&self) -> usize {
        self.asked.lock().unwrap().len()
    }
}

#[async_trait]
impl StoreLayer for Watched {
    type Span = ();

    async fn begin(&self, verb: &'static str) {
        self.asked.lock().unwrap().push(verb);
        let mut held = self.held.subscribe();
        let is_held = |held: Option<&str>| held == Some(verb) || held == Some(EVERY);
        held.wait_for(|held| !is_held(*held)).await.unwrap();
    }

    fn end(&self, (): (), _: &'static str, _: Option<Kind>) {}

    async fn turn(&self, inner: &dyn Store, turn: Turn) -> Result<Reply> {
        self.begin(if turn.claim.is_some() { CLAIM } else { "turn" }).await;
        inner.turn(turn).await
    }
}
