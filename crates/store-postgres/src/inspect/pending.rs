//! Unfinished lines: three sources of sets, merged in `(updated_at, batch, lane, seq)` order.

use std::collections::BTreeMap;

use jiff::Timestamp;
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;
use windrow_domain::{BatchId, InstanceId, LineSet};
use windrow_store::Scope;
use windrow_store::error::Result;
use windrow_store::inspect::{
    Binding, Cursor, Page, PendingLine, PendingQuery, Place, SUMMARY_PREFIX_BYTES, Summary,
};

use crate::db::sql;
use crate::{PostgresBackend, rows};

/// The key of a page: when, batch, lane, seq.
type Key = (Timestamp, Uuid, i16, u64);

/// Sets with the same key are merged: when, batch, lane.
type Group = (Timestamp, Uuid, i16);

/// A set of unfinished lines that came to where they are together.
#[derive(Clone)]
struct Set {
    group: Group,
    file: Uuid,
    lines: LineSet,
    pattern: PendingLine,
}

pub(super) async fn page(
    store: &PostgresBackend,
    scope: &Scope,
    query: PendingQuery,
) -> Result<Page<PendingLine>> {
    let limit = i64::from(query.limit);
    let filters = (query.batch, &query.places, &query.job_type, query.from, query.to);
    let binding = Binding::new("pending", scope, &filters);
    let after: Option<Key> = Cursor::open(&binding, query.after.as_deref())?;
    let wanted = (limit + 1).cast_unsigned();
    let (mut sets, mut picked, mut from) =
        (Vec::new(), Vec::new(), after.map(|key| (group(key), true)));
    loop {
        let found = read_sets(store, scope, &query, from, limit + 1).await?;
        let more = found.len() as u64 >= wanted;
        from = found.last().map(|set| (set.group, false));
        for group in found.chunk_by(|a, b| a.group == b.group) {
            let left = wanted - picked.len() as u64;
            picked.extend(lines_of(group, sets.len(), after, left));
            sets.extend_from_slice(group);
        }
        if !more || picked.len() as u64 == wanted {
            break;
        }
    }
    let picked = picked.into_iter().map(|(set, seq)| (&sets[set], seq)).collect();
    let mut lines = summarised(store, picked).await?;
    add_errors(store, &mut lines).await?;
    let key =
        |line: &PendingLine| (line.updated_at, line.batch.0, line.lane.cast_signed(), line.seq);
    Ok(super::page(lines, limit, &binding, key))
}

fn group((updated_at, batch, lane, _): Key) -> Group {
    (updated_at, batch, lane)
}

/// The lowest lines of a group of sets after the cursor: `(which set, seq)`, sets counted from
/// `first` on.
fn lines_of(sets: &[Set], first: usize, after: Option<Key>, wanted: u64) -> Vec<(usize, u64)> {
    let passed = match after {
        Some(key) if group(key) == sets[0].group => LineSet::range(0, key.3),
        _ => LineSet::new(),
    };
    let mut lines: Vec<_> = (first..)
        .zip(sets)
        .flat_map(|(index, set)| {
            let (lowest, _) = set.lines.difference(&passed).take(wanted);
            lowest.iter().map(|seq| (index, seq)).collect::<Vec<_>>()
        })
        .collect();
    lines.sort_unstable_by_key(|(_, seq)| *seq);
    lines.truncate(usize::try_from(wanted).expect("bounded by PAGE_MAX"));
    lines
}

async fn read_sets(
    store: &PostgresBackend,
    scope: &Scope,
    query: &PendingQuery,
    from: Option<(Group, bool)>,
    limit: i64,
) -> Result<Vec<Set>> {
    let places: Option<Vec<&str>> =
        (!query.places.is_empty()).then(|| query.places.iter().map(|place| word(*place)).collect());
    let params = [
        (&scope.owner() as _, Type::TEXT),
        (&query.batch.map(|batch| batch.0) as _, Type::UUID),
        (&query.job_type as _, Type::TEXT),
        (&places as _, Type::TEXT_ARRAY),
        (&query.from as _, Type::TIMESTAMPTZ),
        (&query.to as _, Type::TIMESTAMPTZ),
        (&from.map(|(group, _)| group.0) as _, Type::TIMESTAMPTZ),
        (&from.map(|(group, _)| group.1) as _, Type::UUID),
        (&from.map(|(group, _)| group.2) as _, Type::INT2),
        (&from.is_some_and(|(_, included)| included) as _, Type::BOOL),
        (&limit as _, Type::INT8),
    ];
    let found = store.db.rows(sql!("inspect/pending"), &params).await?;
    found.iter().map(set).collect()
}

fn word(place: Place) -> &'static str {
    match place {
        Place::Untouched => "untouched",
        Place::Returned => "returned",
        Place::Leased => "leased",
    }
}

pub(super) fn place(row: &Row) -> Result<Place> {
    [Place::Untouched, Place::Returned, Place::Leased]
        .into_iter()
        .find(|place| word(*place) == row.get::<_, &str>("place"))
        .ok_or_else(|| rows::corrupt("place", "no such place"))
}

fn set(row: &Row) -> Result<Set> {
    let place = place(row)?;
    let (updated_at, batch): (Timestamp, Uuid) = (row.get("updated_at"), row.get("batch_id"));
    let held_by: Option<Uuid> = row.get("held_by");
    Ok(Set {
        group: (updated_at, batch, row.get("lane")),
        file: row.get("file_id"),
        lines: rows::read(row, "lines")?,
        pattern: PendingLine {
            updated_at,
            batch: BatchId(batch),
            lane: rows::lane(row),
            seq: 0,
            line: 0,
            owner: rows::owner(row)?,
            job_type: row.get("job_type"),
            target: rows::target(row)?,
            place,
            attempts: rows::small(row, "attempts"),
            crashes: rows::small(row, "crashes"),
            not_before: row.get("not_before"),
            held_by: held_by.map(InstanceId),
            held_since: held_by.map(|_| updated_at),
            last_error_code: None,
            last_error: None,
            summary: Summary::default(),
        },
    })
}

/// Reads the first bytes of the picked lines, one query for each lane.
async fn summarised(store: &PostgresBackend, picked: Vec<(&Set, u64)>) -> Result<Vec<PendingLine>> {
    let mut lanes = BTreeMap::<(Uuid, i16), Vec<i64>>::new();
    for (set, seq) in &picked {
        lanes.entry((set.file, set.group.2)).or_default().push(seq.cast_signed());
    }
    let bytes = i32::try_from(SUMMARY_PREFIX_BYTES).expect("a small bound");
    let mut read = BTreeMap::new();
    for ((file, lane), seqs) in lanes {
        let params = [
            (&file as _, Type::UUID),
            (&lane as _, Type::INT2),
            (&seqs as _, Type::INT8_ARRAY),
            (&bytes as _, Type::INT4),
        ];
        for row in store.db.rows(sql!("inspect/prefixes"), &params).await? {
            let summary = Summary::read(row.get("prefix"));
            read.insert(
                (file, lane, rows::count(&row, "seq")),
                (rows::count(&row, "line"), summary),
            );
        }
    }
    // Two batches of one file may show the same line on one page.
    let line = |(set, seq): (&Set, u64)| {
        let (line, summary) = read.get(&(set.file, set.group.2, seq)).cloned().unwrap_or_default();
        PendingLine { seq, line, summary, ..set.pattern.clone() }
    };
    Ok(picked.into_iter().map(line).collect())
}

/// Says of each line that was tried what went wrong the last time, one query for the page.
async fn add_errors(store: &PostgresBackend, lines: &mut [PendingLine]) -> Result<()> {
    let tried = lines.iter().filter(|line| line.place != Place::Untouched);
    let (batches, numbers): (Vec<Uuid>, Vec<i64>) =
        tried.map(|line| (line.batch.0, line.line.cast_signed())).unzip();
    if batches.is_empty() {
        return Ok(());
    }
    let params = [(&batches as _, Type::UUID_ARRAY), (&numbers as _, Type::INT8_ARRAY)];
    let mut errors = BTreeMap::<(Uuid, u64), (String, String)>::new();
    for row in store.db.rows(sql!("inspect/last_errors"), &params).await? {
        let of = (row.get("batch_id"), rows::count(&row, "line"));
        errors.insert(of, (row.get("error_code"), row.get("error")));
    }
    for line in lines.iter_mut().filter(|line| line.place != Place::Untouched) {
        let last = errors.get(&(line.batch.0, line.line)).cloned();
        (line.last_error_code, line.last_error) = last.unzip();
    }
    Ok(())
}
