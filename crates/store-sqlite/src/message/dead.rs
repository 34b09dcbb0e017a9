//! Dead letters: listed, sent again, or forgotten.

use jiff::Timestamp;
use rusqlite::{Row, params};
use uuid::Uuid;
use windrow_domain::{DeadLetterId, Owner, Queue, Stream};
use windrow_store::inspect::{Binding, Cursor, Page};
use windrow_store::message::{DeadLetter, Message, MessageRef, MessagesQuery, PastFailure, Sent};
use windrow_store::{Error, Kind, Result, Scope};

use super::send::{self, Letter};
use super::{place, read_place, read_queue};
use crate::tx::{Tx, sql};
use crate::{inspect, partition, rows};

pub(super) fn page(tx: &Tx<'_>, scope: &Scope, query: &MessagesQuery) -> Result<Page<DeadLetter>> {
    let binding = Binding::new("dead letters", scope, &(query.queue, &query.stream));
    let after: Option<(i64, Uuid)> = Cursor::open(&binding, query.after.as_deref())?;
    let (at, id) = after.unwrap_or((i64::MAX, Uuid::max()));
    let (id, limit) = (id.into_bytes(), query.limit + 1);
    let queue = query.queue.map(Queue::code);
    let stream = query.stream.as_ref().map(Stream::as_str);
    let rows = match scope.owner() {
        None => {
            let asked = params![at, id, queue, stream, limit];
            tx.all(sql!("message/dead_letters"), asked, read_dead)?
        }
        Some(owner) => {
            let asked = params![at, id, queue, stream, limit, owner];
            tx.all(sql!("message/dead_letters_of_owner"), asked, read_dead)?
        }
    };
    Ok(inspect::page(rows, query.limit, &binding, |dead| {
        (dead.dead_at.as_microsecond(), dead.id.0)
    }))
}

/// The columns of `message/dead_letters`.
fn read_dead(row: &Row<'_>) -> rusqlite::Result<DeadLetter> {
    let history: Vec<(i64, String)> = rows::json_or_default(row, 13)?;
    let past = |(micros, error): (i64, String)| {
        let at = Timestamp::from_microsecond(micros).map_err(|cause| rows::bad(13, cause))?;
        Ok(PastFailure { at, error })
    };
    let history = history.into_iter().map(past).collect::<rusqlite::Result<Vec<_>>>()?;
    let message = Message {
        at: read_place(row, 0)?,
        queue: read_queue(row, 3)?,
        owner: rows::name(row, 4)?,
        stream: rows::name(row, 5)?,
        id: row.get(6)?,
        kind: row.get(7)?,
        payload: row.get::<_, Vec<u8>>(8)?.into(),
        headers: rows::json_or_default(row, 9)?,
        sent_at: rows::time(row, 10)?,
        not_before: None,
        attempts: row.get(11)?,
        started: None,
        waiting: rows::json_or_default(row, 12)?,
        error: history.last().map(|past| past.error.clone()),
    };
    let (error, dead_at) = (row.get(14)?, rows::time(row, 15)?);
    Ok(DeadLetter { id: DeadLetterId(rows::uuid(row, 16)?), message, history, error, dead_at })
}

/// A dead letter as it is sent again.
struct StoredLetter {
    at: MessageRef,
    queue: Queue,
    owner: Owner,
    stream: Stream,
    id: String,
    kind: String,
    payload: Vec<u8>,
    headers: Option<String>,
    waiting: Option<String>,
}

fn read_letter(row: &Row<'_>) -> rusqlite::Result<StoredLetter> {
    Ok(StoredLetter {
        at: read_place(row, 0)?,
        queue: read_queue(row, 3)?,
        owner: rows::name(row, 4)?,
        stream: rows::name(row, 5)?,
        id: row.get(6)?,
        kind: row.get(7)?,
        payload: row.get(8)?,
        headers: row.get(9)?,
        waiting: row.get(10)?,
    })
}

pub(super) fn replay(tx: &Tx<'_>, scope: &Scope, ids: &[DeadLetterId]) -> Result<Vec<Sent>> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let count = partition::count(tx)?;
    ids.iter().map(|id| replay_one(tx, scope, *id, count)).collect()
}

fn replay_one(tx: &Tx<'_>, scope: &Scope, dead: DeadLetterId, count: u16) -> Result<Sent> {
    let of = params![dead.0.into_bytes(), scope.owner()];
    let found = tx.one(sql!("message/find_dead"), of, read_letter)?;
    let found =
        found.ok_or_else(|| Error::of(Kind::Missing).because(format!("{dead} is not there")))?;
    let letter = Letter {
        queue: found.queue,
        owner: &found.owner,
        stream: &found.stream,
        id: &found.id,
        kind: &found.kind,
        payload: &found.payload,
        headers: found.headers,
        not_before: None,
        waiting: found.waiting,
    };
    let at = send::put(tx, count, &letter)?;
    let (from, to) = (place(found.at), place(at));
    let (owner, queue) = (found.owner.as_str(), found.queue.code());
    let moved = params![owner, queue, found.id, from.0, from.1, from.2, to.0, to.1, to.2];
    tx.run(sql!("message/move_id"), moved)?;
    tx.run(sql!("message/discard_dead"), of)?;
    Ok(Sent { at, is_duplicate: false })
}

pub(super) fn discard(tx: &Tx<'_>, scope: &Scope, ids: &[DeadLetterId]) -> Result<u64> {
    let discard = |id: &DeadLetterId| {
        tx.run(sql!("message/discard_dead"), params![id.0.into_bytes(), scope.owner()])
    };
    ids.iter().map(discard).sum()
}
