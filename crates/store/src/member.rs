//! Members: which instances are alive.
//!
//! Holds throughout: a heartbeat is one small update for each instance and interval, never one for
//! each row; a tombstoned instance is refused and must register again under a new id.

use async_trait::async_trait;
use jiff::Timestamp;
use serde::Serialize;
use windrow_domain::InstanceId;

use crate::claim::check_lease_ms;
use crate::{Result, error};

/// Longest name of a duty.
pub const DUTY_BYTES_MAX: usize = 64;

/// `Invalid` when a duty has no name or a long one, or would be held too briefly or too long.
pub fn check_duty(duty: &str, lease_ms: u64) -> Result<()> {
    error::within("duty", duty.len() as u64, DUTY_BYTES_MAX as u64)?;
    check_lease_ms(lease_ms)
}

/// An instance that joins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewMember {
    /// Made by the caller, new for every start of the process.
    pub instance: InstanceId,
    /// The service it is part of.
    pub service: String,
    /// The machine it runs on.
    pub host: String,
    /// Its process id there.
    pub pid: u32,
    /// Anything else (JSON).
    pub metadata: String,
}

/// An instance as others see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Member {
    /// Its identity.
    pub instance: InstanceId,
    /// The service it is part of.
    pub service: String,
    /// The machine it runs on.
    pub host: String,
    /// Its process id there.
    pub pid: u32,
    /// Anything else (JSON).
    pub metadata: String,
    /// When it joined.
    pub joined_at: Timestamp,
    /// When it was last heard of.
    pub heartbeat_at: Timestamp,
    /// When it left or was reaped.
    pub tombstoned_at: Option<Timestamp>,
}

/// Instances: they join, say that they are alive, take duties, and leave.
#[async_trait]
pub trait Members {
    /// Joins. A repeat counts as a heartbeat; `LeaseLost` for the id of a tombstoned instance.
    async fn register(&self, member: NewMember) -> Result<()>;

    /// Says that the instance is alive. `LeaseLost` when it was tombstoned; `Missing` when it never
    /// registered.
    async fn heartbeat(&self, instance: InstanceId) -> Result<()>;

    /// Takes work that one instance at a time does, such as a sweep, or keeps it: true when the
    /// instance has the named duty for `lease_ms` from now. It gets one that is free, that it has
    /// already, whose holder's time has passed, or whose holder is tombstoned. A tombstoned instance
    /// gets none. A duty saves work and proves nothing: what is done under it must be safe twice.
    async fn take_duty(&self, instance: InstanceId, duty: &str, lease_ms: u64) -> Result<bool>;

    /// Leaves: its leases are released (no attempt, no crash counted) and it is tombstoned.
    /// Returns how many lines went back.
    async fn tombstone(&self, instance: InstanceId) -> Result<u64>;

    /// Tombstones up to `limit` instances not heard of for `stale_ms`. Their leases become lost at
    /// once: the next [`crate::Sweep::return_lost`] takes them back.
    async fn reap_members(&self, stale_ms: u64, limit: u32) -> Result<Vec<InstanceId>>;

    /// All instances, the tombstoned included, by the time they joined.
    async fn members(&self) -> Result<Vec<Member>>;
}
