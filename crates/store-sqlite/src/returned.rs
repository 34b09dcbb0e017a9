//! Returned sets: lines that came back and wait for their time, in few rows.
//!
//! Holds throughout: a row's text stays within its bound; lines of one row have the same attempts,
//! crashes and time, so a tranche taken from them has one history.

use rusqlite::params;
use windrow_domain::LineSet;
use windrow_domain::lines::TEXT_BYTES_MAX;
use windrow_store::Result;

use crate::lane_counts::LaneKey;
use crate::rows;
use crate::tx::{Tx, sql};

/// What lines of one row have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bucket {
    pub(crate) attempts: u32,
    pub(crate) crashes: u32,
    pub(crate) tranche_max: Option<u32>,
    /// Microseconds since the epoch.
    pub(crate) not_before: i64,
}

/// Adds lines to a bucket of a lane: to a row that has room, else as new rows.
pub(crate) fn add(tx: &Tx<'_>, key: LaneKey, bucket: &Bucket, lines: &LineSet) -> Result<()> {
    for part in lines.split_text(TEXT_BYTES_MAX) {
        add_part(tx, key, bucket, &part)?;
    }
    Ok(())
}

fn add_part(tx: &Tx<'_>, key: LaneKey, bucket: &Bucket, part: &LineSet) -> Result<()> {
    let (batch, text, n) = (key.batch.0.into_bytes(), part.to_string(), rows::int(part.len()));
    let Bucket { attempts, crashes, tranche_max, not_before } = *bucket;
    // One byte more for the comma: the joined text is at most the bound.
    let room = rows::int(TEXT_BYTES_MAX.saturating_sub(text.len()) as u64);
    let same = params![batch, key.lane, not_before, attempts, crashes, tranche_max, room];
    let found: Option<i64> = tx.one(sql!("returned/find_room"), same, |row| row.get(0))?;
    match found {
        Some(id) => tx.run(sql!("returned/append"), params![id, text, n, tx.now])?,
        None => {
            let new = params![
                batch,
                key.lane,
                not_before,
                attempts,
                crashes,
                tranche_max,
                text,
                n,
                tx.now
            ];
            tx.run(sql!("returned/insert"), new)?
        }
    };
    Ok(())
}

/// Lines that were taken together.
pub(crate) struct TakenLines {
    pub(crate) attempts: u32,
    pub(crate) crashes: u32,
    pub(crate) lines: LineSet,
}

struct Due {
    id: i64,
    bucket: (u32, u32, Option<u32>),
    n: u64,
    lines: LineSet,
}

/// Takes up to `lines_max` due lines: the oldest row, and others with the same history; the lowest
/// lines of a row first. What is left of a split row stays.
pub(crate) fn take(tx: &Tx<'_>, key: LaneKey, lines_max: u64) -> Result<Option<TakenLines>> {
    let due = due_together(tx, key, lines_max)?;
    let Some(first) = due.first() else {
        return Ok(None);
    };
    let (attempts, crashes, tranche_max) = first.bucket;
    let mut room = tranche_max.map_or(lines_max, |max| lines_max.min(u64::from(max)));
    let mut taken = LineSet::new();
    for row in &due {
        let (now, rest) = row.lines.take(room);
        room -= now.len();
        if now.is_empty() {
            break;
        }
        if rest.is_empty() {
            tx.run(sql!("returned/delete"), [row.id])?;
        } else {
            let (text, n) = (rest.to_string(), rows::int(rest.len()));
            tx.run(sql!("returned/shrink"), params![row.id, text, n])?;
        }
        taken = taken.union(&now);
    }
    Ok(Some(TakenLines { attempts, crashes, lines: taken }))
}

/// Due rows with the history of the oldest, as many as `lines_max` lines need.
fn due_together(tx: &Tx<'_>, key: LaneKey, lines_max: u64) -> Result<Vec<Due>> {
    let mut statement = tx.prepare(sql!("returned/due"))?;
    let lane = params![key.batch.0.into_bytes(), key.lane, tx.now];
    let mut rows = statement.query(lane).map_err(|cause| tx.failed(cause))?;
    let (mut due, mut found) = (Vec::<Due>::new(), 0);
    while found < lines_max {
        let Some(row) = rows.next().map_err(|cause| tx.failed(cause))? else {
            break;
        };
        let read = || -> rusqlite::Result<Option<Due>> {
            let bucket = (row.get(1)?, row.get(2)?, row.get(3)?);
            if due.first().is_some_and(|first| first.bucket != bucket) {
                return Ok(None);
            }
            let (n, lines) = (rows::count(row, 4)?, rows::parsed(row, 5)?);
            Ok(Some(Due { id: row.get(0)?, bucket, n, lines }))
        };
        if let Some(row) = read().map_err(|cause| tx.failed(cause))? {
            found += row.n;
            due.push(row);
        }
    }
    Ok(due)
}
