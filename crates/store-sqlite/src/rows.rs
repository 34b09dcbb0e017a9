//! Values as the database keeps them, and back: ids are bytes, times are microseconds.
//!
//! Holds throughout: a stored value that cannot be read is an error of its column, never a panic.

use std::error::Error as StdError;
use std::str::FromStr;

use jiff::Timestamp;
use rusqlite::types::{Type, ValueRef};
use rusqlite::{Error, Result, Row};
use serde::de::DeserializeOwned;
use uuid::Uuid;
use windrow_domain::{Counts, LaneNo};
use windrow_store::message::Headers;

/// The lane number of bytes that are no request.
pub(crate) const NO_LANE: i64 = -1;

/// A count as an integer column; counts are far below its bound.
pub(crate) fn int(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

pub(crate) fn lane_int(lane: Option<LaneNo>) -> i64 {
    lane.map_or(NO_LANE, i64::from)
}

pub(crate) fn bad(column: usize, cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Error {
    Error::FromSqlConversionFailure(column, Type::Null, cause.into())
}

pub(crate) fn uuid(row: &Row<'_>, column: usize) -> Result<Uuid> {
    row.get::<_, [u8; 16]>(column).map(Uuid::from_bytes)
}

pub(crate) fn count(row: &Row<'_>, column: usize) -> Result<u64> {
    let value: i64 = row.get(column)?;
    u64::try_from(value).map_err(|_| Error::IntegralValueOutOfRange(column, value))
}

pub(crate) fn time(row: &Row<'_>, column: usize) -> Result<Timestamp> {
    Timestamp::from_microsecond(row.get(column)?).map_err(|cause| bad(column, cause))
}

pub(crate) fn time_opt(row: &Row<'_>, column: usize) -> Result<Option<Timestamp>> {
    let micros: Option<i64> = row.get(column)?;
    let read = micros.map(Timestamp::from_microsecond).transpose();
    read.map_err(|cause| bad(column, cause))
}

/// A word or line set, read by its own parser.
pub(crate) fn parsed<T: FromStr<Err: ToString>>(row: &Row<'_>, column: usize) -> Result<T> {
    let text = row.get_ref(column)?.as_str()?;
    text.parse().map_err(|cause: T::Err| bad(column, cause.to_string()))
}

/// The same, or nothing.
pub(crate) fn parsed_opt<T: FromStr<Err: ToString>>(
    row: &Row<'_>,
    column: usize,
) -> Result<Option<T>> {
    match row.get_ref(column)? {
        ValueRef::Null => Ok(None),
        _ => parsed(row, column).map(Some),
    }
}

/// A name with bounds of its own.
pub(crate) fn name<T>(row: &Row<'_>, column: usize) -> Result<T>
where
    T: TryFrom<String, Error: StdError + Send + Sync + 'static>,
{
    T::try_from(row.get(column)?).map_err(|cause| bad(column, cause))
}

pub(crate) fn json<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> Result<T> {
    serde_json::from_str(row.get_ref(column)?.as_str()?).map_err(|cause| bad(column, cause))
}

/// The counts in eight columns: total, cursor, returned, leased, completed, failed, not_found,
/// skipped.
pub(crate) fn counts(row: &Row<'_>, column: usize) -> Result<Counts> {
    let (total, cursor) = (count(row, column)?, count(row, column + 1)?);
    Ok(Counts {
        total,
        untouched: total.checked_sub(cursor).ok_or_else(|| bad(column, "cursor past total"))?,
        returned: count(row, column + 2)?,
        leased: count(row, column + 3)?,
        completed: count(row, column + 4)?,
        failed: count(row, column + 5)?,
        not_found: count(row, column + 6)?,
        skipped: count(row, column + 7)?,
    })
}

/// JSON of a column that is null for the usual value.
pub(crate) fn json_or_default<T: DeserializeOwned + Default>(
    row: &Row<'_>,
    column: usize,
) -> Result<T> {
    match row.get_ref(column)? {
        rusqlite::types::ValueRef::Null => Ok(T::default()),
        _ => json(row, column),
    }
}

/// Headers as a column keeps them: null when there are none.
pub(crate) fn headers_text(headers: &Headers) -> Option<String> {
    (!headers.is_empty()).then(|| serde_json::to_string(headers).expect("headers are text"))
}

/// Names as a column keeps them: null when there are none.
pub(crate) fn names_text(names: &[String]) -> Option<String> {
    (!names.is_empty()).then(|| serde_json::to_string(names).expect("names are text"))
}
