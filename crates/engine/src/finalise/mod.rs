//! Finalising: a batch whose last lane is done gets its outputs and is closed, by one instance.
//!
//! Holds throughout: no lock is held while outputs are written; their names hold the finalisation's
//! token, so a slow loser overwrites nothing (docs/adr/0015-outputs-named-by-token.md); the closing
//! commit is what makes an output count; no process deletes an output whose token is newer than its own.
//! Absent on purpose: finding batches to close, and trying again later: the closer and the sweep.

mod names;
mod orphans;
mod summary;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use windrow_domain::millis;
use windrow_domain::{BatchId, InstanceId};
use windrow_store::batch::Batch;
use windrow_store::finalise::{Finalisation, Rows};
use windrow_store::{Kind, Retry, Scope, Store};

use crate::clock::Clock;
use crate::member::Membership;
use crate::options::Options;
use crate::output::{self, Source, StoreRetry, Written};
use crate::storage::{self, Storage};

use names::OutputNames;
use orphans::Walk;
pub use summary::{OutputFile, Summary};

/// How often results are read before rows that are not the counts become an error.
const READS_MAX: u32 = 3;
/// A finalisation that is given up lasts no longer than this.
const LET_GO_MS: u64 = 1;

/// What became of a batch.
#[derive(Debug)]
pub enum Closing {
    /// This call closed it.
    Closed(Box<Batch>),
    /// Another process does or did, or it is not to be closed any more.
    Left,
}

/// A batch that was not closed, or outputs that were not removed. Trying again may help.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The database did not do its part.
    #[error("could not {doing}")]
    Store {
        /// What was to be done.
        doing: String,
        /// What the store said.
        source: windrow_store::Error,
    },
    /// The storage did not do its part.
    #[error("could not {doing}")]
    Storage {
        /// What was to be done.
        doing: String,
        /// What the storage said.
        source: storage::Error,
    },
}

impl Error {
    fn store(doing: impl fmt::Display, source: windrow_store::Error) -> Self {
        Self::Store { doing: doing.to_string(), source }
    }

    fn storage(doing: impl fmt::Display, source: storage::Error) -> Self {
        Self::Storage { doing: doing.to_string(), source }
    }

    fn of_output(batch: BatchId, error: output::Error) -> Self {
        let doing = format!("write the outputs of batch {batch}");
        match error {
            output::Error::Store(source) => Self::Store { doing, source },
            output::Error::Storage(source) => Self::Storage { doing, source },
        }
    }
}

/// In whose name batches are closed.
enum Holder {
    Always(InstanceId),
    /// The instance that this process is at the time: what a tombstoned one holds is free to take.
    Current(Membership),
}

/// Closes batches for one instance.
pub struct Finaliser {
    store: Arc<dyn Store>,
    /// None for an engine whose results are only read from the database.
    storage: Option<Storage>,
    holder: Holder,
    clock: Clock,
    store_retry: StoreRetry,
    attempts_max: u32,
    wait: Duration,
    lease_ms: u64,
    output_bytes_max: u64,
    walk: Mutex<Option<Walk>>,
}

impl Finaliser {
    /// One that closes in the name of `instance`.
    pub fn new(
        store: Arc<dyn Store>,
        storage: Option<Storage>,
        instance: InstanceId,
        clock: Clock,
        options: &Options,
    ) -> Self {
        Self {
            store,
            storage,
            holder: Holder::Always(instance),
            store_retry: StoreRetry::usual(clock.clone()),
            clock,
            attempts_max: options.finalise_attempts_max.max(1),
            wait: options.finalise_wait,
            lease_ms: millis(options.finalise_lease),
            output_bytes_max: options.output_bytes_max,
            walk: Mutex::new(None),
        }
    }

    /// One that closes in the name that the process has at the time.
    pub(crate) fn following(self, membership: Membership) -> Self {
        Self { holder: Holder::Current(membership), ..self }
    }

    fn instance(&self) -> InstanceId {
        match &self.holder {
            Holder::Always(instance) => *instance,
            Holder::Current(membership) => membership.instance(),
        }
    }

    /// Writes a batch's outputs and closes it. One call for a batch at a time: an instance has one
    /// finalisation of it, and with it one pair of names.
    pub async fn close(&self, batch: BatchId) -> Result<Closing, Error> {
        let Some(held) = self.take(batch).await? else { return Ok(Closing::Left) };
        match self.close_held(&held).await {
            // Trouble with outputs of a batch that is closed already is none.
            Err(_) if !self.let_go(&held).await => Ok(Closing::Left),
            closing => closing,
        }
    }

    /// Takes the finalisation; none when it is not to be had.
    async fn take(&self, batch: BatchId) -> Result<Option<Finalisation>, Error> {
        let instance = self.instance();
        for attempt in 1..=self.attempts_max {
            let take = || self.store.take_finalisation(batch, instance, self.lease_ms);
            match self.store_retry.ask(take).await {
                Ok(held) => return Ok(Some(held)),
                Err(error) if error.kind == Kind::Contended => {}
                Err(error) if is_over(error.kind) => return Ok(None),
                Err(source) => return Err(Error::store(format!("close batch {batch}"), source)),
            }
            if attempt < self.attempts_max {
                self.clock.sleep(self.wait).await;
            }
        }
        Ok(None)
    }

    async fn close_held(&self, held: &Finalisation) -> Result<Closing, Error> {
        let doing = || format!("close batch {}", held.batch);
        let mut reads = 1;
        loop {
            let Some((rows, summary)) = self.make_outputs(held).await? else {
                return Ok(Closing::Left);
            };
            let (text, outputs) = (summary.to_string(), summary.outputs(held.batch));
            // A repeat after a lost reply gives the closed batch.
            let close = || self.store.close_batch(held, rows, &text, &outputs);
            match self.store_retry.ask(close).await {
                Ok(batch) => {
                    self.remove_leftovers(held).await;
                    return Ok(Closing::Closed(Box::new(batch)));
                }
                Err(error) if error.kind == Kind::Conflict && reads < READS_MAX => {
                    tracing::warn!(batch = %held.batch, %error, "reading the results again");
                    self.remove_own(held).await;
                    reads += 1;
                }
                Err(error) if error.kind == Kind::LeaseLost || is_over(error.kind) => {
                    self.remove_own(held).await;
                    return Ok(Closing::Left);
                }
                // The outputs stay: the closing may have happened, and then they count.
                Err(source) => return Err(Error::store(doing(), source)),
            }
        }
    }

    /// Writes both outputs, renewing the finalisation meanwhile. None when it was lost.
    async fn make_outputs(&self, held: &Finalisation) -> Result<Option<(Rows, Summary)>, Error> {
        let Some(storage) = &self.storage else {
            let rows = summary::rows_of(&held.counts);
            return Ok(Some((rows, Summary::new(held, None))));
        };
        let written = tokio::select! {
            written = self.write(storage, held) => written.map(Some),
            () = self.until_lost(held) => Ok(None),
        };
        match written {
            Ok(Some(written)) => Ok(Some((written.rows, Summary::new(held, Some(&written))))),
            Ok(None) => {
                self.remove_own(held).await;
                Ok(None)
            }
            Err(error) => {
                self.remove_own(held).await;
                Err(Error::of_output(held.batch, error))
            }
        }
    }

    async fn write(
        &self,
        storage: &Storage,
        held: &Finalisation,
    ) -> Result<Written, output::Error> {
        let names = OutputNames::of(held);
        let mut output = storage.create(&names.output)?;
        let mut errors = storage.create(&names.errors)?;
        let source = Source {
            store: &*self.store,
            scope: &Scope::All,
            batch: held.batch,
            ending: Some(held.ending),
            bytes_max: self.output_bytes_max,
            store_retry: self.store_retry.clone(),
        };
        match output::write(&source, &mut output, &mut errors).await {
            Ok(written) => {
                let (output, errors) = futures_util::join!(finish(output), finish(errors));
                output.and(errors)?;
                Ok(written)
            }
            Err(error) => {
                futures_util::join!(output.abort(), errors.abort());
                Err(error)
            }
        }
    }

    /// Renews the finalisation, at a third of its time so that two lost replies still leave some,
    /// and returns when it is no longer ours.
    async fn until_lost(&self, held: &Finalisation) {
        loop {
            self.clock.sleep(Duration::from_millis((self.lease_ms / 3).max(1))).await;
            let taken = self.store.take_finalisation(held.batch, held.instance, self.lease_ms);
            match taken.await {
                Ok(taken) if (taken.token, taken.generation) == (held.token, held.generation) => {}
                // The closing checks the token anyway; the next third may be luckier.
                Err(error) if error.kind != Kind::Contended && may_pass(error.kind) => {}
                Ok(_) | Err(_) => return,
            }
        }
    }

    /// Lets another process try at once: another machine's storage may work. False when the batch is
    /// no longer this instance's to close.
    async fn let_go(&self, held: &Finalisation) -> bool {
        let taken = self.store.take_finalisation(held.batch, held.instance, LET_GO_MS).await;
        !taken.is_err_and(|error| error.kind == Kind::Contended || is_over(error.kind))
    }
}

/// Nothing is left to be closed: the batch is gone, runs again, or is closed.
fn is_over(kind: Kind) -> bool {
    matches!(kind, Kind::Refused | Kind::Missing)
}

fn may_pass(kind: Kind) -> bool {
    kind.retry() != Retry::Never
}

/// An output without a line is not made at all.
async fn finish(writer: storage::Writer) -> storage::Result<()> {
    match writer.bytes() {
        0 => Ok(()),
        _ => writer.finish().await.map(|_| ()),
    }
}
