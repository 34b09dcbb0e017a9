//! Claiming: gives lines to one instance for a while.
//!
//! Holds throughout: a line has at most one live lease; a lease is proof, not a hint; the database's
//! clock decides expiry, and expiry alone decides nothing.

use std::collections::BTreeSet;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use windrow_domain::lease::TRANCHE_LINES_MAX;
use windrow_domain::upstream::UNKNOWN;
use windrow_domain::{BatchId, InstanceId, Lease, LeaseId, Route, Target, UpstreamId};

use crate::record::{Record, Turn};
use crate::upstream::UPSTREAMS_MAX;
use crate::{Error, Result, error};

/// Longest lease, so that a lost one is found in time.
pub const LEASE_MS_MAX: u64 = 3_600_000;
/// Most routes of one claim, and of one poll.
pub const TARGETS_MAX: usize = 1000;
/// Most leases that one poll names.
pub const POLL_LEASES_MAX: usize = 10_000;

/// What an instance asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Made by the caller: a repeat with the same id finds the lease already there.
    pub lease: LeaseId,
    /// From lanes of any of these routes: of that upstream and that target.
    pub routes: Vec<Route>,
    /// Also from lanes of these targets whose upstream nobody knows yet. The lane that is claimed
    /// is bound to the upstream of the route for good, and its audit log says so.
    pub binds: bool,
    /// Only from this batch.
    pub only: Option<BatchId>,
    /// Most lines, up to [`TRANCHE_LINES_MAX`].
    pub lines_max: u32,
    /// How long until a sweep may take it back.
    pub lease_ms: u64,
}

impl Request {
    /// `Invalid`, naming the field, when it asks for what no claim may have.
    pub fn check(&self) -> Result<()> {
        check_lease_ms(self.lease_ms)?;
        let lines_max = u64::from(self.lines_max);
        error::within("lines_max", lines_max, TRANCHE_LINES_MAX.into())?;
        if self.routes.iter().any(|route| route.upstream.is_unknown()) {
            return Err(Error::invalid("routes", "a claim is for an upstream that is known"));
        }
        error::within("routes", self.routes.len() as u64, TARGETS_MAX as u64)
    }
}

/// Lanes that a claim may take from, by what is stored of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClaimedLanes<'a> {
    /// The upstream in the lane's row.
    pub upstream: &'a str,
    /// The target in the lane's row.
    pub target: &'a str,
    /// The upstream that the lease is for; the lane is bound to it when its own is not known.
    pub bound_to: &'a str,
}

impl Request {
    /// The lanes that it may take from: those of its routes, and where it binds those of their
    /// targets whose upstream nobody knows. Of two routes with one target the first one binds.
    pub fn lanes(&self) -> Vec<ClaimedLanes<'_>> {
        let mut lanes: Vec<ClaimedLanes<'_>> = Vec::with_capacity(self.routes.len() * 2);
        for route in &self.routes {
            let (bound_to, target) = (route.upstream.as_str(), route.target.as_str());
            lanes.push(ClaimedLanes { upstream: bound_to, target, bound_to });
        }
        if self.binds {
            let mut met = BTreeSet::new();
            let unknown = self.routes.iter().filter(|route| met.insert(&route.target));
            lanes.extend(unknown.map(|route| ClaimedLanes {
                upstream: UNKNOWN,
                target: route.target.as_str(),
                bound_to: route.upstream.as_str(),
            }));
        }
        lanes
    }
}

/// `Invalid` when a lease would be too short or too long.
pub fn check_lease_ms(lease_ms: u64) -> Result<()> {
    error::within("lease_ms", lease_ms, LEASE_MS_MAX)
}

/// What a worker asks again and again: what waits, and which of its leases must not go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Poll {
    /// Only lanes of these upstreams, up to [`UPSTREAMS_MAX`].
    pub upstreams: Vec<UpstreamId>,
    /// Only of this batch.
    pub only: Option<BatchId>,
    /// Most routes of the answer, up to [`TARGETS_MAX`].
    pub limit: u32,
    /// Leases that the instance holds, up to [`POLL_LEASES_MAX`]; an idle instance names none.
    pub held: Vec<LeaseId>,
}

impl Poll {
    /// Asks for at most so many targets of the program's own executor, of any batch.
    pub fn targets(limit: u32) -> Self {
        Self { upstreams: vec![UpstreamId::own()], only: None, limit, held: Vec::new() }
    }

    /// `Invalid`, naming the field, when it asks for nothing, or for too much, or names too many leases.
    pub fn check(&self) -> Result<()> {
        error::within("limit", self.limit.into(), TARGETS_MAX as u64)?;
        error::within("upstreams", self.upstreams.len() as u64, UPSTREAMS_MAX as u64)?;
        error::at_most("held", self.held.len(), POLL_LEASES_MAX)
    }
}

/// What a poll found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Polled {
    /// The routes of open lanes that have lines to claim now or later, in the order of their upstreams
    /// and targets.
    pub waiting: Vec<Waiting>,
    /// Those of the named leases that must not go on, ascending: their batch was cancelled, paused or
    /// moved to another upstream, its window has ended, or the lease is gone. What was not sent of
    /// them is to be released.
    pub stopped: Vec<LeaseId>,
}

/// A route with lines that no instance holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The route that the lines go; of the unknown upstream where nobody has claimed yet.
    pub route: Route,
    /// How long until the first of them may be claimed, by the database's clock; zero for now.
    pub ready_in: Duration,
}

/// A line to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Its number in the lane; outcomes are reported by it.
    pub seq: u64,
    /// Its number in the file.
    pub line: u64,
    /// Its exact bytes.
    pub raw: Bytes,
}

/// A lease and its lines, ascending by `seq`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tranche {
    /// The lease, which proves the right to the lines.
    pub lease: Lease,
    /// The outstanding lines.
    pub lines: Vec<Line>,
}

/// What extending leases showed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extended {
    /// Still the instance's, until the new time.
    pub extended: Vec<LeaseId>,
    /// Those of them that must not go on; see [`Polled::stopped`].
    pub stopped: Vec<LeaseId>,
    /// No longer the instance's: stop working on them.
    pub lost: Vec<LeaseId>,
    /// Were the instance's in the database but not in its list: released, no attempt counted.
    pub released: Vec<LeaseId>,
}

/// The stage that hands lines out.
#[async_trait]
pub trait Claim: Record {
    /// Leases one tranche: the owner with the least in flight first, then priority, deadline, due
    /// returned lines before untouched ones, then line. Nothing of a batch whose window has ended. None
    /// when nothing can be claimed now.
    async fn lease_tranche(
        &self,
        instance: InstanceId,
        request: Request,
    ) -> Result<Option<Tranche>> {
        let turn = Turn { instance, outcomes: Vec::new(), claim: Some(request) };
        Ok(self.turn(turn).await?.claimed)
    }

    /// The routes of open lanes whose window has not ended that have lines to claim now or later, and the
    /// held leases that must not go on. One read, and another while leases are held: cheap enough for an
    /// idle worker to ask every second. Limits in flight are not looked at: a claim may still give nothing.
    async fn waiting(&self, poll: Poll) -> Result<Polled>;

    /// Renews the named leases. `known` is every lease the instance holds **or is claiming right
    /// now**; any other lease of the instance is released.
    async fn extend_leases(
        &self,
        instance: InstanceId,
        known: Vec<LeaseId>,
        lease_ms: u64,
    ) -> Result<Extended>;

    /// Gives whole leases back untried; no attempt is counted. Returns how many lines went back.
    async fn release_leases(&self, instance: InstanceId, leases: Vec<LeaseId>) -> Result<u64>;

    /// Marks a lease of one line: the line runs alone in its instance from now on, until the lease ends. When
    /// the lease is lost, that line is to blame (rule 9). False, and nothing changed, when the lease is
    /// not the instance's any more, has more than one line, or the instance has marked another one, or
    /// is tombstoned. A repeat says the same.
    async fn mark_alone(&self, instance: InstanceId, lease: LeaseId, token: u64) -> Result<bool>;

    /// Sets how many lines of a target may be in flight over all instances; none for no limit.
    /// Lowering it takes nothing back: it holds from the next claim on.
    async fn set_limit(&self, target: &Target, in_flight_max: Option<u32>) -> Result<()>;
}
