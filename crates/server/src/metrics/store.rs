//! A store layer that times every call, and counts what turns did.

use std::time::Duration;

use async_trait::async_trait;
use windrow_domain::attempt::Status as Ended;
use windrow_store::layer::{StoreLayer, failure};
use windrow_store::record::{Fold, Reply, Turn};
use windrow_store::verbs::label;
use windrow_store::{Kind, Result, Store};

use super::{FailureLabels, Metrics, StatusLabel, VerbLabel};

/// A call of a list that takes longer is logged.
const SLOW: Duration = Duration::from_millis(250);
/// Calls that people page with.
const PAGES: [&str; 5] = ["files", "batches", "pending", "finished", "keys"];

/// The layer that times and counts every call of the store.
pub(super) struct Timed(pub(super) Metrics);

#[async_trait]
impl StoreLayer for Timed {
    type Span = Duration;

    async fn begin(&self, _: &'static str) -> Duration {
        self.0.0.clock.elapsed()
    }

    fn end(&self, began: Duration, verb: &'static str, failed: Option<Kind>) {
        let (instruments, verb) = (&self.0.0, label(verb));
        let took = instruments.clock.elapsed().saturating_sub(began);
        instruments.store_seconds.get_or_create(&VerbLabel { verb }).observe(took.as_secs_f64());
        instruments.rates.observe_call(verb, took);
        if let Some(kind) = failed {
            instruments
                .store_failures
                .get_or_create(&FailureLabels { verb, kind: kind.as_str() })
                .inc();
        }
        if took >= SLOW && PAGES.contains(&verb) {
            tracing::warn!(verb, elapsed_ms = took.as_millis(), "list query was slow");
        }
    }

    async fn turn(&self, inner: &dyn Store, turn: Turn) -> Result<Reply> {
        let verb = if turn.claim.is_some() { "turn_claim" } else { "turn" };
        let outcomes = || turn.outcomes.iter();
        let retries: usize = outcomes().map(|outcomes| outcomes.again.len()).sum();
        let ended = Ended::ALL.map(|status| {
            let lines = outcomes().flat_map(|outcomes| &outcomes.finished);
            (status, lines.filter(|line| line.status == status).count() as u64)
        });
        let call = self.begin(verb).await;
        let reply = inner.turn(turn).await;
        self.end(call, verb, failure(&reply));
        if let Ok(reply) = &reply {
            let instruments = &self.0.0;
            let lost = reply.folds.iter().filter(|fold| matches!(fold, Fold::Lost { .. })).count();
            instruments.leases_lost.inc_by(lost as u64);
            instruments.retries.inc_by(retries as u64);
            for (status, count) in ended.into_iter().filter(|(_, count)| *count > 0) {
                instruments
                    .items
                    .get_or_create(&StatusLabel { status: status.as_str() })
                    .inc_by(count);
                instruments.rates.observe_items(status, count, instruments.clock.millis());
            }
        }
        reply
    }
}
