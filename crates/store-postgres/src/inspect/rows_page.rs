//! The rows of a batch in the order of its file.
//!
//! Holds throughout: which rows a page has is decided by their keys alone; what they hold is read by these keys in
//! the last step, up to the bound in bytes. All steps see the same moment, so a line that moves is shown once.

use bytes::Bytes;
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;
use windrow_domain::InstanceId;
use windrow_domain::attempt::Status;
use windrow_store::Scope;
use windrow_store::error::{Error, Kind, Result};
use windrow_store::inspect::{
    BatchRow, Binding, Cursor, FinishedLine, LaneStart, Merge, Page, PlaceSet, PlaceSets, RowKey,
    RowsQuery,
};

use super::{finished, pending};
use crate::db::{Snapshot, Statement, sql};
use crate::{PostgresBackend, rows};

pub(super) async fn page(
    store: &PostgresBackend,
    scope: &Scope,
    query: &RowsQuery,
) -> Result<Page<BatchRow>> {
    let binding = Binding::new("rows", scope, &query.filters());
    let after: Option<u64> = Cursor::open(&binding, query.after.as_deref())?;
    let start = query.start(after);
    let (snapshot, found) = look(store, scope, query, start).await?;
    let Some((file, found)) = found else {
        snapshot.last(&[]).await?;
        return Err(Error::of(Kind::Missing));
    };
    let keys = match start {
        Some(_) => keys(&snapshot, query, file, &found).await?,
        None => Vec::new(),
    };
    let (page, more) = read(snapshot, query, file, &keys, &found.places).await?;
    let more = more || keys.len() > query.limit as usize;
    Ok(super::cut(page, query.limit as usize, more, &binding, |row: &BatchRow| row.line))
}

/// What the first step found.
struct Found {
    has_file: bool,
    places: PlaceSets,
    starts: Vec<LaneStart>,
    /// Rows with a result, and those that are listed for an earlier one.
    others: Vec<RowKey>,
}

/// The first step: all that can be asked before anything is known. None when there is no such batch.
async fn look<'d>(
    store: &'d PostgresBackend,
    scope: &Scope,
    query: &RowsQuery,
    start: Option<u64>,
) -> Result<(Snapshot<'d>, Option<(Uuid, Found)>)> {
    let start = start.unwrap_or_default();
    let lower_than = query.lower_than(start);
    let statuses: Option<Vec<i16>> = (!query.statuses.is_empty())
        .then(|| query.statuses.iter().map(|status| status.code()).collect());
    let by_key = query.statuses.is_empty() || query.statuses.contains(&Status::Completed);
    let of_scope = [(&query.batch.0 as _, Type::UUID), (&scope.owner() as _, Type::TEXT)];
    let id = [(&query.batch.0 as _, Type::UUID)];
    let lower = lower_than.map_or(0, signed);
    let starts = [(&query.batch.0 as _, Type::UUID), (&lower as _, Type::INT8)];
    let lines = [
        (&query.batch.0 as _, Type::UUID),
        (&signed(start) as _, Type::INT8),
        (&statuses as _, Type::INT2_ARRAY),
        (&query.backward as _, Type::BOOL),
        (&(i64::from(query.limit) + 1) as _, Type::INT8),
    ];
    let current =
        if by_key { sql!("inspect/row_lines") } else { sql!("inspect/row_lines_unsuccessful") };
    let mut calls = vec![
        Statement { sql: sql!("inspect/row_file"), params: &of_scope },
        Statement { sql: sql!("inspect/row_sets"), params: &id },
    ];
    let optional = [
        (lower_than.is_some(), Statement { sql: sql!("inspect/lane_starts"), params: &starts }),
        (query.wants_finished(), Statement { sql: current, params: &lines }),
        (
            query.wants_earlier(true),
            Statement { sql: sql!("inspect/row_lines_before"), params: &lines },
        ),
    ];
    let wanted = [optional[0].0, optional[1].0, optional[2].0];
    calls.extend(optional.into_iter().filter(|(wanted, _)| *wanted).map(|(_, call)| call));
    let (snapshot, answers) = store.db.begin_snapshot(&calls).await?;
    let mut answers = answers.into_iter();
    let (file, sets) = (answers.next().unwrap_or_default(), answers.next().unwrap_or_default());
    let mut answer =
        |wanted: bool| if wanted { answers.next().unwrap_or_default() } else { Vec::new() };
    let [starts, current, earlier] = wanted.map(&mut answer);
    let Some(file) = file.first() else { return Ok((snapshot, None)) };
    let has_file: bool = file.get("has_file");
    let mut others: Vec<RowKey> = current.iter().map(|row| key(row, true)).collect();
    others.extend(earlier.iter().map(|row| key(row, false)));
    if !has_file && query.wants_earlier(false) && !query.wants_earlier(true) {
        // Without the file, nothing else tells of lines that have no result.
        let earlier = snapshot.rows(sql!("inspect/row_lines_before"), &lines).await?;
        others.extend(earlier.iter().map(|row| key(row, false)));
    }
    let lane_start =
        |row: &Row| LaneStart { lane: rows::lane(row), passed: rows::count(row, "passed") };
    let found = Found {
        has_file,
        places: PlaceSets::new(sets.iter().map(set).collect::<Result<_>>()?),
        starts: starts.iter().map(lane_start).collect(),
        others,
    };
    Ok((snapshot, Some((file.get("file_id"), found))))
}

fn key(row: &Row, finished: bool) -> RowKey {
    let (line, seq) = (rows::count(row, "line"), rows::count(row, "seq"));
    RowKey { line, lane: rows::lane(row), seq, finished }
}

fn set(row: &Row) -> Result<PlaceSet> {
    Ok(PlaceSet {
        lane: rows::lane(row),
        place: pending::place(row)?,
        lines: rows::read(row, "lines")?,
        attempts: rows::small(row, "attempts"),
        not_before: row.get("not_before"),
        held_by: row.get::<_, Option<Uuid>>("held_by").map(InstanceId),
        held_since: row.get("held_since"),
    })
}

/// The keys of the page, and of one row more if there is one.
async fn keys(
    snapshot: &Snapshot<'_>,
    query: &RowsQuery,
    file: Uuid,
    found: &Found,
) -> Result<Vec<RowKey>> {
    let none = PlaceSets::default();
    let places = if found.has_file { &found.places } else { &none };
    let mut merge = Merge::new(query, query.limit as usize + 1, places, &found.starts);
    loop {
        let asked = merge.ask();
        if asked.is_empty() {
            return Ok(merge.with(found.others.iter().copied()));
        }
        let (lanes, seqs): (Vec<i16>, Vec<i64>) =
            asked.iter().map(|&(lane, seq)| (lane.cast_signed(), signed(seq))).unzip();
        let params = [
            (&file as _, Type::UUID),
            (&lanes as _, Type::INT2_ARRAY),
            (&seqs as _, Type::INT8_ARRAY),
        ];
        let told = snapshot.rows(sql!("inspect/line_numbers"), &params).await?;
        if told.len() != asked.len() {
            return Err(Error::of(Kind::Corrupt).because("lines of its file are missing"));
        }
        for row in &told {
            merge.tell(rows::lane(row), rows::count(row, "seq"), rows::count(row, "line"));
        }
    }
}

/// The last step: what the rows of these keys hold, as far as it fits. And whether a row did not fit.
async fn read(
    snapshot: Snapshot<'_>,
    query: &RowsQuery,
    file: Uuid,
    keys: &[RowKey],
    places: &PlaceSets,
) -> Result<(Vec<BatchRow>, bool)> {
    let keys = &keys[..keys.len().min(query.limit as usize)];
    let lines: Vec<i64> = keys.iter().map(|key| signed(key.line)).collect();
    let lanes: Vec<i16> = keys.iter().map(|key| key.lane.cast_signed()).collect();
    let seqs: Vec<i64> = keys.iter().map(|key| signed(key.seq)).collect();
    let finished: Vec<bool> = keys.iter().map(|key| key.finished).collect();
    let params = [
        (&query.batch.0 as _, Type::UUID),
        (&file as _, Type::UUID),
        (&lines as _, Type::INT8_ARRAY),
        (&lanes as _, Type::INT2_ARRAY),
        (&seqs as _, Type::INT8_ARRAY),
        (&finished as _, Type::BOOL_ARRAY),
        (&query.bodies as _, Type::BOOL),
        (&query.earlier as _, Type::BOOL),
        (&query.bytes_max.map(signed) as _, Type::INT8),
    ];
    let read = Statement { sql: sql!("inspect/rows"), params: &params };
    let calls = if keys.is_empty() { Vec::new() } else { vec![read] };
    let answers = snapshot.last(&calls).await?;
    let found = answers.first().map_or(&[][..], Vec::as_slice);
    let fit = found.iter().take_while(|row| row.get("fits"));
    let page = fit.zip(keys).map(|(row, key)| filled(row, key, places));
    let page = page.collect::<Result<Vec<_>>>()?;
    let is_cut = page.len() < keys.len();
    Ok((page, is_cut))
}

/// A row with what was read of it.
fn filled(row: &Row, key: &RowKey, places: &PlaceSets) -> Result<BatchRow> {
    let earlier: Option<bool> = row.get("earlier");
    let result = match earlier {
        Some(earlier) => Some(FinishedLine { earlier, ..finished::line(row)? }),
        None if key.finished => return Err(rows::corrupt("line", "a result is missing")),
        None => None,
    };
    let bare = key.row(places);
    let current = result.as_ref().filter(|result| !result.earlier);
    Ok(BatchRow {
        raw: row.get::<_, Option<&[u8]>>("raw").map(Bytes::copy_from_slice),
        attempts: current.map_or(bare.attempts, |result| result.result.attempts),
        last_error_code: row.get("last_error_code"),
        last_error: row.get("last_error"),
        result,
        ..bare
    })
}

/// A number as the database keeps it; larger ones are no line's.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
