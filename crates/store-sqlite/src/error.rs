//! Driver errors become a [`Kind`] here, by error code, and nowhere else.

use rusqlite::{Error as Driver, ErrorCode};
use windrow_store::error::Cause;
use windrow_store::{Error, Kind};

/// The store error for a driver error.
pub(crate) fn from_driver(cause: Driver) -> Error {
    Error::of(kind(&cause)).because(cause)
}

/// The store error for a schema that could not be brought up to date.
pub(crate) fn from_migration(cause: refinery::Error, subject: &str) -> Error {
    use refinery::error::Kind as Why;
    let verb = "migrate database";
    match cause.kind() {
        Why::MissingVersion(found) => {
            let because = format!(
                "its schema has {found}, which this program does not know: it was written by a newer one"
            );
            Error::new(Kind::Corrupt, verb, subject).because(because)
        }
        Why::Connection(_, driver) => {
            let kind = driver.downcast_ref::<Driver>().map_or(Kind::Unavailable, kind);
            Error::new(kind, verb, subject).because(cause)
        }
        _ => Error::new(Kind::Corrupt, verb, subject).because(cause),
    }
}

/// A copy of an error for every call that shared its transaction.
pub(crate) fn shared(cause: &Driver) -> Error {
    Error::of(kind(cause)).because(Cause::from(cause.to_string()))
}

/// What a driver error means to a caller.
pub(crate) fn kind(cause: &Driver) -> Kind {
    match cause {
        Driver::SqliteFailure(failure, _) => kind_of_code(failure.code),
        Driver::ToSqlConversionFailure(_) => Kind::Invalid,
        // Everything else is a value or statement that does not fit the schema.
        _ => Kind::Corrupt,
    }
}

fn kind_of_code(code: ErrorCode) -> Kind {
    match code {
        ErrorCode::DatabaseBusy
        | ErrorCode::DatabaseLocked
        | ErrorCode::FileLockingProtocolFailed => Kind::Busy,
        ErrorCode::DiskFull
        | ErrorCode::SystemIoFailure
        | ErrorCode::CannotOpen
        | ErrorCode::PermissionDenied
        | ErrorCode::AuthorizationForStatementDenied
        | ErrorCode::ReadOnly
        | ErrorCode::OutOfMemory
        | ErrorCode::OperationAborted
        | ErrorCode::OperationInterrupted
        | ErrorCode::NoLargeFileSupport => Kind::Unavailable,
        ErrorCode::ConstraintViolation => Kind::Conflict,
        ErrorCode::TooBig => Kind::Invalid,
        _ => Kind::Corrupt,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::ffi;

    #[test]
    fn every_code_has_its_kind() {
        let table = [
            (ffi::SQLITE_BUSY, Kind::Busy),
            (ffi::SQLITE_BUSY_SNAPSHOT, Kind::Busy),
            (ffi::SQLITE_LOCKED, Kind::Busy),
            (ffi::SQLITE_PROTOCOL, Kind::Busy),
            (ffi::SQLITE_FULL, Kind::Unavailable),
            (ffi::SQLITE_IOERR, Kind::Unavailable),
            (ffi::SQLITE_IOERR_FSYNC, Kind::Unavailable),
            (ffi::SQLITE_CANTOPEN, Kind::Unavailable),
            (ffi::SQLITE_PERM, Kind::Unavailable),
            (ffi::SQLITE_READONLY, Kind::Unavailable),
            (ffi::SQLITE_NOMEM, Kind::Unavailable),
            (ffi::SQLITE_INTERRUPT, Kind::Unavailable),
            (ffi::SQLITE_CONSTRAINT_PRIMARYKEY, Kind::Conflict),
            (ffi::SQLITE_TOOBIG, Kind::Invalid),
            (ffi::SQLITE_CORRUPT, Kind::Corrupt),
            (ffi::SQLITE_NOTADB, Kind::Corrupt),
            (ffi::SQLITE_SCHEMA, Kind::Corrupt),
            (ffi::SQLITE_MISMATCH, Kind::Corrupt),
            (ffi::SQLITE_MISUSE, Kind::Corrupt),
            (ffi::SQLITE_ERROR, Kind::Corrupt),
        ];
        for (code, expected) in table {
            let cause = Driver::SqliteFailure(ffi::Error::new(code), None);
            assert_eq!(kind(&cause), expected, "code {code}");
        }
        assert_eq!(kind(&Driver::QueryReturnedNoRows), Kind::Corrupt);
        assert_eq!(kind(&Driver::IntegralValueOutOfRange(0, -1)), Kind::Corrupt);
    }
}
