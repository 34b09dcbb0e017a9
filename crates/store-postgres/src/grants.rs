//! Least privilege: the rights that each kind of role needs, as SQL for the database's
//! administrator.

use crate::db::sql;

/// Statements that give roles the least they need: `app` sends and appends with `windrow.send` and
/// `windrow.append`, `monitor` reads everything but the keys, `admin` does everything. The engine runs
/// as `admin`, or as the role that migrated. That role runs these statements, after every
/// migration.
pub fn grants(app: &str, monitor: &str, admin: &str) -> String {
    let text = sql!("app/grants").text(0).into_owned();
    let roles = [("{app}", app), ("{monitor}", monitor), ("{admin}", admin)];
    roles.into_iter().fold(text, |text, (place, role)| text.replace(place, &quoted(role)))
}

/// A name as an identifier, whatever is in it.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
