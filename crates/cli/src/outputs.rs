//! Results on their way to a person's file: from the outputs that the engine wrote, or from the
//! database when those are not there.

use futures_util::TryStreamExt as _;
use serde::Deserialize;
use tokio::io::AsyncWriteExt as _;
use windrow::domain::Ending as BatchEnding;
use windrow::engine::clock::Clock;
use windrow::engine::output::{Patience, Source, ToWrite, write};
use windrow::engine::storage::Storage;
use windrow::prelude::*;

use crate::place::{Out, Place};

/// Which of the two files of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    Results,
    Errors,
}

/// What closing a batch wrote about its outputs.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Summary {
    pub(crate) output: Option<Stored>,
    pub(crate) errors: Option<Stored>,
}

/// One output in the storage.
#[derive(Debug, Deserialize)]
pub(crate) struct Stored {
    pub(crate) name: String,
    pub(crate) bytes: u64,
}

impl Summary {
    /// Of a closed batch whose outputs were written; none otherwise.
    pub(crate) fn of(batch: &Batch) -> Option<Self> {
        if !batch.state.is_closed() {
            return None;
        }
        serde_json::from_str(batch.summary.as_deref()?).ok()
    }

    fn stored(&self, which: Which) -> Option<&Stored> {
        match which {
            Which::Results => self.output.as_ref(),
            Which::Errors => self.errors.as_ref(),
        }
    }
}

/// Where the results of a batch are read from.
pub(crate) struct Results<'a> {
    pub(crate) store: &'a dyn Store,
    pub(crate) storage: Option<&'a Storage>,
    pub(crate) scope: &'a Scope,
    pub(crate) batch: &'a Batch,
    pub(crate) bytes_max: u64,
}

impl Results<'_> {
    /// Writes one of the two files; an error says where and what to do.
    pub(crate) async fn put(&self, which: Which, place: &Place) -> anyhow::Result<()> {
        let remedy = format!(
            "make room or choose another place, then `windrow results {} --out FILE`, or the same \
             command again; nothing is lost.",
            self.batch.id
        );
        place.put(remedy, async |out| self.copy(which, out).await).await
    }

    async fn copy(&self, which: Which, out: Out<'_>) -> anyhow::Result<()> {
        let stored = Summary::of(self.batch);
        match (&stored, self.storage) {
            (Some(summary), Some(storage)) => match summary.stored(which) {
                Some(stored) => match storage.read(&stored.name).await {
                    Ok(mut bytes) => {
                        while let Some(bytes) = bytes.try_next().await? {
                            out.write_all(&bytes).await?;
                        }
                        Ok(())
                    }
                    // Another machine's folder, or tidied away: the database has it all.
                    Err(_) => self.copy_from_store(which, out).await,
                },
                None => Ok(()),
            },
            _ => self.copy_from_store(which, out).await,
        }
    }

    async fn copy_from_store(&self, which: Which, out: Out<'_>) -> anyhow::Result<()> {
        let ending = match self.batch.state {
            State::Completed => Some(BatchEnding::Completed),
            State::Cancelled => Some(BatchEnding::Cancelled),
            State::Expired => Some(BatchEnding::Expired),
            State::Finalizing(ending) => Some(ending),
            State::InProgress | State::Paused | State::Cancelling => None,
            State::Expiring | State::Failed => None,
        };
        let source = Source {
            store: self.store,
            scope: self.scope,
            batch: self.batch.id,
            ending,
            bytes_max: self.bytes_max,
            patience: Patience::usual(Clock::machine()),
        };
        let mut sink = ToWrite::new("the results", out);
        match which {
            Which::Results => write(&source, &mut sink, &mut ()).await?,
            Which::Errors => write(&source, &mut (), &mut sink).await?,
        };
        Ok(())
    }
}
