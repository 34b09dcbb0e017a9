//! Reprocessing: finished lines go back to run again, one bounded step at a time; and reshaping, which
//! shows them anew without running them.
//!
//! Holds throughout: only results of older generations are taken, so a line that finished again
//! since the first step is not taken twice; the history of attempts stays, and each result that
//! is taken becomes part of it; what a guard leaves alone is counted.

use std::collections::BTreeMap;
use std::time::Duration;

use rusqlite::{Params, params};
use windrow_domain::attempt::{Class, Status};
use windrow_domain::batch::{Event, apply};
use windrow_domain::{BatchId, FileId, LaneNo, LineSet, Phase};
use windrow_store::batch::{
    Candidate, Judged, LeftAlone, REPROCESS_HOUR_SECS, Reprocess, Reprocessed, Reshaped, Select,
    put_back_class, put_back_error,
};
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
    attempts: u32,
    seen: Candidate,
    /// How long it waits.
    wait: Duration,
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
    let next = lines.last().map_or(step.from, |line| line.line + 1);
    let mut left_alone = guard(step, &mut lines);
    if let (Select::Lines(chosen), 0) = (&step.select, step.from) {
        left_alone.running = running(tx, batch.id, chosen)?;
    }
    let moved = lines.len() as u64;
    if moved == 0 {
        let generation = batch.generation;
        return Ok(Reprocessed { generation, moved, more, next, left_alone });
    }
    reopen::reopen(tx, batch.id, batch.state, to, generation)?;
    if batch.state.is_closed() {
        reopen::begin_window(tx, batch.id, step.window_secs)?;
    }
    put_back(tx, step, &lines, Phase::of(to))?;
    if generation > batch.generation {
        let reopened = super::find(tx, scope, batch.id)?;
        batch_events::tell(tx, &reopened, "reprocessed", to, None)?;
    }
    Ok(Reprocessed { generation, moved, more, next, left_alone })
}

/// Takes out what the step's guards leave alone, and counts it.
fn guard(step: &Reprocess, lines: &mut Vec<Finished>) -> LeftAlone {
    let mut left_alone = LeftAlone::default();
    lines.retain_mut(|line| match step.judge(&line.seen) {
        Judged::Takes(wait) => {
            line.wait = wait;
            true
        }
        Judged::Permanent => {
            left_alone.permanent += 1;
            false
        }
        Judged::TooOften => {
            left_alone.too_often += 1;
            false
        }
    });
    left_alone
}

/// The lines that the step looks at, in order, and one more when there are more.
fn select(tx: &Tx<'_>, step: &Reprocess, generation: u32) -> Result<Vec<Finished>> {
    let (batch, wanted) = (step.batch.0.into_bytes(), step.lines_max + 1);
    let since = (!step.force).then(|| tx.before_secs(REPROCESS_HOUR_SECS));
    let from = rows::int(step.from);
    let mut found = Vec::new();
    match &step.select {
        Select::Lines(lines) => {
            let rest = lines.intersection(&LineSet::range(step.from, u64::MAX));
            for &(lo, hi) in rest.ranges() {
                let left = wanted - u32::try_from(found.len()).unwrap_or(wanted);
                if left == 0 {
                    break;
                }
                let range = params![batch, generation, left, rows::int(lo), since, rows::int(hi)];
                found.extend(read(tx, sql!("batch/results_in_range"), range)?);
            }
        }
        Select::Statuses(statuses) => {
            for status in Status::ALL.into_iter().filter(|status| statuses.contains(status)) {
                found.extend(match status {
                    Status::Completed => {
                        let all = params![batch, generation, wanted, from, since];
                        read(tx, sql!("batch/results_completed"), all)?
                    }
                    Status::Failed | Status::NotFound | Status::Skipped => {
                        let all = params![batch, generation, wanted, from, since, status.code()];
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
        let status =
            Status::from_code(row.get(3)?).ok_or_else(|| rows::bad(3, "no such status"))?;
        let class: Option<Class> = rows::parsed_opt(row, 5)?;
        Ok(Finished {
            line: rows::count(row, 0)?,
            lane: row.get(1)?,
            seq: rows::count(row, 2)?,
            attempts: row.get(4)?,
            seen: Candidate { status, class, tried: row.get(6)?, put_back: row.get(7)? },
            wait: Duration::ZERO,
        })
    })
}

/// How many of the chosen lines an instance holds.
fn running(tx: &Tx<'_>, batch: BatchId, chosen: &LineSet) -> Result<u64> {
    let mut held = LineSet::new();
    for (lane, file, seqs) in leased_sets(tx, batch)? {
        for seq in seqs.iter() {
            let place = params![file.0.into_bytes(), lane, rows::int(seq)];
            held.insert(tx.sure(sql!("batch/line_at"), place, |row| rows::count(row, 0))?);
        }
    }
    Ok(held.intersection(chosen).len())
}

/// What is outstanding of a batch, by lane and file.
pub(super) fn leased_sets(tx: &Tx<'_>, batch: BatchId) -> Result<Vec<(LaneNo, FileId, LineSet)>> {
    tx.all(sql!("batch/leased_sets"), [batch.0.into_bytes()], |row| {
        Ok((row.get(0)?, FileId(rows::uuid(row, 1)?), rows::parsed(row, 2)?))
    })
}

fn put_back(tx: &Tx<'_>, step: &Reprocess, lines: &[Finished], phase: Phase) -> Result<()> {
    let batch = step.batch;
    let mut lanes = BTreeMap::<LaneNo, Delta>::new();
    let mut sets = BTreeMap::<(LaneNo, u32, i64), Vec<u64>>::new();
    let mut keep = tx.prepare(sql!("batch/keep_result"))?;
    let mut move_away = tx.prepare(sql!("batch/move_result"))?;
    let mut delete = tx.prepare(sql!("batch/delete_result"))?;
    for line in lines {
        let status = line.seen.status;
        let (class, word) = (put_back_class(status, line.seen.class).as_str(), status.as_str());
        let (id, no) = (batch.0.into_bytes(), rows::int(line.line));
        let wait = i64::try_from(line.wait.as_micros()).expect("bounded by an hour or so");
        let (at, due) = (tx.now.saturating_add(wait), tx.bucket().saturating_add(wait));
        let error = put_back_error(status);
        let kept = params![id, no, tx.now, class, word, error, at, step.reset_attempts];
        keep.execute(kept).map_err(|cause| tx.failed(cause))?;
        let gone = params![batch.0.into_bytes(), rows::int(line.line)];
        move_away.execute(gone).map_err(|cause| tx.failed(cause))?;
        let gone = params![batch.0.into_bytes(), rows::int(line.line)];
        delete.execute(gone).map_err(|cause| tx.failed(cause))?;
        let attempts = if step.reset_attempts { 0 } else { line.attempts };
        sets.entry((line.lane, attempts, due)).or_default().push(line.seq);
        let delta = lanes.entry(line.lane).or_default();
        delta.returned += 1;
        delta.finished[usize::try_from(status.code()).expect("codes are small")] -= 1;
    }
    for ((lane, attempts, not_before), seqs) in sets {
        let bucket = Bucket { attempts, crashes: 0, tranche_max: None, not_before };
        let seqs = seqs.into_iter().collect::<LineSet>();
        returned::add(tx, LaneKey { batch, lane }, &bucket, &seqs)?;
    }
    for (lane, delta) in lanes {
        let key = LaneKey { batch, lane };
        lane_counts::fold(tx, key, &delta, Some(phase), &mut Vec::new())?;
    }
    Ok(())
}

/// Writes shaped rows anew, where the result is still the one that was read.
pub(super) fn reshape(tx: &Tx<'_>, scope: &Scope, id: BatchId, shaped: &[Reshaped]) -> Result<u64> {
    super::find(tx, scope, id)?;
    let mut written = 0;
    for row in shaped {
        let new = params![id.0.into_bytes(), rows::int(row.line), row.generation, row.shaped];
        written += tx.run(sql!("batch/reshape"), new)?;
    }
    Ok(written)
}
