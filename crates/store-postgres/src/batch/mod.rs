//! Batches: created, steered, reprocessed and deleted, in O(lanes).
//!
//! Holds throughout: the domain's `apply` decides every move from what was read, and a function makes it
//! under the locks only if that is still true; else the decision is made again.

use async_trait::async_trait;
use jiff::Timestamp;
use tokio_postgres::types::Type;
use uuid::Uuid;
use windrow_domain::batch::{Event, apply};
use windrow_domain::{BatchId, LineSet, Phase, Target, UpstreamId};
use windrow_store::audit_log::{AUDIT_ENTRIES_MAX, NewAuditEntry};
use windrow_store::batch::{
    Batch, Batches, Continue, NewBatch, Reprocess, Reprocessed, Reshaped, TriedNow,
};
use windrow_store::error::{Error, Kind, Result};
use windrow_store::ingest::{FileVerdict, errors_json};
use windrow_store::{Inspect, Scope};

use crate::PostgresBackend;
use crate::db::{Param, Sql, Statement, sql};
use crate::error::is_stale;

mod again;

/// How often a decision is made again when the batch moved between looking and locking.
const STALE_RETRIES_MAX: usize = 16;

#[async_trait]
impl Batches for PostgresBackend {
    async fn create_batch(&self, batch: NewBatch) -> Result<Batch> {
        self.create(batch, None).await
    }

    async fn create_batch_with_file(&self, batch: NewBatch, verdict: FileVerdict) -> Result<Batch> {
        self.create(batch, Some(verdict)).await
    }

    async fn pause_batch(
        &self,
        scope: &Scope,
        batch: BatchId,
        reason: Option<String>,
    ) -> Result<Batch> {
        self.steer(scope, batch, Event::Paused, reason, None).await
    }

    async fn resume_batch(
        &self,
        scope: &Scope,
        batch: BatchId,
        window_secs: Option<u64>,
    ) -> Result<Batch> {
        self.steer(scope, batch, Event::Resumed, None, window_secs).await
    }

    async fn cancel_batch(&self, scope: &Scope, batch: BatchId) -> Result<Batch> {
        self.steer(scope, batch, Event::Cancelled, None, None).await
    }

    async fn continue_batch(&self, scope: &Scope, how: Continue) -> Result<Batch> {
        for _ in 0..STALE_RETRIES_MAX {
            let found = self.batch(scope, how.batch).await?;
            let to = apply(found.state, Event::Continued).map_err(Error::refusal)?;
            let params = [
                (&self.db.now() as _, Type::TIMESTAMPTZ),
                (&scope.owner() as _, Type::TEXT),
                (&how.batch.0 as _, Type::UUID),
                (&found.state.as_str() as _, Type::TEXT),
                (&to.as_str() as _, Type::TEXT),
                (&Phase::of(to).as_str() as _, Type::TEXT),
                (&how.window_secs.map(u64::cast_signed) as _, Type::INT8),
                (&how.open_max.map(i64::from) as _, Type::INT8),
            ];
            let continued = self.db.rows(Sql::value("batch/continue_batch"), &params).await?;
            if continued[0].get("answer") {
                return self.batch(scope, how.batch).await;
            }
        }
        Err(Error::of(Kind::Busy).because("the batch keeps moving"))
    }

    async fn reprocess(&self, scope: &Scope, step: Reprocess) -> Result<Reprocessed> {
        for _ in 0..STALE_RETRIES_MAX {
            match self.reprocess_once(scope, &step).await {
                Err(error) if is_stale(&error) => {}
                other => return other,
            }
        }
        Err(Error::of(Kind::Busy).because("the batch keeps moving"))
    }

    async fn try_now(&self, scope: &Scope, batch: BatchId, lines: LineSet) -> Result<TriedNow> {
        for _ in 0..STALE_RETRIES_MAX {
            match self.try_now_once(scope, batch, &lines).await {
                Err(error) if is_stale(&error) => {}
                other => return other,
            }
        }
        Err(Error::of(Kind::Busy).because("the batch keeps moving"))
    }

    async fn reshape(&self, scope: &Scope, batch: BatchId, rows: Vec<Reshaped>) -> Result<u64> {
        self.write_shaped(scope, batch, rows).await
    }

    async fn delete_batch(&self, scope: &Scope, batch: BatchId) -> Result<()> {
        let params = [
            (&self.db.now() as _, Type::TIMESTAMPTZ),
            (&batch.0 as _, Type::UUID),
            (&scope.owner() as _, Type::TEXT),
        ];
        let outputs = [(&batch.0 as _, Type::UUID)];
        let calls = [
            Statement { sql: sql!("batch/delete_batch"), params: &params },
            Statement { sql: sql!("batch/drop_outputs"), params: &outputs },
        ];
        let answers = self.db.call(&calls).await?;
        let row = answers[0].first().ok_or_else(|| Error::of(Kind::Missing))?;
        if row.get("deleted") {
            return Ok(());
        }
        let because = format!("it is {} and not closed", row.get::<_, &str>("state"));
        Err(Error::of(Kind::Conflict).because(because))
    }

    async fn move_batch(
        &self,
        scope: &Scope,
        batch: BatchId,
        upstream: UpstreamId,
        entry: NewAuditEntry,
    ) -> Result<Batch> {
        let params = [
            (&scope.owner() as _, Type::TEXT),
            (&batch.0 as _, Type::UUID),
            (&upstream.as_str() as _, Type::TEXT),
        ];
        let (now, owner) = (self.db.now(), scope.owner());
        let entry = entry_params(&now, &batch.0, &owner, &entry);
        let calls = [
            Statement { sql: Sql::value("batch/move_batch"), params: &params },
            Statement { sql: sql!("batch/add_act"), params: &entry },
        ];
        let answers = self.db.call(&calls).await?;
        if answers[0][0].get("answer") {
            self.batch(scope, batch).await
        } else {
            Err(Error::of(Kind::Missing))
        }
    }

    async fn add_audit_entry(
        &self,
        scope: &Scope,
        batch: BatchId,
        entry: NewAuditEntry,
    ) -> Result<()> {
        let (now, owner) = (self.db.now(), scope.owner());
        let params = entry_params(&now, &batch.0, &owner, &entry);
        let found = self.db.rows(sql!("batch/add_act"), &params).await?;
        if found[0].get("found") { Ok(()) } else { Err(Error::of(Kind::Missing)) }
    }
}

/// The parameters of `batch/add_act`.
fn entry_params<'a>(
    now: &'a Option<Timestamp>,
    batch: &'a Uuid,
    owner: &'a Option<&'a str>,
    entry: &'a NewAuditEntry,
) -> [Param<'a>; 8] {
    static ENTRIES_MAX: i64 = AUDIT_ENTRIES_MAX as i64;
    [
        (now, Type::TIMESTAMPTZ),
        (batch, Type::UUID),
        (owner, Type::TEXT),
        (&entry.id.0, Type::UUID),
        (&entry.actor, Type::TEXT),
        (&entry.address, Type::TEXT),
        (&entry.action, Type::TEXT),
        (&ENTRIES_MAX, Type::INT8),
    ]
}

impl PostgresBackend {
    /// Creates a batch; with a verdict, its file is sealed in the same transaction.
    async fn create(&self, batch: NewBatch, verdict: Option<FileVerdict>) -> Result<Batch> {
        let metadata = serde_json::to_string(&batch.metadata).expect("metadata is text");
        let window = batch.window_secs.map(u64::cast_signed);
        let errors = (!batch.errors.is_empty()).then(|| errors_json(batch.errors.clone()));
        let (sealed, seal_errors, seal_endpoint) = match verdict.map(FileVerdict::columns) {
            Some((state, errors, endpoint)) => (Some(state.as_str()), errors, endpoint),
            None => (None, None, None),
        };
        let recipe_hash = batch.recipe_hash();
        let recipe_hash = recipe_hash.as_ref().map(|hash| hash.as_slice());
        let by_target = batch.upstreams.by_target.iter();
        let (targets, upstreams): (Vec<&str>, Vec<&str>) =
            by_target.map(|(target, upstream)| (target.as_str(), upstream.as_str())).unzip();
        let params = [
            (&self.db.now() as _, Type::TIMESTAMPTZ),
            (&batch.id.0 as _, Type::UUID),
            (&batch.file.0 as _, Type::UUID),
            (&batch.owner.as_str() as _, Type::TEXT),
            (&batch.endpoint as _, Type::TEXT),
            (&window as _, Type::INT8),
            (&batch.priority as _, Type::INT2),
            (&batch.job_type as _, Type::TEXT),
            (&batch.source_address as _, Type::TEXT),
            (&metadata as _, Type::TEXT),
            (&batch.idempotency_key as _, Type::TEXT),
            (&batch.output_secs.map(u64::cast_signed) as _, Type::INT8),
            (&batch.open_max.map(i64::from) as _, Type::INT8),
            (&errors as _, Type::TEXT),
            (&sealed as _, Type::TEXT),
            (&seal_errors as _, Type::TEXT),
            (&seal_endpoint as _, Type::TEXT),
            (&targets as _, Type::TEXT_ARRAY),
            (&upstreams as _, Type::TEXT_ARRAY),
            (&batch.upstreams.others.as_str() as _, Type::TEXT),
            (&batch.target.as_ref().map(Target::as_str) as _, Type::TEXT),
            (&batch.recipe as _, Type::TEXT),
            (&recipe_hash as _, Type::BYTEA),
        ];
        let found = self.db.rows(Sql::value("batch/create_batch"), &params).await?;
        self.batch(&Scope::Owner(batch.owner), BatchId(found[0].get("answer"))).await
    }

    /// Applies an event to a batch: decided here by the domain, done there under the locks.
    pub(crate) async fn steer(
        &self,
        scope: &Scope,
        batch: BatchId,
        event: Event,
        reason: Option<String>,
        window_secs: Option<u64>,
    ) -> Result<Batch> {
        for _ in 0..STALE_RETRIES_MAX {
            let found = self.batch(scope, batch).await?;
            let to = apply(found.state, event).map_err(Error::refusal)?;
            let changes = window_secs.is_some() || (reason.is_some() && to.is_running());
            if to == found.state && !changes {
                return Ok(found);
            }
            let params = [
                (&self.db.now() as _, Type::TIMESTAMPTZ),
                (&scope.owner() as _, Type::TEXT),
                (&batch.0 as _, Type::UUID),
                (&found.state.as_str() as _, Type::TEXT),
                (&to.as_str() as _, Type::TEXT),
                (&Phase::of(to).as_str() as _, Type::TEXT),
                (&reason as _, Type::TEXT),
                (&window_secs.map(u64::cast_signed) as _, Type::INT8),
            ];
            let steered = self.db.rows(Sql::rows("batch/steer_batch"), &params).await?;
            if steered[0].get("steered") {
                return self.batch(scope, batch).await;
            }
        }
        Err(Error::of(Kind::Busy).because("the batch keeps moving"))
    }
}
