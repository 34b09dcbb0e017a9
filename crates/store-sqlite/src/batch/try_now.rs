//! Trying now: returned lines that wait for their time are due at once.
//!
//! Holds throughout: no line changes its place, its attempts or its crashes; what an instance holds is left to it.

use rusqlite::params;
use windrow_domain::{BatchId, FileId, LineSet, Phase};
use windrow_store::batch::TriedNow;
use windrow_store::{Result, Scope};

use crate::lane_counts::{self, Delta, LaneRow};
use crate::returned::{self, Bucket};
use crate::rows;
use crate::tx::{Tx, sql};

pub(super) fn run(tx: &Tx<'_>, scope: &Scope, id: BatchId, lines: &LineSet) -> Result<TriedNow> {
    let batch = super::find(tx, scope, id)?;
    let mut tried = TriedNow::default();
    for lane in lane_counts::lanes(tx, id)? {
        let (returned, leased) = (lane.counts.returned, lane.counts.leased);
        if !matches!(lane.phase, Phase::Open | Phase::Paused) || returned + leased == 0 {
            continue;
        }
        let seqs = seqs_of(tx, batch.file, &lane, lines)?;
        let due = make_due(tx, &lane, &seqs)?;
        tried.due += due;
        tried.leased += leased_of(tx, &lane, &seqs)?;
        if due > 0 {
            lane_counts::fold(tx, lane.key, &Delta::default(), None, &mut Vec::new())?;
        }
    }
    Ok(tried)
}

/// Which of the lane's lines these are. Lines of a lane ascend with `seq`, so each range of lines is one of
/// the lane's own numbers, found by bisecting.
fn seqs_of(tx: &Tx<'_>, file: FileId, lane: &LaneRow, lines: &LineSet) -> Result<LineSet> {
    let mut seqs = LineSet::new();
    for &(lo, hi) in lines.ranges() {
        let first = first_seq(tx, file, lane, lo)?;
        let end = first_seq(tx, file, lane, hi.saturating_add(1))?;
        seqs = seqs.union(&LineSet::span(first, end - first));
    }
    Ok(seqs)
}

/// The first of the lane's lines whose number in the file is that or higher.
fn first_seq(tx: &Tx<'_>, file: FileId, lane: &LaneRow, line: u64) -> Result<u64> {
    let (mut lo, mut hi) = (0, lane.counts.total);
    while lo < hi {
        let middle = lo + (hi - lo) / 2;
        let place = params![file.0.into_bytes(), lane.key.lane, rows::int(middle)];
        let found = tx.sure(sql!("batch/line_at"), place, |row| rows::count(row, 0))?;
        if found < line { lo = middle + 1 } else { hi = middle }
    }
    Ok(lo)
}

fn make_due(tx: &Tx<'_>, lane: &LaneRow, seqs: &LineSet) -> Result<u64> {
    let key = lane.key;
    let ahead = params![key.batch.0.into_bytes(), key.lane, tx.now];
    let sets = tx.all(sql!("returned/ahead"), ahead, |row| {
        let bucket = Bucket {
            attempts: row.get(1)?,
            crashes: row.get(2)?,
            tranche_max: row.get(3)?,
            not_before: tx.bucket(),
        };
        Ok((row.get::<_, i64>(0)?, bucket, rows::parsed::<LineSet>(row, 4)?))
    })?;
    let mut due = 0;
    for (id, bucket, lines) in sets {
        let (now, rest) = (lines.intersection(seqs), lines.difference(seqs));
        if now.is_empty() {
            continue;
        }
        if rest.is_empty() {
            tx.run(sql!("returned/delete"), [id])?;
        } else {
            let (text, n) = (rest.to_string(), rows::int(rest.len()));
            tx.run(sql!("returned/shrink"), params![id, text, n])?;
        }
        returned::add(tx, key, &bucket, &now)?;
        due += now.len();
    }
    Ok(due)
}

fn leased_of(tx: &Tx<'_>, lane: &LaneRow, seqs: &LineSet) -> Result<u64> {
    let mut leased = 0;
    for (of, _, lines) in super::reprocess::leased_sets(tx, lane.key.batch)? {
        if of == lane.key.lane {
            leased += lines.intersection(seqs).len();
        }
    }
    Ok(leased)
}
