//! Lease rows: reading them, and the ways out of one that all stages share.
//!
//! Holds throughout: a call that deletes or shrinks a lease also moves its lines and folds the
//! lane.

use jiff::Timestamp;
use rusqlite::{Row, params};
use windrow_domain::{BatchId, FileId, InstanceId, Lease, LeaseId, LeaseProof, LineSet};
use windrow_store::Result;

use crate::lane_counts::{Delta, Folds, LaneKey};
use crate::returned::{self, Bucket};
use crate::rows;
use crate::tx::{Tx, sql};

/// A lease as its row says.
pub(crate) struct LeaseRow {
    pub(crate) lease: Lease,
    /// Lines it held when it was granted.
    pub(crate) granted: u32,
    /// Its one line runs alone in its instance.
    pub(crate) alone: bool,
}

/// The end of the batch's window; the end of time stands for none.
fn deadline(row: &Row<'_>) -> rusqlite::Result<Option<Timestamp>> {
    let due: Option<i64> = row.get(15)?;
    match due {
        None | Some(i64::MAX) => Ok(None),
        Some(_) => rows::time(row, 15).map(Some),
    }
}

impl LeaseRow {
    /// Reads the columns of `claim/find_lease`.
    pub(crate) fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        let held = LeaseProof {
            id: LeaseId(rows::uuid(row, 0)?),
            token: rows::count(row, 1)?,
            version: row.get(10)?,
            outstanding: rows::parsed(row, 14)?,
        };
        let lease = Lease {
            held,
            instance: InstanceId(rows::uuid(row, 2)?),
            batch: BatchId(rows::uuid(row, 3)?),
            lane: row.get(4)?,
            file: FileId(rows::uuid(row, 5)?),
            upstream: rows::name(row, 16)?,
            target: rows::name(row, 6)?,
            attempts: row.get(7)?,
            crashes: row.get(8)?,
            generation: row.get(9)?,
            granted_at: rows::time(row, 12)?,
            expires_at: rows::time(row, 13)?,
            deadline: deadline(row)?,
        };
        Ok(Self { lease, granted: row.get(11)?, alone: row.get(17)? })
    }

    pub(crate) fn key(&self) -> LaneKey {
        LaneKey { batch: self.lease.batch, lane: self.lease.lane }
    }

    /// How small the next tranche of its lines must be: lines that were lost together stay apart
    /// from others.
    pub(crate) fn tranche_max(&self) -> Option<u32> {
        (self.lease.crashes > 0).then_some(self.granted)
    }
}

pub(crate) fn find(tx: &Tx<'_>, id: LeaseId) -> Result<Option<LeaseRow>> {
    tx.one(sql!("claim/find_lease"), [id.0.into_bytes()], LeaseRow::read)
}

pub(crate) fn of_instance(tx: &Tx<'_>, instance: InstanceId) -> Result<Vec<LeaseRow>> {
    tx.all(sql!("claim/leases_of_instance"), [instance.0.into_bytes()], LeaseRow::read)
}

/// Writes what is left of a lease, or deletes it when nothing is.
pub(crate) fn shrink_or_delete(
    tx: &Tx<'_>,
    row: &LeaseRow,
    remaining: &LineSet,
) -> Result<Option<LeaseProof>> {
    let held = &row.lease.held;
    let (id, token) = (held.id.0.into_bytes(), rows::int(held.token));
    let changed = if remaining.is_empty() {
        tx.run(sql!("claim/delete_lease"), params![id, token, held.version])?
    } else {
        let (lines, n) = (remaining.to_string(), rows::int(remaining.len()));
        tx.run(sql!("record/shrink_lease"), params![id, token, held.version, lines, n])?
    };
    if changed != 1 {
        return Err(tx.corrupt("a lease changed while its writer held the database"));
    }
    Ok((!remaining.is_empty()).then(|| LeaseProof {
        id: held.id,
        token: held.token,
        version: held.version + 1,
        outstanding: remaining.clone(),
    }))
}

/// Gives a whole lease back untried: no attempt and no crash is counted.
pub(crate) fn release(tx: &Tx<'_>, row: &LeaseRow, folds: &mut Folds) -> Result<u64> {
    let bucket = Bucket {
        attempts: row.lease.attempts,
        crashes: row.lease.crashes,
        tranche_max: row.tranche_max(),
        not_before: tx.bucket(),
    };
    return_lines(tx, row, &bucket, folds)
}

/// Moves all that is outstanding of a lease to returned.
pub(crate) fn return_lines(
    tx: &Tx<'_>,
    row: &LeaseRow,
    bucket: &Bucket,
    folds: &mut Folds,
) -> Result<u64> {
    let outstanding = &row.lease.held.outstanding;
    shrink_or_delete(tx, row, &LineSet::new())?;
    returned::add(tx, row.key(), bucket, outstanding)?;
    let n = outstanding.len();
    folds.leave(row, n, Delta { returned: rows::int(n), ..Delta::default() });
    Ok(n)
}
