//! Sending: each message at the end of its stream.

use rusqlite::params;
use windrow_domain::message::digest;
use windrow_domain::partition::partition_of;
use windrow_domain::{Owner, Queue, Stream};
use windrow_store::message::{MessageRef, NewMessage, Sent};
use windrow_store::{Error, Kind, Result};

use super::read_place;
use crate::tx::{Tx, sql};
use crate::{partition, rows};

/// A message as its row keeps it.
pub(crate) struct Letter<'m> {
    pub(crate) queue: Queue,
    pub(crate) owner: &'m Owner,
    pub(crate) stream: &'m Stream,
    pub(crate) id: &'m str,
    pub(crate) kind: &'m str,
    pub(crate) payload: &'m [u8],
    pub(crate) headers: Option<String>,
    /// Microseconds since the epoch.
    pub(crate) not_before: Option<i64>,
    pub(crate) waiting: Option<String>,
}

/// Sends messages one after another; the caller's transaction makes it all or none.
pub(crate) fn all(tx: &Tx<'_>, messages: &[NewMessage]) -> Result<Vec<Sent>> {
    if messages.is_empty() {
        return Ok(Vec::new());
    }
    let count = partition::count(tx)?;
    messages.iter().map(|message| one(tx, count, message)).collect()
}

fn one(tx: &Tx<'_>, count: u16, message: &NewMessage) -> Result<Sent> {
    let NewMessage { queue, stream, kind, payload, .. } = message;
    let says = message.is_deduped().then(|| digest(*queue, stream, kind, payload));
    if let Some(says) = &says
        && let Some(at) = find_first(tx, message, says)?
    {
        return Ok(Sent { at, is_duplicate: true });
    }
    let letter = Letter {
        queue: message.queue,
        owner: &message.owner,
        stream: &message.stream,
        id: &message.id,
        kind: &message.kind,
        payload: &message.payload,
        headers: rows::headers_text(&message.headers),
        not_before: message.not_before.map(|at| at.as_microsecond()),
        waiting: rows::names_text(&message.consumers),
    };
    let at = put(tx, count, &letter)?;
    if let Some(says) = says {
        let (no, stream_no, position) = super::place(at);
        let owner = message.owner.as_str();
        let seen = params![owner, queue.code(), message.id, says, no, stream_no, position, tx.now];
        tx.run(sql!("message/add_id"), seen)?;
    }
    Ok(Sent { at, is_duplicate: false })
}

/// Where the first with that id is or was; `Conflict` when it said something else.
fn find_first(tx: &Tx<'_>, message: &NewMessage, says: &[u8; 32]) -> Result<Option<MessageRef>> {
    let of = params![message.owner.as_str(), message.queue.code(), message.id];
    let first = tx.one(sql!("message/find_id"), of, |row| {
        Ok((row.get::<_, [u8; 32]>(0)?, read_place(row, 1)?))
    })?;
    match first {
        Some((said, _)) if said != *says => {
            let because = format!("message id {:?} was used for another message", message.id);
            Err(Error::of(Kind::Conflict).because(because))
        }
        first => Ok(first.map(|(_, at)| at)),
    }
}

/// Puts a message at the end of its stream.
pub(crate) fn put(tx: &Tx<'_>, count: u16, letter: &Letter<'_>) -> Result<MessageRef> {
    let at = next_place(tx, count, letter)?;
    let (no, stream_no, position) = super::place(at);
    let new = params![
        no,
        stream_no,
        position,
        letter.id,
        letter.kind,
        letter.payload,
        letter.headers,
        tx.now,
        letter.not_before,
        letter.waiting
    ];
    tx.run(sql!("message/put_messages"), new)?;
    Ok(at)
}

/// The next place in a stream, which begins with its first message.
fn next_place(tx: &Tx<'_>, count: u16, letter: &Letter<'_>) -> Result<MessageRef> {
    let (owner, queue, name) = (letter.owner.as_str(), letter.queue.code(), letter.stream.as_str());
    let known =
        tx.one(sql!("message/next_position"), params![owner, queue, name, tx.now], |row| {
            let (partition, position) = (row.get(1)?, rows::count(row, 2)?);
            Ok(MessageRef { partition, stream_no: rows::count(row, 0)?, position })
        })?;
    if let Some(at) = known {
        return Ok(at);
    }
    let partition = partition_of(letter.owner, letter.stream, count);
    let new = params![owner, queue, name, partition, tx.now];
    let stream_no = tx.sure(sql!("message/add_stream"), new, |row| rows::count(row, 0))?;
    Ok(MessageRef { partition, stream_no, position: 1 })
}
