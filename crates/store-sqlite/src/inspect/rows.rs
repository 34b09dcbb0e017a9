//! The rows of a batch in the order of its file.
//!
//! Holds throughout: which rows a page has is decided by their keys alone; what a row holds is read by its key, and
//! nothing is read past the first row that does not fit.

use bytes::Bytes;
use rusqlite::{Row, params, params_from_iter};
use uuid::Uuid;
use windrow_domain::attempt::Status;
use windrow_domain::{BatchId, FileId, InstanceId};
use windrow_store::inspect::{
    BatchRow, Binding, Cursor, FinishedLine, LaneStart, Merge, Page, Place, PlaceSet, PlaceSets,
    RowKey, RowsQuery,
};
use windrow_store::{Result, Scope};

use super::Where;
use super::finished::{NEWEST_OF_NO_RESULT, read_line};
use crate::tx::{Tx, sql};
use crate::{batch, rows};

pub(super) fn page(tx: &Tx<'_>, scope: &Scope, query: &RowsQuery) -> Result<Page<BatchRow>> {
    let binding = Binding::new("rows", scope, &query.filters());
    let after: Option<u64> = Cursor::open(&binding, query.after.as_deref())?;
    let file = batch::find(tx, scope, query.batch)?.file;
    let Some(start) = query.start(after) else {
        return Ok(Page { rows: Vec::new(), next: None });
    };
    let places = PlaceSets::new(sets(tx, query.batch)?);
    let keys = keys(tx, query, file, start, &places)?;
    let limit = query.limit as usize;
    let (mut read, mut bytes, mut more) = (Vec::new(), 0_u64, keys.len() > limit);
    for key in keys.iter().take(limit) {
        let row = read_row(tx, query, file, key.row(&places), key.finished)?;
        bytes = bytes.saturating_add(row.bytes());
        if !read.is_empty() && query.bytes_max.is_some_and(|max| bytes > max) {
            more = true;
            break;
        }
        read.push(row);
    }
    let last = read.last().filter(|_| more);
    let next = last.map(|row: &BatchRow| Cursor::seal(&binding, &row.line));
    Ok(Page { rows: read, next })
}

fn sets(tx: &Tx<'_>, id: BatchId) -> Result<Vec<PlaceSet>> {
    tx.all(sql!("inspect/row_sets"), [id.0.into_bytes()], |row| {
        let place: u8 = row.get(1)?;
        let place = [Place::Untouched, Place::Returned, Place::Leased].get(usize::from(place));
        let held_by: Option<[u8; 16]> = row.get(5)?;
        Ok(PlaceSet {
            lane: row.get(0)?,
            place: *place.ok_or_else(|| rows::bad(1, "no such place"))?,
            lines: rows::parsed(row, 2)?,
            attempts: row.get(3)?,
            not_before: rows::time_opt(row, 4)?,
            held_by: held_by.map(|id| InstanceId(Uuid::from_bytes(id))),
            held_since: rows::time_opt(row, 6)?,
        })
    })
}

/// The keys of the page, and of one row more if there is one.
fn keys(
    tx: &Tx<'_>,
    query: &RowsQuery,
    file: FileId,
    start: u64,
    places: &PlaceSets,
) -> Result<Vec<RowKey>> {
    let wanted = query.limit as usize + 1;
    let has_file: bool =
        tx.sure(sql!("inspect/row_file"), [file.0.into_bytes()], |row| row.get(0))?;
    let mut others = Vec::new();
    if query.wants_finished() {
        let unwell = !query.statuses.is_empty() && !query.statuses.contains(&Status::Completed);
        if unwell {
            // Each status has its own run of results_unwell_idx; a page merges the runs.
            for status in Status::ALL.into_iter().filter(|status| query.statuses.contains(status)) {
                others.extend(with_result(tx, query, start, &[status], Table::Current)?);
            }
        } else {
            others = with_result(tx, query, start, &query.statuses, Table::Current)?;
        }
    }
    if query.wants_earlier(has_file) {
        others.extend(with_result(tx, query, start, &query.statuses, Table::Earlier)?);
    }
    if !has_file {
        return Ok(Merge::new(query, wanted, &PlaceSets::default(), &[]).with(others));
    }
    let starts = lane_starts(tx, query, file, start)?;
    let mut merge = Merge::new(query, wanted, places, &starts);
    loop {
        let asked = merge.ask();
        if asked.is_empty() {
            return Ok(merge.with(others));
        }
        for (lane, seq) in asked {
            let place = params![file.0.into_bytes(), lane, rows::int(seq)];
            let line = tx.sure(sql!("sweep/line_of"), place, |row| rows::count(row, 0))?;
            merge.tell(lane, seq, line);
        }
    }
}

fn lane_starts(tx: &Tx<'_>, query: &RowsQuery, file: FileId, start: u64) -> Result<Vec<LaneStart>> {
    let Some(lower_than) = query.lower_than(start) else { return Ok(Vec::new()) };
    let of = params![file.0.into_bytes(), rows::int(lower_than)];
    tx.all(sql!("inspect/lane_starts"), of, |row| {
        Ok(LaneStart { lane: row.get(0)?, passed: rows::count(row, 1)? })
    })
}

/// Where results are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Table {
    Current,
    /// Of earlier generations.
    Earlier,
}

/// Rows with a result that has one of these outcomes, or any.
fn with_result(
    tx: &Tx<'_>,
    query: &RowsQuery,
    start: u64,
    statuses: &[Status],
    table: Table,
) -> Result<Vec<RowKey>> {
    let (text, filter) = statement(query, start, statuses, table);
    tx.all(&text, params_from_iter(filter.values), |row| {
        Ok(RowKey {
            line: rows::count(row, 0)?,
            lane: row.get(1)?,
            seq: rows::count(row, 2)?,
            finished: table == Table::Current,
        })
    })
}

fn statement(query: &RowsQuery, start: u64, statuses: &[Status], table: Table) -> (String, Where) {
    let (results, order) = match (table, query.backward) {
        (Table::Current, false) => ("results", "ASC"),
        (Table::Current, true) => ("results", "DESC"),
        (Table::Earlier, false) => ("results_before", "ASC"),
        (Table::Earlier, true) => ("results_before", "DESC"),
    };
    let mut filter = Where::default();
    filter.and("r.batch_id = ?", vec![Box::new(query.batch.0.into_bytes())]);
    let beyond = if query.backward { "r.line <= ?" } else { "r.line >= ?" };
    filter.and(beyond, vec![Box::new(rows::int(start))]);
    match statuses {
        [] => {}
        [Status::Completed] => filter.and("r.status = 0", Vec::new()),
        [one] => filter.and("r.status <> 0 AND r.status = ?", vec![Box::new(one.code())]),
        several => filter.any("r.status", several.iter().map(|status| status.code()).collect()),
    }
    if table == Table::Earlier {
        filter.and(NEWEST_OF_NO_RESULT, Vec::new());
    }
    let text = format!(
        "SELECT /* inspect/row_lines */ r.line, r.lane, r.seq FROM {results} AS r WHERE true{} \
         ORDER BY r.line {order} LIMIT {}",
        filter.text,
        query.limit + 1
    );
    (text, filter)
}

/// Reads what a row holds.
fn read_row(
    tx: &Tx<'_>,
    query: &RowsQuery,
    file: FileId,
    row: BatchRow,
    finished: bool,
) -> Result<BatchRow> {
    let place = params![file.0.into_bytes(), row.lane, rows::int(row.seq)];
    let raw = tx.one(sql!("inspect/row_bytes"), place, |read| {
        Ok(Bytes::copy_from_slice(read.get_ref(0)?.as_blob()?))
    })?;
    let line = rows::int(row.line);
    let of = params![query.batch.0.into_bytes(), line, query.bodies];
    if finished {
        let result = tx.sure(sql!("inspect/row_result"), of, read_line)?;
        return Ok(BatchRow { raw, attempts: result.result.attempts, result: Some(result), ..row });
    }
    let result = match query.earlier {
        true => tx.one(sql!("inspect/row_result_before"), of, |read| {
            Ok(FinishedLine { earlier: true, ..read_line(read)? })
        })?,
        false => None,
    };
    let failed = params![query.batch.0.into_bytes(), line];
    let error = |read: &Row<'_>| Ok((read.get(0)?, read.get(1)?));
    let (code, sentence) = tx.one(sql!("inspect/row_error"), failed, error)?.unzip();
    Ok(BatchRow { raw, result, last_error_code: code, last_error: sentence, ..row })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(text: &str, values: impl rusqlite::Params) -> Vec<String> {
        let mut conn = rusqlite::Connection::open_in_memory().unwrap();
        crate::schema::migrate(&mut conn, "memory").unwrap();
        let mut plan = conn.prepare(&format!("EXPLAIN QUERY PLAN {text}")).unwrap();
        let steps = plan.query_map(values, |row| row.get::<_, String>(3)).unwrap();
        steps.map(std::result::Result::unwrap).collect()
    }

    /// Otherwise a page far down a large batch would take longer than the first, or be sorted as a whole.
    #[test]
    fn a_page_of_rows_begins_where_the_last_ended() {
        for backward in [false, true] {
            let query = RowsQuery { backward, ..RowsQuery::of(BatchId(Uuid::nil()), 10) };
            let statuses: [&[Status]; 3] = [&[], &[Status::Completed], &[Status::NotFound]];
            for (statuses, table) in statuses
                .map(|some| (some, Table::Current))
                .into_iter()
                .chain([(&[][..], Table::Earlier)])
            {
                let (text, filter) = statement(&query, 7, statuses, table);
                let steps = steps(&text, params_from_iter(filter.values));
                let range = if backward { "line<?)" } else { "line>?)" };
                assert!(steps[0].starts_with("SEARCH r "), "{steps:?}");
                assert!(steps[0].ends_with(range), "{steps:?}");
                assert!(!steps.iter().any(|step| step.contains("TEMP B-TREE")), "{steps:?}");
            }
        }
    }

    /// Each statement that reads a row, or finds where a lane begins, goes by key.
    #[test]
    fn a_row_is_read_by_its_key() {
        let texts = [
            (sql!("inspect/lane_starts"), 2),
            (sql!("inspect/row_bytes"), 3),
            (sql!("inspect/row_file"), 1),
            (sql!("inspect/row_error"), 2),
            (sql!("inspect/row_result"), 3),
            (sql!("inspect/row_result_before"), 3),
        ];
        for (text, marks) in texts {
            let steps = steps(text, params_from_iter(vec![0_i64; marks]));
            let scans =
                steps.iter().find(|step| step.starts_with("SCAN") && !step.contains("bisect"));
            let scanned = scans.filter(|step| !step.contains("CONSTANT"));
            assert_eq!(scanned, None, "{text}: {steps:?}");
            assert!(!steps.iter().any(|step| step.contains("TEMP B-TREE")), "{text}: {steps:?}");
        }
    }
}
