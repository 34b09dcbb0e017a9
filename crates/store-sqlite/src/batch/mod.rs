//! Batches: creating, steering and deleting runs, in O(lanes).
//!
//! Holds throughout: the domain's `apply` decides every move; a repeat changes nothing.

use async_trait::async_trait;
use rusqlite::{Row, params};
use windrow_domain::batch::{Event, apply};
use windrow_domain::{BatchId, FileId, LineSet, Owner, State, Target, UpstreamId};
use windrow_store::audit_log::{AUDIT_ENTRIES_MAX, NewAuditEntry};
use windrow_store::batch::{
    Batch, Batches, Continue, NewBatch, Reprocess, Reprocessed, Reshaped, TriedNow,
};
use windrow_store::ingest::{FileState, FileVerdict, errors_json};
use windrow_store::{Error, Kind, Result, Scope};

use crate::tx::{Tx, invalid, sql};
use crate::{SqliteBackend, batch_events, ingest, lane_counts, rows};

mod reopen;
mod reprocess;
mod try_now;

#[async_trait]
impl Batches for SqliteBackend {
    async fn create_batch(&self, batch: NewBatch) -> Result<Batch> {
        self.write(move |tx| create(tx, &batch)).await
    }

    async fn create_batch_with_file(&self, batch: NewBatch, verdict: FileVerdict) -> Result<Batch> {
        let both = move |tx: &Tx<'_>| {
            ingest::seal(tx, batch.file, verdict.clone())?;
            create(tx, &batch)
        };
        self.write(both).await
    }

    async fn pause_batch(
        &self,
        scope: &Scope,
        batch: BatchId,
        reason: Option<String>,
    ) -> Result<Batch> {
        let scope = scope.clone();
        self.write(move |tx| steer(tx, &scope, batch, Event::Paused, reason.as_deref())).await
    }

    async fn resume_batch(
        &self,
        scope: &Scope,
        batch: BatchId,
        window_secs: Option<u64>,
    ) -> Result<Batch> {
        let scope = scope.clone();
        self.write(move |tx| {
            let resumed = steer(tx, &scope, batch, Event::Resumed, None)?;
            if window_secs.is_none() {
                return Ok(resumed);
            }
            reopen::begin_window(tx, batch, window_secs)?;
            find(tx, &scope, batch)
        })
        .await
    }

    async fn cancel_batch(&self, scope: &Scope, batch: BatchId) -> Result<Batch> {
        let scope = scope.clone();
        self.write(move |tx| steer(tx, &scope, batch, Event::Cancelled, None)).await
    }

    async fn continue_batch(&self, scope: &Scope, how: Continue) -> Result<Batch> {
        let scope = scope.clone();
        self.write(move |tx| reopen::go_on(tx, &scope, &how)).await
    }

    async fn reprocess(&self, scope: &Scope, step: Reprocess) -> Result<Reprocessed> {
        let scope = scope.clone();
        self.write(move |tx| reprocess::step(tx, &scope, &step)).await
    }

    async fn try_now(&self, scope: &Scope, batch: BatchId, lines: LineSet) -> Result<TriedNow> {
        let scope = scope.clone();
        self.write(move |tx| try_now::run(tx, &scope, batch, &lines)).await
    }

    async fn reshape(&self, scope: &Scope, batch: BatchId, rows: Vec<Reshaped>) -> Result<u64> {
        let scope = scope.clone();
        self.write(move |tx| reprocess::reshape(tx, &scope, batch, &rows)).await
    }

    async fn delete_batch(&self, scope: &Scope, batch: BatchId) -> Result<()> {
        let scope = scope.clone();
        self.write(move |tx| delete(tx, &scope, batch)).await
    }

    async fn move_batch(
        &self,
        scope: &Scope,
        batch: BatchId,
        upstream: UpstreamId,
        entry: NewAuditEntry,
    ) -> Result<Batch> {
        let scope = scope.clone();
        self.write(move |tx| {
            add_audit_entry(tx, &scope, batch, &entry)?;
            tx.run(sql!("batch/move_lanes"), params![batch.0.into_bytes(), upstream.as_str()])?;
            find(tx, &scope, batch)
        })
        .await
    }

    async fn add_audit_entry(
        &self,
        scope: &Scope,
        batch: BatchId,
        entry: NewAuditEntry,
    ) -> Result<()> {
        let scope = scope.clone();
        self.write(move |tx| add_audit_entry(tx, &scope, batch, &entry)).await
    }
}

/// Reads the columns of `batch/find`.
pub(crate) fn read_batch(row: &Row<'_>) -> rusqlite::Result<Batch> {
    let errors = match row.get_ref(17)? {
        rusqlite::types::ValueRef::Null => Vec::new(),
        _ => rows::json(row, 17)?,
    };
    Ok(Batch {
        id: BatchId(rows::uuid(row, 0)?),
        file: FileId(rows::uuid(row, 1)?),
        owner: rows::name(row, 2)?,
        endpoint: row.get(3)?,
        state: rows::parsed(row, 4)?,
        generation: row.get(5)?,
        priority: row.get(6)?,
        job_type: row.get(7)?,
        source_address: row.get(8)?,
        metadata: rows::json(row, 9)?,
        created_at: rows::time(row, 10)?,
        deadline: rows::time_opt(row, 11)?,
        cancelling_at: rows::time_opt(row, 12)?,
        finalizing_at: rows::time_opt(row, 13)?,
        closed_at: rows::time_opt(row, 14)?,
        last_error: row.get(15)?,
        summary: row.get(16)?,
        errors,
        output_secs: row.get::<_, Option<i64>>(26)?.map(i64::cast_unsigned),
        window_secs: row.get::<_, Option<i64>>(28)?.map(i64::cast_unsigned),
        counts: rows::counts(row, 18)?,
        recipe_hash: row.get(29)?,
        upstreams: {
            let mut upstreams: Vec<UpstreamId> = rows::json(row, 27)?;
            upstreams.sort_unstable();
            upstreams
        },
    })
}

/// A batch that exists for the scope; `Missing` otherwise.
pub(crate) fn find(tx: &Tx<'_>, scope: &Scope, batch: BatchId) -> Result<Batch> {
    let of = params![batch.0.into_bytes(), scope.owner()];
    tx.one(sql!("batch/find"), of, read_batch)?.ok_or_else(|| Error::of(Kind::Missing))
}

fn create(tx: &Tx<'_>, new: &NewBatch) -> Result<Batch> {
    if let Some(repeated) = find_repeat(tx, new)? {
        return find(tx, &Scope::All, repeated);
    }
    let file = ingest::find(tx, new.file)?;
    if file.owner != new.owner {
        return Err(Error::of(Kind::Missing).because("the owner has no such file"));
    }
    if file.output.is_some() {
        return Err(invalid("it is the output of a batch"));
    }
    let state = match file.state {
        FileState::Sealed if new.errors.is_empty() => State::InProgress,
        FileState::Sealed => State::Failed,
        FileState::Invalid => State::Failed,
        FileState::Open | FileState::Dropped => {
            return Err(Error::of(Kind::Conflict).because("its file is not sealed"));
        }
    };
    if !state.is_closed() {
        check_open(tx, &new.owner, new.open_max)?;
    }
    insert(tx, new, state)?;
    let created = find(tx, &Scope::All, new.id)?;
    let entry = if state.is_closed() { state.as_str() } else { "created" };
    batch_events::tell(tx, &created, entry, state, None)?;
    Ok(created)
}

/// `Limited` when the owner has as many open batches as it may have. With one writer, no other call
/// can come between this look and the insert.
fn check_open(tx: &Tx<'_>, owner: &Owner, open_max: Option<u32>) -> Result<()> {
    let Some(open_max) = open_max else { return Ok(()) };
    let open = tx.sure(sql!("batch/count_open"), [owner.as_str()], |row| rows::count(row, 0))?;
    if open < u64::from(open_max) {
        return Ok(());
    }
    let because =
        format!("the owner has {open} batches that are not closed, and may have {open_max}");
    Err(Error::of(Kind::Limited).because(because))
}

/// The batch that this creation repeats, if it does.
fn find_repeat(tx: &Tx<'_>, new: &NewBatch) -> Result<Option<BatchId>> {
    let asked = params![new.id.0.into_bytes(), new.owner.as_str(), new.idempotency_key];
    let recipe_hash = new.recipe_hash();
    let found = tx.all(sql!("batch/find_repeat"), asked, |row| {
        let (owner, endpoint): (String, String) = (row.get(1)?, row.get(3)?);
        let deleted: bool = row.get(4)?;
        let same = owner == new.owner.as_str()
            && rows::uuid(row, 2)? == new.file.0
            && endpoint == new.endpoint
            && row.get::<_, Option<[u8; 32]>>(5)? == recipe_hash
            && !deleted;
        Ok((BatchId(rows::uuid(row, 0)?), same))
    })?;
    match found.as_slice() {
        [] => Ok(None),
        [(id, true)] => Ok(Some(*id)),
        _ => {
            let because = "its id or idempotency key was used with other arguments";
            Err(Error::of(Kind::Conflict).because(because))
        }
    }
}

fn insert(tx: &Tx<'_>, new: &NewBatch, state: State) -> Result<()> {
    let deadline = new.window_secs.map(|secs| tx.after(secs.saturating_mul(1_000_000)));
    let (id, file) = (new.id.0.into_bytes(), new.file.0.into_bytes());
    let batch = params![
        id,
        file,
        new.owner.as_str(),
        new.endpoint,
        state.as_str(),
        new.priority,
        new.job_type,
        new.source_address,
        serde_json::to_string(&new.metadata).expect("metadata is text"),
        new.idempotency_key,
        tx.now,
        deadline,
        state.is_closed().then_some(tx.now),
        new.output_secs.map(rows::int),
        (!new.errors.is_empty()).then(|| errors_json(new.errors.clone())),
        new.window_secs.map(rows::int),
        new.recipe_hash()
    ];
    tx.run(sql!("batch/insert"), batch)?;
    if let Some(text) = &new.recipe {
        tx.run(sql!("batch/insert_recipe"), params![id, 0, text])?;
    }
    if state == State::Failed {
        return Ok(());
    }
    let due = deadline.unwrap_or(i64::MAX);
    let by_target = serde_json::to_string(&new.upstreams.by_target).expect("names are text");
    let lanes = params![
        id,
        file,
        new.owner.as_str(),
        new.priority,
        due,
        tx.now,
        lane_counts::ALWAYS,
        by_target,
        new.upstreams.others.as_str(),
        new.target.as_ref().map(Target::as_str)
    ];
    match tx.run(sql!("batch/insert_lanes"), lanes)? {
        0 => Err(tx.corrupt("a sealed file has no lanes")),
        _ => Ok(()),
    }
}

/// Pauses, resumes, cancels or expires a batch: its state, then its lanes.
pub(crate) fn steer(
    tx: &Tx<'_>,
    scope: &Scope,
    id: BatchId,
    event: Event,
    reason: Option<&str>,
) -> Result<Batch> {
    let from = find(tx, scope, id)?.state;
    let to = apply(from, event).map_err(Error::refusal)?;
    let cancelling_at = (to == State::Cancelling).then_some(tx.now);
    let moved = params![id.0.into_bytes(), from.as_str(), to.as_str(), reason, cancelling_at];
    tx.run(sql!("batch/steer"), moved)?;
    if to == from {
        return find(tx, scope, id);
    }
    lane_counts::steer(tx, id, to)?;
    let steered = find(tx, scope, id)?;
    let entry = if to == State::InProgress { "resumed" } else { to.as_str() };
    batch_events::tell(tx, &steered, entry, to, reason)?;
    Ok(steered)
}

fn delete(tx: &Tx<'_>, scope: &Scope, id: BatchId) -> Result<()> {
    if !find(tx, scope, id)?.state.is_closed() {
        return Err(Error::of(Kind::Conflict).because("it is not closed"));
    }
    tx.run(sql!("batch/delete"), params![id.0.into_bytes(), tx.now])?;
    drop_outputs(tx, id)
}

fn add_audit_entry(tx: &Tx<'_>, scope: &Scope, id: BatchId, entry: &NewAuditEntry) -> Result<()> {
    let batch = find(tx, scope, id)?.id.0.into_bytes();
    let done =
        params![batch, entry.id.0.into_bytes(), tx.now, entry.actor, entry.address, entry.action];
    tx.run(sql!("batch/add_act"), done)?;
    tx.run(sql!("batch/trim_acts"), params![batch, AUDIT_ENTRIES_MAX]).map(|_| ())
}

/// Makes the outputs of a batch vanish.
pub(crate) fn drop_outputs(tx: &Tx<'_>, id: BatchId) -> Result<()> {
    tx.run(sql!("batch/drop_outputs"), params![id.0.into_bytes(), tx.now]).map(|_| ())
}
