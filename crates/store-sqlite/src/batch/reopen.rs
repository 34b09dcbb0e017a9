//! Reopening a closed batch: its window begins anew, and what was stopped goes on.
//!
//! Holds throughout: no line changes its place here; a new generation keeps any earlier closing from counting.

use rusqlite::params;
use windrow_domain::batch::{Event, apply};
use windrow_domain::{BatchId, State};
use windrow_store::batch::{Batch, Continue};
use windrow_store::{Error, Kind, Result, Scope};

use super::{check_open, find};
use crate::tx::{Tx, sql};
use crate::{batch_events, ingest, lane_counts, rows};

/// Lets a batch go on that was cancelled or has expired.
pub(super) fn go_on(tx: &Tx<'_>, scope: &Scope, how: &Continue) -> Result<Batch> {
    let batch = find(tx, scope, how.batch)?;
    let to = apply(batch.state, Event::Continued).map_err(Error::refusal)?;
    check_file(tx, &batch)?;
    if batch.counts.unfinished() == 0 {
        return Err(Error::of(Kind::Conflict).because("every line of it has a result"));
    }
    check_open(tx, &batch.owner, how.open_max)?;
    reopen(tx, batch.id, batch.state, to, batch.generation + 1)?;
    begin_window(tx, batch.id, how.window_secs)?;
    lane_counts::reopen(tx, batch.id, to)?;
    let continued = find(tx, scope, batch.id)?;
    batch_events::tell(tx, &continued, "resumed", to, None)?;
    Ok(continued)
}

/// `Conflict` when the file of the batch was dropped.
pub(super) fn check_file(tx: &Tx<'_>, batch: &Batch) -> Result<()> {
    match ingest::find(tx, batch.file) {
        Ok(_) => Ok(()),
        Err(gone) if gone.kind == Kind::Missing => {
            Err(Error::of(Kind::Conflict).because("its file was dropped"))
        }
        Err(error) => Err(error),
    }
}

/// Nothing of an earlier ending stays.
pub(super) fn reopen(
    tx: &Tx<'_>,
    batch: BatchId,
    from: State,
    to: State,
    generation: u32,
) -> Result<()> {
    let reopened = params![batch.0.into_bytes(), from.as_str(), to.as_str(), generation];
    tx.run(sql!("batch/reopen"), reopened).map(|_| ())
}

/// The batch has this much time from now on; as much as the last time without a number.
pub(super) fn begin_window(tx: &Tx<'_>, batch: BatchId, window_secs: Option<u64>) -> Result<()> {
    let id = batch.0.into_bytes();
    tx.run(sql!("batch/begin_window"), params![id, tx.now, window_secs.map(rows::int)])?;
    tx.run(sql!("batch/begin_window_of_lanes"), params![id, i64::MAX]).map(|_| ())
}
