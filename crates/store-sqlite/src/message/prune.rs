//! Pruning of messages and calls: deletes or archives what is past its retention, a bounded number
//! of rows at a time.

use rusqlite::params;
use windrow_store::Result;
use windrow_store::message::{MessageRetention, PrunedMessages};

use crate::tx::{Tx, sql};
use crate::{event, rows};

/// Streams that are looked at for each one that may go: those that live must not hide the others.
const LOOKS_PER_STREAM: u32 = 4;

pub(super) fn all(tx: &Tx<'_>, retention: &MessageRetention, limit: u32) -> Result<PrunedMessages> {
    let before = |ms: u64| tx.now.saturating_sub(rows::int(ms.saturating_mul(1000)));
    let tombstones = params![before(retention.tombstone_ms), limit];
    let tombstones = tx.run(sql!("call/tidy_tombstones"), tombstones)?;
    let mut expired = expire(tx, limit)?;
    if let Some(ms) = retention.archived_ms {
        let left = limit.saturating_sub(u32::try_from(expired).unwrap_or(limit));
        expired += forget_archived(tx, before(ms), left)?;
    }
    let archived = archive(tx, before(retention.archive_ms), limit)?;
    let dead = match retention.dead_ms {
        Some(ms) => tx.run(sql!("message/tidy_dead"), params![before(ms), limit])?,
        None => 0,
    };
    let ids = tx.run(sql!("message/tidy_messages"), params![before(retention.dedupe_ms), limit])?;
    let streams = forget_streams(tx, before(retention.stream_ms), limit)?;
    let events = match retention.event_ms {
        Some(ms) => event::prune(tx, before(ms), limit)?,
        None => 0,
    };
    Ok(PrunedMessages { ids, archived, expired, tombstones, dead, streams, events })
}

/// Which calls a statement of this module names.
fn keys(tx: &Tx<'_>, sql: &str, until: i64, limit: u32) -> Result<Vec<(String, String)>> {
    tx.all(sql, params![until, limit], |row| Ok((row.get(0)?, row.get(1)?)))
}

/// Answers whose time has passed become tombstones in the archive.
fn expire(tx: &Tx<'_>, limit: u32) -> Result<u64> {
    let fresh = keys(tx, sql!("call/find_expired"), tx.now, limit)?;
    for (owner, id) in &fresh {
        move_to_archive(tx, owner, id)?;
        tx.run(sql!("call/expire"), params![owner, id, tx.now])?;
    }
    let archived = keys(tx, sql!("call/find_expired_archived"), tx.now, limit)?;
    for (owner, id) in &archived {
        tx.run(sql!("call/expire"), params![owner, id, tx.now])?;
    }
    Ok((fresh.len() + archived.len()) as u64)
}

/// Answers that the archive has kept long enough become tombstones.
fn forget_archived(tx: &Tx<'_>, until: i64, limit: u32) -> Result<u64> {
    let kept = keys(tx, sql!("call/find_kept_archived"), until, limit)?;
    for (owner, id) in &kept {
        tx.run(sql!("call/expire"), params![owner, id, tx.now])?;
    }
    Ok(kept.len() as u64)
}

fn archive(tx: &Tx<'_>, until: i64, limit: u32) -> Result<u64> {
    let answered = keys(tx, sql!("call/find_answered"), until, limit)?;
    for (owner, id) in &answered {
        move_to_archive(tx, owner, id)?;
    }
    Ok(answered.len() as u64)
}

fn move_to_archive(tx: &Tx<'_>, owner: &str, id: &str) -> Result<()> {
    tx.run(sql!("call/archive"), params![owner, id, tx.now])?;
    tx.run(sql!("call/delete"), [owner, id]).map(|_| ())
}

/// Forgets streams that have no messages and were not used since; the others are looked at again
/// when their time has passed.
fn forget_streams(tx: &Tx<'_>, until: i64, limit: u32) -> Result<u64> {
    let most = params![until, limit.saturating_mul(LOOKS_PER_STREAM)];
    let idle: Vec<(i64, i64, bool)> = tx.all(sql!("message/find_idle_streams"), most, |row| {
        Ok((row.get(0)?, row.get(1)?, row.get(2)?))
    })?;
    let mut forgotten = 0;
    for (no, touched_at, is_busy) in idle {
        if forgotten >= u64::from(limit) {
            break;
        }
        if is_busy || touched_at > until {
            let looked_at = if is_busy { tx.now } else { touched_at };
            tx.run(sql!("message/look_at_stream"), params![no, looked_at])?;
        } else {
            forgotten += tx.run(sql!("message/forget_stream"), [no])?;
        }
    }
    Ok(forgotten)
}
