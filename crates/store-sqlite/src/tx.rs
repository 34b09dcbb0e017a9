//! One call inside a transaction: the connection and the time of the call.
//!
//! Holds throughout: every timestamp a call writes or compares is its one `now`, read after the
//! transaction holds its lock; every driver error leaves here as a store error.

use jiff::Timestamp;
use rusqlite::{
    CachedStatement, Connection, InterruptHandle, OptionalExtension as _, Params, Row, Statement,
};
use windrow_store::error::Cause;
use windrow_store::record::BUCKET_MS;
use windrow_store::{Error, Kind, Result, Time};

use crate::error;

/// Text of a statement file: `sql!("claim/pick_lane")`.
macro_rules! sql {
    ($name:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/sql/", $name, ".sql"))
    };
}
pub(crate) use sql;

/// An argument that does not fit what is stored.
pub(crate) fn invalid(because: impl Into<Cause>) -> Error {
    Error::of(Kind::Invalid).because(because)
}

pub(crate) struct Tx<'c> {
    conn: &'c Connection,
    /// Microseconds since the epoch.
    pub(crate) now: i64,
}

impl<'c> Tx<'c> {
    pub(crate) fn new(conn: &'c Connection, time: &Time) -> Result<Self> {
        let mut tx = Self { conn, now: 0 };
        tx.now = match time.now() {
            Some(given) => given.as_microsecond(),
            None => tx.sure(sql!("clock/now"), [], |row| row.get(0))?,
        };
        Ok(tx)
    }

    pub(crate) fn prepare(&self, sql: &str) -> Result<CachedStatement<'c>> {
        self.conn.prepare_cached(sql).map_err(|cause| self.failed(cause))
    }

    /// Prepares a statement of a handler's script, which is not kept for later calls.
    pub(crate) fn prepare_once(&self, sql: &str) -> Result<Statement<'c>> {
        self.conn.prepare(sql).map_err(|cause| self.failed(cause))
    }

    /// Cuts off what runs.
    pub(crate) fn interrupt(&self) -> InterruptHandle {
        self.conn.get_interrupt_handle()
    }

    /// How many rows the last statement that changes rows changed.
    pub(crate) fn changes(&self) -> u64 {
        self.conn.changes()
    }

    /// Whether the transaction has not ended: some failures take it with them.
    pub(crate) fn is_open(&self) -> bool {
        !self.conn.is_autocommit()
    }

    /// Runs a statement; gives how many rows it changed.
    pub(crate) fn run(&self, sql: &str, params: impl Params) -> Result<u64> {
        let changed = self.prepare(sql)?.execute(params).map_err(|cause| self.failed(cause))?;
        Ok(changed as u64)
    }

    /// The first row, if there is one.
    pub(crate) fn one<T>(
        &self,
        sql: &str,
        params: impl Params,
        map: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Option<T>> {
        let mut statement = self.prepare(sql)?;
        statement.query_row(params, map).optional().map_err(|cause| self.failed(cause))
    }

    /// The first row of a statement that always has one.
    pub(crate) fn sure<T>(
        &self,
        sql: &str,
        params: impl Params,
        map: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<T> {
        self.one(sql, params, map)?.ok_or_else(|| self.corrupt("a row that must exist does not"))
    }

    pub(crate) fn all<T>(
        &self,
        sql: &str,
        params: impl Params,
        map: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>> {
        let mut statement = self.prepare(sql)?;
        let rows = statement.query_map(params, map).map_err(|cause| self.failed(cause))?;
        rows.collect::<rusqlite::Result<Vec<T>>>().map_err(|cause| self.failed(cause))
    }

    /// Rows up to and including the first that is the last, by its value and its place. Nothing
    /// after it is read.
    pub(crate) fn until<T>(
        &self,
        sql: &str,
        params: impl Params,
        mut map: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
        mut is_last: impl FnMut(&T, usize) -> bool,
    ) -> Result<Vec<T>> {
        let mut statement = self.prepare(sql)?;
        let mut rows = statement.query(params).map_err(|cause| self.failed(cause))?;
        let mut read = Vec::new();
        while let Some(row) = rows.next().map_err(|cause| self.failed(cause))? {
            let value = map(row).map_err(|cause| self.failed(cause))?;
            let last = is_last(&value, read.len());
            read.push(value);
            if last {
                break;
            }
        }
        Ok(read)
    }

    pub(crate) fn failed(&self, cause: rusqlite::Error) -> Error {
        error::from_driver(cause)
    }

    /// What is stored contradicts itself.
    pub(crate) fn corrupt(&self, because: impl Into<Cause>) -> Error {
        Error::of(Kind::Corrupt).because(because)
    }

    /// The time of the call, `micros` later, kept within what a timestamp can be.
    pub(crate) fn after(&self, micros: u64) -> i64 {
        let later = self.now.saturating_add(i64::try_from(micros).unwrap_or(i64::MAX));
        later.min(Timestamp::MAX.as_second() * 1_000_000)
    }

    /// The start of the bucket that the time of the call falls in, for lines that may be claimed
    /// at once: sets that come back moments apart share a row.
    pub(crate) fn bucket(&self) -> i64 {
        self.now - self.now.rem_euclid(BUCKET_MS * 1000)
    }

    /// The time of the call, `secs` earlier.
    pub(crate) fn before_secs(&self, secs: u64) -> i64 {
        let micros = i64::try_from(secs.saturating_mul(1_000_000)).unwrap_or(i64::MAX);
        self.now.saturating_sub(micros)
    }
}
