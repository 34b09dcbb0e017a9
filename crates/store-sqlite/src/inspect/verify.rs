//! Everything known about a batch's lines, from the rows themselves.

use std::collections::BTreeMap;

use rusqlite::params;
use windrow_domain::{BatchId, InstanceId, LaneNo, LineSet, UpstreamId};
use windrow_store::inspect::{BatchRows, LaneRows};
use windrow_store::recipe::recipe_hash;
use windrow_store::{Result, Scope};

use super::recipes;
use crate::tx::{Tx, sql};
use crate::{batch, lane_counts, rows};

pub(super) fn read(tx: &Tx<'_>, id: BatchId) -> Result<BatchRows> {
    let batch = batch::find(tx, &Scope::All, id)?;
    let mut returned = sets(tx, sql!("inspect/audit_returned"), id)?;
    let mut leased = leased(tx, id)?;
    let mut finished = finished(tx, id)?;
    let lanes = lane_counts::lanes(tx, id)?;
    let lanes_read = lanes.into_iter().map(|lane| {
        let no = lane.key.lane;
        let seqs = finished.remove(&no).unwrap_or_default();
        let leased = leased.remove(&no).unwrap_or_default();
        LaneRows {
            lane: no,
            upstream: lane.upstream,
            phase: lane.phase,
            cursor: lane.cursor,
            counts: lane.counts,
            returned: returned.remove(&no).unwrap_or_default(),
            leased: leased.sets,
            leased_for: leased.upstreams,
            alone: leased.alone,
            results: seqs.iter().map(|seqs| seqs.len() as u64).sum(),
            finished: seqs.map(|seqs| seqs.into_iter().collect()),
        }
    });
    let lanes = lanes_read.collect();
    // A row of a lane that the batch does not have would be a line in no place at all.
    if !(returned.is_empty() && leased.is_empty() && finished.is_empty()) {
        return Err(tx.corrupt("lines are in lanes that the batch does not have"));
    }
    let recipes = recipes::of(tx, id)?;
    Ok(BatchRows {
        state: batch.state,
        generation: batch.generation,
        recipe_hash: batch.recipe_hash,
        recipes: recipes.iter().map(|r| (r.generation, recipe_hash(&r.text))).collect(),
        lanes,
    })
}

fn sets(tx: &Tx<'_>, sql: &str, id: BatchId) -> Result<BTreeMap<LaneNo, Vec<LineSet>>> {
    let rows: Vec<(LaneNo, LineSet)> =
        tx.all(sql, params![id.0.into_bytes()], |row| Ok((row.get(0)?, rows::parsed(row, 1)?)))?;
    let mut lanes = BTreeMap::<LaneNo, Vec<LineSet>>::new();
    for (lane, set) in rows {
        lanes.entry(lane).or_default().push(set);
    }
    Ok(lanes)
}

/// The leases of one lane.
#[derive(Default)]
struct LeasedRows {
    sets: Vec<LineSet>,
    upstreams: Vec<UpstreamId>,
    alone: Vec<(InstanceId, LineSet)>,
}

/// The leases of each lane.
fn leased(tx: &Tx<'_>, id: BatchId) -> Result<BTreeMap<LaneNo, LeasedRows>> {
    let rows: Vec<(LaneNo, LineSet, UpstreamId, InstanceId, bool)> =
        tx.all(sql!("inspect/audit_leased"), params![id.0.into_bytes()], |row| {
            let holder = InstanceId(rows::uuid(row, 3)?);
            Ok((row.get(0)?, rows::parsed(row, 1)?, rows::name(row, 2)?, holder, row.get(4)?))
        })?;
    let mut lanes = BTreeMap::<LaneNo, LeasedRows>::new();
    for (lane, set, upstream, holder, alone) in rows {
        let leased = lanes.entry(lane).or_default();
        if alone {
            leased.alone.push((holder, set.clone()));
        }
        leased.sets.push(set);
        leased.upstreams.push(upstream);
    }
    Ok(lanes)
}

/// The `seq` of each result, by lane and status.
fn finished(tx: &Tx<'_>, id: BatchId) -> Result<BTreeMap<LaneNo, [Vec<u64>; 4]>> {
    let rows: Vec<(LaneNo, u64, usize)> =
        tx.all(sql!("inspect/audit_finished"), params![id.0.into_bytes()], |row| {
            let status: u16 = row.get(2)?;
            Ok((row.get(0)?, rows::count(row, 1)?, usize::from(status)))
        })?;
    let mut lanes = BTreeMap::<LaneNo, [Vec<u64>; 4]>::new();
    for (lane, seq, status) in rows {
        let by_status = lanes.entry(lane).or_default().get_mut(status);
        by_status.ok_or_else(|| tx.corrupt("a result has no known status"))?.push(seq);
    }
    Ok(lanes)
}
