//! Calls that end without an answer of their handler: cancelled, or their time was over.
//!
//! Holds throughout: a call and its message end together, so that what a handler returns later is refused;
//! one that has its answer keeps it.

use rusqlite::params;
use windrow_domain::CallState;
use windrow_domain::call::{CANCELLED, cancelled_error, expired_error};
use windrow_store::call::{Call, CallKey};
use windrow_store::message::error_text;
use windrow_store::{Error, Kind, Result};

use crate::rows;
use crate::tx::{Tx, sql};

use super::find;

/// Ends a call. One that was cancelled before is given as it is.
pub(super) fn cancel(tx: &Tx<'_>, key: &CallKey, reason: Option<&str>) -> Result<Call> {
    let (call, _) = find(tx, key)?.ok_or_else(|| Error::of(Kind::Missing))?;
    if call.state.is_ended() {
        let was_cancelled = call.error.as_deref().is_some_and(|error| error.starts_with(CANCELLED));
        if call.state == CallState::Failed && was_cancelled {
            return Ok(call);
        }
        let because = format!("call {} has its answer", key.request_id);
        return Err(Error::of(Kind::Conflict).because(because));
    }
    let stream = format!("{}/{}", call.object_type, call.object_id);
    end(tx, (key.owner.as_str(), key.request_id.as_str()), &stream, |_| cancelled_error(reason))?;
    let ended = find(tx, key)?.map(|(call, _)| call);
    ended.ok_or_else(|| tx.corrupt("a cancelled call is not there"))
}

/// Ends calls that wait though their time is over.
pub(super) fn expire(tx: &Tx<'_>, limit: u32) -> Result<Vec<CallKey>> {
    let overdue = tx.all(sql!("call/find_overdue"), params![tx.now, limit], |row| {
        let key = CallKey { owner: rows::name(row, 0)?, request_id: rows::name(row, 1)? };
        Ok((key, row.get::<_, String>(2)?))
    })?;
    for (key, stream) in &overdue {
        let names = (key.owner.as_str(), key.request_id.as_str());
        end(tx, names, stream, |last| expired_error(last.as_deref()))?;
    }
    Ok(overdue.into_iter().map(|(key, _)| key).collect())
}

fn end(
    tx: &Tx<'_>,
    (owner, id): (&str, &str),
    stream: &str,
    error: impl FnOnce(Option<String>) -> String,
) -> Result<()> {
    let message: Option<(i64, i64, i64, Option<String>)> =
        tx.one(sql!("call/find_message"), [owner, stream, id], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
        })?;
    let (place, last) = match message {
        Some((partition, stream_no, position, last)) => {
            (Some((partition, stream_no, position)), last)
        }
        None => (None, None),
    };
    let error = error(last);
    tx.run(sql!("call/end_unanswered"), params![owner, id, error_text(&error), tx.now])?;
    if let Some((partition, stream_no, position)) = place {
        tx.run(sql!("call/end_message"), params![partition, stream_no, position, owner, id])?;
    }
    Ok(())
}
