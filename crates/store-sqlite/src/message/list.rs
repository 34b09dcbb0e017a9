//! Lists of messages that wait, page by page in the order of their places.

use rusqlite::params;
use windrow_domain::{Queue, Stream};
use windrow_store::inspect::{Binding, Cursor, Page};
use windrow_store::message::{Message, MessagesQuery};
use windrow_store::{Result, Scope};

use super::{place, read_message};
use crate::tx::{Tx, sql};
use crate::{inspect, rows};

/// A place as a cursor keeps it: partition, stream, position.
type Place = (u16, i64, i64);

pub(super) fn page(tx: &Tx<'_>, scope: &Scope, query: &MessagesQuery) -> Result<Page<Message>> {
    let binding = Binding::new("messages", scope, &(query.queue, &query.stream));
    let after: Place = Cursor::open(&binding, query.after.as_deref())?.unwrap_or((0, 0, 0));
    let limit = query.limit + 1;
    let rows = match (&query.stream, scope.owner()) {
        (Some(stream), _) => of_stream(tx, scope, query.queue, stream, after, limit)?,
        (None, owner) => {
            let (no, stream_no, position) = after;
            let queue = query.queue.map(Queue::code);
            match owner {
                None => {
                    let asked = params![no, stream_no, position, queue, limit];
                    tx.all(sql!("message/messages"), asked, read_message)?
                }
                Some(owner) => {
                    let asked = params![no, stream_no, position, queue, limit, owner];
                    tx.all(sql!("message/messages_of_owner"), asked, read_message)?
                }
            }
        }
    };
    Ok(inspect::page(rows, query.limit, &binding, |message| place(message.at)))
}

/// Messages of the streams with a name, which may be one for each owner and queue.
fn of_stream(
    tx: &Tx<'_>,
    scope: &Scope,
    queue: Option<Queue>,
    stream: &Stream,
    after: Place,
    limit: u32,
) -> Result<Vec<Message>> {
    let asked = params![stream.as_str(), queue.map(Queue::code), scope.owner()];
    let streams: Vec<(u16, i64)> =
        tx.all(sql!("message/find_streams"), asked, |row| Ok((row.get(0)?, row.get(1)?)))?;
    let (mut rows, last) = (Vec::new(), (after.0, after.1));
    for at in streams.into_iter().filter(|&at| at >= last) {
        let behind = if at == last { after.2 } else { 0 };
        let room = rows::int(u64::from(limit) - rows.len() as u64);
        let asked = params![at.0, at.1, behind, room];
        rows.extend(tx.all(sql!("message/messages_of_stream"), asked, read_message)?);
        if rows.len() >= limit as usize {
            break;
        }
    }
    Ok(rows)
}
