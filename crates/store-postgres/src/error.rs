//! Driver errors become kinds here and nowhere else, by SQLSTATE.

use deadpool_postgres::PoolError;
use tokio_postgres::error::SqlState;
use windrow_domain::event::VersionConflict;
use windrow_store::error::{Error, Kind};

/// A lease or batch is not what the caller believed; raised by our own functions.
pub(crate) const STALE: &str = "WR410";

/// A stream is not the one that it is remembered as.
const MISTAKEN: &str = "WR424";

/// A stream is at another version than expected; its detail says which: `[stream, expected, actual]`.
const VERSION: &str = "WR419";

/// The kind for a SQLSTATE.
pub(crate) fn kind_of(code: &str) -> Kind {
    match code {
        "WR400" => Kind::Invalid,
        "WR404" => Kind::Missing,
        "WR409" | VERSION => Kind::Conflict,
        "WR412" => Kind::Refused,
        "WR429" => Kind::Limited,
        STALE => Kind::LeaseLost,
        "WR500" => Kind::Corrupt,
        // Serialisation failure, deadlock, lock not available, statement cancelled.
        "40001" | "40P01" | "55P03" | "57014" | MISTAKEN => Kind::Busy,
        // Too many connections; the server is starting, stopping or was restarted.
        "53300" | "57P01" | "57P02" | "57P03" | "57P05" | "25P03" | "25P02" => Kind::Unavailable,
        "23505" => Kind::Conflict,
        // A text with a zero byte, a value or a time out of range, too long.
        "22021" | "22003" | "22001" | "22008" | "22P05" => Kind::Invalid,
        // Schema, table, column or function unknown: not migrated, or by another version.
        "3F000" | "42P01" | "42703" | "42883" => Kind::Corrupt,
        // The database is not there, does not let us in, or takes no writes (a standby, until it is promoted).
        "3D000" | "28000" | "28P01" | "25006" => Kind::Unavailable,
        _ => match code.get(..2) {
            Some("08" | "53" | "58" | "57") => Kind::Unavailable,
            // Nobody knows whether the statement ended.
            Some("40") if code == "40003" => Kind::Unavailable,
            Some("40") => Kind::Busy,
            _ => Kind::Corrupt,
        },
    }
}

/// An error of the driver; without a SQLSTATE the connection itself failed.
pub(crate) fn from_driver(cause: tokio_postgres::Error) -> Error {
    let kind = match cause.code() {
        Some(code) => kind_of(code.code()),
        None if cause.is_closed() || is_io(&cause) => Kind::Unavailable,
        None => Kind::Corrupt,
    };
    Error::of(kind).because(cause)
}

fn is_io(cause: &tokio_postgres::Error) -> bool {
    let mut source = std::error::Error::source(cause);
    while let Some(inner) = source {
        if inner.is::<std::io::Error>() {
            return true;
        }
        source = inner.source();
    }
    // Connecting in too long a time has no inner error; a stray answer ends the connection.
    let text = cause.to_string();
    text.contains("connect") || text.contains("unexpected message")
}

/// An error of the pool: no connection came back in time, or none could be made.
pub(crate) fn from_pool(cause: PoolError) -> Error {
    match cause {
        PoolError::Backend(cause) => from_driver(cause),
        PoolError::Timeout(deadpool_postgres::TimeoutType::Wait) => {
            Error::of(Kind::Busy).because("every connection of the pool is in use")
        }
        other => Error::of(Kind::Unavailable).because(other),
    }
}

/// The same error, with both versions when an append met another one than it expected.
pub(crate) fn with_versions(error: Error) -> Error {
    let source = std::error::Error::source(&error);
    let driver = source.and_then(|source| source.downcast_ref::<tokio_postgres::Error>());
    let Some(raised) = driver.and_then(|driver| driver.as_db_error()) else { return error };
    if raised.code().code() != VERSION {
        return error;
    }
    match serde_json::from_str(raised.detail().unwrap_or_default()) {
        Ok((stream, expected, actual)) => {
            let conflict = VersionConflict { stream, expected, actual };
            Error::of(Kind::Conflict).because(conflict)
        }
        Err(_) => error,
    }
}

/// Whether a stream is not the one that its number was remembered for. Nothing happened.
pub(crate) fn is_mistaken(error: &Error) -> bool {
    sql_state(error).is_some_and(|code| code.code() == MISTAKEN)
}

/// Whether the caller's belief was out of date.
pub(crate) fn is_stale(error: &Error) -> bool {
    sql_state(error).is_some_and(|code| code.code() == STALE)
}

/// Whether the transaction could only be undone: a statement before had failed.
pub(crate) fn is_aborted(error: &Error) -> bool {
    sql_state(error) == Some(&SqlState::IN_FAILED_SQL_TRANSACTION)
}

fn sql_state(error: &Error) -> Option<&SqlState> {
    let source = std::error::Error::source(error)?;
    source.downcast_ref::<tokio_postgres::Error>()?.code()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_its_kind() {
        let table = [
            ("WR400", Kind::Invalid),
            ("WR404", Kind::Missing),
            ("WR409", Kind::Conflict),
            ("WR410", Kind::LeaseLost),
            ("WR412", Kind::Refused),
            ("WR419", Kind::Conflict),
            ("WR429", Kind::Limited),
            ("WR500", Kind::Corrupt),
            ("40001", Kind::Busy),
            ("40P01", Kind::Busy),
            ("55P03", Kind::Busy),
            ("57014", Kind::Busy),
            ("53300", Kind::Unavailable),
            ("57P01", Kind::Unavailable),
            ("57P03", Kind::Unavailable),
            ("53100", Kind::Unavailable),
            ("08006", Kind::Unavailable),
            ("25P03", Kind::Unavailable),
            ("23505", Kind::Conflict),
            ("22021", Kind::Invalid),
            ("42P01", Kind::Corrupt),
            ("3D000", Kind::Unavailable),
            ("25006", Kind::Unavailable),
            ("XX000", Kind::Corrupt),
        ];
        for (code, kind) in table {
            assert_eq!(kind_of(code), kind, "{code}");
        }
    }
}
