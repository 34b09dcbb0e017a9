//! A store that passes every verb on, and at one call ends the process without a word.
//!
//! Holds throughout: calls are counted over all verbs in the order in which they begin; before the
//! call nothing of it happened, after it all of it did and nobody heard.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use windrow::store::layer::{StoreLayer, failure};
use windrow::store::record::{Fold, Reply, Turn};
use windrow::store::{Kind, Result, Store};

use super::journal::{Entry, Journal};

/// On which side of the call the process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The call never happened.
    Before,
    /// It happened, and its reply is lost.
    After,
}

/// Where the process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Which call, from 1.
    pub call: u64,
    /// On which side of it.
    pub side: Side,
}

/// Ends the process at the cut.
pub struct Crashing {
    cut: Option<Cut>,
    calls: Arc<AtomicU64>,
    journal: Arc<Journal>,
}

impl Crashing {
    /// Passes everything on until the cut, and counts calls where others can see it.
    pub fn new(cut: Option<Cut>, calls: Arc<AtomicU64>, journal: Arc<Journal>) -> Self {
        Self { cut, calls, journal }
    }

    fn cut_at(&self, call: u64, side: Side) {
        if self.cut == Some(Cut { call, side }) {
            std::process::abort();
        }
    }
}

#[async_trait]
impl StoreLayer for Crashing {
    type Span = u64;

    async fn begin(&self, _: &'static str) -> u64 {
        let call = self.calls.fetch_add(1, Ordering::SeqCst) + 1;
        self.cut_at(call, Side::Before);
        call
    }

    fn end(&self, call: u64, _: &'static str, _: Option<Kind>) {
        self.cut_at(call, Side::After);
    }

    async fn turn(&self, inner: &dyn Store, turn: Turn) -> Result<Reply> {
        let call = self.begin("turn").await;
        let finished: Vec<Vec<(u64, u64)>> = turn
            .outcomes
            .iter()
            .map(|outcomes| outcomes.finished.iter().map(|line| (line.seq, line.line)).collect())
            .collect();
        let reply = inner.turn(turn).await;
        if let Ok(reply) = &reply {
            // Before the cut, so that the journal knows what the process never heard of.
            for (fold, lines) in reply.folds.iter().zip(finished) {
                let Fold::Kept { ignored, .. } = fold else { continue };
                let kept = lines.into_iter().filter(|(seq, _)| !ignored.contains(*seq));
                kept.for_each(|(_, line)| self.journal.write(&Entry::Kept(line)));
            }
        }
        self.end(call, "turn", failure(&reply));
        reply
    }
}
