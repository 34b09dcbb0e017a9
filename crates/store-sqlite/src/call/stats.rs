//! Statistics of calls, within bounds.

use rusqlite::params;
use windrow_domain::CallState;
use windrow_store::call::{
    CallStats, METHODS_MAX, MethodRetries, ObjectRetries, RetriesQuery, StatsQuery,
};
use windrow_store::{Result, Scope};

use crate::rows;
use crate::tx::{Tx, sql};

/// Most calls whose duration is looked at, the newest: eight bytes each.
const DURATIONS_MAX: u32 = 1_000_000;
/// What a row takes besides arguments and answer, its entries in indexes included: about.
const ROW_BYTES: u64 = 500;

pub(super) fn read(tx: &Tx<'_>, scope: &Scope, query: StatsQuery) -> Result<CallStats> {
    let before = |ms: u64| tx.now.saturating_sub(rows::int(ms.saturating_mul(1000)));
    let (owner, since) = (scope.owner(), before(query.window_ms));
    let mut stats = CallStats::default();
    count_unanswered(tx, owner, before(query.old_ms), &mut stats)?;
    stats.by_state.extend(tx.all(sql!("call/count_answered"), params![owner, since], |row| {
        Ok((read_state(row, 0)?, rows::count(row, 1)?))
    })?);
    read_durations(tx, owner, since, &mut stats)?;
    let asked = params![owner, since, rows::int(METHODS_MAX as u64)];
    stats.retries = tx.all(sql!("call/call_retries"), asked, |row| {
        let (object_type, method) = (row.get(0)?, row.get(1)?);
        let (calls, retries_mean) = (rows::count(row, 2)?, row.get(3)?);
        Ok(MethodRetries { object_type, method, calls, retries_mean })
    })?;
    count_rows(tx, owner, &mut stats)?;
    Ok(stats)
}

/// Calls that were repeated again and again, by object and method.
pub(super) fn retries(
    tx: &Tx<'_>,
    scope: &Scope,
    query: RetriesQuery,
) -> Result<Vec<ObjectRetries>> {
    let since = tx.now.saturating_sub(rows::int(query.window_ms.saturating_mul(1000)));
    let asked = params![scope.owner(), since, query.above, rows::int(METHODS_MAX as u64)];
    tx.all(sql!("call/object_retries"), asked, |row| {
        Ok(ObjectRetries {
            object_type: row.get(0)?,
            object_id: row.get(1)?,
            method: row.get(2)?,
            calls: rows::count(row, 3)?,
            retries_mean: row.get(4)?,
            retries_max: row.get(5)?,
        })
    })
}

/// Rows, and an estimate of their bytes: counting pages would read them all.
fn count_rows(tx: &Tx<'_>, owner: Option<&str>, stats: &mut CallStats) -> Result<()> {
    let (rows, archived, mean, archived_mean) =
        tx.sure(sql!("call/count_rows"), [owner], |row| {
            let means: (f64, f64) = (row.get(2)?, row.get(3)?);
            Ok((rows::count(row, 0)?, rows::count(row, 1)?, means.0, means.1))
        })?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a mean of lengths is neither negative nor large"
    )]
    let bytes = |rows: u64, mean: f64| rows * (ROW_BYTES + mean as u64);
    (stats.rows, stats.archived_rows) = (rows, archived);
    // The means are of everybody's rows.
    stats.bytes = owner.is_none().then(|| bytes(rows, mean) + bytes(archived, archived_mean));
    Ok(())
}

fn read_state(row: &rusqlite::Row<'_>, column: usize) -> rusqlite::Result<CallState> {
    CallState::from_code(row.get(column)?).ok_or_else(|| rows::bad(column, "no such state"))
}

fn count_unanswered(
    tx: &Tx<'_>,
    owner: Option<&str>,
    old: i64,
    stats: &mut CallStats,
) -> Result<()> {
    let found = tx.all(sql!("call/count_unanswered"), params![owner, old], |row| {
        let (state, oldest): (_, i64) = (read_state(row, 0)?, row.get(2)?);
        Ok((state, rows::count(row, 1)?, oldest, rows::count(row, 3)?))
    })?;
    for (state, calls, oldest, old) in found {
        stats.by_state.push((state, calls));
        if state == CallState::Pending {
            stats.pending_age_ms = Some(tx.now.saturating_sub(oldest).max(0).unsigned_abs() / 1000);
            stats.pending_old = old;
        } else {
            stats.stuck = old;
        }
    }
    Ok(())
}

fn read_durations(
    tx: &Tx<'_>,
    owner: Option<&str>,
    since: i64,
    stats: &mut CallStats,
) -> Result<()> {
    let (mut failed, mut known) = (0_u64, 0_u64);
    let asked = params![owner, since, DURATIONS_MAX];
    let mut micros: Vec<i64> = tx.all(sql!("call/durations"), asked, |row| {
        let state = read_state(row, 1)?;
        failed += u64::from(state == CallState::Failed);
        known += u64::from(state != CallState::Expired);
        row.get(0)
    })?;
    if micros.is_empty() {
        return Ok(());
    }
    micros.sort_unstable();
    stats.p50_ms = Some(took(&micros, 50));
    stats.p95_ms = Some(took(&micros, 95));
    stats.p99_ms = Some(took(&micros, 99));
    #[expect(clippy::cast_precision_loss, reason = "a share needs no more than a few digits")]
    let share = failed as f64 / known as f64;
    stats.failure_rate = (known > 0).then_some(share);
    Ok(())
}

/// Milliseconds that so many of a hundred took no longer than.
fn took(sorted: &[i64], of_hundred: usize) -> f64 {
    let at = (sorted.len() * of_hundred).div_ceil(100).saturating_sub(1);
    #[expect(clippy::cast_precision_loss, reason = "a duration is far below 2^53 microseconds")]
    let micros = sorted[at] as f64;
    micros / 1000.0
}
