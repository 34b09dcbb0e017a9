//! Messages: sent, read by the owner of their partition, and committed with their effects.
//!
//! Holds throughout: one writer gives the places of a stream, so that its order is its commit order;
//! a read sees whole commits and writes nothing.

mod backlog;
mod commit;
mod dead;
mod list;
mod prune;
mod read;
pub(crate) mod send;

use async_trait::async_trait;
use rusqlite::Row;
use windrow_domain::{DeadLetterId, Queue};
use windrow_store::inspect::Page;
use windrow_store::message::{
    Backlog, Commit, Committed, DeadLetter, Exchange, Exchanged, Message, MessageRef,
    MessageRetention, Messages, MessagesQuery, NewMessage, PrunedMessages, Read, Sent, Work,
};
use windrow_store::{Result, Scope};

use crate::tx::Tx;
use crate::{SqliteBackend, member, rows};

pub(crate) use commit::write as write_commit;

#[async_trait]
impl Messages for SqliteBackend {
    async fn send(&self, messages: Vec<NewMessage>) -> Result<Vec<Sent>> {
        if messages.is_empty() {
            return Ok(Vec::new());
        }
        self.write(move |tx| send::all(tx, &messages)).await
    }

    async fn read_owned(&self, read: Read) -> Result<Work> {
        self.read(move |tx| read::owned(tx, &read)).await
    }

    async fn commit(&self, commit: Commit) -> Result<Committed> {
        self.write(move |tx| commit::write(tx, &commit)).await
    }

    async fn exchange(&self, exchange: Exchange) -> Result<Exchanged> {
        // Most exchanges of a quiet instance write nothing, and need not wait for those that do.
        if exchange.heartbeat || !is_empty(&exchange.commit) {
            self.write(move |tx| do_exchange(tx, &exchange)).await
        } else {
            self.read(move |tx| do_exchange(tx, &exchange)).await
        }
    }

    async fn messages(&self, scope: &Scope, query: MessagesQuery) -> Result<Page<Message>> {
        let scope = scope.clone();
        self.read(move |tx| list::page(tx, &scope, &query)).await
    }

    async fn dead_letters(&self, scope: &Scope, query: MessagesQuery) -> Result<Page<DeadLetter>> {
        let scope = scope.clone();
        self.read(move |tx| dead::page(tx, &scope, &query)).await
    }

    async fn replay_dead(&self, scope: &Scope, ids: &[DeadLetterId]) -> Result<Vec<Sent>> {
        let (scope, ids) = (scope.clone(), ids.to_vec());
        self.write(move |tx| dead::replay(tx, &scope, &ids)).await
    }

    async fn discard_dead(&self, scope: &Scope, ids: &[DeadLetterId]) -> Result<u64> {
        let (scope, ids) = (scope.clone(), ids.to_vec());
        self.write(move |tx| dead::discard(tx, &scope, &ids)).await
    }

    async fn backlog(&self) -> Result<Vec<Backlog>> {
        self.read(backlog::count).await
    }

    async fn prune_messages(
        &self,
        retention: MessageRetention,
        limit: u32,
    ) -> Result<PrunedMessages> {
        self.write(move |tx| prune::all(tx, &retention, limit)).await
    }
}

fn do_exchange(tx: &Tx<'_>, exchange: &Exchange) -> Result<Exchanged> {
    let committed = commit::write(tx, &exchange.commit)?;
    if exchange.heartbeat {
        member::heartbeat(tx, exchange.commit.instance)?;
    }
    let work = exchange.read.as_ref().map(|read| read::owned(tx, read)).transpose()?;
    Ok(Exchanged { committed, work: work.unwrap_or_default() })
}

/// Whether a commit has no effects, whatever its fences.
fn is_empty(commit: &Commit) -> bool {
    let Commit { instance: _, fences: _, started, done, failed, dead, calls, .. } = commit;
    let Commit { states, events, messages, submits, .. } = commit;
    let ends = [started.len(), done.len(), failed.len(), dead.len(), calls.len()];
    let effects = [states.len(), events.len(), messages.len(), submits.len()];
    ends.into_iter().chain(effects).all(|len| len == 0)
}

/// A place in three columns: partition, stream, position.
fn read_place(row: &Row<'_>, column: usize) -> rusqlite::Result<MessageRef> {
    Ok(MessageRef {
        partition: row.get(column)?,
        stream_no: rows::count(row, column + 1)?,
        position: rows::count(row, column + 2)?,
    })
}

/// What statements about one message bind first.
fn place(at: MessageRef) -> (u16, i64, i64) {
    (at.partition, rows::int(at.stream_no), rows::int(at.position))
}

/// The columns of `message/read_owned`.
fn read_message(row: &Row<'_>) -> rusqlite::Result<Message> {
    Ok(Message {
        at: read_place(row, 0)?,
        queue: read_queue(row, 3)?,
        owner: rows::name(row, 4)?,
        stream: rows::name(row, 5)?,
        id: row.get(6)?,
        kind: row.get(7)?,
        payload: row.get::<_, Vec<u8>>(8)?.into(),
        headers: rows::json_or_default(row, 9)?,
        sent_at: rows::time(row, 10)?,
        not_before: rows::time_opt(row, 11)?,
        attempts: row.get(12)?,
        started: row.get::<_, Option<i64>>(13)?.map(i64::cast_unsigned),
        waiting: rows::json_or_default(row, 14)?,
        error: row.get(15)?,
    })
}

fn read_queue(row: &Row<'_>, column: usize) -> rusqlite::Result<Queue> {
    Queue::from_code(row.get(column)?).ok_or_else(|| rows::bad(column, "no such queue"))
}
