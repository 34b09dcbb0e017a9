//! The schema: migrations go forward, and a schema this program does not know is refused.

use rusqlite::Connection;
use windrow_store::error::NotMigrated;
use windrow_store::{Error, Kind, Result};

use crate::error;

/// Two processes may open a new file at once: the slower one finds the work done on its next
/// attempt.
const TRIES_MAX: u32 = 3;

mod embedded {
    refinery::embed_migrations!("migrations");
}

/// Brings the schema up to date, all steps and their record in one transaction: a process that dies
/// in the middle, or loses a race, leaves nothing half done.
pub(crate) fn migrate(conn: &mut Connection, subject: &str) -> Result<()> {
    let mut attempts = 1;
    loop {
        match embedded::migrations::runner().set_grouped(true).run(conn) {
            Ok(_) => return Ok(()),
            Err(cause) if attempts >= TRIES_MAX => {
                return Err(error::from_migration(cause, subject));
            }
            Err(_) => attempts += 1,
        }
    }
}

/// Refuses a schema that is not the one of this program, and changes nothing.
pub(crate) fn check(conn: &mut Connection, subject: &str) -> Result<()> {
    let runner = embedded::migrations::runner();
    let known = runner.get_migrations().iter().map(refinery::Migration::version).max().unwrap_or(0);
    // Without the table of what was applied, nothing was.
    let applied = runner.get_applied_migrations(conn).unwrap_or_default();
    let applied = applied.iter().map(refinery::Migration::version).max().unwrap_or(0);
    match applied == known {
        true => Ok(()),
        // A newer one is refused by the runner, in its own words, before it changes anything.
        false if applied > known => migrate(conn, subject),
        false => {
            let cause = NotMigrated { applied: applied.into(), known: known.into() };
            Err(Error::new(Kind::Corrupt, "open", subject).because(cause))
        }
    }
}
