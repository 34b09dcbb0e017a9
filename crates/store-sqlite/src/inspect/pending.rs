//! Pending lines: three small sources of sets, merged in `(updated_at, batch, lane, seq)` order.
//!
//! Holds throughout: sets are listed without their lines, and the lines of a set are read only when
//! the page reaches it; sets with the same time, batch and lane are merged before they are cut, so
//! no line is skipped or doubled.

use jiff::Timestamp;
use rusqlite::{Row, params};
use uuid::Uuid;
use windrow_domain::{BatchId, FileId, InstanceId, LaneNo, LineSet, Owner, Target};
use windrow_store::inspect::{
    Binding, Cursor, Page, PendingLine, PendingQuery, Place, SUMMARY_PREFIX_BYTES, Summary,
};
use windrow_store::{Result, Scope};

use crate::rows;
use crate::tx::{Tx, sql};

/// The place of a set in the order of the page.
type GroupKey = (i64, Uuid, LaneNo);
/// Where a page ended.
type Key = (i64, Uuid, LaneNo, u64);

/// Lines that are in one place for the same reason.
struct Set {
    group: GroupKey,
    place: Place,
    lines: Lines,
    target: Target,
    owner: Owner,
    job_type: Option<String>,
    file: FileId,
    attempts: u32,
    crashes: u32,
    not_before: Option<Timestamp>,
    held_by: Option<InstanceId>,
}

/// The lines of a set, or where they are.
enum Lines {
    Range(u64, u64),
    Returned(i64),
    Leased([u8; 16]),
}

pub(super) fn page(tx: &Tx<'_>, scope: &Scope, query: &PendingQuery) -> Result<Page<PendingLine>> {
    let filters = (query.batch, &query.places, &query.job_type, query.from, query.to);
    let binding = Binding::new("pending", scope, &filters);
    let after: Option<Key> = Cursor::open(&binding, query.after.as_deref())?;
    let wanted = query.limit as usize + 1;
    let mut found = Vec::new();
    let mut sets = list_sets(tx, scope, query, after)?.into_iter().peekable();
    while let Some(first) = sets.next() {
        let group_key = first.group;
        let mut group = vec![first];
        while let Some(same) = sets.next_if(|set| set.group == group_key) {
            group.push(same);
        }
        let past = match after {
            Some((at, batch, lane, _)) if group_key < (at, batch, lane) => continue,
            Some((at, batch, lane, seq)) if group_key == (at, batch, lane) => Some(seq),
            _ => None,
        };
        read_group(tx, &group, past, wanted, &mut found)?;
        if found.len() >= wanted {
            break;
        }
    }
    let end = |line: &PendingLine| -> Key {
        (line.updated_at.as_microsecond(), line.batch.0, line.lane, line.seq)
    };
    Ok(super::page(found, query.limit, &binding, end))
}

fn list_sets(
    tx: &Tx<'_>,
    scope: &Scope,
    query: &PendingQuery,
    after: Option<Key>,
) -> Result<Vec<Set>> {
    let wants = |place| query.places.is_empty() || query.places.contains(&place);
    let filter = params![
        scope.owner(),
        query.batch.map(|batch| batch.0.into_bytes()),
        query.job_type,
        query.from.map(|at| at.as_microsecond()),
        query.to.map(|at| at.as_microsecond()),
        after.map(|key| key.0),
        wants(Place::Untouched),
        wants(Place::Returned),
        wants(Place::Leased)
    ];
    tx.all(sql!("inspect/pending_sets"), filter, read_set)
}

fn read_set(row: &Row<'_>) -> rusqlite::Result<Set> {
    let place: u8 = row.get(3)?;
    let (place, lines) = match place {
        0 => (Place::Untouched, Lines::Range(rows::count(row, 5)?, rows::count(row, 6)?)),
        1 => (Place::Returned, Lines::Returned(row.get(4)?)),
        _ => (Place::Leased, Lines::Leased(row.get(4)?)),
    };
    Ok(Set {
        group: (row.get(0)?, rows::uuid(row, 1)?, row.get(2)?),
        place,
        lines,
        target: rows::name(row, 7)?,
        owner: rows::name(row, 8)?,
        job_type: row.get(9)?,
        file: FileId(rows::uuid(row, 10)?),
        attempts: row.get(11)?,
        crashes: row.get(12)?,
        not_before: rows::time_opt(row, 13)?,
        held_by: row.get::<_, Option<[u8; 16]>>(14)?.map(|id| InstanceId(Uuid::from_bytes(id))),
    })
}

/// Reads the lines of sets that share a key, lowest first, until the page is full.
fn read_group(
    tx: &Tx<'_>,
    group: &[Set],
    past: Option<u64>,
    wanted: usize,
    found: &mut Vec<PendingLine>,
) -> Result<()> {
    let room = wanted - found.len();
    let first = past.map_or(0, |seq| seq + 1);
    let mut lines = Vec::<(u64, &Set)>::new();
    for set in group {
        let rest = lines_of(tx, set)?.intersection(&LineSet::range(first, u64::MAX));
        lines.extend(rest.take(room as u64).0.iter().map(|seq| (seq, set)));
    }
    lines.sort_unstable_by_key(|(seq, _)| *seq);
    lines.truncate(room);
    for (seq, set) in lines {
        found.push(read_line(tx, set, seq)?);
    }
    Ok(())
}

fn lines_of(tx: &Tx<'_>, set: &Set) -> Result<LineSet> {
    match &set.lines {
        Lines::Range(lo, hi) => Ok(LineSet::range(*lo, *hi)),
        Lines::Returned(id) => {
            tx.sure(sql!("inspect/returned_lines"), [id], |row| rows::parsed(row, 0))
        }
        Lines::Leased(id) => {
            tx.sure(sql!("inspect/leased_lines"), [id], |row| rows::parsed(row, 0))
        }
    }
}

fn read_line(tx: &Tx<'_>, set: &Set, seq: u64) -> Result<PendingLine> {
    let (at, batch, lane) = set.group;
    let prefix = rows::int(SUMMARY_PREFIX_BYTES as u64);
    let place = params![set.file.0.into_bytes(), lane, rows::int(seq), prefix];
    let (line, summary) = tx.sure(sql!("inspect/pending_line"), place, |row| {
        Ok((rows::count(row, 0)?, Summary::read(row.get_ref(1)?.as_blob()?)))
    })?;
    let of = params![batch.into_bytes(), rows::int(line)];
    let last = match set.place {
        Place::Untouched => None,
        Place::Returned | Place::Leased => {
            tx.one(sql!("inspect/last_error"), of, |row| Ok((row.get(0)?, row.get(1)?)))?
        }
    };
    let (last_error_code, last_error) = last.unzip();
    let updated_at = Timestamp::from_microsecond(at).map_err(|cause| tx.corrupt(cause))?;
    Ok(PendingLine {
        updated_at,
        batch: BatchId(batch),
        lane,
        seq,
        line,
        owner: set.owner.clone(),
        job_type: set.job_type.clone(),
        target: set.target.clone(),
        place: set.place,
        attempts: set.attempts,
        crashes: set.crashes,
        not_before: set.not_before,
        held_by: set.held_by,
        held_since: set.held_by.map(|_| updated_at),
        last_error_code,
        last_error,
        summary,
    })
}
