//! Claiming: picks a lane in the claim order and leases lines of it to one instance.
//!
//! Holds throughout: a claim with an id that exists gives the same tranche again; a tranche holds
//! exactly the lines that its lease names, or the whole call is undone.

use std::collections::HashSet;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use rusqlite::{Row, params};
use windrow_domain::{
    AuditEntryId, BatchId, FileId, InstanceId, LeaseId, LineSet, Route, Target, UpstreamId,
};
use windrow_store::claim::{
    Claim, ClaimedLanes, Extended, Line, Poll, Polled, Request, Tranche, Waiting,
};
use windrow_store::{Error, Kind, Result};

use crate::lane_counts::{self, Delta, Folds, LaneKey};
use crate::returned::{self, TakenLines};
use crate::tx::{Tx, sql};
use crate::{SqliteBackend, lease, permits, rows};

#[async_trait]
impl Claim for SqliteBackend {
    async fn waiting(&self, poll: Poll) -> Result<Polled> {
        let read = move |tx: &Tx<'_>| {
            let waiting = waiting(tx, &poll)?;
            Ok(Polled { waiting, stopped: stopped(tx, poll.held)? })
        };
        self.read(read).await
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

    async fn mark_alone(&self, instance: InstanceId, lease: LeaseId, token: u64) -> Result<bool> {
        let mark = move |tx: &Tx<'_>| {
            let held = params![lease.0.into_bytes(), instance.0.into_bytes(), rows::int(token)];
            Ok(tx.run(sql!("claim/mark_alone"), held)? > 0)
        };
        self.write(mark).await
    }

    async fn set_limit(&self, target: &Target, in_flight_max: Option<u32>) -> Result<()> {
        let target = target.clone();
        self.write(move |tx| permits::set(tx, &target, in_flight_max)).await
    }
}

fn waiting(tx: &Tx<'_>, poll: &Poll) -> Result<Vec<Waiting>> {
    let read = |row: &Row<'_>| {
        let route = Route::new(rows::name(row, 0)?, rows::name(row, 1)?);
        Ok(Waiting { route, ready_in: Duration::from_micros(rows::count(row, 2)?) })
    };
    let upstreams = serde_json::to_string(&poll.upstreams).expect("names are text");
    let mut waiting = match poll.only {
        Some(batch) => {
            let of = params![tx.now, poll.limit, upstreams, batch.0.into_bytes()];
            tx.all(sql!("claim/waiting_of_batch"), of, read)?
        }
        None => tx.all(sql!("claim/waiting"), params![tx.now, poll.limit, upstreams], read)?,
    };
    waiting.sort_unstable_by(|a, b| a.route.cmp(&b.route));
    Ok(waiting)
}

/// Those of the leases that must not go on, ascending.
pub(crate) fn stopped(tx: &Tx<'_>, mut leases: Vec<LeaseId>) -> Result<Vec<LeaseId>> {
    leases.sort_unstable();
    let mut stopped = Vec::new();
    for lease in leases {
        let named = params![lease.0.into_bytes(), tx.now];
        if tx.sure(sql!("claim/is_stopped"), named, |row| row.get(0))? {
            stopped.push(lease);
        }
    }
    Ok(stopped)
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
    let mut lanes = request.lanes();
    let mut targets: Vec<&str> = lanes.iter().map(|lane| lane.target).collect();
    targets.sort_unstable();
    targets.dedup();
    let full = permits::full(tx, &targets)?;
    lanes.retain(|lane| !full.contains(lane.target));
    // Each round either claims, or takes a drained lane or a target at its limit out of the choice.
    while let Some(lane) = pick(tx, &lanes, request.only)? {
        let allowed = permits::allow(tx, &lane.target, instance, request.lines_max.into())?;
        if allowed == 0 {
            lanes.retain(|other| other.target != lane.target.as_str());
            continue;
        }
        if let Some(tranche) = grant(tx, instance, request, &lane, allowed)? {
            return Ok(Some(tranche));
        }
        lane_counts::fold(tx, lane.key, &Delta::default(), None, &mut Vec::new())?;
    }
    Ok(None)
}

/// The upstream that a lane is claimed for. The first claim of one whose upstream was not known binds it
/// to its own.
fn bind(tx: &Tx<'_>, instance: InstanceId, request: &Request, lane: &Picked) -> Result<UpstreamId> {
    if !lane.upstream.is_unknown() {
        return Ok(lane.upstream.clone());
    }
    let route = request.routes.iter().find(|route| route.target == lane.target);
    let route = route.ok_or_else(|| tx.corrupt("a lane was picked that was not asked for"))?;
    let bound_to = &route.upstream;
    let batch = lane.key.batch.0.into_bytes();
    tx.run(sql!("claim/bind_lane"), params![batch, lane.key.lane, bound_to.as_str()])?;
    let id = AuditEntryId::new().0.into_bytes();
    let (actor, action) = (format!("instance {instance}"), format!("bind to {bound_to}"));
    tx.run(sql!("claim/note_bound"), params![batch, id, tx.now, actor, action])?;
    Ok(bound_to.clone())
}

/// A lane to claim from.
struct Picked {
    key: LaneKey,
    upstream: UpstreamId,
    target: Target,
    owner: String,
    file: FileId,
    total: u64,
    cursor: u64,
    generation: u32,
}

fn pick(tx: &Tx<'_>, lanes: &[ClaimedLanes<'_>], only: Option<BatchId>) -> Result<Option<Picked>> {
    if lanes.is_empty() {
        return Ok(None);
    }
    let pairs: Vec<_> = lanes.iter().map(|lane| (lane.upstream, lane.target)).collect();
    let wanted = serde_json::to_string(&pairs).expect("names are text");
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
        upstream: rows::name(row, 8)?,
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
    let upstream = bind(tx, instance, request, lane)?;
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
        taken.lines.to_string(),
        upstream.as_str()
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
    reply.stopped = stopped(tx, reply.extended.clone())?;
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
