//! Copies the results of a batch to a file of the user: from the outputs that the engine stored, or from
//! the database when those are not available.

use futures_util::TryStreamExt as _;
use tokio::io::AsyncWriteExt as _;
use windrow::engine::clock::Clock;
use windrow::engine::finalise::{OutputFile, Summary};
use windrow::engine::output::{Source, StoreRetry, ToWrite, write};
use windrow::engine::storage::Storage;
use windrow::store::batch::Batch;
use windrow::store::{Scope, Store};

use crate::hint;
use crate::output_target::{Out, OutputTarget};

/// Which of the two files of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutputKind {
    Results,
    Errors,
}

impl OutputKind {
    fn of(self, summary: &Summary) -> Option<&OutputFile> {
        match self {
            OutputKind::Results => summary.output.as_ref(),
            OutputKind::Errors => summary.errors.as_ref(),
        }
    }
}

/// What closing a batch wrote, when it is closed; none otherwise.
pub(crate) fn summary(batch: &Batch) -> Option<Summary> {
    Summary::of(batch).filter(|_| batch.state.is_closed())
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
    pub(crate) async fn put(&self, kind: OutputKind, output: &OutputTarget) -> anyhow::Result<()> {
        let id = self.batch.id.to_string();
        let remedy = format!(
            "free disk space or choose another file, then run the same command again, or: {}; nothing \
             is lost.",
            hint::command(&["results", &id, "--out", "FILE"])
        );
        output.put(remedy, async |out| self.copy(kind, out).await).await
    }

    async fn copy(&self, kind: OutputKind, out: Out<'_>) -> anyhow::Result<()> {
        let stored = summary(self.batch);
        match (&stored, self.storage) {
            (Some(summary), Some(storage)) => match kind.of(summary) {
                Some(stored) => match storage.read(&stored.name).await {
                    Ok(mut bytes) => {
                        while let Some(bytes) = bytes.try_next().await? {
                            out.write_all(&bytes).await?;
                        }
                        Ok(())
                    }
                    // In a folder of another machine, or deleted: the database has all results.
                    Err(_) => self.copy_from_store(kind, out).await,
                },
                None => Ok(()),
            },
            _ => self.copy_from_store(kind, out).await,
        }
    }

    async fn copy_from_store(&self, kind: OutputKind, out: Out<'_>) -> anyhow::Result<()> {
        let source = Source {
            store: self.store,
            scope: self.scope,
            batch: self.batch.id,
            ending: self.batch.state.ending(),
            bytes_max: self.bytes_max,
            store_retry: StoreRetry::usual(Clock::machine()),
        };
        let mut sink = ToWrite::new("the results", out);
        match kind {
            OutputKind::Results => write(&source, &mut sink, &mut ()).await?,
            OutputKind::Errors => write(&source, &mut (), &mut sink).await?,
        };
        Ok(())
    }
}
