//! Checks that this process and the database mean the same by the name of an upstream: the same host,
//! and the same key by its mark. Of one that differs, the worker claims nothing until a person decides.
//!
//! Holds throughout: what a process registers first stays what the upstream is, until a person says otherwise;
//! a key is compared by its mark and never stored or logged.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use windrow_domain::UpstreamId;
use windrow_domain::upstream::MarkSecret;
use windrow_store::error::chain;
use windrow_store::upstream::Upstream;
use windrow_store::{Result, Store};

use crate::clock::Clock;
use crate::execute::Executor;
use crate::member::Membership;
use crate::progress::Meter;
use crate::signal::Stop;

/// Which upstreams of the executor lines may be claimed for.
#[derive(Clone)]
pub(crate) struct UpstreamCheck {
    store: Arc<dyn Store>,
    executor: Arc<dyn Executor>,
    /// Shows what is refused to who watches the engine.
    meter: Meter,
    refused: Arc<Mutex<BTreeSet<UpstreamId>>>,
}

impl UpstreamCheck {
    pub(crate) fn new(store: Arc<dyn Store>, executor: Arc<dyn Executor>, meter: Meter) -> Self {
        Self { store, executor, meter, refused: Arc::default() }
    }

    /// The upstreams that lines may be claimed for.
    pub(crate) fn served(&self) -> Vec<UpstreamId> {
        let refused = self.refused.lock();
        let mut served = self.executor.upstreams();
        served.retain(|upstream| !refused.contains(upstream));
        served
    }

    /// Whether nothing may be claimed of that upstream.
    pub(crate) fn is_refused(&self, upstream: &UpstreamId) -> bool {
        self.refused.lock().contains(upstream)
    }

    /// Registers every upstream that the database does not know, and compares the others. Says whether
    /// something changed since the last time.
    pub(crate) async fn step(&self) -> Result<bool> {
        // A secret is read only where there is something to mark.
        if self.executor.registrations(&MarkSecret([0; 32])).is_empty() {
            return Ok(false);
        }
        let secret = self.store.mark_secret().await?;
        let known = self.store.upstreams().await?;
        let mut refused = BTreeSet::new();
        for ours in self.executor.registrations(&secret) {
            let same_name = known.iter().find(|known| known.upstream == ours.upstream);
            let theirs = match same_name {
                Some(theirs) if *theirs == ours => continue,
                Some(theirs) => theirs.clone(),
                None => self.store.register_upstream(ours.clone()).await?,
            };
            if theirs != ours {
                self.note(&ours, &theirs);
                refused.insert(ours.upstream);
            }
        }
        let before = std::mem::replace(&mut *self.refused.lock(), refused.clone());
        for upstream in before.difference(&refused) {
            tracing::info!(%upstream, "the upstream is what the database knows again; claiming its lines");
            self.meter.set_target_trouble(None);
        }
        Ok(before != refused)
    }

    /// Says once that an upstream is not what the database knows, and what to do about it.
    fn note(&self, ours: &Upstream, theirs: &Upstream) {
        if self.is_refused(&ours.upstream) {
            return;
        }
        let (upstream, base_url, known) = (&ours.upstream, &ours.base_url, &theirs.base_url);
        let sentence = if base_url == known {
            // A table has its key in the configuration.
            let key = if upstream.as_str() == base_url { " --api-key-env NAME" } else { "" };
            format!(
                "this process has another key for the upstream {upstream} than the database knows, and \
                 claims none of its lines; if this key is right: windrow upstreams accept {upstream}{key}"
            )
        } else {
            format!(
                "the upstream {upstream} is {known} in the database and {base_url} here; this process \
                 claims none of its lines; if {base_url} is right: windrow upstreams set {upstream} \
                 --base-url {base_url}"
            )
        };
        tracing::error!(%upstream, base_url, known, "{sentence}");
        self.meter.set_target_trouble(Some(sentence));
    }

    /// Compares again and again, until it is stopped: a key may be accepted, or another one.
    pub(crate) async fn run(
        &self,
        membership: &Membership,
        clock: &Clock,
        every: Duration,
        stop: &Stop,
    ) {
        loop {
            tokio::select! {
                () = clock.sleep(every) => {}
                () = stop.given() => return,
            }
            let changed = match self.step().await {
                Ok(changed) => changed,
                Err(error) => {
                    tracing::warn!(error = %chain(&error), "could not compare upstreams");
                    continue;
                }
            };
            if changed && let Err(error) = membership.join().await {
                tracing::warn!(error = %chain(&error), "could not say which upstreams are served");
            }
        }
    }
}
