//! The schema: migrations go forward, and a schema this program does not know is refused.

use rusqlite::Connection;
use windrow_store::Result;

use crate::error;

/// Two processes may open a new file at once: the slower one finds the work done on its next try.
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
