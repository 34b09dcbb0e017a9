//! Reprocessing: finished lines go back to run again, one bounded step at a time.
//!
//! Holds throughout: only results of older generations are taken, so a line that finished again
//! since the first step is not taken twice; the history of attempts stays, and each result that
//! is taken becomes part of it.

use std::collections::BTreeMap;

use rusqlite::{Params, params};
use windrow_domain::attempt::{Class, Status};
use windrow_domain::batch::{Event, apply};
use windrow_domain::{BatchId, LaneNo, LineSet, Phase};
use windrow_store::batch::{Reprocess, Reprocessed, Select, put_back_error};
use windrow_store::{Error, Kind, Result, Scope};

use super::reopen;
use crate::lane_counts::{self, Delta, LaneKey};
use crate::returned::{self, Bucket};
use crate::tx::{Tx, sql};
use crate::{batch_events, rows};

/// A finished line to run again.
struct Finished {
    line: u64,
    lane: LaneNo,
    seq: u64,
    status: usize,
}

pub(super) fn step(tx: &Tx<'_>, scope: &Scope, step: &Reprocess) -> Result<Reprocessed> {
    let batch = super::find(tx, scope, step.batch)?;
    let to = apply(batch.state, Event::Reprocessed).map_err(Error::refusal)?;
    reopen::check_file(tx, &batch)?;
    let generation = match step.generation {
        None => batch.generation + 1,
        Some(given) if given == batch.generation => given,
        Some(_) => {
            return Err(Error::of(Kind::Conflict).because("a later reprocess has begun"));
        }
    };
    let mut lines = select(tx, step, generation)?;
    let more = lines.len() > step.lines_max as usize;
    lines.truncate(step.lines_max as usize);
    if lines.is_empty() {
        return Ok(Reprocessed { generation: batch.generation, moved: 0, more: false });
    }
    reopen::reopen(tx, batch.id, batch.state, to, generation)?;
    if batch.state.is_closed() {
        reopen::begin_window(tx, batch.id, step.window_secs)?;
    }
    put_back(tx, batch.id, &lines, Phase::of(to))?;
    if generation > batch.generation {
        let reopened = super::find(tx, scope, batch.id)?;
        batch_events::tell(tx, &reopened, "reprocessed", to, None)?;
    }
    Ok(Reprocessed { generation, moved: lines.len() as u64, more })
}

/// The lines of the step in order, and one more when there are more.
fn select(tx: &Tx<'_>, step: &Reprocess, generation: u32) -> Result<Vec<Finished>> {
    let (batch, wanted) = (step.batch.0.into_bytes(), step.lines_max + 1);
    let mut found = Vec::new();
    match &step.select {
        Select::Lines(lines) => {
            for &(lo, hi) in lines.ranges() {
                let left = wanted - u32::try_from(found.len()).unwrap_or(wanted);
                if left == 0 {
                    break;
                }
                let range = params![batch, generation, left, rows::int(lo), rows::int(hi)];
                found.extend(read(tx, sql!("batch/results_in_range"), range)?);
            }
        }
        Select::Statuses(statuses) => {
            for status in Status::ALL.into_iter().filter(|status| statuses.contains(status)) {
                found.extend(match status {
                    Status::Completed => {
                        let all = params![batch, generation, wanted];
                        read(tx, sql!("batch/results_completed"), all)?
                    }
                    Status::Failed | Status::NotFound | Status::Skipped => {
                        let all = params![batch, generation, wanted, status.code()];
                        read(tx, sql!("batch/results_unwell"), all)?
                    }
                });
            }
            found.sort_unstable_by_key(|line| line.line);
        }
    }
    Ok(found)
}

fn read(tx: &Tx<'_>, sql: &str, params: impl Params) -> Result<Vec<Finished>> {
    tx.all(sql, params, |row| {
        let status: i64 = row.get(3)?;
        Ok(Finished {
            line: rows::count(row, 0)?,
            lane: row.get(1)?,
            seq: rows::count(row, 2)?,
            status: usize::try_from(status)
                .ok()
                .filter(|code| *code < 4)
                .ok_or_else(|| rows::bad(3, format!("{status} is not the code of a status")))?,
        })
    })
}

fn put_back(tx: &Tx<'_>, batch: BatchId, lines: &[Finished], phase: Phase) -> Result<()> {
    let mut lanes = BTreeMap::<LaneNo, (Vec<u64>, Delta)>::new();
    let mut keep = tx.prepare(sql!("batch/keep_result"))?;
    let mut move_away = tx.prepare(sql!("batch/move_result"))?;
    let mut delete = tx.prepare(sql!("batch/delete_result"))?;
    for line in lines {
        let (class, word) = (Class::Reprocessed.as_str(), Status::ALL[line.status].as_str());
        let (id, no) = (batch.0.into_bytes(), rows::int(line.line));
        let kept = params![id, no, tx.now, class, word, put_back_error(Status::ALL[line.status])];
        keep.execute(kept).map_err(|cause| tx.failed(cause))?;
        let gone = params![batch.0.into_bytes(), rows::int(line.line)];
        move_away.execute(gone).map_err(|cause| tx.failed(cause))?;
        let gone = params![batch.0.into_bytes(), rows::int(line.line)];
        delete.execute(gone).map_err(|cause| tx.failed(cause))?;
        let (seqs, delta) = lanes.entry(line.lane).or_default();
        seqs.push(line.seq);
        delta.returned += 1;
        delta.finished[line.status] -= 1;
    }
    let bucket = Bucket { attempts: 0, crashes: 0, tranche_max: None, not_before: tx.bucket() };
    for (lane, (seqs, delta)) in lanes {
        let key = LaneKey { batch, lane };
        returned::add(tx, key, &bucket, &seqs.into_iter().collect::<LineSet>())?;
        lane_counts::fold(tx, key, &delta, Some(phase), &mut Vec::new())?;
    }
    Ok(())
}
