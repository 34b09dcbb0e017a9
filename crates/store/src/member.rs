//! Members: which instances are alive.
//!
//! Holds throughout: a heartbeat is one small update for each instance and interval, never one for
//! each row; a tombstoned instance is refused and must register again under a new id; an instance
//! that leaves by itself gives its leases back untried, one that others bury loses them, and the
//! crash counts (rule 9).

use async_trait::async_trait;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use windrow_domain::{InstanceId, UpstreamId};

use crate::claim::check_lease_ms;
use crate::{Result, error};

/// Longest name of a duty.
pub const DUTY_BYTES_MAX: usize = 64;

/// `Invalid` when a duty has no name or a long one, or would be held too briefly or too long.
pub fn check_duty(duty: &str, lease_ms: u64) -> Result<()> {
    error::within("duty", duty.len() as u64, DUTY_BYTES_MAX as u64)?;
    check_lease_ms(lease_ms)
}

/// Longest id of a boot.
pub const BOOT_ID_BYTES_MAX: usize = 64;
/// Longest path of a lock.
pub const LOCK_PATH_BYTES_MAX: usize = 4096;

/// The file whose lock the kernel holds for an instance as long as its process lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessLock {
    /// The boot of the kernel that holds the lock. Of another one nothing is known.
    pub boot_id: String,
    /// The device that the file is on.
    pub device: u64,
    /// The number of the file on its device.
    pub inode: u64,
    /// The absolute path of the file, as the instance sees it.
    pub path: String,
}

/// How it is known that an instance is dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// The lock that the kernel held for it was got by the caller, who keeps it during the call.
    LockGot,
    /// The caller saw no other heartbeat than this one for long enough.
    Silent {
        /// The heartbeat that did not change.
        heartbeat_at: Timestamp,
    },
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
    /// What else the instance says of itself, as JSON.
    pub metadata: String,
    /// The lock that is held for it; none where there is no folder for one.
    pub lock: Option<ProcessLock>,
}

impl NewMember {
    /// `Invalid` when its lock has a long path or no boot.
    pub fn check(&self) -> Result<()> {
        let Some(lock) = &self.lock else { return Ok(()) };
        error::within("boot id", lock.boot_id.len() as u64, BOOT_ID_BYTES_MAX as u64)?;
        error::within("path of the lock", lock.path.len() as u64, LOCK_PATH_BYTES_MAX as u64)
    }
}

/// What an instance that runs lines says of itself among its metadata.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServedUpstreams {
    /// The upstreams that it claims lines for.
    pub upstreams: Vec<UpstreamId>,
}

impl ServedUpstreams {
    /// As it is kept.
    pub fn to_metadata(&self) -> String {
        serde_json::to_string(self).expect("names are text")
    }

    /// What an instance said; none for one that runs no lines, or is of another build.
    pub fn read(metadata: &str) -> Option<Self> {
        serde_json::from_str(metadata).ok()
    }
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
    /// What else the instance says of itself, as JSON.
    pub metadata: String,
    /// When it joined.
    pub joined_at: Timestamp,
    /// When it was last heard of.
    pub heartbeat_at: Timestamp,
    /// Time since then, by the clock of the database: that of the reader may be wrong.
    #[serde(skip)]
    pub silent_ms: u64,
    /// When it left or was buried.
    pub tombstoned_at: Option<Timestamp>,
    /// The lock that is held for it. It proves something to processes of its own machine only.
    #[serde(skip)]
    pub lock: Option<ProcessLock>,
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

    /// Tombstones another instance, which is dead. Its leases are lost at once, not released: the
    /// next [`crate::Sweep::return_lost`] takes them back and counts the crash; its duties,
    /// finalisations and partitions are free. True when the instance is tombstoned now, also by
    /// an earlier call; false when it sent another heartbeat than the one that was seen. `Missing` when
    /// it never registered.
    async fn bury(&self, instance: InstanceId, evidence: Evidence) -> Result<bool>;

    /// All instances, the tombstoned included, by the time they joined.
    async fn members(&self) -> Result<Vec<Member>>;
}
