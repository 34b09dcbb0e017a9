//! Claiming: picks a lane in the claim order and leases lines of it to one instance.
//!
//! Holds throughout: a claim with an id that exists gives the same tranche again; a tranche holds
//! exactly the lines that its lease names, or the whole call is undone.

use std::collections::HashSet;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use rusqlite::{Row, params};
use windrow_domain::{BatchId, FileId, InstanceId, LeaseId, LineSet, Target};
use windrow_store::claim::{Claim, Extended, Line, Request, Tranche, Waiting};
use windrow_store::{Error, Kind, Result};

use crate::lane_counts::{self, Delta, Folds, LaneKey};
use crate::returned::{self, TakenLines};
use crate::tx::{Tx, sql};
use crate::{SqliteBackend, lease, permits, rows};

#[async_trait]
impl Claim for SqliteBackend {
    async fn waiting(&self, only: Option<BatchId>, limit: u32) -> Result<Vec<Waiting>> {
        self.read(move |tx| waiting(tx, only, limit)).await
    }

    async fn extend_leases(
        &self,
        instance: InstanceId,
        known: Vec<LeaseId>,
        lease_ms: u64,
    ) -> Result<Extended> {
        self.write(move |tx| extend(tx, instance, &known, lease_ms)).await
    }

    async fn release_leases(&self, instance: InstanceId, leases: Vec<LeaseId>) -> Result<u64> {
        self.write(move |tx| release(tx, instance, &leases)).await
    }

    async fn set_limit(&self, target: &Target, in_flight_max: Option<u32>) -> Result<()> {
        let target = target.clone();
        self.write(move |tx| permits::set(tx, &target, in_flight_max)).await
    }
}

fn waiting(tx: &Tx<'_>, only: Option<BatchId>, limit: u32) -> Result<Vec<Waiting>> {
    let read = |row: &Row<'_>| {
        let micros = rows::count(row, 1)?;
        Ok(Waiting { target: rows::name(row, 0)?, ready_in: Duration::from_micros(micros) })
    };
    match only {
        Some(batch) => {
            let of = params![tx.now, limit, batch.0.into_bytes()];
            tx.all(sql!("claim/waiting_of_batch"), of, read)
        }
        None => tx.all(sql!("claim/waiting"), params![tx.now, limit], read),
    }
}

/// Leases one tranche, or finds the one that the same claim leased before.
pub(crate) fn lease_tranche(
    tx: &Tx<'_>,
    instance: InstanceId,
    request: &Request,
) -> Result<Option<Tranche>> {
    let found = lease::find(tx, request.lease)?;
    if found.as_ref().is_some_and(|found| found.lease.instance != instance) {
        let because = "another instance has a lease with this id";
        return Err(Error::of(Kind::Conflict).because(because));
    }
    // Before the repeat: what a tombstoned instance holds is lost already, and is not given again.
    let id = [instance.0.into_bytes()];
    if tx.sure(sql!("claim/is_tombstoned"), id, |row| row.get(0))? {
        return Ok(None);
    }
    if let Some(found) = found {
        return read_tranche(tx, found.lease).map(Some);
    }
    let mut targets: Vec<&str> = request.targets.iter().map(Target::as_str).collect();
    targets.sort_unstable();
    targets.dedup();
    let full = permits::full(tx, &targets)?;
    targets.retain(|target| !full.contains(*target));
    // Each round either claims, or takes a drained lane or a target at its limit out of the choice.
    while let Some(lane) = pick(tx, &targets, request.only)? {
        let allowed = permits::allow(tx, &lane.target, instance, request.lines_max.into())?;
        if allowed == 0 {
            targets.retain(|target| *target != lane.target.as_str());
            continue;
        }
        if let Some(tranche) = grant(tx, instance, request, &lane, allowed)? {
            return Ok(Some(tranche));
        }
        lane_counts::fold(tx, lane.key, &Delta::default(), None, &mut Vec::new())?;
    }
    Ok(None)
}

/// A lane to claim from.
struct Picked {
    key: LaneKey,
    target: Target,
    owner: String,
    file: FileId,
    total: u64,
    cursor: u64,
    generation: u32,
}

fn pick(tx: &Tx<'_>, targets: &[&str], only: Option<BatchId>) -> Result<Option<Picked>> {
    if targets.is_empty() {
        return Ok(None);
    }
    let wanted = serde_json::to_string(targets).expect("names are text");
    match only {
        Some(batch) => {
            let from = params![wanted, tx.now, batch.0.into_bytes()];
            tx.one(sql!("claim/pick_lane_of_batch"), from, read_picked)
        }
        None => tx.one(sql!("claim/pick_lane"), params![wanted, tx.now], read_picked),
    }
}

fn read_picked(row: &Row<'_>) -> rusqlite::Result<Picked> {
    Ok(Picked {
        key: LaneKey { batch: BatchId(rows::uuid(row, 0)?), lane: row.get(1)? },
        target: rows::name(row, 2)?,
        owner: row.get(3)?,
        file: FileId(rows::uuid(row, 4)?),
        total: rows::count(row, 5)?,
        cursor: rows::count(row, 6)?,
        generation: row.get(7)?,
    })
}

/// Takes lines of the lane, due returned ones first, and writes the lease. None when it has none.
fn grant(
    tx: &Tx<'_>,
    instance: InstanceId,
    request: &Request,
    lane: &Picked,
    allowed: u64,
) -> Result<Option<Tranche>> {
    let (taken, delta) = match returned::take(tx, lane.key, allowed)? {
        Some(taken) => {
            let n = rows::int(taken.lines.len());
            (taken, Delta { returned: -n, leased: n, ..Delta::default() })
        }
        None => {
            let n = allowed.min(lane.total - lane.cursor);
            let lines = LineSet::span(lane.cursor, n);
            let n = rows::int(n);
            let delta = Delta { cursor: n, leased: n, ..Delta::default() };
            (TakenLines { attempts: 0, crashes: 0, lines }, delta)
        }
    };
    if taken.lines.is_empty() {
        return Ok(None);
    }
    let n = taken.lines.len();
    let token: i64 = tx.sure(sql!("claim/next_token"), [], |row| row.get(0))?;
    let new = params![
        request.lease.0.into_bytes(),
        token,
        instance.0.into_bytes(),
        lane.key.batch.0.into_bytes(),
        lane.key.lane,
        lane.file.0.into_bytes(),
        lane.target.as_str(),
        lane.owner,
        taken.attempts,
        taken.crashes,
        lane.generation,
        rows::int(n),
        tx.now,
        tx.after(request.lease_ms * 1000),
        taken.lines.to_string()
    ];
    tx.run(sql!("claim/insert_lease"), new)?;
    permits::spend(tx, &lane.target, instance, n)?;
    lane_counts::fold(tx, lane.key, &delta, None, &mut Vec::new())?;
    let granted = lease::find(tx, request.lease)?;
    let granted = granted.ok_or_else(|| tx.corrupt("a lease vanished while it was granted"))?;
    read_tranche(tx, granted.lease).map(Some)
}

/// Reads the lines that the lease names.
fn read_tranche(tx: &Tx<'_>, lease: windrow_domain::Lease) -> Result<Tranche> {
    let outstanding = &lease.held.outstanding;
    let expected = outstanding.len();
    let mut lines = Vec::with_capacity(usize::try_from(expected).unwrap_or(0));
    let mut statement = tx.prepare(sql!("claim/read_lines"))?;
    let file = lease.file.0.into_bytes();
    for &(lo, hi) in outstanding.ranges() {
        let range = params![file, lease.lane, rows::int(lo), rows::int(hi)];
        let mut rows = statement.query(range).map_err(|cause| tx.failed(cause))?;
        while let Some(row) = rows.next().map_err(|cause| tx.failed(cause))? {
            lines.push(read_line(row).map_err(|cause| tx.failed(cause))?);
        }
    }
    if lines.len() as u64 != expected {
        let because = format!("{} of {expected} leased lines are stored", lines.len());
        return Err(tx.corrupt(because));
    }
    Ok(Tranche { lease, lines })
}

fn read_line(row: &Row<'_>) -> rusqlite::Result<Line> {
    let raw = Bytes::copy_from_slice(row.get_ref(2)?.as_blob()?);
    Ok(Line { seq: rows::count(row, 0)?, line: rows::count(row, 1)?, raw })
}

fn extend(tx: &Tx<'_>, instance: InstanceId, known: &[LeaseId], lease_ms: u64) -> Result<Extended> {
    let mut reply = Extended::default();
    let until = tx.after(lease_ms * 1000);
    let named: HashSet<LeaseId> = known.iter().copied().collect();
    for id in known {
        let lease = params![id.0.into_bytes(), instance.0.into_bytes(), until];
        match tx.run(sql!("claim/extend_lease"), lease)? {
            0 => reply.lost.push(*id),
            _ => reply.extended.push(*id),
        }
    }
    let mut folds = Folds::default();
    for row in lease::of_instance(tx, instance)? {
        if !named.contains(&row.lease.held.id) {
            lease::release(tx, &row, &mut folds)?;
            reply.released.push(row.lease.held.id);
        }
    }
    folds.write(tx)?;
    Ok(reply)
}

fn release(tx: &Tx<'_>, instance: InstanceId, leases: &[LeaseId]) -> Result<u64> {
    let (mut folds, mut lines) = (Folds::default(), 0);
    for id in leases {
        let found = lease::find(tx, *id)?;
        if let Some(row) = found.filter(|row| row.lease.instance == instance) {
            lines += lease::release(tx, &row, &mut folds)?;
        }
    }
    folds.write(tx)?;
    Ok(lines)
}
