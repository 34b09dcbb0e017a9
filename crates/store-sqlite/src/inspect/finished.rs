//! Finished lines, in `(batch, line)` order.

use bytes::Bytes;
use rusqlite::{Row, params_from_iter};
use uuid::Uuid;
use windrow_domain::BatchId;
use windrow_domain::attempt::Status;
use windrow_store::inspect::{Binding, Cursor, FinishedLine, FinishedQuery, Page, rows_that_fit};
use windrow_store::record::Finished;
use windrow_store::{Result, Scope};

use super::Where;
use crate::rows;
use crate::tx::Tx;

/// Where a page ended.
type Key = (Uuid, u64);

pub(super) fn page(
    tx: &Tx<'_>,
    scope: &Scope,
    query: &FinishedQuery,
) -> Result<Page<FinishedLine>> {
    let filters = (query.batch, &query.statuses, &query.job_type, query.from, query.to);
    let filters = (filters, query.line, &query.custom_id);
    let binding = match &query.error_code {
        Some(code) => Binding::new("finished", scope, &(filters, code)),
        None => Binding::new("finished", scope, &filters),
    };
    let after: Option<Key> = Cursor::open(&binding, query.after.as_deref())?;
    let unwell = !query.statuses.is_empty() && !query.statuses.contains(&Status::Completed);
    let mut rows = Vec::new();
    if unwell && query.error_code.is_none() {
        // Each status has its own run of results_unwell_idx; a page merges the runs.
        for status in Status::ALL.into_iter().filter(|status| query.statuses.contains(status)) {
            rows.extend(read(tx, scope, query, after, &[status], Table::Current)?);
        }
        rows.sort_by_key(|line| (line.batch, line.result.line));
    } else {
        rows = read(tx, scope, query, after, &query.statuses, Table::Current)?;
    }
    if query.earlier && query.batch.is_some() {
        let earlier = read(tx, scope, query, after, &query.statuses, Table::Earlier)?;
        rows.extend(earlier.into_iter().map(|line| FinishedLine { earlier: true, ..line }));
        rows.sort_by_key(|line| line.result.line);
    }
    let fit = u32::try_from(rows_that_fit(&rows, query.bytes_max)).unwrap_or(query.limit);
    let limit = query.limit.min(fit);
    Ok(super::page(rows, limit, &binding, |line| (line.batch.0, line.result.line)))
}

fn read(
    tx: &Tx<'_>,
    scope: &Scope,
    query: &FinishedQuery,
    after: Option<Key>,
    statuses: &[Status],
    table: Table,
) -> Result<Vec<FinishedLine>> {
    let mut filter = filter(scope, query, after, statuses);
    if table == Table::Earlier {
        filter.and(NEWEST_OF_NO_RESULT, Vec::new());
    }
    let mut bytes = 0_u64;
    // One row past the bound says that there are more, as one row past the limit does. The first
    // row is held whatever its size, so it takes a second one to be past the bound.
    let is_past = |line: &FinishedLine, no: usize| {
        bytes = bytes.saturating_add(line.body_bytes());
        no > 0 && query.bytes_max.is_some_and(|max| bytes > max)
    };
    let text = statement(query, &filter, table);
    tx.until(&text, params_from_iter(filter.values), read_line, is_past)
}

fn filter(scope: &Scope, query: &FinishedQuery, after: Option<Key>, statuses: &[Status]) -> Where {
    let mut filter = Where::default();
    filter.maybe("b.owner = ?", scope.owner().map(str::to_owned));
    filter.maybe("b.id = ?", query.batch.map(|batch| batch.0.into_bytes()));
    filter.maybe("b.job_type = ?", query.job_type.clone());
    filter.maybe("r.line = ?", query.line.map(rows::int));
    filter.maybe("r.custom_id = ?", query.custom_id.clone());
    filter.maybe("r.status <> 0 AND r.error_code = ?", query.error_code.clone());
    filter.maybe("r.created_at >= ?", query.from.map(|at| at.as_microsecond()));
    filter.maybe("r.created_at < ?", query.to.map(|at| at.as_microsecond()));
    match statuses {
        [] => {}
        [Status::Completed] => filter.and("r.status = 0", Vec::new()),
        [one] => filter.and("r.status <> 0 AND r.status = ?", vec![Box::new(one.code())]),
        several => filter.any("r.status", several.iter().map(|status| status.code()).collect()),
    }
    if let Some((batch, line)) = after {
        let (id, line) = (batch.into_bytes(), rows::int(line));
        if query.batch.is_some() {
            // A range of the key: the row value below would walk from the batch's first line.
            filter.and("r.line > ?", vec![Box::new(line)]);
        } else {
            filter.and("b.id >= ?", vec![Box::new(id)]);
            filter.and("(r.batch_id, r.line) > (?, ?)", vec![Box::new(id), Box::new(line)]);
        }
    }
    filter
}

/// Where results are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Table {
    Current,
    /// Of earlier generations.
    Earlier,
}

/// Of an earlier result: it is its line's newest, and the line has no other.
pub(super) const NEWEST_OF_NO_RESULT: &str = "NOT EXISTS (SELECT 1 FROM results AS c \
    WHERE c.batch_id = r.batch_id AND c.line = r.line) \
    AND NOT EXISTS (SELECT 1 FROM results_before AS n WHERE n.batch_id = r.batch_id \
        AND n.line = r.line AND n.generation > r.generation)";

fn statement(query: &FinishedQuery, filter: &Where, table: Table) -> String {
    let (results, index) = match (table, &query.error_code) {
        // A rare word among very many failures.
        (Table::Current, Some(_)) => ("results", " INDEXED BY results_code_idx"),
        (Table::Current, None) => ("results", ""),
        (Table::Earlier, _) => ("results_before", ""),
    };
    let bodies = if query.bodies { "r.response, r.normalised" } else { "NULL, NULL" };
    format!(
        "SELECT /* inspect/finished */ r.batch_id, r.lane, r.created_at, r.generation, r.seq, \
         r.line, r.status, r.attempts, r.custom_id, r.http_status, r.shaped, r.error_code, \
         r.error, {bodies}, r.class FROM batches AS b CROSS JOIN {results} AS r{index} ON r.batch_id = b.id \
         WHERE b.deleted_at IS NULL{} ORDER BY b.id, r.line LIMIT {}",
        filter.text,
        query.limit + 1
    )
}

pub(super) fn read_line(row: &Row<'_>) -> rusqlite::Result<FinishedLine> {
    let status = Status::from_code(row.get(6)?).ok_or_else(|| rows::bad(6, "no such status"))?;
    Ok(FinishedLine {
        batch: BatchId(rows::uuid(row, 0)?),
        lane: row.get(1)?,
        finished_at: rows::time(row, 2)?,
        generation: row.get(3)?,
        earlier: false,
        result: Finished {
            seq: rows::count(row, 4)?,
            line: rows::count(row, 5)?,
            status,
            attempts: row.get(7)?,
            custom_id: row.get(8)?,
            http_status: row.get(9)?,
            shaped: row.get(10)?,
            error_code: row.get(11)?,
            error: row.get(12)?,
            response: row.get::<_, Option<Vec<u8>>>(13)?.map(Bytes::from),
            normalised: row.get(14)?,
            class: rows::parsed_opt(row, 15)?,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How the database would find the results of a page.
    fn plan(statuses: &[Status], after: Option<Key>) -> String {
        let mut conn = rusqlite::Connection::open_in_memory().unwrap();
        crate::schema::migrate(&mut conn, "memory").unwrap();
        let batch = Some(BatchId(Uuid::nil()));
        let query = FinishedQuery { batch, limit: 10, ..FinishedQuery::default() };
        let filter = filter(&Scope::All, &query, after, statuses);
        let text = format!("EXPLAIN QUERY PLAN {}", statement(&query, &filter, Table::Current));
        let mut plan = conn.prepare(&text).unwrap();
        let steps = plan.query_map(params_from_iter(filter.values), |row| row.get::<_, String>(3));
        steps.unwrap().map(Result::unwrap).find(|step| step.starts_with("SEARCH r ")).unwrap()
    }

    /// Otherwise each page of a large batch would take longer than the one before.
    #[test]
    fn a_page_of_one_batch_begins_where_the_last_ended() {
        let first = plan(&[], None);
        assert!(first.ends_with("(batch_id=?)"), "{first}");
        for statuses in [&[][..], &[Status::Completed], &[Status::Failed]] {
            let next = plan(statuses, Some((Uuid::nil(), 5)));
            assert!(next.ends_with("line>?)"), "{statuses:?}: {next}");
        }
    }
}
