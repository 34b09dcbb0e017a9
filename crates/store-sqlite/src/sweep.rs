//! Sweeping: takes back lost leases, ends late batches, removes what is not needed any more.
//!
//! Holds throughout: every step has a limit; a lost lease leaves through the same fold as any other.

use async_trait::async_trait;
use rusqlite::params;
use windrow_domain::BatchId;
use windrow_domain::attempt::Status;
use windrow_domain::batch::Event;
use windrow_domain::lease::{Loss, on_loss};
use windrow_domain::{FileId, InstanceId, LineSet};
use windrow_store::record::Finished;
use windrow_store::sweep::{DroppedOutput, Lost, Pruned, Reaped, Retention, Sweep, WORKER_LOST};
use windrow_store::{Result, Scope};

use crate::lane_counts::{Delta, Folds};
use crate::lease::{self, LeaseRow};
use crate::returned::Bucket;
use crate::tx::{Tx, sql};
use crate::{SqliteBackend, batch, permits, record, rows};

#[async_trait]
impl Sweep for SqliteBackend {
    async fn return_lost(&self, limit: u32, crashes_max: u32) -> Result<Lost> {
        self.write(move |tx| return_lost(tx, limit, crashes_max)).await
    }

    async fn expire_batches(&self, limit: u32) -> Result<Vec<BatchId>> {
        self.write(move |tx| expire(tx, limit)).await
    }

    async fn prune(&self, retention: Retention, limit: u32) -> Result<Pruned> {
        self.write(move |tx| prune(tx, &retention, limit)).await
    }

    async fn find_dropped_outputs(&self, limit: u32) -> Result<Vec<DroppedOutput>> {
        let find = move |tx: &Tx<'_>| {
            tx.all(sql!("sweep/find_dropped_outputs"), [limit], |row| {
                Ok(DroppedOutput { file: FileId(rows::uuid(row, 0)?), place: row.get(1)? })
            })
        };
        self.read(find).await
    }

    async fn forget_outputs(&self, outputs: &[DroppedOutput]) -> Result<()> {
        let outputs = outputs.to_vec();
        let forget = move |tx: &Tx<'_>| {
            outputs.iter().try_for_each(|output| {
                let gone = params![output.file.0.into_bytes(), output.place];
                tx.run(sql!("sweep/forget_outputs"), gone).map(|_| ())
            })
        };
        self.write(forget).await
    }

    async fn reap(&self, rows_max: u32) -> Result<Reaped> {
        self.write(move |tx| reap(tx, rows_max)).await
    }
}

fn return_lost(tx: &Tx<'_>, limit: u32, crashes_max: u32) -> Result<Lost> {
    let (mut lost, mut folds) = (Lost::default(), Folds::default());
    let mut holders = Vec::<InstanceId>::new();
    for row in tx.all(sql!("sweep/find_lost"), params![tx.now, limit], LeaseRow::read)? {
        let (n, crashes) = (row.lease.held.outstanding.len(), row.lease.crashes);
        match on_loss(n, crashes, row.alone, crashes_max) {
            Loss::Return { tranche_max, crashes } => {
                let bucket = Bucket {
                    attempts: row.lease.attempts,
                    crashes,
                    tranche_max: Some(tranche_max),
                    not_before: tx.bucket(),
                };
                lost.returned += lease::return_lines(tx, &row, &bucket, &mut folds)?;
            }
            Loss::Fail => lost.failed += fail(tx, &row, &mut folds)?,
        }
        lost.leases += 1;
        holders.push(row.lease.instance);
    }
    lost.finalizing = folds.write(tx)?;
    holders.sort_unstable();
    holders.dedup();
    for holder in holders {
        release_permits_of_the_dead(tx, holder)?;
    }
    Ok(lost)
}

fn release_permits_of_the_dead(tx: &Tx<'_>, instance: InstanceId) -> Result<()> {
    let id = [instance.0.into_bytes()];
    if tx.sure(sql!("claim/is_tombstoned"), id, |row| row.get(0))? {
        permits::leave(tx, instance)?;
    }
    Ok(())
}

/// The line took its worker down too often: it has a failed result now.
fn fail(tx: &Tx<'_>, row: &LeaseRow, folds: &mut Folds) -> Result<u64> {
    let lease = &row.lease;
    let mut results = Vec::new();
    for seq in lease.held.outstanding.iter() {
        let place = params![lease.file.0.into_bytes(), lease.lane, rows::int(seq)];
        let line = tx.sure(sql!("sweep/line_of"), place, |row| rows::count(row, 0))?;
        let times = lease.crashes.saturating_add(1);
        let error = format!("the worker was lost {times} times with this line in its hands");
        results.push(Finished {
            error_code: Some(WORKER_LOST.to_owned()),
            error: Some(error),
            ..Finished::bare(seq, line, Status::Failed, lease.attempts)
        });
    }
    record::insert_results(tx, lease, &results.iter().collect::<Vec<_>>())?;
    lease::shrink_or_delete(tx, row, &LineSet::new())?;
    let n = results.len() as u64;
    let mut delta = Delta::default();
    let failed = usize::try_from(Status::Failed.code()).expect("codes are small");
    delta.finished[failed] = rows::int(n);
    folds.leave(row, n, delta);
    Ok(n)
}

fn expire(tx: &Tx<'_>, limit: u32) -> Result<Vec<BatchId>> {
    let read = |row: &rusqlite::Row<'_>| rows::uuid(row, 0).map(BatchId);
    let late = tx.all(sql!("sweep/find_expired"), params![tx.now, limit], read)?;
    for id in &late {
        batch::steer(tx, &Scope::All, *id, Event::DeadlinePassed, None)?;
    }
    Ok(late)
}

fn prune(tx: &Tx<'_>, retention: &Retention, limit: u32) -> Result<Pruned> {
    let batches = match retention.closed_batch_secs {
        Some(secs) => {
            let closed = params![tx.now, tx.before_secs(secs), limit];
            let pruned = tx.run(sql!("sweep/prune_batches"), closed)?;
            tx.run(sql!("sweep/prune_outputs"), [tx.now])?;
            pruned
        }
        None => 0,
    };
    let open = params![tx.now, tx.before_secs(retention.open_file_secs), limit];
    let abandoned = tx.run(sql!("sweep/prune_open_files"), open)?;
    let left = limit.saturating_sub(u32::try_from(abandoned).unwrap_or(limit));
    let expired = tx.run(sql!("sweep/prune_expired_files"), params![tx.now, left])?;
    let gone = params![tx.before_secs(retention.member_secs), limit];
    let members = tx.run(sql!("sweep/prune_members"), gone)?;
    Ok(Pruned { batches, files: abandoned + expired, members })
}

/// Tables of a deleted batch and of a dropped file, the row that names it last.
const OF_BATCH: [&str; 8] = [
    sql!("sweep/reap_results"),
    sql!("sweep/reap_results_before"),
    sql!("sweep/reap_attempts"),
    sql!("sweep/reap_acts"),
    sql!("sweep/reap_recipes"),
    sql!("sweep/reap_returned"),
    sql!("sweep/reap_lanes"),
    sql!("sweep/reap_batch"),
];
const OF_FILE: [&str; 4] = [
    sql!("sweep/reap_templates"),
    sql!("sweep/reap_chunks"),
    sql!("sweep/reap_file_lanes"),
    sql!("sweep/reap_file"),
];

fn reap(tx: &Tx<'_>, rows_max: u32) -> Result<Reaped> {
    let mut left = u64::from(rows_max);
    let kinds: [(&str, &[&str]); 2] = [
        (sql!("sweep/find_deleted_batch"), &OF_BATCH),
        (sql!("sweep/find_dropped_file"), &OF_FILE),
    ];
    let mut more = false;
    for (find, tables) in kinds {
        loop {
            let Some(id) = tx.one(find, [], |row| row.get::<_, [u8; 16]>(0))? else {
                break;
            };
            if left == 0 {
                more = true;
                break;
            }
            for table in tables {
                left -= tx.run(table, params![id, rows::int(left)])?.min(left);
            }
        }
    }
    Ok(Reaped { rows: u64::from(rows_max) - left, more })
}
