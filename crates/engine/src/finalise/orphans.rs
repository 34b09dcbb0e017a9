//! Outputs that are needed no more: of lost finalisations, of batches that are gone, and those that were
//! dropped.
//!
//! Holds throughout: an output is removed only when its own finalisation is over for good, so a
//! process that wakes up late removes nothing of a later closing.
//! Absent on purpose: telling two databases apart. A storage belongs to one database; what another
//! one keeps there would look like the outputs of batches that are gone.

use futures_util::stream::{BoxStream, StreamExt as _};
use windrow_domain::BatchId;
use windrow_store::finalise::Finalisation;
use windrow_store::{Kind, Scope};

use super::names::{self, OutputNames};
use super::{Error, Finaliser};
use crate::ingest::delete_place;
use crate::storage::{Storage, Stored};

/// Most leftovers of one batch that one closing removes.
const LEFTOVERS_MAX: usize = 1000;

/// A listing of all outputs that goes on where the last call stopped.
pub(super) struct Walk {
    listing: BoxStream<'static, crate::storage::Result<Stored>>,
    /// The batch that was asked for last, and whether it is gone: its outputs come together.
    last: Option<(BatchId, bool)>,
}

impl Finaliser {
    /// Looks at up to `limit` outputs, goes on from there the next time, and removes those whose
    /// batches are gone. Returns how many it removed.
    pub async fn remove_orphans(&self, limit: u32) -> Result<u64, Error> {
        // Two at a time would share the walk for no gain.
        let (Some(storage), Ok(mut walk)) = (&self.storage, self.walk.try_lock()) else {
            return Ok(0);
        };
        let mut removed = 0;
        for _ in 0..limit {
            let walking = walk
                .get_or_insert_with(|| Walk { listing: storage.walk(names::FOLDER), last: None });
            match walking.listing.next().await {
                None => {
                    *walk = None;
                    break;
                }
                Some(Err(source)) => {
                    *walk = None;
                    return Err(Error::storage("list old outputs", source));
                }
                Some(Ok(output)) => {
                    removed += self.remove_if_orphan(storage, walking, &output.name).await?;
                }
            }
        }
        Ok(removed)
    }

    /// Removes the bytes of up to `limit` outputs that were dropped, so that their rows can be reaped.
    /// Returns how many; one that cannot be removed keeps none of the others.
    pub async fn remove_dropped(&self, limit: u32) -> Result<u64, Error> {
        let Some(storage) = &self.storage else { return Ok(0) };
        let store = |source| Error::store("find outputs that were dropped", source);
        let mut gone = Vec::new();
        let mut failed = None;
        for output in self.store.find_dropped_outputs(limit).await.map_err(store)? {
            match delete_place(storage, &output.place).await {
                Ok(()) => gone.push(output),
                Err(source) => failed = Some(Error::storage("remove dropped outputs", source)),
            }
        }
        if !gone.is_empty() {
            let store = |source| Error::store("forget outputs that were removed", source);
            self.store.forget_outputs(&gone).await.map_err(store)?;
        }
        failed.map_or(Ok(gone.len() as u64), Err)
    }

    async fn remove_if_orphan(
        &self,
        storage: &Storage,
        walk: &mut Walk,
        name: &str,
    ) -> Result<u64, Error> {
        let Some(batch) = names::batch_of(name) else { return Ok(0) };
        let is_gone = match walk.last {
            Some((last, is_gone)) if last == batch => is_gone,
            Some(_) | None => self.is_gone(batch).await?,
        };
        walk.last = Some((batch, is_gone));
        if !is_gone {
            return Ok(0);
        }
        let wrong = |source| Error::storage("remove old outputs", source);
        let staged = storage.list_staged(&names::folder(batch), LEFTOVERS_MAX).await;
        for staged in staged.map_err(wrong)? {
            storage.delete(&staged).await.map_err(wrong)?;
        }
        storage.delete(name).await.map_err(wrong)?;
        Ok(1)
    }

    async fn is_gone(&self, batch: BatchId) -> Result<bool, Error> {
        match self.store.batch(&Scope::All, batch).await {
            Ok(_) => Ok(false),
            Err(error) if error.kind == Kind::Missing => Ok(true),
            Err(source) => Err(Error::store("find the batch of old outputs", source)),
        }
    }

    /// Removes the outputs of a finalisation that did not close its batch, as well as it can.
    pub(super) async fn remove_own(&self, held: &Finalisation) {
        let Some(storage) = &self.storage else { return };
        let names = OutputNames::of(held);
        for name in [names.output, names.errors] {
            if let Err(error) = storage.delete(&name).await {
                tracing::warn!(batch = %held.batch, %error, "an unused output was left");
            }
        }
    }

    /// Removes what earlier finalisations of the batch left behind, as well as it can.
    pub(super) async fn remove_leftovers(&self, held: &Finalisation) {
        let Some(storage) = &self.storage else { return };
        let folder = names::folder(held.batch);
        let removed = async {
            for output in storage.list(&folder, LEFTOVERS_MAX).await? {
                if names::token_of(&output.name).is_some_and(|token| token < held.token) {
                    storage.delete(&output.name).await?;
                }
            }
            for staged in storage.list_staged(&folder, LEFTOVERS_MAX).await? {
                // Nothing of this finalisation is being written any more.
                if names::token_of(&staged).is_some_and(|token| token <= held.token) {
                    storage.delete(&staged).await?;
                }
            }
            Ok::<_, crate::storage::Error>(())
        };
        if let Err(error) = removed.await {
            tracing::warn!(batch = %held.batch, %error, "old outputs were left");
        }
    }
}
