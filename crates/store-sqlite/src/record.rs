//! Recording: the turn. Outcomes become results or returned lines, then the next tranche is claimed.
//!
//! Holds throughout: a lease that is not the caller's changes nothing; outcomes are planned against
//! the row's own outstanding set and never against the caller's belief.

use async_trait::async_trait;
use rusqlite::params;
use windrow_domain::attempt::Class;
use windrow_domain::{InstanceId, Lease};
use windrow_store::Result;
use windrow_store::record::{
    ATTEMPT_ENTRIES_MAX, Back, Finished, Fold, Outcomes, Plan, Record, Reply, Turn, plan,
};

use crate::lane_counts::{Delta, Folds};
use crate::lease::{self, LeaseRow};
use crate::returned::{self, Bucket};
use crate::tx::{Tx, sql};
use crate::{SqliteBackend, claim, rows};

#[async_trait]
impl Record for SqliteBackend {
    async fn turn(&self, turn: Turn) -> Result<Reply> {
        self.write(move |tx| run(tx, &turn)).await
    }
}

fn run(tx: &Tx<'_>, turn: &Turn) -> Result<Reply> {
    let mut folds = Folds::default();
    let record = |outcomes| record_lease(tx, turn.instance, outcomes, &mut folds);
    let kept = turn.outcomes.iter().map(record).collect::<Result<Vec<_>>>()?;
    let finalizing = folds.write(tx)?;
    let held = kept.iter().filter_map(|fold| match fold {
        Fold::Kept { lease, held: Some(_), .. } => Some(*lease),
        Fold::Kept { held: None, .. } | Fold::Lost { .. } => None,
    });
    let stopped = claim::stopped(tx, held.collect())?;
    let claimed = match &turn.claim {
        Some(request) => claim::lease_tranche(tx, turn.instance, request)?,
        None => None,
    };
    Ok(Reply { folds: kept, claimed, finalizing, stopped })
}

/// Records the outcomes of one lease, if it is still the instance's.
fn record_lease(
    tx: &Tx<'_>,
    instance: InstanceId,
    outcomes: &Outcomes,
    folds: &mut Folds,
) -> Result<Fold> {
    let id = outcomes.held.id;
    let found = lease::find(tx, id)?.filter(|row| {
        row.lease.instance == instance && row.lease.held.token == outcomes.held.token
    });
    let Some(row) = found else {
        return Ok(Fold::Lost { lease: id });
    };
    let held = &row.lease.held;
    let plan = plan(outcomes, &held.outstanding)?;
    if plan.is_empty() {
        return Ok(Fold::Kept { lease: id, held: Some(held.clone()), ignored: plan.ignored });
    }
    insert_results(tx, &row.lease, &plan.finished)?;
    insert_attempts(tx, &row.lease, &plan)?;
    let left = lease::shrink_or_delete(tx, &row, &plan.remaining)?;
    for back in &plan.backs {
        returned::add(tx, row.key(), &bucket(tx, &row, back), &back.lines)?;
    }
    let delta = Delta {
        returned: rows::int(plan.returned()),
        finished: plan.statuses.map(rows::int),
        ..Delta::default()
    };
    folds.leave(&row, held.outstanding.len() - plan.remaining.len(), delta);
    Ok(Fold::Kept { lease: id, held: left, ignored: plan.ignored })
}

/// Where lines of the lease go back to.
fn bucket(tx: &Tx<'_>, row: &LeaseRow, back: &Back) -> Bucket {
    let not_before = back.not_before.map_or_else(|| tx.bucket(), |at| at.as_microsecond());
    let (attempts, crashes) = (row.lease.attempts, row.lease.crashes);
    match back.tried {
        true => Bucket { attempts: attempts + 1, crashes: 0, tranche_max: None, not_before },
        false => Bucket { attempts, crashes, tranche_max: row.tranche_max(), not_before },
    }
}

/// Appends results of lines of one lease.
pub(crate) fn insert_results(tx: &Tx<'_>, lease: &Lease, finished: &[&Finished]) -> Result<()> {
    if finished.is_empty() {
        return Ok(());
    }
    let mut statement = tx.prepare(sql!("record/insert_result"))?;
    let batch = lease.batch.0.into_bytes();
    for line in finished {
        let result = params![
            batch,
            rows::int(line.line),
            lease.lane,
            rows::int(line.seq),
            line.status.code(),
            line.attempts,
            lease.generation,
            tx.now,
            line.http_status,
            line.custom_id,
            line.error_code,
            line.error,
            line.shaped,
            line.response.as_deref(),
            line.normalised,
            line.class.map(Class::as_str)
        ];
        statement.execute(result).map_err(|cause| tx.failed(cause))?;
    }
    Ok(())
}

fn insert_attempts(tx: &Tx<'_>, lease: &Lease, plan: &Plan<'_>) -> Result<()> {
    if plan.again.is_empty() {
        return Ok(());
    }
    let mut insert = tx.prepare(sql!("record/insert_attempt"))?;
    let batch = lease.batch.0.into_bytes();
    for line in &plan.again {
        let attempt = params![
            batch,
            rows::int(line.line),
            lease.generation,
            lease.attempts + 1,
            line.class.as_str(),
            line.not_before.as_microsecond(),
            tx.now,
            line.error_code,
            line.error
        ];
        let joins = !line.class.is_counted() && lease.attempts >= ATTEMPT_ENTRIES_MAX;
        if joins && tx.run(sql!("record/repeat_attempt"), attempt)? > 0 {
            continue;
        }
        insert.execute(attempt).map_err(|cause| tx.failed(cause))?;
    }
    Ok(())
}
