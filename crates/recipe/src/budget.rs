//! What the expressions of one row may cost. MiniJinja's fuel counts instructions; a filter is one
//! instruction whatever it makes, so filters pay here for bytes that they make and values they visit.
//!
//! Holds throughout: kept for each thread, since a row is rendered or judged by one thread without a
//! pause; [`begin`] starts the account of a row.

use std::cell::Cell;

use minijinja::{Error, ErrorKind};

/// A single text that a filter makes.
pub(crate) const TEXT_BYTES_MAX: usize = 1 << 20;
/// All texts that filters make for one row.
const ROW_BYTES_MAX: usize = 16 << 20;
/// A single list that a filter makes.
pub(crate) const LIST_VALUES_MAX: usize = 100_000;
/// All values that filters visit for one row.
const ROW_VISITS_MAX: usize = 5_000_000;
/// The instructions of one expression.
pub(crate) const FUEL: u64 = 20_000;

/// How it is said that a row would become too large; the message of such an error begins so.
pub(crate) const TOO_LARGE: &str = "too large: ";

thread_local! {
    static MADE_BYTES: Cell<usize> = const { Cell::new(0) };
    static VISITS: Cell<usize> = const { Cell::new(0) };
    static DECIMAL: Cell<char> = const { Cell::new('.') };
}

/// Starts a row, whose numbers are written with this decimal sign.
pub(crate) fn begin(decimal: char) {
    MADE_BYTES.set(0);
    VISITS.set(0);
    DECIMAL.set(decimal);
}

/// How the numbers of this row are written.
pub(crate) fn decimal() -> char {
    DECIMAL.get()
}

/// Pays for a text of that many bytes, before it is made.
pub(crate) fn make(bytes: usize) -> Result<(), Error> {
    if bytes > TEXT_BYTES_MAX {
        return Err(too_large("a text of more than 1 MiB"));
    }
    let made = MADE_BYTES.get().saturating_add(bytes);
    MADE_BYTES.set(made);
    if made > ROW_BYTES_MAX {
        return Err(too_large("the texts of this row have more than 16 MiB"));
    }
    Ok(())
}

/// Pays for looking at that many values.
pub(crate) fn visit(values: usize) -> Result<(), Error> {
    let visits = VISITS.get().saturating_add(values);
    VISITS.set(visits);
    if visits > ROW_VISITS_MAX {
        return Err(too_large("the expressions of this row visit more than 5,000,000 values"));
    }
    Ok(())
}

/// Pays for a list of that many values, before it is made.
pub(crate) fn list(values: usize) -> Result<(), Error> {
    if values > LIST_VALUES_MAX {
        return Err(too_large("a list of more than 100,000 values"));
    }
    visit(values)
}

fn too_large(what: &str) -> Error {
    Error::new(ErrorKind::InvalidOperation, format!("{TOO_LARGE}{what}"))
}
