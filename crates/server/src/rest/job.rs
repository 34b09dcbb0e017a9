//! A job as callers see it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::value::RawValue;
use windrow_domain::{BatchId, Counts as Places, FileId, Owner, Phase, State, Target};
use windrow_store::act::Act;
use windrow_store::batch::Batch;
use windrow_store::ingest::LineError;
use windrow_store::inspect::LaneStatus;

use super::words::job_status;

/// A job with its counters.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Job {
    job_id: BatchId,
    file_id: FileId,
    owner: Owner,
    job_type: Option<String>,
    endpoint: String,
    status: &'static str,
    queue_state: QueueState,
    priority: i16,
    generation: u32,
    created_at: Timestamp,
    deadline: Option<Timestamp>,
    finished_at: Option<Timestamp>,
    counts: Counts,
    last_error: Option<String>,
    errors: Vec<LineError>,
    source_address: Option<String>,
    metadata: BTreeMap<String, String>,
    summary: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lanes: Option<Vec<Lane>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    acts: Option<Vec<Act>>,
}

/// Where a job stands in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
enum QueueState {
    Queued,
    Running,
    Paused,
    Done,
    Failed,
}

/// How many items stand where. They add up to the total.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Counts {
    total: u64,
    pending: u64,
    processing: u64,
    done: u64,
    error: u64,
    not_found: u64,
    skipped: u64,
    /// Will never run, because the job was stopped before.
    cancelled: u64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Lane {
    target: Target,
    phase: Phase,
    counts: Counts,
}

/// What listeners are told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Progress {
    job_id: BatchId,
    status: &'static str,
    queue_state: QueueState,
    generation: u32,
    counts: Counts,
    finished_at: Option<Timestamp>,
}

impl Job {
    /// With what each target has of it, and who did what to it.
    pub(super) fn with(mut self, state: State, lanes: Vec<LaneStatus>, acts: Vec<Act>) -> Self {
        let lane = |lane: LaneStatus| Lane {
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
        // What has not begun when a job is stopped never will.
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
