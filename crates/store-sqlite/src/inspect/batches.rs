//! Batches, their lanes and the history of their lines.

use rusqlite::{params, params_from_iter};
use uuid::Uuid;
use windrow_domain::attempt::Class;
use windrow_domain::{BatchId, InstanceId};
use windrow_store::audit_log::{AUDIT_ENTRIES_MAX, AuditEntry};
use windrow_store::batch::Batch;
use windrow_store::inspect::{
    AttemptCounts, BatchesQuery, Binding, Cursor, Holder, LaneStatus, Page, PastAttempt, behind,
};
use windrow_store::{Error, Kind, Result, Scope};

use super::Where;
use crate::tx::{Tx, sql};
use crate::{batch, rows};

/// The columns of `batch/find`, for a page of batches that is chosen before its lanes are summed.
const COLUMNS: &str = "b.id, b.file_id, b.owner, b.endpoint, b.state, b.generation, b.priority, \
     b.job_type, b.source_address, b.metadata, b.created_at, b.deadline, b.cancelling_at, \
     b.finalizing_at, b.closed_at, b.last_error, b.summary, \
     b.errors, \
     ifnull(sum(l.total), 0), ifnull(sum(l.cursor), 0), ifnull(sum(l.returned), 0), \
     ifnull(sum(l.leased), 0), ifnull(sum(l.completed), 0), ifnull(sum(l.failed), 0), \
     ifnull(sum(l.not_found), 0), ifnull(sum(l.skipped), 0), b.output_secs, \
     json_group_array(DISTINCT l.upstream) FILTER (WHERE l.upstream IS NOT NULL), \
     b.window_secs, b.recipe_hash";

pub(super) fn page(tx: &Tx<'_>, scope: &Scope, query: &BatchesQuery) -> Result<Page<Batch>> {
    let filters = (&query.states, &query.job_type, query.from, query.to);
    let binding = Binding::new("batches", scope, &filters);
    let key = |batch: &Batch| (batch.created_at.as_microsecond(), batch.id.0);
    let after: Option<(i64, Uuid)> = match query.after_id {
        Some(id) => Some(key(&behind(batch::find(tx, scope, id))?)),
        None => Cursor::open(&binding, query.after.as_deref())?,
    };
    let mut filter = Where::default();
    filter.maybe("owner = ?", scope.owner().map(str::to_owned));
    filter.maybe("job_type = ?", query.job_type.clone());
    filter.any("state", query.states.iter().map(|state| state.as_str()).collect());
    filter.maybe("created_at >= ?", query.from.map(|at| at.as_microsecond()));
    filter.maybe("created_at < ?", query.to.map(|at| at.as_microsecond()));
    if let Some((at, id)) = after {
        filter.and("(created_at, id) < (?, ?)", vec![Box::new(at), Box::new(id.into_bytes())]);
    }
    let text = format!(
        "SELECT /* inspect/batches */ {COLUMNS} FROM (SELECT * FROM batches \
         WHERE deleted_at IS NULL{} ORDER BY created_at DESC, id DESC LIMIT {}) AS b \
         LEFT JOIN batch_lanes AS l ON l.batch_id = b.id \
         GROUP BY b.id ORDER BY b.created_at DESC, b.id DESC",
        filter.text,
        query.limit + 1
    );
    let rows = tx.all(&text, params_from_iter(filter.values), batch::read_batch)?;
    Ok(super::page(rows, query.limit, &binding, key))
}

pub(super) fn lanes(tx: &Tx<'_>, scope: &Scope, id: BatchId) -> Result<Vec<LaneStatus>> {
    batch::find(tx, scope, id)?;
    tx.all(sql!("inspect/lanes"), [id.0.into_bytes()], |row| {
        Ok(LaneStatus {
            lane: row.get(0)?,
            upstream: rows::name(row, 11)?,
            target: rows::name(row, 1)?,
            phase: rows::parsed(row, 2)?,
            counts: rows::counts(row, 3)?,
        })
    })
}

pub(super) fn holders(tx: &Tx<'_>, scope: &Scope, id: BatchId) -> Result<Vec<Holder>> {
    batch::find(tx, scope, id)?;
    let millis = |micros: i64| u64::try_from(micros / 1000).unwrap_or(0);
    tx.all(sql!("inspect/holders"), [id.0.into_bytes()], |row| {
        let (host, pid): (Option<String>, Option<u32>) = (row.get(1)?, row.get(2)?);
        let (expires_at, heard_at): (i64, Option<i64>) = (row.get(4)?, row.get(5)?);
        Ok(Holder {
            instance: InstanceId(rows::uuid(row, 0)?),
            process: host.zip(pid),
            lines: rows::count(row, 3)?,
            lost_in_ms: millis(expires_at.saturating_sub(tx.now)),
            silent_ms: heard_at.map(|heard_at| millis(tx.now.saturating_sub(heard_at))),
        })
    })
}

pub(super) fn audit_log(tx: &Tx<'_>, scope: &Scope, id: BatchId) -> Result<Vec<AuditEntry>> {
    batch::find(tx, scope, id)?;
    let mut acts =
        tx.all(sql!("inspect/acts"), params![id.0.into_bytes(), AUDIT_ENTRIES_MAX], |row| {
            let (actor, address, action) = (row.get(1)?, row.get(2)?, row.get(3)?);
            Ok(AuditEntry { at: rows::time(row, 0)?, actor, address, action })
        })?;
    acts.reverse();
    Ok(acts)
}

pub(super) fn attempts(
    tx: &Tx<'_>,
    scope: &Scope,
    id: BatchId,
    line: u64,
) -> Result<Vec<PastAttempt>> {
    let file = batch::find(tx, scope, id)?.file;
    let of = params![id.0.into_bytes(), rows::int(line)];
    let found = tx.all(sql!("inspect/attempts"), of, |row| {
        Ok(PastAttempt {
            generation: row.get(0)?,
            attempt: row.get(1)?,
            times: row.get(7)?,
            class: rows::parsed(row, 2)?,
            put_back: row.get(8)?,
            error_code: row.get(3)?,
            error: row.get(4)?,
            not_before: rows::time(row, 5)?,
            created_at: rows::time(row, 6)?,
        })
    })?;
    let of = params![file.0.into_bytes(), rows::int(line), id.0.into_bytes()];
    if found.is_empty() && !tx.sure(sql!("inspect/has_line"), of, |row| row.get(0))? {
        return Err(Error::of(Kind::Missing).because(format!("it has no line {line}")));
    }
    Ok(found)
}

pub(super) fn attempt_counts(
    tx: &Tx<'_>,
    id: BatchId,
    lines: &[u64],
) -> Result<Vec<AttemptCounts>> {
    let text = |words: serde_json::Result<String>| words.expect("numbers and words are JSON");
    let unknown: Vec<_> = Class::ALL.into_iter().filter(|class| !class.is_answered()).collect();
    let unknown: Vec<_> = unknown.into_iter().map(Class::as_str).collect();
    let uncounted = Class::ALL.into_iter().filter(|class| !class.is_counted());
    let uncounted: Vec<_> = uncounted.map(Class::as_str).collect();
    let asked = params![
        id.0.into_bytes(),
        text(serde_json::to_string(lines)),
        text(serde_json::to_string(&unknown)),
        text(serde_json::to_string(&uncounted)),
        Class::NotFound.as_str(),
        Class::Unacceptable.as_str()
    ];
    tx.all(sql!("inspect/tries"), asked, |row| {
        Ok(AttemptCounts {
            line: rows::count(row, 0)?,
            tried: row.get(1)?,
            answered: row.get(2)?,
            uncounted: row.get(3)?,
            missed: row.get(4)?,
            since_miss: row.get(5)?,
            unaccepted: row.get(6)?,
        })
    })
}
