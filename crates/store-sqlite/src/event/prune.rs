//! Pruning: old events go, from the beginning of their streams, as far as a snapshot stands for them.
//!
//! Holds throughout: what is kept of a stream has no gap; the last event of the feed stays, because
//! its place would be given to the next one, and readers have passed it.

use rusqlite::params;
use windrow_store::Result;

use crate::rows;
use crate::tx::{Tx, sql};

/// A stream whose first events are old.
struct Stream {
    owner: String,
    name: String,
    /// The first version that is kept.
    first: i64,
    /// The version of its snapshot.
    snapshot: i64,
}

/// Prunes up to `limit` events of up to `limit` streams that happened until then. Gives how many.
pub(crate) fn prune(tx: &Tx<'_>, until: i64, limit: u32) -> Result<u64> {
    let streams = tx.all(sql!("event/find_prunable"), params![until, limit], |row| {
        let (owner, name) = (row.get(0)?, row.get(1)?);
        Ok(Stream { owner, name, first: row.get(2)?, snapshot: row.get(3)? })
    })?;
    let mut left = u64::from(limit);
    for stream in streams {
        if left == 0 {
            break;
        }
        left -= prune_one(tx, &stream, until, left)?.min(left);
    }
    Ok(u64::from(limit) - left)
}

fn prune_one(tx: &Tx<'_>, stream: &Stream, until: i64, most: u64) -> Result<u64> {
    let Stream { owner, name, first, snapshot } = stream;
    let last = (first + rows::int(most) - 1).min(*snapshot);
    let asked = params![owner, name, first, last, until];
    let young: Option<i64> = tx.sure(sql!("event/find_young"), asked, |row| row.get(0))?;
    let next = young.unwrap_or(last + 1);
    let gone = tx.run(sql!("event/prune_events"), params![owner, name, first, next - 1])?;
    tx.run(sql!("event/keep_from"), params![owner, name, next, tx.now])?;
    Ok(gone)
}
