//! Leases: which instance may write outcomes, until when, and with which token.
//!
//! Holds throughout: a lease is proof, not a hint. Its holder has lost it when it was taken back, which
//! the store decides under a row lock; its time having passed decides nothing by itself.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{BatchId, FileId, InstanceId, LaneNo, LeaseId, LineSet, Route, Target, UpstreamId};

/// Most lines one tranche may hold: bounds the text of a lease's set and the work of one turn.
pub const TRANCHE_LINES_MAX: u32 = 1000;

/// What the holder of a lease believes about it. The store compares `token` and `version` with the
/// row and lets nothing through that does not match.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseProof {
    /// The lease.
    pub id: LeaseId,
    /// Given by the store with each grant and never again; rises with every grant.
    pub token: u64,
    /// Rises with every change of the outstanding set.
    pub version: u32,
    /// Lines (by `seq`) that have no outcome yet.
    pub outstanding: LineSet,
}

/// A tranche: a set of lines of one lane, leased to one instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// What its holder knows of it, and proves it with.
    pub held: LeaseProof,
    /// The instance that holds it.
    pub instance: InstanceId,
    /// The batch its lines belong to.
    pub batch: BatchId,
    /// The file its lines are in.
    pub file: FileId,
    /// The lane, which has the one target.
    pub lane: LaneNo,
    /// The upstream that its lines were claimed for. The lane may have been moved since.
    pub upstream: UpstreamId,
    /// Where its lines go.
    pub target: Target,
    /// Attempts that its lines have behind them, in this generation of the batch.
    pub attempts: u32,
    /// Leases that were lost with its lines in them.
    pub crashes: u32,
    /// Raised by each reprocess of the batch.
    pub generation: u32,
    /// When it was granted.
    pub granted_at: Timestamp,
    /// When the sweep of any instance may take it back.
    pub expires_at: Timestamp,
    /// The end of the batch's window, by the database's clock: no line of it is sent later. None for never.
    pub deadline: Option<Timestamp>,
}

impl Lease {
    /// Where its lines go.
    pub fn route(&self) -> Route {
        Route::new(self.upstream.clone(), self.target.clone())
    }
}

/// What becomes of the lines of a lost lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// They go back, to be claimed in tranches of at most so many lines.
    Return {
        /// Half of what was lost, so that a line that kills its worker is soon alone.
        tranche_max: u32,
        /// Leases that were lost with them in, as it is counted from now on.
        crashes: u32,
    },
    /// The one line left has taken its worker down too often: it fails.
    Fail,
}

/// Whether a lease is of a suspect: of one line, whose next loss is the last that it may have. A suspect runs
/// alone in its instance, and its lease is marked before it begins.
pub fn is_suspect(lines: u64, crashes: u32, crashes_max: u32) -> bool {
    lines <= 1 && crashes.saturating_add(1) >= crashes_max
}

/// Decides what becomes of the `lines` of a lost lease that were already in `crashes` lost leases. A suspect
/// fails when it ran `alone`, as the mark of its lease says. Otherwise another line may have taken the
/// instance down, and the loss is not counted.
pub fn on_loss(lines: u64, crashes: u32, alone: bool, crashes_max: u32) -> Loss {
    let suspect = is_suspect(lines, crashes, crashes_max);
    if suspect && alone {
        return Loss::Fail;
    }
    let half = u32::try_from(lines.div_ceil(2)).unwrap_or(u32::MAX);
    let crashes = if suspect { crashes } else { crashes.saturating_add(1) };
    Loss::Return { tranche_max: half.clamp(1, TRANCHE_LINES_MAX), crashes }
}
