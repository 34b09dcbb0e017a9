//! Folding: the one place that changes a lane's counts, says what may be claimed from it and when
//! it is done, and flips the batch when its last lane is.
//!
//! Holds throughout: every way out of a lease goes through [`Folds`]; after a fold the places add
//! up, or the call fails; the fold that makes the last lane done flips the batch, so exactly one does.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use rusqlite::{Row, params};
use windrow_domain::batch::{Event, apply};
use windrow_domain::{BatchId, Counts, InstanceId, LaneNo, Phase, State, Target, UpstreamId};
use windrow_store::{Error, Result};

use crate::lease::LeaseRow;
use crate::tx::{Tx, sql};
use crate::{permits, rows};

/// A lane of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LaneKey {
    pub(crate) batch: BatchId,
    pub(crate) lane: LaneNo,
}

/// How many lines move into each place (out of it when negative).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Delta {
    /// Untouched lines that are touched now.
    pub(crate) cursor: i64,
    pub(crate) returned: i64,
    pub(crate) leased: i64,
    /// Finished, by status code.
    pub(crate) finished: [i64; 4],
}

impl AddAssign for Delta {
    fn add_assign(&mut self, other: Self) {
        self.cursor += other.cursor;
        self.returned += other.returned;
        self.leased += other.leased;
        for (sum, more) in self.finished.iter_mut().zip(other.finished) {
            *sum += more;
        }
    }
}

/// What a call moves, gathered by lane so that each lane row is written once.
#[derive(Default)]
pub(crate) struct Folds {
    lanes: BTreeMap<LaneKey, Delta>,
    freed: BTreeMap<(Target, InstanceId), u64>,
}

impl Folds {
    /// `n` lines leave a lease for the places in `delta`.
    pub(crate) fn leave(&mut self, row: &LeaseRow, n: u64, mut delta: Delta) {
        delta.leased -= rows::int(n);
        *self.lanes.entry(row.key()).or_default() += delta;
        *self.freed.entry((row.lease.target.clone(), row.lease.instance)).or_default() += n;
    }

    /// Writes it all, lane by lane. Gives the batches that wait to be finalised now.
    pub(crate) fn write(self, tx: &Tx<'_>) -> Result<Vec<BatchId>> {
        let mut finalizing = Vec::new();
        for (key, delta) in self.lanes {
            fold(tx, key, &delta, None, &mut finalizing)?;
        }
        for ((target, instance), n) in self.freed {
            permits::free(tx, &target, instance, n)?;
        }
        Ok(finalizing)
    }
}

/// Since when untouched lines may be claimed: before any time, so that a clock which goes back
/// does not hide them.
pub(crate) const ALWAYS: i64 = 0;

/// A row of `batch_lanes`, as far as folds need it.
pub(crate) struct LaneRow {
    pub(crate) key: LaneKey,
    pub(crate) upstream: UpstreamId,
    pub(crate) phase: Phase,
    claimable_at: Option<i64>,
    pub(crate) cursor: u64,
    pub(crate) counts: Counts,
}

impl LaneRow {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            key: LaneKey { batch: BatchId(rows::uuid(row, 0)?), lane: row.get(1)? },
            upstream: rows::name(row, 12)?,
            phase: rows::parsed(row, 2)?,
            claimable_at: row.get(3)?,
            cursor: rows::count(row, 5)?,
            counts: rows::counts(row, 4)?,
        })
    }
}

pub(crate) fn lanes(tx: &Tx<'_>, batch: BatchId) -> Result<Vec<LaneRow>> {
    tx.all(sql!("lane/of_batch"), [batch.0.into_bytes()], LaneRow::read)
}

/// Moves lines between the places of one lane. `phase` says what the lane becomes, unless it is
/// done; none keeps what it is. Returned rows must be written before.
pub(crate) fn fold(
    tx: &Tx<'_>,
    key: LaneKey,
    delta: &Delta,
    phase: Option<Phase>,
    finalizing: &mut Vec<BatchId>,
) -> Result<()> {
    let [completed, failed, not_found, skipped] = delta.finished;
    let moved = params![
        key.batch.0.into_bytes(),
        key.lane,
        delta.cursor,
        delta.returned,
        delta.leased,
        completed,
        failed,
        not_found,
        skipped
    ];
    let lane = tx.sure(sql!("lane/fold"), moved, LaneRow::read)?;
    if !lane.counts.adds_up() {
        return Err(tx.corrupt(format!("{key:?} does not add up: {:?}", lane.counts)));
    }
    if settle(tx, &lane, phase.unwrap_or(lane.phase))? {
        finalizing.extend(flip(tx, key.batch)?);
    }
    Ok(())
}

/// Gives every lane that is not done the phase that the batch's state asks for.
pub(crate) fn steer(tx: &Tx<'_>, batch: BatchId, state: State) -> Result<Option<BatchId>> {
    let mut done = false;
    for lane in lanes(tx, batch)?.iter().filter(|lane| lane.phase != Phase::Done) {
        done |= settle(tx, lane, Phase::of(state))?;
    }
    if done { flip(tx, batch) } else { Ok(None) }
}

/// Opens every lane that has lines without a result, done ones included.
pub(crate) fn reopen(tx: &Tx<'_>, batch: BatchId, state: State) -> Result<()> {
    for lane in lanes(tx, batch)? {
        settle(tx, &lane, Phase::of(state))?;
    }
    Ok(())
}

/// Writes the lane's phase and when it may be claimed from; says whether it became done.
fn settle(tx: &Tx<'_>, lane: &LaneRow, phase: Phase) -> Result<bool> {
    let phase = if lane.counts.is_done(phase) { Phase::Done } else { phase };
    let claimable_at = match phase {
        Phase::Open if lane.counts.untouched > 0 => Some(ALWAYS),
        Phase::Open if lane.counts.returned > 0 => returned_ready(tx, lane.key)?,
        Phase::Open | Phase::Paused | Phase::Stopping | Phase::Done => None,
    };
    if phase != lane.phase || claimable_at != lane.claimable_at {
        let (batch, no) = (lane.key.batch.0.into_bytes(), lane.key.lane);
        tx.run(sql!("lane/settle"), params![batch, no, phase.as_str(), claimable_at])?;
    }
    Ok(phase == Phase::Done && lane.phase != Phase::Done)
}

fn returned_ready(tx: &Tx<'_>, key: LaneKey) -> Result<Option<i64>> {
    let lane = params![key.batch.0.into_bytes(), key.lane];
    tx.sure(sql!("lane/returned_ready"), lane, |row| row.get(0))
}

/// Flips the batch to finalizing if every lane is done.
pub(crate) fn flip(tx: &Tx<'_>, batch: BatchId) -> Result<Option<BatchId>> {
    let id = batch.0.into_bytes();
    let live: bool = tx.sure(sql!("lane/any_live"), [id], |row| row.get(0))?;
    if live {
        return Ok(None);
    }
    let from: State = tx.sure(sql!("lane/batch_state"), [id], |row| rows::parsed(row, 0))?;
    let to = apply(from, Event::LanesDone).map_err(Error::refusal)?;
    tx.run(sql!("lane/flip_batch"), params![id, from.as_str(), to.as_str(), tx.now])?;
    Ok(Some(batch))
}
