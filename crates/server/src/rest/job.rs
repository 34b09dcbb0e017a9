//! A job as callers see it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;
use windrow_domain::{BatchId, Counts as Places, FileId, Owner, Phase, State, Target, UpstreamId};
use windrow_store::audit_log::AuditEntry;
use windrow_store::batch::Batch;
use windrow_store::ingest::LineError;
use windrow_store::inspect::LaneStatus;

use super::params::{JobStatus, job_status};
use crate::openai::object::BatchError;

/// A job with its counters.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Job {
    #[schema(value_type = String, format = "uuid")]
    job_id: BatchId,
    #[schema(value_type = String, format = "uuid")]
    file_id: FileId,
    #[schema(value_type = String)]
    owner: Owner,
    #[schema(required)]
    job_type: Option<String>,
    endpoint: String,
    /// The upstreams that its items go to: names, or URLs; `?` for one that the first worker decides.
    #[schema(value_type = Vec<String>)]
    upstreams: Vec<UpstreamId>,
    #[schema(value_type = JobStatus)]
    status: &'static str,
    queue_state: QueueState,
    priority: i16,
    /// How often items of the job were reprocessed.
    generation: u32,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    #[schema(value_type = Option<String>, format = DateTime, required)]
    deadline: Option<Timestamp>,
    #[schema(value_type = Option<String>, format = DateTime, required)]
    finished_at: Option<Timestamp>,
    counts: Counts,
    #[schema(required)]
    last_error: Option<String>,
    /// Why the job failed before it started.
    #[schema(value_type = Vec<BatchError>)]
    errors: Vec<LineError>,
    #[schema(required)]
    source_address: Option<String>,
    metadata: BTreeMap<String, String>,
    /// The result of the job, once it is closed.
    #[schema(value_type = Option<Object>, required)]
    summary: Option<Box<RawValue>>,
    /// Only where a single job is retrieved.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    lanes: Option<Vec<Lane>>,
    /// The audit log of the job. Only where a single job is retrieved.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<JobAct>>, nullable = false)]
    acts: Option<Vec<AuditEntry>>,
}

/// An entry of the audit log.
#[derive(ToSchema)]
#[expect(dead_code, reason = "the store's own shape goes out; here it is only described")]
struct JobAct {
    #[schema(value_type = String, format = DateTime)]
    at: Timestamp,
    actor: String,
    #[schema(required)]
    address: Option<String>,
    action: String,
}

/// The state of a job in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
enum QueueState {
    Queued,
    Running,
    Paused,
    Done,
    Failed,
}

/// Items by status. They add up to the total.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = JobCounts)]
pub(super) struct Counts {
    total: u64,
    pending: u64,
    processing: u64,
    done: u64,
    error: u64,
    not_found: u64,
    skipped: u64,
    /// Items that never run, because the job was stopped before.
    cancelled: u64,
}

/// The items of a job for one target.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = JobLane)]
struct Lane {
    /// The upstream that they go to.
    #[schema(value_type = String)]
    upstream: UpstreamId,
    #[schema(value_type = String)]
    target: Target,
    #[schema(value_type = LanePhase)]
    phase: Phase,
    counts: Counts,
}

/// The phase of a target's items.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
#[expect(dead_code, reason = "the domain's own goes out; here it is only described")]
enum LanePhase {
    Open,
    Paused,
    Stopping,
    Done,
}

/// The progress of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = JobProgress)]
pub(crate) struct Progress {
    #[schema(value_type = String, format = "uuid")]
    job_id: BatchId,
    #[schema(value_type = JobStatus)]
    status: &'static str,
    queue_state: QueueState,
    generation: u32,
    counts: Counts,
    #[schema(value_type = Option<String>, format = DateTime, required)]
    finished_at: Option<Timestamp>,
}

impl Job {
    /// The job with its lanes and its audit log.
    pub(super) fn with(
        mut self,
        state: State,
        lanes: Vec<LaneStatus>,
        acts: Vec<AuditEntry>,
    ) -> Self {
        let lane = |lane: LaneStatus| Lane {
            upstream: lane.upstream,
            target: lane.target,
            phase: lane.phase,
            counts: Counts::of(state, &lane.counts),
        };
        self.lanes = Some(lanes.into_iter().map(lane).collect());
        self.acts = Some(acts);
        self
    }
}

impl From<Batch> for Job {
    fn from(batch: Batch) -> Self {
        Self {
            job_id: batch.id,
            file_id: batch.file,
            job_type: batch.job_type,
            status: job_status(batch.state),
            queue_state: QueueState::of(batch.state, &batch.counts),
            priority: batch.priority,
            generation: batch.generation,
            created_at: batch.created_at,
            deadline: batch.deadline,
            finished_at: batch.closed_at,
            counts: Counts::of(batch.state, &batch.counts),
            last_error: batch.last_error,
            errors: batch.errors,
            source_address: batch.source_address,
            metadata: batch.metadata,
            summary: batch.summary.and_then(|json| RawValue::from_string(json).ok()),
            owner: batch.owner,
            endpoint: batch.endpoint,
            upstreams: batch.upstreams,
            lanes: None,
            acts: None,
        }
    }
}

impl Progress {
    pub(super) fn of(batch: &Batch) -> Self {
        Self {
            job_id: batch.id,
            status: job_status(batch.state),
            queue_state: QueueState::of(batch.state, &batch.counts),
            generation: batch.generation,
            counts: Counts::of(batch.state, &batch.counts),
            finished_at: batch.closed_at,
        }
    }
}

impl QueueState {
    fn of(state: State, places: &Places) -> Self {
        let is_untouched = places.untouched == places.total;
        match state {
            State::InProgress if is_untouched => QueueState::Queued,
            State::InProgress | State::Cancelling | State::Expiring => QueueState::Running,
            State::Finalizing(_) => QueueState::Running,
            State::Paused => QueueState::Paused,
            State::Completed | State::Cancelled | State::Expired => QueueState::Done,
            State::Failed => QueueState::Failed,
        }
    }
}

impl Counts {
    fn of(state: State, places: &Places) -> Self {
        let waiting = places.untouched + places.returned;
        // What has not started when a job is stopped never will.
        let may_run = matches!(state, State::InProgress | State::Paused);
        Self {
            total: places.total,
            pending: if may_run { waiting } else { 0 },
            processing: places.leased,
            done: places.completed,
            error: places.failed,
            not_found: places.not_found,
            skipped: places.skipped,
            cancelled: if may_run { 0 } else { waiting },
        }
    }
}
