//! Claiming: gives lines to one instance for a while.
//!
//! Holds throughout: a line has at most one live lease; a lease is proof, not a hint; the database's
//! clock decides expiry, and expiry alone decides nothing.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use windrow_domain::lease::TRANCHE_LINES_MAX;
use windrow_domain::{BatchId, InstanceId, Lease, LeaseId, Target};

use crate::record::{Record, Turn};
use crate::{Result, error};

/// Longest lease, so that a lost one is found in time.
pub const LEASE_MS_MAX: u64 = 3_600_000;
/// Most targets of one claim, and of one look at what waits.
pub const TARGETS_MAX: usize = 1000;

/// What an instance asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Made by the caller: a repeat with the same id finds the lease already there.
    pub lease: LeaseId,
    /// From lanes of any of these targets.
    pub targets: Vec<Target>,
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
        error::within("targets", self.targets.len() as u64, TARGETS_MAX as u64)
    }
}

/// `Invalid` when a lease would be too short or too long.
pub fn check_lease_ms(lease_ms: u64) -> Result<()> {
    error::within("lease_ms", lease_ms, LEASE_MS_MAX)
}

/// `Invalid` when a look at what waits would be for no target, or for too many.
pub fn check_waiting(limit: u32) -> Result<()> {
    error::within("limit", limit.into(), TARGETS_MAX as u64)
}

/// A target with lines that no instance holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Where they go.
    pub target: Target,
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
    /// The proof.
    pub lease: Lease,
    /// The outstanding lines.
    pub lines: Vec<Line>,
}

/// What extending leases showed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extended {
    /// Still the instance's, until the new time.
    pub extended: Vec<LeaseId>,
    /// No longer the instance's: stop working on them.
    pub lost: Vec<LeaseId>,
    /// Were the instance's in the database but not in its list: released, no attempt counted.
    pub released: Vec<LeaseId>,
}

/// The stage that hands lines out.
#[async_trait]
pub trait Claim: Record {
    /// Leases one tranche: the owner with the least in flight first, then priority, deadline, due
    /// returned lines before untouched ones, then line. None when nothing can be claimed now.
    async fn lease_tranche(
        &self,
        instance: InstanceId,
        request: Request,
    ) -> Result<Option<Tranche>> {
        let turn = Turn { instance, outcomes: Vec::new(), claim: Some(request) };
        Ok(self.turn(turn).await?.claimed)
    }

    /// The targets of open lanes that have lines to claim now or later, in the order of their names,
    /// at most `limit` of them (up to [`TARGETS_MAX`]). One read, cheap enough for an idle worker to
    /// ask every second. Limits in flight are not looked at: a claim may still give nothing.
    async fn waiting(&self, only: Option<BatchId>, limit: u32) -> Result<Vec<Waiting>>;

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

    /// Sets how many lines of a target may be in flight over all instances; none for no limit.
    /// Lowering it takes nothing back: it holds from the next claim on.
    async fn set_limit(&self, target: &Target, in_flight_max: Option<u32>) -> Result<()>;
}
